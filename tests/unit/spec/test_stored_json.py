"""The files of a table that are JSON: the values of their keys, and the errors for other values."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.bounds import FileName
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.kinds import CommitKind, Operation
from paimon_spark.spec.snapshot import Snapshot, parse_snapshot
from paimon_spark.spec.types import type_from_json

PLAIN: dict[str, Any] = {
    "version": 3,
    "uuid": "0f",
    "id": 3,
    "schemaId": 0,
    "baseManifestList": "b",
    "baseManifestListSize": 7,
    "deltaManifestList": "d",
    "commitUser": "u",
    "commitIdentifier": 2**63 - 1,
    "commitKind": "APPEND",
    "timeMillis": 5,
    "totalRecordCount": 2,
    "deltaRecordCount": 1,
    "watermark": -(2**63),
    "properties": {"k": "v"},
    "operation": "WRITE",
    "writerVersion": {"x": [1, None]},
}


def parsed(**changes: Any) -> Snapshot:
    return parse_snapshot(json.dumps(PLAIN | changes), "snapshot-3")[0]


def test_a_snapshot_is_written_as_it_was_read() -> None:
    found = parsed()
    assert found.to_json() == json.dumps(PLAIN, indent=2)
    assert (found.commit_kind, found.operation) == (CommitKind.APPEND, Operation.WRITE)
    assert isinstance(found.operation, Operation)
    assert found.extra == {"writerVersion": {"x": [1, None]}}


def test_scalars_among_properties_count_as_their_text() -> None:
    assert parsed(properties={"a": 1, "b": True, "c": "x", "d": 1.5}).properties == {
        "a": "1",
        "b": "true",
        "c": "x",
        "d": "1.5",
    }


def test_names_of_operations() -> None:
    assert [parsed(operation=name).operation for name in ("LATER", "COMPACT", None)] == ["LATER", None, None]
    assert parsed(operation="DROP_PARTITION").operation is Operation.TRUNCATE


def test_null_is_as_good_as_no_key() -> None:
    found = parsed(uuid=None, totalRecordCount=None, later=None)
    assert (found.uuid, found.total_record_count, "later" in found.extra) == (None, 0, False)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "3"),
        ("id", True),
        ("id", 3.0),
        ("id", -1),
        ("schemaId", 2**63),
        ("commitIdentifier", 2**63),
        ("watermark", -(2**63) - 1),
        ("watermark", 10**40),
        ("timeMillis", 253_402_214_400_001),
        ("baseManifestListSize", [7]),
        ("deltaManifestList", "../d"),
        ("statistics", "a/b"),
        ("commitUser", 7),
        ("commitKind", "OTHER"),
        ("operation", 1),
        ("properties", []),
    ],
)
def test_a_key_that_holds_something_else_is_named_with_its_value(key: str, value: Any) -> None:
    with pytest.raises(CorruptTableError) as failed:
        parsed(**{key: value})
    assert failed.value.message == f"The snapshot file snapshot-3 is malformed: the key '{key}' holds {value!r}."


@pytest.mark.parametrize("key", ["id", "schemaId", "baseManifestList", "commitUser", "commitKind", "timeMillis"])
def test_a_key_that_is_missing_is_named(key: str) -> None:
    with pytest.raises(CorruptTableError, match=f"the key '{key}' is missing"):
        parsed(**{key: None})


@pytest.mark.parametrize(
    "name", ["a", ".a", "...", "ä\u2028", "a b", "", ".", "..", "a/b", "a\\b", "a\n", "\n", "\x7f", "\ud800", ".\n"]
)
def test_names_of_files(name: str) -> None:
    try:
        sound = msgspec.convert(name, FileName) == name
    except msgspec.ValidationError:
        sound = False
    assert sound == is_one_name(name)


@pytest.mark.parametrize(
    ("text", "members", "wanted"),
    [
        ("MAP<STRING, INT>", {"key": "STRING", "value": "INT"}, "MAP"),
        ("MAP<STRING NOT NULL, INT NOT NULL>", {"key": "STRING NOT NULL", "value": "INT NOT NULL"}, "MAP"),
        ("MAP<INT, ARRAY<INT>> NOT NULL", {"key": "INT", "value": {"type": "ARRAY", "element": "INT"}}, "MAP NOT NULL"),
        ("MULTISET<INT>", {"element": "INT"}, "MULTISET"),
        ("MULTISET<INT NOT NULL> NOT NULL", {"element": "INT NOT NULL"}, "MULTISET NOT NULL"),
    ],
)
def test_types_that_name_their_members(text: str, members: dict[str, Any], wanted: str) -> None:
    assert type_from_json({"type": text, "nullable": True} | members) == type_from_json({"type": wanted} | members)


def test_members_belong_to_keys_of_their_own() -> None:
    with pytest.raises(CorruptTableError, match=r"MAP<STRING, INT> lacks its 'key'"):
        type_from_json({"type": "MAP<STRING, INT>"})
    with pytest.raises(CorruptTableError, match="is not a Paimon data type"):
        type_from_json({"type": "MAPS<STRING, INT>", "key": "STRING", "value": "INT"})
