"""Every place that has the pattern of hidden keys has the same one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paimon_spark.spec.secrets import HIDDEN_KEYS

ROOT = Path(__file__).resolve().parents[3]
SETTING = re.compile(r"^spark\.redaction\.regex +(\S+)$", re.MULTILINE)


@pytest.mark.parametrize("page", ["conf/catalog-s3.conf", "docs/s3.md"])
def test_spark_settings_hide_the_same_keys(page: str) -> None:
    assert SETTING.findall((ROOT / page).read_text(encoding="utf-8")) == [HIDDEN_KEYS]


def test_the_session_extension_hides_the_same_keys() -> None:
    source = (ROOT / "paimon_spark/bridge/scala/sql/Extensions.scala").read_text(encoding="utf-8")
    declared = re.search(r"val HiddenKeys = ((?:\s*\+?\s*\"[^\"]*\")+)", source)
    assert declared
    pattern = "".join(re.findall(r'"([^"]*)"', declared[1])).replace("\\\\", "\\")
    assert pattern == HIDDEN_KEYS.replace("(?i)", "(?i)url|")
