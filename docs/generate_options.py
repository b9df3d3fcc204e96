"""Write docs/options.md from the catalogue and what is done with each option: ``python docs/generate_options.py``."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.spec.catalogue import Option, known_options
from paimon_spark.spec.compressions import COMPRESSIONS
from paimon_spark.spec.support import ONLY_VALUES, PATTERN_KEYS, Scope, honoured, statuses

HEAD = """# Options

All options of Paimon's table format, connectors and catalogs, and what paimon-spark does with each:

- **honoured**: it is obeyed. The second column says where it may be given.
- **refused**: a table or statement that sets it, to another value than its default, is refused by name; it is never
  half obeyed. Some of these tables can still be read.
- **stored**: it is kept in the table for other engines, and nothing here looks at it. One statement or session cannot
  give it: nobody would obey it.

## Where options are given

From the weakest to the strongest, for one table:

1. `TBLPROPERTIES`, stored with the table;
2. options of the session for all tables: `SET spark.paimon.<key> = <value>`;
3. options of the session for some tables: `SET spark.paimon.<catalog>.<database>.<table>.<key> = <value>`, where `*`
   stands for any name. More exact names win; among equally many, those further left;
4. options of the statement: `/*+ OPTIONS('<key>' = '<value>', …) */` or `WITH ('<key>' = '<value>', …)` right behind
   the name of a table, `.option(key, value)` of a DataFrame reader or writer, `options` of a CALL.

The spelling of the guide works too: `SET 'paimon.<catalog>.<database>.<table>.<key>' = '<value>'` is the same option
as `SET spark.paimon.…`, and `RESET` takes both spellings.

```sql
SET 'paimon.*.default.T.scan.timestamp-millis' = '1697018249000';
RESET 'paimon.*.default.T.scan.timestamp-millis';
SET spark.paimon.write-only = true;

SELECT a.k, b.v FROM T /*+ OPTIONS('scan.snapshot-id' = '1') */ a
JOIN T /*+ OPTIONS('scan.tag-name' = 'friday') */ b ON a.k = b.k;

INSERT INTO T /*+ OPTIONS('write-buffer-size' = '64 mb') */ SELECT * FROM S;
```

A hint stands behind the name of any table that is read or inserted into, in joins, subqueries, WITH and views too.
It holds for that reference alone, and a reference that chooses a snapshot has the columns of that snapshot. A view or a
query cannot have a hint, nor can the target of DELETE, UPDATE and MERGE: set the option for the session there. A table
that a DataFrame writer creates gets the options of the writer as its own. Options that choose a snapshot are never
applied to the table that a statement changes.

An option marked *read* may be given to a table that is read, *write* to one that is written and in `options` of a CALL,
*call* in the latter alone; a session may give all of them. A handle of the Python API takes what is marked *read* or
*write*, but nothing that is about the tasks of Spark jobs (`sink.…`).
One marked *table* belongs to the stored table: it is changed by `ALTER TABLE … SET TBLPROPERTIES` where it can be
changed at all, and a statement may only repeat its value. Misspelled names, values of a wrong type and options that the
statement would not obey are errors that name the option.

## Compression

`file.compression` and `file.compression.per.level` take the names in this table, and refuse what files of the
format are not written with. Files that others wrote with another codec are read as far as Arrow can.

| files | codecs |
| --- | --- |
CODECS

`file.compression.zstd-level` and `spill-compression.zstd-level` go from 1 (the default) to 22.

## Number of writers

`sink.parallelism` says how many tasks write the rows of INSERT, UPDATE, DELETE and MERGE. Without it there is one for
each core, or one alone for a handful of rows; rows of an append table without buckets are then written where the query
made them. A bucket is never shared: without partitions there are at most as many writers as buckets.

```sql
INSERT INTO T /*+ OPTIONS('sink.parallelism' = '4') */ SELECT * FROM S;
```

## Memory of writers

Every writing task keeps up to `write-buffer-size` of rows in its Python process. With
`sink.use-managed-memory-allocator` the tasks of an executor share a pool of `sink.managed.writer-buffer-memory`:

```sql
INSERT INTO paimon_table
/*+ OPTIONS('sink.use-managed-memory-allocator'='true', 'sink.managed.writer-buffer-memory'='256M') */
SELECT * FROM source;
```

Tasks are processes of their own and cannot lend memory to each other, so every task slot of the executor
(`spark.executor.cores` / `spark.task.cpus`) may use an equal part of the pool. On a standalone cluster without
`spark.executor.cores` the cores of all executors are taken for those of one: the parts are then smaller than they could
be, never larger. A pool of less than 1 MB a slot is refused.

Rows of a primary key table that do not fit are sorted and put on the local disk of the worker (`spark.local.dir`), as
Arrow files that are deleted with the task; at the end they are merged into files whose keys do not overlap. This is
governed by `spill-compression` (zstd, lz4 or none), `spill-compression.zstd-level`, `local-sort.max-num-file-handles`
and `write-buffer-spill.max-disk-size`, which counts for each task. When the disk space is used up, or with
`write-buffer-spillable` = false, the rows become files of level 0 at once. Rows of append tables are not spilled: they
are streamed into their files, which are cut into smaller row groups when memory is short.

A buffer of less than 1 MB counts as 1 MB where rows are spilled: with less, hardly any runs could be read at the same
time. Where there are more runs than may be read at once, by `local-sort.max-num-file-handles` and by half of the buffer
(128 runs with the defaults, of 128 MB each), runs of like size are merged first. How often a row is written to the disk
grows with the logarithm of the number of runs.

What counts is the rows that wait. A process needs some memory besides: for the batch that it takes in
(`spark.sql.execution.arrow.maxRecordsPerBatch` rows and 8 MB at most), for sorting, and for pages of the open file.
"""

TITLES = {
    "core": "Tables",
    "core-undocumented": "Tables, seldom set by hand",
    "core-pattern": "Single columns and indexes",
    "format-pattern": "File formats",
    "orc": "ORC",
    "spark-connector": "Spark connector",
    "flink-connector": "Flink connector",
    "iceberg": "Iceberg metadata",
    "catalog": "Catalogs",
    "spark-catalog": "Spark catalogs",
    "jdbc-catalog": "JDBC catalogs",
    "hive-catalog": "Hive catalogs",
}
WHERE = {
    Scope.READ: "read",
    Scope.WRITE: "write",
    Scope.CALL: "call",
    Scope.TABLE: "table",
    Scope.CATALOG: "catalog",
    Scope.PROGRAM: "program",
}


def render() -> str:
    """Return the page."""
    codecs = "\n".join(f"| {name} | {', '.join(names)} |" for name, names in COMPRESSIONS.items())
    parts = [HEAD.replace("CODECS", codecs)]
    for group, title in TITLES.items():
        rows = [_row(o) for o in known_options().values() if o.group == group]
        head = ["| option | what is done | default | meaning |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([f"## {title}", "", *head, *rows, ""]))
    return "\n".join(parts)


def _row(option: Option) -> str:
    default = f"`{_cell(option.default)}`" if option.default else ""
    return f"| `{_cell(option.name)}` | {_cell(_done(option))} | {default} | {_cell(option.doc)} |"


def _done(option: Option) -> str:
    status = statuses()[option.name]
    if status != "honoured":
        return status
    text = f"honoured: {WHERE[honoured()[option.name]]}"
    if option.name in PATTERN_KEYS:
        return f"{text}; only {', '.join(f'`{k}`' for k in PATTERN_KEYS[option.name])}"
    return f"{text}; only {ONLY_VALUES[option.name]}" if option.name in ONLY_VALUES else text


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    (Path(__file__).parent / "options.md").write_text(render(), encoding="utf-8")
