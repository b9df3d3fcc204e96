"""Catalogue of Paimon's options: type, default, meaning. The data is in ``options.json``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from importlib.resources import files
from typing import Any

from paimon_spark.errors import OptionError
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.units import parse_duration_ms, parse_memory

_CORE_GROUPS = ("core", "core-undocumented")
_OPEN_PREFIXES = ("blob-descriptor",)
"""Prefixes of the keys of file systems and plug-ins; any name may follow."""
_FIELDS = "fields."
_NEAR = 0.88
_SWAPPED = 0.8
"""Similarity of a key that is an anagram of an option."""
INFINITE = "infinite"
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_DIRECTORY = "data-file.path-directory"
_PLACES = frozenset({_DIRECTORY, "data-file.prefix", "changelog-file.prefix"})
"""Options that become part of a path."""
SPARK_PROPERTIES = frozenset({"comment", "provider", "location", "owner", "external", "is_managed_location"})
"""Table properties of Spark, never treated as misspelled options."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is None if it has no default; `values` are the allowed values of an enumeration."""

    name: str
    type: str
    group: str
    default: str | None = None
    immutable: bool = False
    values: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    doc: str = ""


@lru_cache(maxsize=1)
def known_options() -> dict[str, Option]:
    """Return all options by name, in the order of the catalogue."""
    raw = json.loads(files("paimon_spark.spec").joinpath("options.json").read_text(encoding="utf-8"))
    return {entry["name"]: _option(entry) for entry in raw}


def _option(entry: dict[str, Any]) -> Option:
    lists: dict[str, Any] = {k: tuple(entry[k]) for k in ("values", "aliases") if k in entry}
    return Option(**(entry | lists))


@lru_cache(maxsize=1)
def _by_key() -> dict[str, Option]:
    """Return the options by name and by alias."""
    aliases = {alias: option for option in known_options().values() for alias in option.aliases}
    return aliases | known_options()


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[re.Pattern[str], Option], ...]:
    """Return the options with a placeholder for a column or a type in their name."""
    found = []
    for option in known_options().values():
        if "<" in option.name or "#" in option.name:
            pieces = re.split(r"<[^>]*>|#", option.name)
            found.append((re.compile(".+".join(map(re.escape, pieces))), option))
    return tuple(found)


@lru_cache(maxsize=1)
def closed_prefixes() -> frozenset[str]:
    """Return the first segments of dotted keys under which an unknown key must be a mistake."""
    names = (o.name for o in known_options().values() if o.group in _CORE_GROUPS)
    first = {name.split(".")[0] for name in names if "." in name}
    return frozenset(first - set(_OPEN_PREFIXES) - _format_names())


def _format_names() -> set[str]:
    return {"parquet", "orc", "avro", "csv", "json", "text", "lance", "mosaic", "vortex"}


def find_option(key: str) -> Option | None:
    """Return the option of `key`, by name, alias or pattern; None if there is none."""
    option = _by_key().get(key)
    if option is not None:
        return option
    return next((o for pattern, o in _patterns() if pattern.fullmatch(key)), None)


def field_of(key: str) -> tuple[str, ...]:
    """Return the columns that a ``fields.<columns>.<what>`` key names; empty for other keys."""
    option = find_option(key)
    if option is None or not option.name.startswith("fields.<"):
        return ()
    suffix = option.name[option.name.index(">") + 1 :]
    return tuple(c.strip() for c in key[len(_FIELDS) : len(key) - len(suffix)].split(","))


def check_key(key: str) -> Option | None:
    """Return the option of `key`, or None for a property that is not Paimon's.

    Raises:
        OptionError: the key resembles one of Paimon's, but there is no such option.
    """
    option = find_option(key)
    if option is not None or key in SPARK_PROPERTIES:
        return option
    near = near_miss(key, _by_key()) or _near_pattern(key)
    if near or key.split(".")[0] in closed_prefixes() | {"fields"}:
        hint = f"Did you mean '{near}'?" if near else _choices_below(key)
        raise OptionError(f"There is no table option '{key}'.", hint=hint)
    return None


def near_miss(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that `key` probably misspells; None if there is none."""
    choices = {name.lower().replace("_", "-"): name for name in known if "<" not in name}
    word = key.strip().lower().replace("_", "-")
    found = get_close_matches(word, choices, n=1, cutoff=_SWAPPED)
    near = bool(found) and SequenceMatcher(None, word, found[0]).ratio() >= _NEAR
    return choices[found[0]] if near or (found and sorted(word) == sorted(found[0])) else None


def _near_pattern(key: str) -> str | None:
    """Return the ``fields.<columns>.<what>`` key that `key` probably misspells in its last part.

    Names of columns and the last part may contain dots; the split with the most similar last part counts.
    """
    if not key.startswith(_FIELDS):
        return None
    parts = key.removeprefix(_FIELDS).split(".")
    suffixes = [o.name.partition(">.")[2] for o in known_options().values() if o.name.startswith(f"{_FIELDS}<")]
    found = []
    for at in range(1, len(parts)):
        columns, word = ".".join(parts[:at]), ".".join(parts[at:])
        near = near_miss(word, suffixes)
        if columns and near:
            found.append((SequenceMatcher(None, word, near).ratio(), f"{_FIELDS}{columns}.{near}"))
    return max(found)[1] if found else None


def _choices_below(key: str) -> str:
    prefix = key.split(".")[0] + "."
    names = [n for n in known_options() if n.startswith(prefix)]
    near = get_close_matches(key, names, n=3, cutoff=0.5) or names[:6]
    return f"Options that begin with '{prefix}' include {', '.join(near)}."


def check_value(key: str, value: str, option: Option) -> None:
    """Reject a value that the option's type does not allow.

    Raises:
        OptionError: the value is invalid; the message names the allowed values.
    """
    text = value.strip()
    if (
        text
        and option.name in _PLACES
        and not all(map(is_one_name, text.split("/") if option.name == _DIRECTORY else [text]))
    ):
        raise bad_value(key, value, "a path inside the table, without '..' and without a leading or trailing slash")
    if option.values:
        if text.lower() not in {v.lower() for v in option.values}:
            raise bad_value(key, value, f"one of {', '.join(option.values)}")
        return
    check = _CHECKS.get(option.type)
    if check is None:
        return
    try:
        check(text)
    except OptionError as e:
        raise OptionError(f"The option '{key}' cannot be {value!r}.", hint=e.hint) from None
    except ValueError as e:
        raise bad_value(key, value, str(e)) from None


def bad_value(key: str, value: str, wanted: str) -> OptionError:
    """Return the error for a value that an option cannot have."""
    return OptionError(f"The option '{key}' cannot be {value!r}.", hint=f"It must be {wanted}.")


def _check_boolean(text: str) -> None:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")


def _check_whole(bits: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text.lower() == INFINITE:
            return
        if not _WHOLE.fullmatch(text) or not -(1 << bits) <= int(text) < 1 << bits:
            raise ValueError("a whole number")

    return check


def _check_fraction(text: str) -> None:
    try:
        float(text)
    except ValueError:
        raise ValueError("a number") from None


def _check_map(text: str) -> None:
    if text and any(":" not in part for part in text.split(",")):
        raise ValueError("pairs such as 0:avro,3:parquet")


_CHECKS: dict[str, Callable[[str], object]] = {
    "Boolean": _check_boolean,
    "Integer": _check_whole(31),
    "Long": _check_whole(63),
    "Double": _check_fraction,
    "Float": _check_fraction,
    "Duration": parse_duration_ms,
    "MemorySize": parse_memory,
    "Map": _check_map,
}
