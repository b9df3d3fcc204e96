"""Completion of command lines, in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from paimon_spark.calls.refusals import REFUSED
from paimon_spark.cli.actions.arguments import FORMATS
from paimon_spark.cli.actions.names import COMMANDS
from paimon_spark.cli.actions.table import ACTIONS
from paimon_spark.cli.completion import script
from paimon_spark.cli.main import build_parser

ZSH = shutil.which("zsh")
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_paimon_spark
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
exit 0
"""
ASK_ZSH = """
compdef() { : }
compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@ }
_files() { print files $@ }
source "$1"; shift
words=("$@"); CURRENT=$#words
_paimon_spark
"""
"""The functions of zsh's completion that the script uses print what they are given."""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("completion") / "paimon-spark.bash"
    file.write_text(script("bash", build_parser()))
    return file


def completed(bash: Path, *words: str, cwd: Path | None = None) -> list[str]:
    command = ["bash", "--norc", "-c", ASK, "bash", str(bash), "paimon-spark", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_and_actions(bash: Path) -> None:
    names = completed(bash, "")
    assert {*COMMANDS, *ACTIONS, "purge_files"} - REFUSED.keys() <= set(names)
    assert not REFUSED.keys() & set(names)
    assert completed(bash, "comp") == [
        "compact",
        "compact_chain_table",
        "compact_database",
        "compact_manifest",
        "completion",
    ]
    assert completed(bash, "create-tag-from-w") == ["create_tag_from_watermark"]


def test_bash_completes_options_and_values(bash: Path, tmp_path: Path) -> None:
    assert completed(bash, "expire-snapshots", "--retain-m") == ["--retain_max", "--retain_min"]
    assert completed(bash, "rescale", "--scan") == [], "a refused option is not offered"
    assert completed(bash, "sql", "--wa") == ["--warehouse"]
    assert completed(bash, "compact", "--format", "") == list(FORMATS)
    assert completed(bash, "compact", "--compact-strategy", "m") == ["minor"]
    (tmp_path / "lake").mkdir()
    assert completed(bash, "compact", "--path", "la", cwd=tmp_path) == ["lake"]


def test_the_script_of_zsh_has_all_actions_and_options() -> None:
    text = script("zsh", build_parser())
    assert text.startswith("#compdef paimon-spark\n")
    for name, action in ACTIONS.items():
        assert name in REFUSED or f"        {name}) choices=(" in text
        assert name in REFUSED or all(f"--{o.name}" in text for o in action.options if not o.refused)


@pytest.mark.skipif(ZSH is None, reason="no zsh: install it to see it complete")
def test_zsh_completes_the_same(tmp_path: Path) -> None:
    file = tmp_path / "_paimon-spark"
    file.write_text(script("zsh", build_parser()))

    def offered(*words: str) -> list[str]:
        command = [str(ZSH), "-f", "-c", ASK_ZSH, "zsh", str(file), "paimon-spark", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert {*COMMANDS, "compact"} <= set(offered("co"))
    assert offered("expire-snapshots", "--r")[:2] == ["--retain_max", "--retain_min"]
    assert offered("compact", "--format", "") == list(FORMATS)
    assert offered("compact", "--path", "") == ["files", "-/"]


def test_every_command_is_known() -> None:
    subparsers = next(a for a in build_parser()._actions if a.choices)
    assert sorted(subparsers.choices or ()) == list(COMMANDS)
