"""Parameters and result columns that several procedures have."""

from __future__ import annotations

from paimon_spark.calls.procedure import Column, Param, ParamType

TABLE = Param("table", ParamType.STRING, "The table: `t`, `db.t` or `catalog.db.t`.", required=True)
TABLES = Param(
    "table",
    ParamType.STRING,
    "The table: `t`, `db.t` or `catalog.db.t`; `db.*` means all tables of a database.",
    required=True,
)
PARTITIONS = Param(
    "partitions",
    ParamType.STRING,
    "Only these partitions: `,` is AND, `;` is OR, as in `dt=2024-05-14,hh=1;dt=2024-05-15`.",
    default="all partitions",
    aliases=("partition",),
)
WHERE = Param(
    "where",
    ParamType.STRING,
    "Only partitions that match this condition over partition columns; not together with `partitions`.",
)
PARTITION_FILTERS = (PARTITIONS, WHERE)
CALL_OPTIONS = Param("options", ParamType.STRING, "Table options for this CALL: `key=value,key=value`.")

RESULT = Column("result", "boolean", "true; a failed CALL raises an error")
SUCCESS = Column("result", "string", "`Success`; a failed CALL raises an error")
TABLE_NAME = Column("table", "string", "the table", nullable=False)
