"""What a Python worker does between two tasks."""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.spark.executor.worker_reuse import _skip_archive_checks, prepare_reuse


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "shipped.zip"
    _fill(path, "upkeep_one")
    monkeypatch.syspath_prepend(str(path))
    importlib.import_module("upkeep_one")
    finders = dict(sys.path_importer_cache)
    yield path
    gc.unfreeze()
    _skip_archive_checks.cache_clear()
    sys.path_importer_cache.clear()
    sys.path_importer_cache.update(finders)
    for name in ("upkeep_one", "upkeep_two"):
        sys.modules.pop(name, None)


def _fill(path: Path, *modules: str) -> None:
    with zipfile.ZipFile(path, "w") as out:
        for name in modules:
            out.writestr(f"{name}.py", f"NAME = '{name}'\n")


def test_an_archive_that_stays_the_same_is_not_read_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_reuse()
    read: list[str] = []
    real: Any = zipimport._read_directory  # type: ignore[attr-defined]

    def noted(path: str) -> Any:
        read.append(path)
        return real(path)

    monkeypatch.setattr(zipimport, "_read_directory", noted)
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("upkeep_two")
    assert str(archive) not in read


def test_what_is_added_to_an_archive_is_found(archive: Path) -> None:
    prepare_reuse()
    _fill(archive, "upkeep_one", "upkeep_two")
    importlib.invalidate_caches()
    assert importlib.import_module("upkeep_two").NAME == "upkeep_two"


def test_an_archive_that_is_gone_has_no_modules(archive: Path) -> None:
    prepare_reuse()
    archive.unlink()
    importlib.invalidate_caches()
    prepare_reuse()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("upkeep_two")


def test_an_archive_that_was_gone_before_is_no_obstacle(archive: Path) -> None:
    archive.unlink()
    importlib.invalidate_caches()
    prepare_reuse()
    assert type(sys.path_importer_cache[str(archive)]) is zipimport.zipimporter


def test_archives_that_come_later_are_eased_too(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_reuse()
    later = tmp_path / "later.zip"
    _fill(later, "upkeep_two")
    monkeypatch.syspath_prepend(str(later))
    importlib.import_module("upkeep_two")
    assert type(sys.path_importer_cache[str(later)]) is zipimport.zipimporter
    prepare_reuse()
    assert type(sys.path_importer_cache[str(later)]) is type(sys.path_importer_cache[str(archive)])


def test_only_objects_of_imported_modules_are_frozen_for_gc(archive: Path) -> None:
    prepare_reuse()
    frozen = gc.get_freeze_count()
    assert frozen
    kept = [[n] for n in range(1000)]
    prepare_reuse()
    assert gc.get_freeze_count() <= frozen
    assert len(kept) == 1000


def test_a_worker_that_writes_does_not_load_pandas() -> None:
    program = "import sys, paimon_spark.spark.executor.worker; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
