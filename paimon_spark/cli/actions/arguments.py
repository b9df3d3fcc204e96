"""The arguments of an action: parsed, checked against its table, and turned into those of its procedure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from paimon_spark.cli.actions.table import MERGE_ACTIONS, Action, Option, Target
from paimon_spark.errors import UnsupportedError, UsageError, did_you_mean
from paimon_spark.spec.quoted_text import quoted_name, string_literal

DEFAULT_CATALOG = "paimon"
DEFAULT_WAREHOUSE = "paimon-warehouse"
FORMATS = ("table", "json", "csv", "tsv")
_SUFFIX = ".db"
_WORDS = {"true": True, "false": False}
_ALL = "*"
_PLAIN = re.compile(r"[\w$]+")
_LEAST_TO_QUOTE = frozenset(",;='\"\\ ")

FRAME: tuple[Option, ...] = (
    Option("warehouse", doc=f"The directory or URI of the warehouse; ./{DEFAULT_WAREHOUSE} by default."),
    Option("database", doc="The database."),
    Option("table", doc="The table, `t` or `t$branch_b`; `*` means all, for verify, maintain and remove_orphan_files."),
    Option("path", doc="<warehouse>/<database>.db/<table>, in place of the three above."),
    Option("catalog", doc=f"The name of the catalog; {DEFAULT_CATALOG} by default."),
    Option("catalog_conf", join=",", doc="KEY=VALUE: an option of the catalog, such as s3.endpoint; repeatable."),
    Option("table_conf", join=",", doc="KEY=VALUE: a table option for this run; repeatable."),
    Option("spark_conf", join=",", doc="KEY=VALUE: a setting of Spark; repeatable. The action runs on Spark."),
    Option("master", doc="The master of Spark, as in local[4] or yarn. The action runs on Spark."),
    Option("threads", doc="Without Spark: number of concurrent tasks; 1 by default."),
    Option("dry_run", flag=True, doc="Print the plan, and change nothing."),
    Option("yes", flag=True, doc="Skip the confirmation, which is required on a terminal only."),
    Option("format", doc=f"Output format: {', '.join(FORMATS)}; {FORMATS[0]} by default."),
    Option("nothing_to_do_exits_3", flag=True, doc="Exit with status 3, not 0, if there was nothing to do."),
    Option("force_start_flink_job", flag=True, doc="Accepted for scripts written for Paimon, without effect."),
    Option("help", flag=True, doc="Print this help."),
)
"""The options of every action."""

_NAMES = ("database", "table")
_PLACES = ("warehouse", *_NAMES)


@dataclass(frozen=True, slots=True)
class Given:
    """The parsed command line: the values of each option by its name, in order."""

    action: Action
    values: Mapping[str, tuple[str, ...]]

    def text(self, name: str) -> str | None:
        """Return the value of an option that may be given once; None if it is not given."""
        return self.values[name][0] if name in self.values else None

    def frame(self, name: str) -> str | None:
        """Return the value of an option of every action; None if the action has its own option of that name."""
        return None if self.action.option(name) else self.text(name)

    def flag(self, name: str) -> bool:
        """Return whether a flag is on.

        Raises:
            UsageError: the value is neither true nor false.
        """
        value = self.text(name)
        if value is None:
            return False
        if value.strip().lower() not in _WORDS:
            raise self.wrong(f"--{name} is '{value}'.", "Write true or false, or the option alone.")
        return _WORDS[value.strip().lower()]

    def pairs(self, name: str) -> dict[str, str]:
        """Return the KEY=VALUE pairs of an option.

        Raises:
            UsageError: a value is no such pair.
        """
        pairs = {}
        for value in self.values.get(name, ()):
            key, equals, rest = value.partition("=")
            if not key.strip() or not equals:
                raise self.wrong(f"--{name} takes KEY=VALUE, not '{key}'.", f"Example: --{name} key=value.")
            pairs[key.strip()] = rest
        return pairs

    def wrong(self, what: str, hint: str) -> UsageError:
        """Return an error about the command line."""
        return UsageError(what, hint=f"{hint} See paimon-spark {self.action.name} --help.".strip())


@dataclass(frozen=True, slots=True)
class Request:
    """An action that is ready to run.

    Attributes:
        given: the command line.
        warehouse: the warehouse.
        table: database and table; None if the action has no single table.
        arguments: the procedure's arguments by parameter name.
        table_conf: table options for this run.
        catalog_conf: catalog options besides the warehouse.
    """

    given: Given
    warehouse: str
    table: tuple[str, str] | None
    arguments: Mapping[str, str | bool]
    table_conf: Mapping[str, str] = field(default_factory=dict)
    catalog_conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def action(self) -> Action:
        """Return the action."""
        return self.given.action

    @property
    def catalog(self) -> str:
        """Return the name of the catalog."""
        return self.given.frame("catalog") or DEFAULT_CATALOG

    @property
    def dry_run(self) -> bool:
        """Return whether only the plan is requested."""
        return self.given.flag("dry_run")

    @property
    def plans(self) -> bool:
        """Return whether the procedure returns a plan: a procedure with its own `dry_run` returns its usual columns."""
        return self.dry_run and self.action.option("dry_run") is None

    @property
    def fails_on_rows(self) -> bool:
        """Return whether a result with rows is a failure."""
        return any(o.fails_on_rows and self.given.flag(o.name) for o in self.action.options)

    @property
    def streams(self) -> bool:
        """Return whether the action runs until it is stopped."""
        return self.given.flag("streaming") and not self.dry_run

    @property
    def on_spark(self) -> bool:
        """Return whether the action runs on Spark."""
        values = self.given.values
        wanted = any((self.given.text(name) or "none").lower() != "none" for name in self.action.spark_options)
        return self.action.on_spark or wanted or "master" in values or "spark_conf" in values

    @property
    def form(self) -> str:
        """Return the form of the output."""
        return (self.given.frame("format") or FORMATS[0]).lower()


def spelled(name: str) -> str:
    """Return a name in the spelling of the tables of actions: lower case, with underscores."""
    return name.lower().replace("-", "_")


def options_of(action: Action) -> Iterator[Option]:
    """Yield the options of an action, its specific ones first."""
    own = {o.name for o in action.options}
    return chain(action.options, (o for o in FRAME if o.name not in own))


def parse(action: Action, words: Sequence[str]) -> Given:
    """Split the words after the name of an action into options.

    Raises:
        UsageError: a word is not an option, or an option lacks its value or is given twice.
    """
    known = {o.name: o for o in options_of(action)}
    values: dict[str, tuple[str, ...]] = {}
    left = list(words)
    given = Given(action, values)
    while left:
        word = left.pop(0)
        if word == "-h":
            word = "--help"
        if not word.startswith("--") or word == "--":
            raise given.wrong(f"'{word}' is not an option.", "Options begin with --.")
        name, equals, value = word[2:].partition("=")
        option = known.get(spelled(name))
        if option is None:
            hint = did_you_mean(spelled(name), known)
            raise given.wrong(f"The action {action.name} has no option --{name}.", hint.replace("'", "'--", 1))
        if not equals:
            value = _value(given, option, left)
        if option.name in values and not option.join:
            raise given.wrong(f"--{option.name} is given twice.", "Give it once.")
        values[option.name] = (*values.get(option.name, ()), value)
    return given


def _value(given: Given, option: Option, left: list[str]) -> str:
    """Take the value of an option from the remaining words."""
    if option.flag:
        return left.pop(0) if left and left[0].strip().lower() in _WORDS else "true"
    if not left or left[0].startswith("--"):
        raise given.wrong(f"--{option.name} lacks its value.", f"Write --{option.name} VALUE, or append =VALUE.")
    return left.pop(0)


def request_of(given: Given) -> Request:
    """Check the options, and return the action to run.

    Raises:
        UsageError: an option is missing, or does not fit the others.
        UnsupportedError: an option is one of Paimon's that is not supported.
    """
    action = given.action
    _check(given)
    catalog_conf = given.pairs("catalog_conf")
    warehouse, database, table = _place(given)
    arguments: dict[str, str | bool] = dict(_own_arguments(given))
    arguments |= _target(given, database, table, arguments)
    if given.flag("dry_run"):
        if not action.has_dry_run:
            raise given.wrong(f"The action {action.name} has no dry run.", "Leave --dry_run out.")
        arguments["dry_run"] = True
    chosen = catalog_conf.pop("warehouse", None) or warehouse or DEFAULT_WAREHOUSE
    of_table = {o.table_option: v for o in action.options if o.table_option and (v := given.text(o.name)) is not None}
    both = (database, table) if database is not None and table is not None else None
    return Request(given, chosen, both, arguments, {**given.pairs("table_conf"), **of_table}, catalog_conf)


def _check(given: Given) -> None:
    """Check which options are given, and the values of those that every action has."""
    missing = [f"--{o.name}" for o in given.action.options if o.required and not (given.text(o.name) or "").strip()]
    if missing:
        raise given.wrong(f"The action {given.action.name} misses {', '.join(missing)}.", "")
    for option in given.action.options:
        if option.refused and option.name in given.values:
            raise UnsupportedError(
                f"The option --{option.name} of {given.action.name} is not supported: {option.refused}.",
                hint="Leave it out.",
            )
    form = (given.frame("format") or FORMATS[0]).lower()
    if form not in FORMATS:
        raise given.wrong(f"--format is '{form}'; the choices are {', '.join(FORMATS)}.", did_you_mean(form, FORMATS))
    threads = given.frame("threads")
    if threads is not None and not (threads.isascii() and threads.isdigit() and int(threads) > 0):
        raise given.wrong(f"--threads is '{threads}'.", "Give 1 or more.")
    if threads is not None and ("master" in given.values or "spark_conf" in given.values):
        raise given.wrong("--threads is given for an action on Spark.", "Write --master local[4] instead.")
    given.pairs("spark_conf")
    for option in (*given.action.options, *FRAME):
        if option.flag:
            given.flag(option.name)


def _place(given: Given) -> tuple[str | None, str | None, str | None]:
    """Return warehouse, database and table."""
    path = given.frame("path")
    if path is None:
        warehouse, database, table = (given.frame(name) for name in _PLACES)
        return warehouse, database, table
    both = [f"--{name}" for name in _PLACES if name in given.values]
    if "warehouse" in given.pairs("catalog_conf"):
        both.append("--catalog_conf warehouse=…")
    if both:
        raise given.wrong(f"--path is given together with {', '.join(both)}.", "Leave one of them out.")
    rest, slash, table = path.rstrip("/").rpartition("/")
    above, _, database = rest.rpartition("/")
    if not slash or not table or not database.endswith(_SUFFIX) or database == _SUFFIX:
        raise given.wrong(f"--path is '{path}', not the path of a table.", "Write <warehouse>/<db>.db/<table>.")
    if not above:
        above = "/" if rest.startswith("/") else "."
    return above, database.removesuffix(_SUFFIX), table


def _target(
    given: Given, database: str | None, table: str | None, arguments: Mapping[str, str | bool]
) -> dict[str, str | bool]:
    """Return the arguments that name the table."""
    action = given.action
    if action.table in arguments:
        if database is not None or table is not None:
            raise given.wrong("--identifier is given together with a table.", "Leave one of them out.")
        return {}
    names = {"database": database, "table": table}
    if action.target is Target.NAMES:
        return {name: value for name, value in names.items() if value is not None}
    needed = {Target.TABLE: _NAMES, Target.NONE: (), Target.OPTIONAL: ()}.get(action.target, _NAMES[:1])
    missing = [f"--{name}" for name in needed if not (names[name] or "").strip()]
    if missing:
        raise given.wrong(f"The action {action.name} misses {', '.join(missing)}.", _both_names(table))
    if action.target in (Target.NONE, Target.DATABASE_NAME):
        unused = {Target.NONE: _NAMES}.get(action.target, _NAMES[1:])
        given_too = [f"--{name}" for name in unused if names[name] is not None]
        if given_too:
            raise given.wrong(f"The action {action.name} does not take {', '.join(given_too)}.", "Leave it out.")
        return {} if database is None else {"database": database}
    if database is None:
        if table is not None:
            raise given.wrong("--table is given without --database.", _both_names(table))
        return {}
    last = _ALL if table in (None, _ALL) else _argument_name(str(table))
    return {action.table: f"{_argument_name(database)}.{last}"} if action.procedure else {}


def _both_names(table: str | None) -> str:
    """Return how to name a database and a table."""
    database, dot, name = (table or "").partition(".")
    if database and dot and name:
        return f"Write --database {shlex.quote(database)} --table {shlex.quote(name)}."
    return "--path names all in one."


def _argument_name(name: str) -> str:
    """Return a part of a name in an argument, in backquotes only if it needs them."""
    return name if _PLAIN.fullmatch(name) else quoted_name(name)


def _own_arguments(given: Given) -> Iterator[tuple[str, str | bool]]:
    """Yield the procedure's arguments that the action's own options set."""
    action = given.action
    if "merge_actions" in given.values:
        given = Given(action, _merge_values(given))
    conf = _target_conf(given)
    if conf:
        yield "target_catalog_conf", conf
    for option in action.options:
        values = given.values.get(option.name)
        unset = option.table_option or option.fails_on_rows or option.sets in ("target_catalog_conf", "merge_actions")
        if values is None or unset:
            continue
        if option.flag:
            yield option.sets, given.flag(option.name)
        elif action.procedure:
            yield option.sets, option.join.join(values)


def _target_conf(given: Given) -> str:
    """Return the options of the catalog of copies, as text."""
    pairs = given.pairs("target_catalog_conf")
    warehouse = given.action.option("target_warehouse")
    if warehouse is not None and warehouse.sets == "target_catalog_conf" and (w := given.text(warehouse.name)):
        pairs = {"warehouse": w, **pairs}
    return ",".join(f"{key}={_quoted_value(value)}" for key, value in pairs.items())


def _quoted_value(value: str) -> str:
    """Return a value, quoted if a list of pairs would otherwise end it."""
    return string_literal(value) if _LEAST_TO_QUOTE & set(value) else value


def _merge_values(given: Given) -> dict[str, tuple[str, ...]]:
    """Return the options of `merge_into` as the procedure takes them: an action is enabled by its condition or values.

    Raises:
        UsageError: the list of actions is wrong, or does not fit the other options.
    """
    names = [name.strip().lower().replace("_", "-") for name in str(given.text("merge_actions")).split(",")]
    for name in names:
        if name not in MERGE_ACTIONS:
            hint = f"{did_you_mean(name, MERGE_ACTIONS)} The choices are {', '.join(MERGE_ACTIONS)}.".strip()
            raise given.wrong(f"--merge_actions names '{name}'.", hint)
        if names.count(name) > 1:
            raise given.wrong(f"--merge_actions names {name} twice.", "Name it once.")
    values = dict(given.values)
    for name, (condition, setting) in MERGE_ACTIONS.items():
        unused = [f"--{o}" for o in (condition, setting) if o and o in values and name not in names]
        if unused:
            raise given.wrong(f"{', '.join(unused)} is given without {name} in --merge_actions.", "Name it there.")
        if name in names and setting and not (given.text(setting) or "").strip():
            raise given.wrong(f"The merge action {name} misses --{setting}.", "")
    for side in ("matched", "not-matched-by-source"):
        pair = (f"{side}-upsert", f"{side}-delete")
        lacking = [f"--{MERGE_ACTIONS[name][0]}" for name in pair if not given.text(MERGE_ACTIONS[name][0])]
        if all(name in names for name in pair) and lacking:
            raise given.wrong(f"{' and '.join(pair)} need a condition each.", f"Give {' and '.join(lacking)}.")
    for name in names:
        condition, setting = MERGE_ACTIONS[name]
        if not setting and not (given.text(condition) or "").strip():
            values[condition] = ("TRUE",)
    return values
