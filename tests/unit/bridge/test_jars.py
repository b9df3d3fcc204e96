"""Which bridge jar a package accepts."""

from __future__ import annotations

import pytest

from paimon_spark.bridge.jars import check_running, source_hash
from paimon_spark.errors import EngineError
from paimon_spark.version import __version__


def test_the_sources_of_a_bridge_decide_and_not_its_version() -> None:
    check_running(f"0.0.9\n{source_hash()}\n/jars/bridge.jar")
    with pytest.raises(EngineError, match="does not belong to the installed paimon-spark"):
        check_running(f"{__version__}\n{source_hash()[::-1]}\n/jars/bridge.jar")


@pytest.mark.parametrize("stated", ["0.0.9\nabcdef0123456789\n/jars/bridge.jar", "unknown\nunknown\n/jars/bridge.jar"])
def test_a_bridge_of_other_sources_is_named_beside_the_package(stated: str) -> None:
    with pytest.raises(EngineError) as error:
        check_running(stated)
    version, sources, place = stated.split("\n")
    for part in (version, sources[:12], place, __version__, source_hash()[:12], "`paimon-spark env`"):
        assert part in str(error.value)


def test_a_bridge_that_says_nothing_is_rejected() -> None:
    with pytest.raises(EngineError, match="does not belong to the installed paimon-spark"):
        check_running(None)
