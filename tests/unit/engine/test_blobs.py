"""BLOB columns: values in files of their own, written, read in parts and referred to."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.row_ranges import is_blob_file
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import CorruptTableError, OptionError, UnsupportedError, UsageError
from paimon_spark.format.blob import ELSEWHERE, NULL, decode_lengths, encode_lengths, framed, index_of
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.manifest import EMPTY_ROW, DataFileMeta
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.types import BYTES, DataField, TypeRoot, atomic
from paimon_spark.testing.invariants import leaked, violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys, put, rows

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def blob_table(partition: Sequence[str] = (), **options: str) -> Table:
    given = option_keys(options)
    columns = {"k": "INT", "image": "BLOB", "p": "STRING", "sound": "BLOB"}
    return new_table(columns, partition=partition, options=EVOLVING | given)


def files(table: Table) -> list[DataFileMeta]:
    return [e.file for e in scan(table, table.snapshots.latest()).entries]


def rewrite(table: Table, column: str, first_row_id: int, data: bytes, count: int) -> None:
    """Commit a file of BLOB values of rows that are in the table."""
    name = table.paths.new_data_file("blob")
    table.file_io.write(f"{table.paths.bucket_dir(EMPTY_ROW, 0)}/{name}", data)
    file = replace(
        next(f for f in files(table) if is_blob_file(f)),
        file_name=name,
        file_size=len(data),
        row_count=count,
        first_row_id=first_row_id,
        write_cols=(column,),
        min_sequence_number=0,
        max_sequence_number=0,
    )
    FileStoreCommit(table).commit([CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=-1, new_files=(file,))])


def test_values_are_in_files_of_their_own() -> None:
    table = blob_table()
    given = [(1, b"\x00\x01", "x", b""), (2, None, "y", b"s"), (3, b"", "x", None)]
    put(table, *given)
    data, *blobs = files(table)
    assert data.write_cols == ("k", "p")
    assert [(f.write_cols, f.first_row_id, f.row_count) for f in blobs] == [(("image",), 0, 3), (("sound",), 0, 3)]
    assert {f.min_sequence_number for f in files(table)} == {1}
    put(table, (4, b"4", "y", b"44"))
    assert rows(table) == [*given, (4, b"4", "y", b"44")]
    assert rows(table, predicate=Comparison(">", "k", 2)) == [given[2], (4, b"4", "y", b"44")]
    assert read_arrow(table, columns=["image"]).column(0).to_pylist() == [b"\x00\x01", None, b"", b"4"]
    assert plan_select(table).row_count == 4
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.next_row_id == 4
    assert violations(table) == []
    assert leaked(table) == set()


@pytest.mark.parametrize("grouped", ["true", "false"])
def test_many_files_of_one_commit(grouped: str) -> None:
    table = blob_table(
        ("p",),
        blob__target_file_size="1 kb",
        target_file_row_num="7",
        row_tracking__partition_group_on_commit=grouped,
    )
    given = [(k, bytes([k]) * (k * 37 % 400), "ab"[k % 2], None if k % 5 else b"s" * k) for k in range(50)]
    put(table, *given)
    assert sorted(rows(table)) == given
    assert sum(map(is_blob_file, files(table))) > 20
    assert violations(table) == []


def test_newer_files_leave_rows_to_older_ones() -> None:
    table = blob_table()
    put(table, *((k, bytes([k]), "x", None) for k in range(6)))
    data, lengths = framed(pa.array([b"new", None]))
    rewrite(table, "image", 2, data + index_of([np.array([ELSEWHERE, lengths[0], NULL, ELSEWHERE])]), 4)
    image = read_arrow(table, columns=["image"]).column(0).to_pylist()
    assert image == [b"\x00", b"\x01", b"\x02", b"new", None, b"\x05"]


def test_values_are_referred_to() -> None:
    table = blob_table()
    put(table, (1, b"abc", "x", None), (2, b"defg", "y", None))
    refer = table.with_options({"blob-as-descriptor": "true"})
    for row, want in zip(read_arrow(refer, columns=["image", "sound"]).to_pylist(), [b"abc", b"defg"], strict=True):
        head, size = row["image"][:13], int.from_bytes(row["image"][9:13], "little")
        assert head[:9] == b"\x02CSEDBOLB"
        path, place = row["image"][13 : 13 + size].decode(), row["image"][13 + size :]
        offset, length = int.from_bytes(place[:8], "little"), int.from_bytes(place[8:], "little")
        assert table.file_io.read_range(path, offset, length) == want
        assert row["sound"] is None


def test_large_values_are_read_in_chunks() -> None:
    table = blob_table()
    given = [(k, bytes([k]) * (5 << 20), "x", None) for k in range(8)]
    put(table, *given)
    got = read_arrow(table, columns=["image"]).column(0)
    assert got.num_chunks > 2
    assert [zlib.crc32(v) for v in got.to_pylist()] == [zlib.crc32(v) for _, v, _, _ in given]


@pytest.mark.parametrize("numbers", [[], [0], [-1], [-2, 16, 2**40, -1, 0, 77], [2**62, -(2**62), 5]])
def test_lengths_come_back(numbers: list[int]) -> None:
    lengths = np.array(numbers, np.int64)
    assert decode_lengths(encode_lengths(lengths)).tolist() == numbers


def test_damage_is_told() -> None:
    table = blob_table()
    put(table, (1, b"abc", "x", None))
    path = next(f"{table.paths.bucket_dir(EMPTY_ROW, 0)}/{f.file_name}" for f in files(table) if is_blob_file(f))
    whole = table.file_io.read(path)
    for damaged in (whole[:-1], whole[:-1] + b"\x07", b"XXXX" + whole[4:], whole[:-5] + b"\xff" * 4 + whole[-1:]):
        table.file_io.delete(path)
        table.file_io.write(path, damaged)
        with pytest.raises(CorruptTableError, match="blob"):
            rows(table)
    table.file_io.delete(path)
    with pytest.raises(CorruptTableError, match="blob"):
        rows(table)
    assert read_arrow(table, columns=["k"]).num_rows == 1


def test_the_option_declares_the_type() -> None:
    fields = [DataField(0, "k", atomic(TypeRoot.INT)), DataField(1, "b", BYTES)]
    schema = new_schema(fields, options=EVOLVING | {"blob-field": "b"})
    assert schema.field("b").type == atomic(TypeRoot.BLOB)
    with pytest.raises(OptionError, match="'b' of type BLOB needs 'data-evolution"):
        new_schema(fields, options={"blob-field": "b"})
    with pytest.raises(UsageError, match="'k' of type INT"):
        new_schema(fields, options=EVOLVING | {"blob-field": "k"})
    with pytest.raises(UsageError, match="other columns too"):
        new_schema(fields[1:], options=EVOLVING | {"blob-field": "b"})
    with pytest.raises(UnsupportedError, match="blob-descriptor-field"):
        new_schema(fields, options=EVOLVING | {"blob-descriptor-field": "b"})
