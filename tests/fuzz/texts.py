"""Targets that take text from users: statements, arguments, options, names."""

from __future__ import annotations

import contextlib
import posixpath
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from paimon_spark.errors import ArgumentError, PaimonError
from paimon_spark.spec import predicate as p
from paimon_spark.spec.identifier import Identifier, check_name, check_new_name
from paimon_spark.spec.literals import parse_value, value_text
from paimon_spark.spec.option_catalogue import known_options
from paimon_spark.spec.option_checks import validate_options
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.paths import TablePaths, escape, partition_path
from paimon_spark.spec.quoted_text import quoted_name, string_literal
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stats import ColumnStats
from paimon_spark.spec.types import DataField, TypeRoot, parse_atomic
from paimon_spark.spec.units import format_memory, parse_duration_ms, parse_memory
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.sqlparse.claims import is_paimon_statement
from paimon_spark.sqlparse.options_text import parse_options
from paimon_spark.sqlparse.partitions import each_partition
from paimon_spark.sqlparse.script import split_script
from paimon_spark.sqlparse.tag_statements import TagAction, TagStatement, parse_tag_statement
from paimon_spark.sqlparse.where import parse_where
from tests.fuzz.harness import Target

_COLUMNS = {
    "s": "STRING",
    "i": "INT",
    "l": "BIGINT",
    "d": "DATE",
    "t": "TIMESTAMP(6)",
    "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "n": "DECIMAL(10, 2)",
    "f": "DOUBLE",
    "g": "FLOAT",
    "b": "BOOLEAN",
    "y": "TINYINT",
    "m": "TIME(3)",
    "c": "CHAR(3)",
}
FIELDS = tuple(DataField(i, name, parse_atomic(t)) for i, (name, t) in enumerate(_COLUMNS.items()))
SCHEMA = TableSchema(
    id=0, fields=FIELDS, highest_field_id=len(FIELDS), partition_keys=tuple(_COLUMNS), primary_keys=(), options={}
)
_VALUES = {
    "s": "a",
    "i": "1",
    "l": "-5",
    "d": "2024-05-14",
    "t": "2024-05-14 10:20:30.5",
    "z": "2024-05-14 10:20:30",
    "n": "12.50",
    "f": "1.5",
    "g": "0.25",
    "b": "true",
    "y": "7",
    "m": "12:34:56",
    "c": "abc",
}
ROW = {f.name: parse_value(_VALUES[f.name], f.type) for f in FIELDS}
NULLS: dict[str, Any] = dict.fromkeys(_COLUMNS)


def text(data: bytes) -> str:
    """Return the text of an input; lone halves of characters come through, as they do from escapes in SQL."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def on_text(run: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """Return a target's function over the text of its input."""
    return lambda data: run(text(data))


# ------------------------------------------------------------------------------------------------- statements


def call(source: str) -> None:
    """A CALL that parses is unchanged by a round trip through its parsed form."""
    found = parse_call(source)
    path = ".".join(quoted_name(n) for n in (found.catalog, found.namespace, found.procedure) if n)
    named = [f"{quoted_name(k)} => {v.text}" for k, v in found.named]
    again = parse_call(
        f"{'EXPLAIN ' * found.explain}CALL {path}({', '.join([*(v.text for v in found.positional), *named])})"
    )
    for name in ("catalog", "namespace", "procedure", "explain"):
        assert getattr(found, name) == getattr(again, name), name
    assert repr([v.value for v in found.positional]) == repr([v.value for v in again.positional])
    assert repr([(k, v.value) for k, v in found.named]) == repr([(k, v.value) for k, v in again.named])


def claimed(source: str) -> None:
    """What is claimed is parsed by us, and a statement that begins with another word is never claimed."""
    if is_paimon_statement(source, {"compact", "create_tag"}):
        found = parse_call(source)
        assert found.procedure.lower() in ("compact", "create_tag")


def tag_statements(source: str) -> None:
    """A tag statement that parses is unchanged by a round trip through its parsed form."""
    found = parse_tag_statement(source)
    assert parse_tag_statement(_tag_text(found)) == found


def _tag_text(s: TagStatement) -> str:
    table = ".".join(quoted_name(part) for part in s.table)
    head = "EXPLAIN " * s.explain
    if s.action is TagAction.SHOW:
        return f"{head}SHOW TAGS {table}"
    lenient = {TagAction.CREATE: "IF NOT EXISTS ", TagAction.DELETE: "IF EXISTS "}.get(s.action, "") * s.lenient
    text = f"{head}ALTER TABLE {table} {s.action} TAG {lenient}{quoted_name(s.name)}"
    if s.action is TagAction.RENAME:
        text += f" TO {quoted_name(s.new_name)}"
    if s.snapshot_id is not None:
        text += f" AS OF VERSION {s.snapshot_id}"
    if s.retained_ms is not None:
        text += f" RETAIN {s.retained_ms // 60_000} MINUTES"
    return text


def script(source: str) -> None:
    """No code is lost between the statements of a script, and cutting again cuts nothing more."""
    for statement in split_script(source):
        again = split_script(statement.text)
        assert [s.text for s in again] == [statement.text]
        assert statement.text in source


# ------------------------------------------------------------------------------------------------- arguments


def options_text(source: str) -> None:
    """Pairs that are written in quotes are read as they were."""
    found = parse_options(source)
    if any(set(k) & set("=,'\"`") or k != k.strip() for k in found):
        return
    quoted = ",".join(f"{k}={string_literal(v)}" for k, v in found.items())
    assert parse_options(quoted) == found


def partitions(source: str) -> None:
    """Partitions become a predicate that can be serialized and evaluated on a row."""
    predicate_holds(p.or_(*(found for _, found in each_partition(source, SCHEMA))))


def where(source: str) -> None:
    """A filter becomes a predicate that can be serialized and evaluated on a row."""
    predicate_holds(parse_where(source, SCHEMA))


def predicate_json(source: str) -> None:
    """A predicate that is accepted is the same after a second journey."""
    predicate_holds(p.from_json(source))


def predicate_holds(found: p.Predicate) -> None:
    """Check any predicate: it can be serialized, and its three evaluations agree."""
    assert p.to_json(p.from_json(p.to_json(found))) == p.to_json(found)
    for row in (ROW, NULLS):
        answers = []
        for variant in (found, p.push_not(found), p.Not(p.Not(found))):
            try:
                answers.append(p.evaluate(variant, row))
            except (ArgumentError, KeyError) as e:
                answers.append(type(e))  # type: ignore[arg-type]
        if not any(isinstance(a, type) for a in answers):
            assert answers[0] is answers[1] is answers[2], answers
        stats = {k: ColumnStats(v, v, int(v is None)) for k, v in row.items()}
        if answers[0] is True:
            assert p.may_match(found, stats, 1)


# ------------------------------------------------------------------------------------------------- options and names


def option(source: str) -> None:
    """An accepted option can be read with its type."""
    key, _, value = source.partition("=")
    validate_options({key: value})
    options = CoreOptions({key: value})
    for name in dir(CoreOptions):
        if isinstance(getattr(CoreOptions, name), property) and name != "values":
            getattr(options, name)


def quantity(source: str) -> None:
    """Durations and sizes are numbers that Java can hold, and a size is the same when it is written again."""
    with contextlib.suppress(PaimonError):
        assert abs(parse_duration_ms(source)) < 1 << 63
        return
    size = parse_memory(source)
    assert 0 <= size < 1 << 63
    assert parse_memory(format_memory(size)) == size


def identifier(source: str) -> None:
    """A name that is accepted is one directory below the warehouse, and reads as it is written."""
    found = Identifier.parse(source, "here")
    quoted = ".".join(map(quoted_name, (found.database, found.object_name)))
    assert Identifier.parse(quoted) == found
    path = f"/w/{found.database}.db/{found.table}"
    assert posixpath.normpath(path) == path
    paths = TablePaths(path, CoreOptions({}), branch=found.branch or "main")
    assert posixpath.normpath(paths.metadata_root).startswith(path)


def new_name(source: str) -> None:
    """A new name survives every normalisation that a store might do, as one part of a path."""
    check_new_name(source, "table")
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        other = unicodedata.normalize(form, source)
        assert posixpath.normpath(f"/w/{other}") == f"/w/{other}"
        assert not {"/", "\\", "\0"} & set(other)
    check_name(unicodedata.normalize("NFKC", source)[:60], "table")


def partition_name(source: str) -> None:
    """Any text is one directory, and comes back from its name."""
    value = source.encode("utf-8", "replace").decode()
    assert unquote(escape(value)) == value
    path = partition_path([value], FIELDS[:1])
    assert "/" not in path
    assert posixpath.normpath(f"/w/{path}/f") == f"/w/{path}/f"
    for f in FIELDS:
        try:
            parsed = parse_value(value, f.type)
        except ArgumentError:
            continue
        named = value_text(parsed, f.type, legacy=False)
        if f.type.root is not TypeRoot.CHAR:  # type: ignore[union-attr]
            again = parse_value(named, f.type)
            assert repr(again) == repr(parsed), (f.name, named)


_TAGS = [
    b"ALTER TABLE db.t CREATE TAG IF NOT EXISTS `a``b` AS OF VERSION 3 RETAIN 2 DAYS",
    b"EXPLAIN ALTER TABLE t REPLACE TAG a RETAIN 90 MINUTES; -- x",
    b"ALTER TABLE t DELETE TAG IF EXISTS `a,b`",
    b"ALTER TABLE t RENAME TAG a TO b",
    b"SHOW TAGS c.db.t",
]
_CALLS = [
    b"CALL sys.compact(`table` => 'db.t', order_by => 'a,b')",
    b"EXPLAIN CALL cat.sys.create_tag('db.t', 'x', 5L, map('a', 1, 'b', array(1, 2)), -1.5e3, NULL, true)",
    b"call sys.rollback_to('it''s', \"q\", r'\\n', '\\u0041\\101', x'CAFE', DATE '2024-05-14') -- end\n;",
    b"CALL /* c /* d */ */ compact(-5, +3BD, 1D, timestamp '2024-01-01 00:00:00')",
]
_SQL = [
    b"CALL",
    b"EXPLAIN",
    b"sys.",
    b"map(",
    b"array(",
    b"=>",
    b"NULL",
    b"--",
    b"/*",
    b"*/",
    b"1e999",
    b"1BD",
    b"X'0'",
    b"BEGIN",
    b"END",
]
_FILTERS = [
    b"s = 'a' AND i > 3 OR NOT (l IS NULL)",
    b"d BETWEEN DATE '2024-01-01' AND '2024-12-31'",
    b"s LIKE 'a%' AND b",
    b"i IN (1, 2, -3) AND n = 12.50",
    b"t < TIMESTAMP '2024-05-14 10:20:30'",
    b"f <=> NULL OR 1 <> y",
    b"NOT s IN ('x') AND TRUE",
]
_PARTITIONS = [
    b"s=a,i=1;d=2024-05-14",
    b"t='2024-05-14 10:20:30',b=true",
    b"s='it''s',n=1.50",
    b"d=DATE '2024-01-01';f=1e3",
    b"s=__DEFAULT_PARTITION__",
]
_PREDICATES = [p.to_json(parse_where(f.decode(), SCHEMA)).encode() for f in _FILTERS]
_OPTION_WORDS = [o.encode() for o in known_options()]
TARGETS = [
    Target("call", on_text(call), _CALLS, words=_SQL),
    Target("claims", on_text(claimed), _CALLS, words=_SQL),
    Target("tag_statements", on_text(tag_statements), _TAGS, words=_SQL),
    Target("script", on_text(script), [b"-- a\nSELECT 1; CALL x(';'); BEGIN SELECT 1; END;", *_CALLS], words=_SQL),
    Target(
        "options-text",
        on_text(options_text),
        [b"a=b,c='d,e'", b'k = "v\\"w" , x.y=1', b"a='it''s'"],
        words=[b"='", b"',"],
    ),
    Target("partitions", on_text(partitions), _PARTITIONS, words=[k.encode() + b"=" for k in _COLUMNS]),
    Target(
        "where",
        on_text(where),
        _FILTERS,
        words=[b" AND ", b" OR ", b"NOT ", b" IN (", b" IS NULL", b"CAST(", b"1e999", b"NaN", *_SQL],
    ),
    Target(
        "predicate",
        on_text(predicate_json),
        _PREDICATES,
        words=[b'["and",', b'["not",', b"NaN", b"Infinity", b"null", b"[]", b"{}", b"1e999"],
    ),
    Target(
        "option",
        on_text(option),
        [
            b"bucket=3",
            b"file.format.per.level=0:avro,3:orc",
            b"snapshot.time-retained=1 h",
            b"target-file-size=128 mb",
            b"metadata.stats-mode=truncate(16)",
            b"fields.s.stats-mode=full",
        ],
        words=[*_OPTION_WORDS, b"infinite", b"-1", b"1e400", b"nan"],
    ),
    Target(
        "quantity",
        on_text(quantity),
        [b"1 h", b"10min", b"PT1H30M0.5S", b"256 mb", b"infinite", b"500"],
        words=[b"P1D", b"T", b" mb"],
    ),
    Target(
        "identifier",
        on_text(identifier),
        [b"db.t", b"`d.b`.`t$branch_b$files`", b"t"],
        words=[b"$branch_", b"..", b"/", "\uff0e\uff0e".encode()],
    ),
    Target(
        "new-name",
        on_text(new_name),
        [b"orders", "Größe".encode()],
        words=["\uff0f".encode(), "\u2024".encode(), "\u0338".encode(), "\u2100".encode()],
    ),
    Target(
        "partition-name",
        on_text(partition_name),
        [b"a/b", b"..", b"2024-05-14", b"1.5", b"%2F"],
        words=[b"%", b"1e9", b"-0", b"NaN", b"10:20"],
    ),
]
