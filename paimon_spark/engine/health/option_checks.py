"""Checks of a table's stored options: unknown, invalid, contradicting, unsupported, or without effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from paimon_spark.core.compact.clustering import clusters
from paimon_spark.core.table import Table
from paimon_spark.engine.health.examined import Examined
from paimon_spark.engine.health.findings import Code, Finding, Severity
from paimon_spark.errors import OptionError
from paimon_spark.spec.ineffective_options import idle_options
from paimon_spark.spec.kinds import BucketMode, ChangelogProducer
from paimon_spark.spec.option_catalogue import SPARK_PROPERTIES, Option, check_key
from paimon_spark.spec.option_checks import check_together, validate_options
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.quoted_text import string_literal
from paimon_spark.spec.support import PATTERN_KEYS, REFUSED, honoured

_Condition = Callable[[Table], bool]


def valid_options(options: CoreOptions) -> CoreOptions:
    """Return the options without those of invalid values, so that their defaults count."""
    return CoreOptions({k: v for k, v in options.values.items() if _is_valid(k, v)})


def _is_valid(key: str, value: str) -> bool:
    try:
        validate_options({key: value})
    except OptionError:
        return False
    return True


def check_options(e: Examined) -> Iterator[Finding]:
    """Yield what is wrong with the stored options of the table."""
    stored = e.table.schema.options
    told = set()
    for key, value in sorted(stored.items()):
        for finding in _one(e, key, value):
            told.add(key)
            yield finding
    for idle in idle_options(e.table.schema):
        if idle.key in stored and idle.key not in told:
            told.add(idle.key)
            yield _idle(e, idle.key, idle.message)
    for key in sorted(stored.keys() - told):
        reason = next((why for prefix, useful, why in _NEEDS if _is_of(key, prefix) and not useful(e.table)), None)
        if reason is not None:
            yield _idle(e, key, f"The option '{key}' = {string_literal(stored[key])} has no effect: {reason}.")
    try:
        check_together(e.table.options)
    except OptionError as error:
        yield e.finding(Severity.ERROR, Code.OPTION_CONTRADICTION, f"{error.message} {error.hint}".strip())
    yield from _row_groups(e)


def _one(e: Examined, key: str, value: str) -> Iterator[Finding]:
    try:
        option = check_key(key)
    except OptionError as error:
        yield _unset(e, Severity.WARNING, Code.OPTION_UNKNOWN, key, f"{error.message} {error.hint}")
        return
    if option is None:
        if key not in SPARK_PROPERTIES:
            yield e.finding(
                Severity.INFO,
                Code.OPTION_UNKNOWN,
                f"The property '{key}' = {string_literal(value)} is none of Paimon's options and has no effect here; "
                "another program may use it.",
            )
        return
    try:
        validate_options({key: value})
    except OptionError as error:
        yield _unset(e, Severity.ERROR, Code.OPTION_INVALID, key, f"{error.message} {error.hint}")
        return
    yield from _support(e, key, value, option)


def _support(e: Examined, key: str, value: str, option: Option) -> Iterator[Finding]:
    is_default = option.default is not None and value.strip().lower() == option.default.lower()
    if option.name in REFUSED:
        if not is_default:
            yield e.finding(
                Severity.WARNING,
                Code.OPTION_UNSUPPORTED,
                f"The option '{key}' = {string_literal(value)} is not implemented by this release, which refuses what "
                "depends on it.",
            )
    elif option.name not in honoured() or key not in PATTERN_KEYS.get(option.name, (key,)):
        whose = "of Flink" if option.group == "flink-connector" else "of another engine or format"
        yield e.finding(
            Severity.INFO,
            Code.OPTION_WITHOUT_EFFECT,
            f"The option '{key}' = {string_literal(value)} is one {whose} and has no effect on Spark.",
        )


def _idle(e: Examined, key: str, why: str) -> Finding:
    return _unset(e, Severity.INFO, Code.OPTION_WITHOUT_EFFECT, key, why)


def _unset(e: Examined, severity: Severity, code: Code, key: str, found: str) -> Finding:
    return e.finding(severity, code, found.strip(), e.alter(f"UNSET TBLPROPERTIES ({string_literal(key)})"))


def _is_of(key: str, prefix: str) -> bool:
    return key == prefix or (prefix.endswith(".") and key.startswith(prefix))


def _is_dynamic(table: Table) -> bool:
    return table.bucket_mode in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC)


def _looks_up(table: Table) -> bool:
    return table.options.changelog_producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)


def _has_key(table: Table) -> bool:
    return table.is_primary_key_table


def _has_levels(table: Table) -> bool:
    return table.is_primary_key_table or clusters(table)


def _is_partitioned(table: Table) -> bool:
    return bool(table.schema.partition_keys)


def _creates_tags(table: Table) -> bool:
    return (table.options.get("tag.automatic-creation") or "none").lower() != "none"


_NO_KEY = "the table has no primary key"
_NO_LEVELS = "the table has neither a primary key nor 'clustering.incremental'"
_NO_PARTITIONS = "the table is not partitioned"
_NEEDS: tuple[tuple[str, _Condition, str], ...] = (
    ("bucket-key", lambda t: t.options.bucket != -1 or _has_key(t), "the table has no buckets ('bucket' = '-1')"),
    ("dynamic-bucket.", _is_dynamic, "the table has no dynamic buckets"),
    ("postpone.", lambda t: t.bucket_mode is BucketMode.POSTPONE, "the table has no postponed buckets"),
    ("cross-partition-upsert.", lambda t: t.bucket_mode is BucketMode.KEY_DYNAMIC, "its keys cannot change partition"),
    ("deletion-vector.", lambda t: t.options.deletion_vectors_enabled, "'deletion-vectors.enabled' is not true"),
    ("deletion-vectors.bitmap64", lambda t: t.options.deletion_vectors_enabled, "there are no deletion vectors"),
    ("partition.expiration-time", _is_partitioned, _NO_PARTITIONS),
    ("partition.expiration-strategy", _is_partitioned, _NO_PARTITIONS),
    ("partition.timestamp-pattern", _is_partitioned, _NO_PARTITIONS),
    ("partition.timestamp-formatter", _is_partitioned, _NO_PARTITIONS),
    ("num-sorted-run.compaction-trigger", _has_levels, _NO_LEVELS),
    ("num-levels", _has_levels, _NO_LEVELS),
    ("lookup-compact", _has_key, _NO_KEY),
    ("full-compaction.delta-commits", _has_key, _NO_KEY),
    ("ignore-delete", _has_key, _NO_KEY),
    ("changelog-producer.row-deduplicate", _looks_up, "'changelog-producer' is neither lookup nor full-compaction"),
    ("tag.creation-period", _creates_tags, "'tag.automatic-creation' is none"),
    ("tag.creation-delay", _creates_tags, "'tag.automatic-creation' is none"),
    ("tag.num-retained-max", _creates_tags, "'tag.automatic-creation' is none"),
)
"""Options that need something of the table: the key, or its prefix with a dot; the condition; what is wanting."""


def _row_groups(e: Examined) -> Iterator[Finding]:
    for key in ("parquet.block.size", "orc.stripe.size", "file.block-size"):
        if not e.table.options.is_set(key):
            continue
        try:
            size = e.table.options.memory(key)
        except OptionError:
            continue
        if not e.limits.least_row_group <= size <= e.target_size:
            fault = (
                "small: readers open many of them, and compression suffers"
                if size < e.limits.least_row_group
                else f"larger than data files ({e.target_size} bytes), so that each file is read as a whole"
            )
            yield _unset(
                e, Severity.INFO, Code.ROW_GROUP_SIZE, key, f"row groups of '{key}' = {size} bytes are {fault}"
            )
