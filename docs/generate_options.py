"""Write docs/options.md from the catalogue of options and the support of each: ``python docs/generate_options.py``."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.spec.compressions import COMPRESSIONS
from paimon_spark.spec.option_catalogue import Option, known_options
from paimon_spark.spec.support import ONLY_VALUES, PATTERN_KEYS, Scope, honoured, statuses

HEAD = """# Options

All options of Paimon's table format, connectors and catalogs, and their support in paimon-spark:

- **honoured**: it takes effect. The second column shows where it may be set.
- **refused**: a table or statement that sets it to a value other than its default is refused by name. Some of these
  tables can still be read.
- **stored**: it is kept in the table for other engines and has no effect here. A statement or session cannot set it.

## Where to set options

From the lowest to the highest precedence, for one table:

1. `TBLPROPERTIES`, stored with the table;
2. options of the session for all tables: `SET spark.paimon.<key> = <value>`;
3. options of the session for some tables: `SET spark.paimon.<catalog>.<database>.<table>.<key> = <value>`, where `*`
   matches any name. A key with more exact names wins; among equally many, the one exact further left;
4. options of the statement: `/*+ OPTIONS('<key>' = '<value>', …) */` or `WITH ('<key>' = '<value>', …)` right after
   the name of a table, `.option(key, value)` of a DataFrame reader or writer, `options` of a CALL.

The spelling of Paimon's guide works too: `SET 'paimon.<catalog>.<database>.<table>.<key>' = '<value>'` sets the same
option as `SET spark.paimon.…`. `RESET` accepts both spellings.

```sql
SET 'paimon.*.default.T.scan.timestamp-millis' = '1697018249000';
RESET 'paimon.*.default.T.scan.timestamp-millis';
SET spark.paimon.write-only = true;

SELECT a.k, b.v FROM T /*+ OPTIONS('scan.snapshot-id' = '1') */ a
JOIN T /*+ OPTIONS('scan.tag-name' = 'friday') */ b ON a.k = b.k;

INSERT INTO T /*+ OPTIONS('write-buffer-size' = '64 mb') */ SELECT * FROM S;
```

A hint follows the name of any table that is read or inserted into, also in joins, subqueries, WITH and views. It
applies to that reference alone. A reference that selects a snapshot has the columns of that snapshot. A view, a query
and the target of DELETE, UPDATE and MERGE cannot have a hint: set the option for the session instead. A table that a
DataFrame writer creates stores the writer's options. Options that select a snapshot are never applied to the table that
a statement changes.

An option marked *read* may be set for a table that is read, *write* for one that is written and in `options` of a CALL,
*call* only in `options` of a CALL; a session may set all of them. A handle of the Python API accepts *read* and *write*
options, except those for Spark jobs (`sink.…`, `read.local-max-bytes`).
An option marked *table* belongs to the stored table: if it can be changed, `ALTER TABLE … SET TBLPROPERTIES` changes
it; a statement may only repeat its value. Misspelled names, values of a wrong type and options without effect on the
statement are errors that name the option.

## Compression

`file.compression` and `file.compression.per.level` accept the names in this table and refuse codecs that cannot be
written in the format. Files with another codec are read if Arrow supports it.

| files | codecs |
| --- | --- |
CODECS

`file.compression.zstd-level` and `spill-compression.zstd-level` range from 1 (the default) to 22.

## Number of writers

`sink.parallelism` sets the number of tasks that write the rows of INSERT, UPDATE, DELETE and MERGE. The default is one
per core, or a single one for a handful of rows; rows of an append table without buckets are then written by the tasks
of the query. A bucket is never shared: without partitions there are at most as many writers as buckets.

```sql
INSERT INTO T /*+ OPTIONS('sink.parallelism' = '4') */ SELECT * FROM S;
```

## Memory of writers

Every writing task buffers up to `write-buffer-size` of rows in its Python process. With
`sink.use-managed-memory-allocator` the tasks of an executor share a pool of `sink.managed.writer-buffer-memory`:

```sql
INSERT INTO paimon_table
/*+ OPTIONS('sink.use-managed-memory-allocator'='true', 'sink.managed.writer-buffer-memory'='256M') */
SELECT * FROM source;
```

Tasks are separate processes, so every task slot of the executor (`spark.executor.cores` / `spark.task.cpus`) gets an
equal share of the pool. On a standalone cluster without `spark.executor.cores` the pool is divided by the cores of all
executors: the shares are then smaller than necessary, never larger. A pool of less than 1 MB per slot is refused.

Full buffers of a primary key table are sorted and spilled to the worker's local disk (`spark.local.dir`), as Arrow
files that are deleted with the task. At the end they are merged into files with disjoint key ranges. The options are
`spill-compression` (zstd, lz4 or none), `spill-compression.zstd-level`, `local-sort.max-num-file-handles` and
`write-buffer-spill.max-disk-size`, a limit per task. When the disk space is exhausted, or with `write-buffer-spillable`
= false, full buffers are written as files of level 0. Rows of append tables are not spilled: they are streamed into
their files, in smaller row groups when memory is short. A task has at most 256 of these files open: rows of more
partitions that come in no order are divided among more files.

Where rows are spilled, a buffer of less than 1 MB counts as 1 MB, so that several runs can be read at once. The number
of runs read at once is limited by `local-sort.max-num-file-handles` and by half of the buffer, at 1 MB a run: 128 runs
by default. With more runs, runs of similar size are merged first. The number of times that a row is
written to the disk grows with the logarithm of the number of runs.

The limit applies to buffered rows. A process needs additional memory for the incoming batch (at most
`spark.sql.execution.arrow.maxRecordsPerBatch` rows and 8 MB), for sorting, and for pages of the open file.
"""

TITLES = {
    "core": "Tables",
    "core-undocumented": "Tables, rarely set by hand",
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
    Scope.STREAM: "streaming read",
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
        head = ["| option | support | default | meaning |", "| --- | --- | --- | --- |"]
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
