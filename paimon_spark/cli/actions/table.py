"""The actions of the command line: their options, and the procedure each of them calls.

Names are those of Apache Paimon's actions, with underscores; on the command line a dash is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from paimon_spark.calls.refusals import Refusal


class Target(StrEnum):
    """How ``--database`` and ``--table`` reach the procedure."""

    TABLE = "table"
    """Both are required; they are the procedure's table."""
    DATABASE = "database"
    """The database is required; they are one argument, ``db.*`` if there is no table."""
    NAMES = "names"
    """Both are optional, and separate arguments of the procedure."""
    DATABASE_NAME = "database name"
    """The database is required, and an argument of its own; there is no table."""
    OPTIONAL = "optional"
    """As DATABASE, but nothing is required."""
    NONE = "none"
    """The action takes neither."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an action.

    Attributes:
        name: its name.
        parameter: the procedure's parameter that it sets; its own name by default.
        required: whether the action fails without it.
        join: what joins the values if it is given several times; otherwise it may be given once.
        flag: whether it may be given without a value, which means true.
        doc: what it means; by default the description of the parameter.
        table_option: the table option that it sets instead of a parameter.
        refused: why it is not supported; empty if it is.
        fails_on_rows: whether it sets no parameter, but makes a result with rows a failure.
    """

    name: str
    parameter: str = ""
    required: bool = False
    join: str = ""
    flag: bool = False
    doc: str = ""
    table_option: str = ""
    refused: str = ""
    fails_on_rows: bool = False

    @property
    def sets(self) -> str:
        """Return the parameter that it sets."""
        return self.parameter or self.name


@dataclass(frozen=True, slots=True)
class Action:
    """One action.

    Attributes:
        name: its name.
        procedure: the procedure that it calls; empty for `delete`.
        options: its own options.
        target: how the table reaches the procedure.
        table: the procedure's parameter of the table.
        destroys: what it destroys, for the question on a terminal; empty if nothing.
        needs_yes: whether it needs ``--yes`` without a terminal.
        on_spark: whether it always runs on Spark.
        spark_options: the options that need Spark.
        family: the entry point that has the procedure, for a quick start; if empty, all are loaded.
        has_dry_run: whether ``--dry_run`` prints a plan; a procedure that changes nothing has none.
    """

    name: str
    procedure: str
    options: tuple[Option, ...] = ()
    target: Target = Target.TABLE
    table: str = "table"
    destroys: str = ""
    needs_yes: bool = False
    on_spark: bool = False
    spark_options: tuple[str, ...] = ()
    family: str = ""
    has_dry_run: bool = True

    def option(self, name: str) -> Option | None:
        """Return the option with this name; None if there is none."""
        return next((o for o in self.options if o.name == name), None)


_SPLITS = "Spark chooses the number of tasks that read from the sizes of the files"
_PARTITIONS = Option("partition", "partitions", join=";", doc="A partition: `k=v,k=v`; several mean any of them.")
_NEEDED_PARTITIONS = Option(
    "partition", "partitions", join=";", required=True, doc="A partition: `k=v,k=v`; several mean any of them."
)
_BRANCH = Option("branch_name", "branch", required=True)
_TAG_NAME = Option("tag_name", "tag", required=True)
_TAG = Option("tag", required=True)
_RETAINED = Option("time_retained")
_SNAPSHOT = Option("snapshot", "snapshot_id")
_OPTIONS = Option("options", join=",")
_PARALLELISM = Option("parallelism")
_OLDER_THAN = Option("older_than")
_TRASH = Option("trash", flag=True)
_RETENTION = (Option("retain_max"), Option("retain_min"), _OLDER_THAN, Option("max_deletes"))
_COPY_TARGET = (Option("target_database"), Option("target_table"), Option("target_catalog_conf", join=","))
_TARGET_WAREHOUSE = "The warehouse of the copies."
_TARGETS = "the rows of copies that exist"
_SOURCES = "the tables that are migrated"

_ACTIONS = (
    Action(
        "compact",
        "compact",
        (
            _PARTITIONS,
            Option("where"),
            Option("order_strategy"),
            Option("order_by"),
            Option("partition_idle_time"),
            Option("compact_strategy"),
            Option(
                "streaming", flag=True, doc="Compact at each new snapshot until Ctrl-C, SIGTERM or `paimon-spark stop`."
            ),
        ),
        spark_options=("order_strategy",),
    ),
    Action(
        "compact_database",
        "compact_database",
        (
            Option("including_databases"),
            Option("including_tables"),
            Option("excluding_tables"),
            Option("mode"),
            Option("partition_idle_time"),
            Option("compact_strategy"),
        ),
        Target.NONE,
    ),
    Action("compact_chain_table", "compact_chain_table", (Option("partition"), Option("overwrite", flag=True))),
    Action(
        "rescale",
        "rescale",
        (
            Option("bucket_num"),
            _PARTITIONS,
            Option("scan_parallelism", refused=_SPLITS),
            Option("sink_parallelism", table_option="sink.parallelism", doc="The number of tasks that write."),
        ),
        spark_options=("sink_parallelism",),
    ),
    Action(
        "rewrite_file_index",
        "rewrite_file_index",
        (
            Option("identifier", "table", doc="The table, `db.t`, in place of --database and --table."),
            Option("partitions", join=";"),
        ),
    ),
    Action("create_tag", "create_tag", (_TAG_NAME, _SNAPSHOT, _RETAINED)),
    Action("replace_tag", "replace_tag", (_TAG_NAME, _SNAPSHOT, _RETAINED), destroys="what only the old tag protects"),
    Action(
        "create_tag_from_timestamp",
        "create_tag_from_timestamp",
        (_TAG, Option("timestamp", required=True), _RETAINED),
    ),
    Action(
        "create_tag_from_watermark",
        "create_tag_from_watermark",
        (_TAG, Option("watermark", required=True), _RETAINED),
    ),
    Action("delete_tag", "delete_tag", (_TAG_NAME, _TRASH), destroys="tags, and what only they protect"),
    Action("rename_tag", "rename_tag", (_TAG_NAME, Option("target_tag_name", "target_tag", required=True))),
    Action("expire_tags", "expire_tags", (_OLDER_THAN, _TRASH), destroys="tags, and what only they protect"),
    Action(
        "rollback_to",
        "rollback",
        (
            Option("version", required=True, doc="The id of a snapshot if it has digits only, else the name of a tag."),
            _TRASH,
        ),
        destroys="all later snapshots and tags",
    ),
    Action(
        "rollback_to_timestamp",
        "rollback_to_timestamp",
        (Option("timestamp", required=True), _TRASH),
        destroys="all later snapshots and tags",
    ),
    Action(
        "create_branch",
        "create_branch",
        (_BRANCH, Option("tag_name", "tag"), Option("ignore_if_exists", "ignoreIfExists", flag=True)),
    ),
    Action("delete_branch", "delete_branch", (_BRANCH, _TRASH), destroys="branches with their snapshots and tags"),
    Action(
        "rename_branch",
        "rename_branch",
        (Option("from", "from_branch", required=True), Option("to", "to_branch", required=True)),
    ),
    Action("fast_forward", "fast_forward", (_BRANCH,), destroys="the snapshots of main since the branch began"),
    Action("merge_branch", "merge_branch", (Option("source_branch", required=True), Option("target_branch"))),
    Action("expire_snapshots", "expire_snapshots", (*_RETENTION, _OPTIONS, _TRASH), destroys="old snapshots"),
    Action(
        "expire_changelogs",
        "expire_changelogs",
        (*_RETENTION, Option("delete_all", flag=True), _TRASH),
        destroys="old changelogs",
    ),
    Action(
        "expire_partitions",
        "expire_partitions",
        (
            Option("expiration_time", required=True),
            Option("timestamp_formatter", required=True),
            Option("timestamp_pattern"),
            Option("expire_strategy"),
        ),
        destroys="the rows of old partitions",
    ),
    Action("drop_partition", "drop_partition", (_NEEDED_PARTITIONS,), destroys="the rows of the partitions"),
    Action("mark_partition_done", "mark_partition_done", (_NEEDED_PARTITIONS,)),
    Action(
        "remove_orphan_files",
        "remove_orphan_files",
        (_OLDER_THAN, Option("dry_run", flag=True), _PARALLELISM, _TRASH),
        Target.DATABASE,
        destroys="unreferenced files",
    ),
    Action(
        "remove_unexisting_files",
        "remove_unexisting_files",
        (Option("dry_run", flag=True), _PARALLELISM),
        destroys="the entries of missing files",
    ),
    Action(
        "remove_unexisting_manifests",
        "remove_unexisting_manifests",
        destroys="the entries of missing manifests",
    ),
    Action(
        "reset_consumer",
        "reset_consumer",
        (Option("consumer_id", required=True), Option("next_snapshot", "next_snapshot_id")),
        destroys="the position of the consumer",
    ),
    Action(
        "clear_consumers",
        "clear_consumers",
        (Option("including_consumers"), Option("excluding_consumers")),
        destroys="the positions of consumers",
    ),
    Action(
        "merge_into",
        "merge_into",
        (
            Option("target_as", "target_alias"),
            Option("source_sql", "source_sqls", join=";"),
            Option("source_table", required=True),
            Option("on", "merge_condition", required=True),
            Option("merge_actions", required=True, doc="What to do, separated by commas; see below."),
            Option("matched_upsert_condition"),
            Option("matched_upsert_set", "matched_upsert_setting"),
            Option("matched_delete_condition"),
            Option("not_matched_insert_condition"),
            Option("not_matched_insert_values"),
            Option("not_matched_by_source_upsert_condition"),
            Option("not_matched_by_source_upsert_set", "not_matched_by_source_upsert_setting"),
            Option("not_matched_by_source_delete_condition"),
        ),
        table="target_table",
        on_spark=True,
    ),
    Action(
        "data_evolution_merge_into",
        "data_evolution_merge_into",
        (
            Option("target_as", "target_alias"),
            Option("source_sql", "source_sqls", join=";"),
            Option("source_table", required=True),
            Option("on", "merge_condition", required=True),
            Option("matched_update_set", required=True),
            Option("sink_parallelism"),
        ),
        table="target_table",
        on_spark=True,
    ),
    Action(
        "delete",
        "",
        (
            Option("where", required=True, doc="The condition of the rows to delete; `true` deletes all."),
            Option("source_sql", join=";", refused="subqueries name tables of the session's catalogs"),
            Option("sink_parallelism", refused="Spark chooses the number of tasks that write"),
        ),
        destroys="the rows that match",
        has_dry_run=False,
    ),
    Action(
        "migrate_table",
        "migrate_table",
        (Option("source_type", required=True), _OPTIONS, _PARALLELISM),
        destroys=_SOURCES,
        on_spark=True,
    ),
    Action(
        "migrate_database",
        "migrate_database",
        (Option("source_type", required=True), _OPTIONS, _PARALLELISM),
        Target.DATABASE_NAME,
        destroys=_SOURCES,
        on_spark=True,
    ),
    Action(
        "clone",
        "clone",
        (
            Option("target_warehouse", "target_catalog_conf", doc=_TARGET_WAREHOUSE),
            *_COPY_TARGET,
            _PARALLELISM,
            Option("where"),
            Option("included_tables", join=","),
            Option("excluded_tables", join=","),
            Option("prefer_file_format"),
            Option("clone_from"),
            Option("meta_only", flag=True),
            Option("clone_if_exists", flag=True),
        ),
        Target.NAMES,
        destroys=_TARGETS,
    ),
    Action(
        "copy_files",
        "copy_files",
        (Option("target_warehouse", required=True, doc=_TARGET_WAREHOUSE), *_COPY_TARGET, _PARALLELISM),
        Target.NAMES,
        destroys=_TARGETS,
    ),
    Action("repair", "repair", (Option("identifier"),), Target.NONE),
    Action("query_service", "query_service", (_PARALLELISM,)),
    Action("reassign_row_id", "reassign_row_id", (Option("partition", join=";"),)),
)

_CAPTURE = Refusal(
    "change data capture is a permanent Flink job",
    "Write the changes as rows of the table with Spark's structured streaming, from its source for {source}; a column "
    "`rowkind` with +I, -U, +U or -D marks deletes.",
)
_CAPTURED = {
    "mysql_sync_table": "Kafka, which Debezium fills",
    "mysql_sync_database": "Kafka, which Debezium fills",
    "postgres_sync_table": "Kafka, which Debezium fills",
    "kafka_sync_table": "Kafka",
    "kafka_sync_database": "Kafka",
    "mongodb_sync_table": "MongoDB",
    "mongodb_sync_database": "MongoDB",
    "pulsar_sync_table": "Pulsar",
    "pulsar_sync_database": "Pulsar",
}

_FAMILIES = {
    "tags": "create_tag replace_tag create_tag_from_timestamp create_tag_from_watermark delete_tag rename_tag "
    "expire_tags",
    "rollback": "rollback_to rollback_to_timestamp",
    "branches": "create_branch delete_branch rename_branch fast_forward merge_branch",
    "snapshots": "expire_snapshots expire_changelogs",
    "partitions": "expire_partitions drop_partition mark_partition_done",
    "consumers": "reset_consumer clear_consumers",
    "cleanup": "remove_orphan_files",
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names.split()}

ACTIONS: Mapping[str, Action] = {a.name: replace(a, family=_FAMILY_OF.get(a.name, "")) for a in _ACTIONS}
"""The actions of Apache Paimon, by name."""

DESTROYS: Mapping[str, str] = {
    "copy": _TARGETS,
    "drop_privileged_user": "a user and the user's privileges",
    "empty_trash": "what the trash has of old or named runs",
    "maintain": "old snapshots and tags, and what the trash has of old runs",
    "migrate_file": _SOURCES,
    "purge_files": "all rows, branches, tags and snapshots but the last",
    "repair_earliest_snapshot": "the way to the snapshots before the gap",
    "repair_snapshots": "the retired operation names of snapshots and tags",
    "rollback": "all later snapshots and tags",
    "rollback_to_watermark": "all later snapshots and tags",
    "trigger_tag_automatic_creation": "automatic tags that are too many or too old",
    "undo": "the snapshots since a purge, if it undoes one",
}
"""What the actions that Paimon lacks destroy."""
NEED_YES = frozenset({"purge_files"})
"""Those of them that need ``--yes`` without a terminal."""

CAPTURES: Mapping[str, Refusal] = {
    name: Refusal(_CAPTURE.why, _CAPTURE.instead.format(source=source)) for name, source in _CAPTURED.items()
}
"""The actions for change data capture, which are refused."""

MERGE_ACTIONS: Mapping[str, tuple[str, str]] = {
    "matched-upsert": ("matched_upsert_condition", "matched_upsert_set"),
    "matched-delete": ("matched_delete_condition", ""),
    "not-matched-insert": ("not_matched_insert_condition", "not_matched_insert_values"),
    "not-matched-by-source-upsert": ("not_matched_by_source_upsert_condition", "not_matched_by_source_upsert_set"),
    "not-matched-by-source-delete": ("not_matched_by_source_delete_condition", ""),
}
"""What `merge_into` does with a row, with the options of its condition and of its values."""
