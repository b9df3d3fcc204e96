"""Rules for every schema: names, keys, and options that name columns.

(docs/spec/storage.md, section 2; docs/spec/semantics.md, H9)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from paimon_spark.errors import ErrorKind, NotFoundError, OptionError, PaimonError, UsageError, did_you_mean
from paimon_spark.spec.bucket_functions import BucketFunction, hashes_with_hive
from paimon_spark.spec.chain_tables import check_chain_table
from paimon_spark.spec.clustering import check_clustering
from paimon_spark.spec.file_indexes import check_file_indexes
from paimon_spark.spec.kinds import KEY_PREFIX, ROW_ID, SEQUENCE_NUMBER, VALUE_KIND, ChangelogProducer, MergeEngine
from paimon_spark.spec.merge_rules import check_merge_options
from paimon_spark.spec.option_catalogue import field_of
from paimon_spark.spec.options import POSTPONE_BUCKET, UNAWARE_OR_DYNAMIC_BUCKET, CoreOptions
from paimon_spark.spec.peer_rules import check_openable
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.tag_periods import tag_period
from paimon_spark.spec.types import AtomicType, DataField, DataType, RowType, TypeRoot, atomic_text, children, has_root

RESERVED_NAMES = (SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", ROW_ID)
_NO_KEYS = (TypeRoot.VARIANT, TypeRoot.BLOB)
_BINARIES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_MOD_TYPES = (TypeRoot.INT, TypeRoot.BIGINT)
_EXPIRY_TYPES = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MAX_DECIMAL = 38
_MAX_FRACTION = 9


def check_schema(schema: TableSchema) -> None:
    """Reject an invalid schema.

    Raises:
        UsageError: a column, a key or a type is invalid.
        OptionError: an option does not fit the columns or another option.
    """
    options = CoreOptions(schema.options)
    for rule in _RULES:
        rule(schema, options)


def check_fit(schema: TableSchema, given: Mapping[str, str]) -> None:
    """Reject options of a statement that the table could not have, such as one that names a column that is not there.

    Options of other tables than valid ones are not checked.

    Raises:
        UsageError: an option does not fit the schema.
        OptionError: an option does not fit the columns or another option.
    """
    if all(schema.options.get(key) == value for key, value in given.items()):
        return
    try:
        check_schema(schema)
    except PaimonError:
        return
    check_schema(replace(schema, options={**schema.options, **given}))


def invalid(message: str, hint: str = "") -> UsageError:
    """Return the error for an invalid schema."""
    return UsageError(message, hint=hint, kind=ErrorKind.SCHEMA_INVALID)


def check_column_name(name: str) -> None:
    """Reject column names that the format reserves.

    Raises:
        UsageError: the name is blank or reserved.
    """
    if not name.strip():
        raise invalid("A column has no name.", "Give every column a name.")
    if name in RESERVED_NAMES or name.startswith(KEY_PREFIX):
        raise invalid(
            f"A column cannot be called '{name}': Paimon reserves that name.",
            f"Reserved are {', '.join(RESERVED_NAMES)} and names that begin with {KEY_PREFIX}.",
        )


def check_type(name: str, t: DataType) -> None:
    """Reject invalid lengths and precisions, rows without members, and members without a name or with the same name.

    Raises:
        UsageError: the type is invalid; the message names the column.
    """
    if isinstance(t, AtomicType):
        wrong = (
            (t.root is TypeRoot.DECIMAL and not (1 <= (t.precision or 0) <= _MAX_DECIMAL))
            or (t.root is TypeRoot.DECIMAL and not (0 <= (t.scale or 0) <= (t.precision or 0)))
            or (t.root is not TypeRoot.DECIMAL and t.precision is not None and not 0 <= t.precision <= _MAX_FRACTION)
            or (t.length is not None and t.length < 1)
        )
        if wrong:
            raise invalid(f"The column '{name}' cannot have the type {atomic_text(t)}.")
    if isinstance(t, RowType):
        if not t.fields:
            raise invalid(f"The column '{name}' has a ROW (struct) without members.", "Give it a member.")
        if not all(f.name for f in t.fields):
            raise invalid(f"A member of the column '{name}' has no name.", "Give every member a name.")
        twice = _duplicates(f.name for f in t.fields)
        if twice:
            raise invalid(f"The column '{name}' has the member {_listed(twice)} more than once.")
    for child in children(t):
        check_type(name, child)


def _columns(schema: TableSchema, options: CoreOptions) -> None:
    if not schema.fields:
        raise invalid("A table needs at least one column.", "Give a list of columns.")
    twice = _duplicates(schema.field_names)
    if twice:
        raise invalid(f"The column {_listed(twice)} is defined more than once.", "Give each column its own name.")
    for f in schema.fields:
        check_column_name(f.name)
        check_type(f.name, f.type)


def _keys(schema: TableSchema, options: CoreOptions) -> None:
    for what, names in (("primary key", schema.primary_keys), ("partition", schema.partition_keys)):
        twice = _duplicates(names)
        if twice:
            raise invalid(f"The {what} names the column {_listed(twice)} more than once.")
        for f in _existing(schema, names, f"the {what}"):
            _check_key_type(f, what)
    binary = [f.name for f in schema.partition_fields if has_root(f.type, _BINARIES)]
    if binary:
        raise invalid(f"The binary column {_listed(binary)} cannot be a partition column.", "Use a STRING column.")
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise invalid(
            f"The primary key ({', '.join(schema.primary_keys)}) has only partition columns.",
            "Every partition would have one row: add a column to the primary key, or partition by fewer.",
        )


def _check_key_type(f: DataField, what: str) -> None:
    if not isinstance(f.type, AtomicType) or f.type.root in _NO_KEYS:
        kind = f.type.root if isinstance(f.type, AtomicType) else type(f.type).__name__.removesuffix("Type").upper()
        raise invalid(f"The column '{f.name}' of type {kind} cannot be in the {what}.", "Use columns of simple types.")


def _bucket(schema: TableSchema, options: CoreOptions) -> None:
    bucket, key = options.bucket, options.bucket_key
    if bucket == UNAWARE_OR_DYNAMIC_BUCKET:
        if key:
            raise OptionError(
                "The option 'bucket-key' needs a number of buckets, but 'bucket' is -1.",
                hint="Set 'bucket' to a positive number, or leave 'bucket-key' out.",
            )
        if not schema.primary_keys and options.full_compaction_delta_commits is not None:
            raise OptionError(
                "The option 'full-compaction.delta-commits' needs a primary key or a number of buckets.",
                hint="Leave it out: small files are compacted after each write.",
            )
        return
    if bucket == POSTPONE_BUCKET and not schema.primary_keys:
        raise OptionError("The option 'bucket' = '-2' is for tables with a primary key.", hint="Set 'bucket' to -1.")
    if not schema.primary_keys and not key:
        raise OptionError(
            f"The option 'bucket' = '{bucket}' needs a 'bucket-key' in a table without primary key.",
            hint="Name the columns whose values choose the bucket, or leave 'bucket' out.",
        )
    twice = _duplicates(key)
    if twice:
        raise OptionError(
            f"The option 'bucket-key' names {_listed(twice)} more than once.", hint="Name each column once."
        )
    for f in _existing(schema, key, "the option 'bucket-key'"):
        _check_key_type(f, "bucket key")
    within = schema.trimmed_primary_keys if schema.primary_keys else schema.field_names
    outside = [k for k in key if k not in within or k in schema.partition_keys]
    if outside:
        where = "the primary key without the partition columns" if schema.primary_keys else "the columns"
        raise OptionError(
            f"The option 'bucket-key' names {_listed(outside)}, which is not in {where}.",
            hint=f"Choose from {', '.join(k for k in within if k not in schema.partition_keys)}.",
        )
    _check_bucket_function(schema, options)


def _check_bucket_function(schema: TableSchema, options: CoreOptions) -> None:
    fields = [schema.field(k) for k in options.bucket_key or schema.trimmed_primary_keys]
    if options.bucket_function_type is BucketFunction.MOD:
        if len(fields) != 1 or not has_root(fields[0].type, _MOD_TYPES):
            raise OptionError(
                "The option 'bucket-function.type' = 'mod' needs a bucket key of one INT or BIGINT column.",
                hint="Choose the default function, or another bucket key.",
            )
    elif options.bucket_function_type is BucketFunction.HIVE:
        unhashed = [f.name for f in fields if not hashes_with_hive(f.type)]
        if unhashed:
            raise OptionError(
                f"The option 'bucket-function.type' = 'hive' does not accept the timestamp column {_listed(unhashed)}.",
                hint="Choose the default function, or another bucket key.",
            )


def _merging(schema: TableSchema, options: CoreOptions) -> None:
    producer = options.changelog_producer
    if not schema.primary_keys and producer is not ChangelogProducer.NONE:
        raise OptionError(
            f"The option 'changelog-producer' = '{producer}' needs a primary key.",
            hint="Define a primary key, or leave the option out.",
        )
    first_row = options.merge_engine is MergeEngine.FIRST_ROW
    if first_row and producer not in (ChangelogProducer.NONE, ChangelogProducer.LOOKUP):
        raise OptionError(
            f"The merge engine first-row cannot have 'changelog-producer' = '{producer}'.",
            hint="Set 'changelog-producer' to none or lookup, or choose another 'merge-engine'.",
        )
    if options.deletion_vectors_enabled and producer is ChangelogProducer.FULL_COMPACTION:
        raise OptionError(
            "A table with 'deletion-vectors.enabled' = 'true' cannot have 'changelog-producer' = 'full-compaction'.",
            hint="Set 'changelog-producer' to none, input or lookup, or leave 'deletion-vectors.enabled' out.",
        )
    if options.full_compaction_delta_commits is not None and producer is ChangelogProducer.LOOKUP:
        raise OptionError(
            "The options 'full-compaction.delta-commits' and 'changelog-producer' = 'lookup' contradict each other.",
            hint="Set only one of them.",
        )
    if options.deletion_vectors_enabled and first_row and not options.clusters_keyed_files:
        raise OptionError(
            "The merge engine first-row needs no deletion vectors.",
            hint="Leave 'deletion-vectors.enabled' out, or choose another 'merge-engine'.",
        )
    _check_sequence(schema, options, first_row=first_row)
    if options.snapshot_ordering:
        _check_snapshot_ordering(schema, options)
    if schema.primary_keys:
        check_merge_options(schema, options)
    kind = options.rowkind_field
    if kind is not None:
        for f in _existing(schema, (kind,), "the option 'rowkind.field'"):
            if not has_root(f.type, _TEXTS):
                raise OptionError(
                    f"The option 'rowkind.field' names '{f.name}', which is not a STRING column.",
                    hint="Name a column with the texts +I, -U, +U and -D.",
                )


def _check_sequence(schema: TableSchema, options: CoreOptions, *, first_row: bool) -> None:
    names = options.sequence_field
    if not names:
        return
    _existing(schema, names, "the option 'sequence.field'")
    twice = _duplicates(names)
    if twice:
        raise OptionError(
            f"The option 'sequence.field' names {_listed(twice)} more than once.", hint="Name each column once."
        )
    aggregated = [n for n in names if f"fields.{n}.aggregate-function" in schema.options]
    if aggregated:
        keys = _listed(f"fields.{n}.aggregate-function" for n in aggregated)
        raise OptionError(
            f"The option 'sequence.field' names {_listed(aggregated)}, which cannot have an aggregate function.",
            hint=f"Leave out {keys}, or order the rows by another column.",
        )
    if first_row:
        raise OptionError("The merge engine first-row takes no 'sequence.field'.", hint="Leave the option out.")
    if schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys):
        raise OptionError(
            "The option 'sequence.field' needs a primary key that contains the partition columns.",
            hint=f"Put {', '.join(schema.partition_keys)} into the primary key, or leave the option out.",
        )


def _check_snapshot_ordering(schema: TableSchema, options: CoreOptions) -> None:
    key = "sequence.snapshot-ordering"
    if not schema.primary_keys:
        raise OptionError(
            f"The option '{key}' needs a primary key: it orders the versions of a row.",
            hint="Define a primary key, or leave the option out.",
        )
    if options.sequence_field:
        raise OptionError(
            f"The options '{key}' and 'sequence.field' contradict each other.", hint="Set only one of them."
        )
    if not options.write_only:
        raise OptionError(
            f"The option '{key}' needs 'write-only' = 'true': other writers of the table compact files before they "
            "belong to a snapshot.",
            hint="Set it, and compact the table by sys.compact.",
        )


def _upsert_key(schema: TableSchema, options: CoreOptions) -> None:
    key = options.upsert_key
    if not key and options.is_set("upsert-key"):
        raise OptionError(
            "The option 'upsert-key' names no column.", hint="Name the columns of the key, or leave the option out."
        )
    if not key:
        return
    for f in _existing(schema, key, "the option 'upsert-key'"):
        _check_key_type(f, "upsert key")
    twice = _duplicates(key)
    if twice:
        raise OptionError(
            f"The option 'upsert-key' names {_listed(twice)} more than once.", hint="Name each column once."
        )
    if schema.primary_keys:
        raise OptionError(
            f"The option 'upsert-key' = '{','.join(key)}' is for tables without a primary key; this one has "
            f"({', '.join(schema.primary_keys)}).",
            hint="Leave the option out: an INSERT replaces the rows with the same primary key.",
        )
    for f in map(schema.field, options.sequence_field):
        _check_key_type(f, "sequence of an upsert")


def _named_columns(schema: TableSchema, options: CoreOptions) -> None:
    for key in schema.options:
        _existing(schema, field_of(key), f"the option '{key}'")
    time_field = options.get("record-level.time-field")
    if options.get("record-level.expire-time") is not None and not schema.primary_keys:
        raise OptionError(
            "The option 'record-level.expire-time' needs a primary key: compaction drops rows as it merges them.",
            hint="Define a primary key, or let partitions expire: 'partition.expiration-time'.",
        )
    if options.get("record-level.expire-time") is not None and time_field is None:
        raise OptionError(
            "The option 'record-level.expire-time' needs a column with the time of a row.",
            hint="Name it in 'record-level.time-field'.",
        )
    if time_field is not None:
        for f in _existing(schema, (time_field,), "the option 'record-level.time-field'"):
            if not has_root(f.type, _EXPIRY_TYPES):
                raise OptionError(
                    f"The option 'record-level.time-field' names '{f.name}', which is not an INT, BIGINT or TIMESTAMP.",
                    hint="Name a column with a time, or with seconds since 1970.",
                )


def _tags(schema: TableSchema, options: CoreOptions) -> None:
    if options.word("tag.automatic-creation").lower() not in ("none", "batch"):
        delay, period = options.duration_ms("tag.creation-delay"), tag_period(options) / timedelta(milliseconds=1)
        if delay >= period:
            raise OptionError(
                f"The option 'tag.creation-delay' = '{options.get('tag.creation-delay')}' is not shorter than the "
                "period between two tags.",
                hint="Choose a shorter delay, or a longer 'tag.creation-period'.",
            )


def _row_tracking(schema: TableSchema, options: CoreOptions) -> None:
    tracking = options.flag("row-tracking.enabled")
    if tracking and (schema.primary_keys or options.bucket != UNAWARE_OR_DYNAMIC_BUCKET):
        raise OptionError(
            "The option 'row-tracking.enabled' is for tables without primary key and without buckets.",
            hint="Leave it out.",
        )
    if options.flag("data-evolution.enabled") and not tracking:
        raise OptionError(
            "The option 'data-evolution.enabled' needs 'row-tracking.enabled' = 'true'.", hint="Leave it out."
        )


def _blobs(schema: TableSchema, options: CoreOptions) -> None:
    blobs = [f.name for f in schema.fields if has_root(f.type, (TypeRoot.BLOB,))]
    if not blobs or schema.primary_keys:
        return
    if not options.flag("data-evolution.enabled"):
        raise OptionError(
            f"The column '{blobs[0]}' of type BLOB needs 'data-evolution.enabled' = 'true'.",
            hint="Set it, and 'row-tracking.enabled' = 'true'.",
        )
    if len(blobs) == len(schema.fields) or set(blobs) & set(schema.partition_keys):
        raise invalid(
            f"The columns {_listed(blobs)} are of type BLOB: a table needs other columns too, and its partition "
            "columns cannot be among them.",
            "Add a column of another type, or partition by another column.",
        )


_RULES: tuple[Callable[[TableSchema, CoreOptions], None], ...] = (
    _columns,
    _keys,
    _bucket,
    _merging,
    _upsert_key,
    _named_columns,
    _tags,
    _row_tracking,
    lambda schema, _: check_file_indexes(schema),
    _blobs,
    check_chain_table,
    check_clustering,
    check_openable,
)


def _existing(schema: TableSchema, names: Sequence[str], who: str) -> list[DataField]:
    by_name = {f.name: f for f in schema.fields}
    for name in names:
        if name not in by_name:
            raise NotFoundError(
                f"The column '{name}', which {who} names, does not exist; "
                f"the columns are {', '.join(schema.field_names)}.",
                hint=did_you_mean(name, schema.field_names) or "Name one of them.",
                kind=ErrorKind.COLUMN_NOT_FOUND,
            )
    return [by_name[n] for n in names]


def _duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{n}'" for n in names)
