"""The data and the statements of the benchmark, the same for all engines."""

from __future__ import annotations

from dataclasses import dataclass

UPSERTS = 5
BUCKETS = 4
COLUMNS = ("id", "i", "b", "d", "amount", "code", "text", "at", "day")
SCHEMA = (
    "id BIGINT NOT NULL, i INT, b BIGINT, d DOUBLE, amount DECIMAL(12,2), "
    "code STRING, text STRING, at TIMESTAMP, day DATE"
)


@dataclass(frozen=True, slots=True)
class Data:
    """The staged Parquet directories that every engine loads from."""

    root: str
    rows: int

    def path(self, name: str) -> str:
        """Return the directory of one staged data set."""
        return f"{self.root}/{name}"

    def source(self, name: str) -> str:
        """Return one staged data set as a table of a query."""
        return f"parquet.`{self.path(name)}`"

    @property
    def upsert_rows(self) -> int:
        """Number of rows of an upsert and of the MERGE: a tenth, half of them new."""
        return self.rows // 10


def row_query(ids: str, seed: int) -> str:
    """Return a query of whole rows for the ids of a subquery; `seed` makes the values of every batch differ.

    Values depend only on id and seed, so that all engines must end with the same rows.
    """
    h = f"xxhash64(id, {seed}L)"
    return f"""
        SELECT id,
               CAST({h} % 1000000 AS INT) AS i,
               {h} AS b,
               CAST({h} % 1000003 AS DOUBLE) / 7 AS d,
               CAST(CAST(pmod({h}, 1000000000L) AS DECIMAL(12,0)) / 100 AS DECIMAL(12,2)) AS amount,
               concat('code-', pmod({h}, 500)) AS code,
               concat(hex({h}), '-', hex(xxhash64({h}))) AS text,
               timestamp_micros(1700000000000000L + pmod({h}, 31536000000000L)) AS at,
               date_add(DATE'2024-01-01', CAST(pmod({h}, 366) AS INT)) AS day
        FROM ({ids})"""


def staged(data: Data) -> dict[str, str]:
    """Return the query of every staged data set, by name; `final` has the rows after load and upserts."""
    rows, half = data.rows, data.upsert_rows // 2
    queries = {"load": row_query(f"SELECT id FROM range({rows})", 0)}
    for number in range(1, UPSERTS + 1):
        queries[f"upsert{number}"] = _changes(rows, half, number)
    queries["merge"] = _changes(rows, half, UPSERTS + 1)
    queries["other"] = f"SELECT id, CAST(id % 97 AS INT) AS weight FROM range(0, {rows}, 2)"
    batches = [data.source("load"), *(data.source(f"upsert{n}") for n in range(1, UPSERTS + 1))]
    union = " UNION ALL ".join(f"SELECT {n} AS batch, * FROM {source}" for n, source in enumerate(batches))
    columns = ", ".join(f"max_by({c}, batch) AS {c}" for c in COLUMNS[1:])
    queries["final"] = f"SELECT id, {columns} FROM ({union}) GROUP BY id"
    return queries


def _changes(rows: int, half: int, number: int) -> str:
    """Return a batch of changes: `half` rows that exist, spread over the whole key range, and as many new ones."""
    step = rows // half
    first = rows + (number - 1) * half
    old = f"SELECT id * {step}L + {number % step}L AS id FROM range({half})"
    return row_query(f"{old} UNION ALL SELECT id FROM range({first}, {first + half})", number)


@dataclass(frozen=True, slots=True)
class Query:
    """One query of the benchmark; `{t}` is the table, `{u}` the joined table."""

    name: str
    text: str


def queries(data: Data) -> list[Query]:
    """Return the queries that run before and after the compaction."""
    rows = data.rows
    return [
        Query("scan", f"SELECT {_aggregates()} FROM {{t}}"),
        Query(
            "selective",
            f"SELECT count(*), sum(i), max(text) FROM {{t}} WHERE id BETWEEN {rows // 2} AND {rows // 2 + rows // 100}",
        ),
        Query("lookup", f"SELECT * FROM {{t}} WHERE id = {rows // 3}"),
        Query("count", "SELECT count(*) FROM {t}"),
        Query("join", "SELECT count(*), sum(t.i * u.weight) FROM {t} t JOIN {u} u ON t.id = u.id"),
    ]


def _aggregates() -> str:
    return (
        "count(*), sum(id), sum(i), min(b), max(b), min(d), max(d), sum(amount), "
        "sum(length(code)), sum(length(text)), max(at), min(day)"
    )


INSERT = "INSERT INTO {t} SELECT * FROM {source}"
DELETE = "DELETE FROM {t} WHERE id % 100 = 7"
MERGE = (
    "MERGE INTO {t} AS t USING {source} AS s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
TRAVEL = f"SELECT {_aggregates()} FROM {{t}} VERSION AS OF {{version}}"
