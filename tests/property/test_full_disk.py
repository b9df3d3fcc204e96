"""Statements on a full disk: committed, or failed with the right code and without a change to the table."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_MOUNT = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
_DISK = 'mount -t tmpfs -o size=2m,nr_inodes=100 tmpfs "$0"; exec "$@"'


def _on_small_disk(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that sees a small disk of its own at `place`."""
    return subprocess.run([*_MOUNT, _DISK, str(place), *command], capture_output=True, text=True, check=False)


def _no_mounts(place: Path) -> bool:
    return shutil.which("unshare") is None or _on_small_disk(place, "true").returncode != 0


@pytest.mark.parametrize("kind", ["keyed", pytest.param("append", marks=pytest.mark.slow)])
def test_a_full_disk_never_leaves_the_outcome_open(tmp_path: Path, kind: str) -> None:
    """Every number of free blocks, and of free inodes, from none to what the statement needs."""
    if _no_mounts(tmp_path):
        pytest.skip("this user may not mount a file system: run as root, or allow user namespaces (unshare --user)")
    done = _on_small_disk(tmp_path, sys.executable, "-m", "tests.property.full_disk", str(tmp_path), kind)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [f for f in found if f["failure"]]
    assert len(found) > 40
    assert len(failed) > 30
    assert [f for f in failed if f["failure"][0] != "STORE_FULL" or "No space left" not in f["failure"][1]] == []
    assert [f for f in failed if f["changed"] or f["stray"]] == []
