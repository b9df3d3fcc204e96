"""The meaning of the keys of Flink's SQL client."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.errors import OptionError, did_you_mean
from paimon_spark.spec.option_catalogue import find_option
from paimon_spark.spec.units import parse_duration_ms

RUNTIME_MODE = "execution.runtime-mode"
CHECKPOINT_INTERVAL = "execution.checkpointing.interval"
CHECKPOINT_DIRECTORY = "execution.checkpointing.dir"
JOB_NAME = "pipeline.name"
RESULT_MODE = "sql-client.execution.result-mode"
_MODES = ("batch", "streaming", "automatic")
_RESULTS = ("table", "tableau", "changelog")
_MEANINGS = {
    "parallelism.default": "spark.sql.shuffle.partitions sets the parallelism of Spark's tasks",
    "table.exec.resource.default-parallelism": "spark.sql.shuffle.partitions sets the parallelism of Spark's tasks",
    "table.local-time-zone": "spark.sql.session.timeZone sets the time zone",
    "state.savepoints.dir": "a stream is restarted from its checkpoint, and a table rolled back to a tag",
    "table.dml-sync": "a streaming INSERT returns at once, any other one when it is committed",
}
"""Keys without an effect here, and what is used instead."""
PREFIX = "flink."
"""Keys that are stored in the session's settings."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key to set in the session, and warnings for the user."""

    key: str
    warning: str | None = None


def setting(key: str, value: str) -> Setting:
    """Return the effect of ``SET 'key' = 'value'``.

    Keys of Paimon's options become session options; supported keys of Flink keep their names.

    Raises:
        OptionError: the value is invalid.
    """
    if key == RUNTIME_MODE:
        _one_of(key, value, _MODES)
    elif key == RESULT_MODE:
        _one_of(key, value, _RESULTS)
    elif key == CHECKPOINT_INTERVAL:
        parse_duration_ms(value)
    elif key not in (CHECKPOINT_DIRECTORY, JOB_NAME):
        if find_option(key) is not None:
            return Setting(f"spark.paimon.{key}")
        instead = _MEANINGS.get(key)
        return Setting(key, f"The key '{key}' has no effect on Spark" + (f": {instead}." if instead else "."))
    return Setting(key)


def _one_of(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value.lower() not in choices:
        raise OptionError(
            f"The key '{key}' cannot be '{value}'.", hint=did_you_mean(value, choices) or f"Use {', '.join(choices)}."
        )
