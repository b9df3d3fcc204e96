from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.errors import OutcomeUnknownError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.conformance import FileIOTests
from paimon_spark.testing.faults import FaultFileIO, InjectedFaultError, Mode, Never, Nth, Recorder, Seeded


class TestWithoutFaults(FileIOTests):
    """A wrapped store behaves as the store does."""

    kept: FaultFileIO

    def make(self, tmp_path: Path) -> tuple[FileIO, str]:
        self.kept = FaultFileIO(LocalFileIO())
        return self.kept, str(tmp_path)


def faulty(mode: Mode, n: int = 1) -> FaultFileIO:
    io = FaultFileIO(InMemoryFileIO())
    io.write("/d/old", b"0123456789")
    io.schedule = Nth(n, mode)
    return io


def test_an_error_before_has_no_effect_and_one_after_has() -> None:
    for mode, there in ((Mode.BEFORE, False), (Mode.AFTER, True)):
        io = faulty(mode)
        with pytest.raises(InjectedFaultError):
            io.write("/d/f", b"1")
        assert io.exists("/d/f") is there


@pytest.mark.parametrize("mode", [Mode.UNKNOWN_BEFORE, Mode.UNKNOWN_AFTER, Mode.LOST_ACK])
def test_the_outcome_of_an_exclusive_create_is_hidden(mode: Mode) -> None:
    io = faulty(mode)
    io.write("/d/other", b"1")
    if mode is Mode.LOST_ACK:
        assert not io.create_exclusive("/d/f", b"1")
    else:
        with pytest.raises(OutcomeUnknownError):
            io.create_exclusive("/d/f", b"1")
    assert io.exists("/d/f") is (mode is not Mode.UNKNOWN_BEFORE)


def test_a_lost_rename_has_happened() -> None:
    io = faulty(Mode.LOST_ACK)
    assert not io.rename("/d/old", "/d/new")
    assert io.read("/d/new") == b"0123456789"


def test_half_of_an_output_is_written(tmp_path: Path) -> None:
    io = FaultFileIO(LocalFileIO(), Nth(2, Mode.PARTIAL))
    out = io.open_output(f"{tmp_path}/f")
    with pytest.raises(OSError, match="injected"):
        out.write(b"0123456789")
    out.close()
    assert (tmp_path / "f").read_bytes() == b"01234"


def test_a_whole_file_is_never_visible_in_part() -> None:
    io = faulty(Mode.PARTIAL)
    with pytest.raises(InjectedFaultError):
        io.create_exclusive("/d/f", b"0123456789")
    assert not io.exists("/d/f")
    assert [io.read(s.path) for s in io.list("/d") if s.name.startswith(".f.")] == [b"01234"]


@pytest.mark.parametrize("mode", [Mode.CRASH_BEFORE, Mode.CRASH_AFTER, Mode.CRASH_PARTIAL])
def test_nothing_works_after_a_crash(mode: Mode) -> None:
    io = faulty(mode)
    with pytest.raises(InjectedFaultError):
        io.write("/d/f", b"12")
    for attempt in (lambda: io.delete("/d/old"), lambda: io.read("/d/old"), lambda: io.open_output("/d/x")):
        with pytest.raises(InjectedFaultError, match="dead"):
            attempt()
    assert io.inner.exists("/d/old")
    assert io.inner.exists("/d/f") is (mode is Mode.CRASH_AFTER)


def test_a_stale_listing_misses_new_and_shows_deleted_files() -> None:
    io = faulty(Mode.STALE)
    io.settle()
    io.write("/d/new", b"1")
    io.delete("/d/old")
    assert [(s.name, s.size) for s in io.list("/d")] == [("old", 10)]
    assert [s.name for s in io.list("/d")] == ["new"]
    io.schedule = Nth(1, Mode.STALE)
    assert [s.name for s in io.list_recursive("/d")] == ["old"]


def test_only_operations_that_a_mode_applies_to_are_counted() -> None:
    io = faulty(Mode.AFTER, n=2)
    io.read("/d/old")
    io.exists("/d/old")
    io.write("/d/a", b"")
    with pytest.raises(InjectedFaultError):
        io.delete("/d/a")
    assert isinstance(io.schedule, Nth)
    assert io.schedule.fired == "delete /d/a"
    recorder = io.schedule = Recorder()
    io.exists("/d/a")
    assert recorder.log == [("exists", "/d/a")]


def test_a_seed_draws_the_same_faults() -> None:
    def drawn(seed: int) -> list[Mode | None]:
        schedule = Seeded(seed, 0.3, [Mode.BEFORE, Mode.AFTER, Mode.STALE])
        return [schedule.choose("write", "/f") for _ in range(50)]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    assert set(drawn(7)) == {None, Mode.BEFORE, Mode.AFTER}


def test_effects_can_be_watched() -> None:
    seen: list[tuple[str, str]] = []
    io = FaultFileIO(InMemoryFileIO(), Never(), lambda operation, path: seen.append((operation, path)))
    io.write("/f", b"1")
    io.read("/f")
    io.delete("/f")
    assert seen == [("write", "/f"), ("delete", "/f")]
