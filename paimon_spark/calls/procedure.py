"""Declaration of a procedure: its parameters, its result columns, and a body with the steps plan and execute."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.report import REPORT_COLUMNS, STATUS, Report
from paimon_spark.spec.privileges import Privilege

DRY_RUN = "dry_run"
NAMESPACE = "sys"
_MARK = "__paimon_procedure__"


class ParamType(StrEnum):
    """Type of a parameter, spelled as in SQL."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    BOOLEAN = "BOOLEAN"
    MAP = "MAP<STRING,STRING>"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. `aliases` are alternative names for named arguments; `default` describes the default in words.

    The last positional parameter may be `variadic`: by position, it takes all further arguments, joined with ``;``.
    Parameters that are `named_only` come last.
    """

    name: str
    type: ParamType
    doc: str
    required: bool = False
    default: str = ""
    aliases: tuple[str, ...] = ()
    variadic: bool = False
    named_only: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One result column; `type` is Spark's name of the type, in lower case."""

    name: str
    type: str
    doc: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class PositionalOverload:
    """A positional form other than "the first n parameters": the parameters that its values bind to, and its name.

    Among forms of the same length, the first whose parameter types match the literals is used.
    """

    params: tuple[str, ...]
    name: str = ""
    doc: str = ""


PayloadT = TypeVar("PayloadT")


class ProcedureBody(Protocol[PayloadT]):
    """The two steps of a procedure. `plan` reads only; `execute` carries out that plan and nothing else."""

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[PayloadT]:
        """Validate the arguments and return the plan."""

    def execute(self, ctx: CallContext, plan: Plan[PayloadT]) -> Report:
        """Execute the plan and return the report."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A declared procedure.

    Attributes:
        name: its name.
        summary: what it does, in one sentence.
        params: its parameters in positional order.
        columns: its own result columns.
        example: a CALL.
        body: its two steps.
        forms: positional forms other than "the first n parameters".
        doc: its description.
        reports: whether the report columns follow its own. `maintain` and `cancel` have none.
        read_only: whether it changes nothing. Such a procedure has neither `dry_run` nor report columns.
        status: the values of the report column `status`.
        requires: the privilege that it requires on each table that it loads, in a warehouse with privileges.
    """

    name: str
    summary: str
    params: tuple[Param, ...]
    columns: tuple[Column, ...]
    example: str
    body: ProcedureBody[Any]
    forms: tuple[PositionalOverload, ...] = ()
    doc: str = ""
    reports: bool = True
    read_only: bool = False
    status: str = STATUS
    requires: Privilege = Privilege.INSERT

    @property
    def has_own_dry_run(self) -> bool:
        """Return whether `dry_run` is a parameter of Paimon's procedure, whose result then has Paimon's columns."""
        return any(p.name == DRY_RUN for p in self.params)

    @property
    def named_params(self) -> tuple[Param, ...]:
        """Return every parameter that can be given by name, with `dry_run` unless the procedure is read-only."""
        return self.params if self.has_own_dry_run or self.read_only else (*self.params, DRY_RUN_PARAM)

    @property
    def positional_params(self) -> tuple[Param, ...]:
        """Return every parameter that can be given by position."""
        return tuple(p for p in self.params if not p.named_only)

    @property
    def signature(self) -> str:
        """Return the signature on one line; optional parameters are in brackets."""
        texts = [f"{p.name} {p.type}{'…' if p.variadic else ''}" for p in self.params]
        parts = [t if p.required else f"[{t}]" for p, t in zip(self.params, texts, strict=True)]
        return f"{NAMESPACE}.{self.name}({', '.join(parts)})"

    @property
    def result_columns(self) -> list[tuple[str, str, bool]]:
        """Return name, Spark type and nullability of the result columns of an execution."""
        own = [(c.name, c.type, c.nullable) for c in self.columns]
        return own + ([(name, kind, True) for name, kind, _ in REPORT_COLUMNS] if self.reports else [])

    @property
    def report_columns(self) -> list[tuple[str, str, str]]:
        """Return name, type and meaning of the report columns; none if it has none."""
        meanings = [(name, kind, self.status if name == "status" else doc) for name, kind, doc in REPORT_COLUMNS]
        return meanings if self.reports else []

    def param(self, name: str) -> Param:
        """Return the parameter with exactly this name."""
        return next(p for p in self.named_params if p.name == name)

    def find(self, name: str) -> Param | None:
        """Return the parameter with this name or alias, ignoring case; None if there is none."""
        wanted = name.lower()
        for p in self.named_params:
            if wanted == p.name.lower() or wanted in (a.lower() for a in p.aliases):
                return p
        return None


DRY_RUN_PARAM = Param(
    DRY_RUN,
    ParamType.BOOLEAN,
    "Return the plan (action, path, bytes, reason, kept_by) and change nothing. By name only.",
    default="false",
)

ClassT = TypeVar("ClassT", bound=type[ProcedureBody[Any]])


def procedure(
    *,
    name: str,
    summary: str,
    params: Iterable[Param],
    columns: Iterable[Column],
    example: str,
    forms: Iterable[PositionalOverload] = (),
    reports: bool = True,
    read_only: bool = False,
) -> Callable[[ClassT], ClassT]:
    """Declare the decorated class as the procedure `name`; its docstring is the procedure's description.

    Its attribute `status`, if there is one, describes the values of the report column `status`; `requires` is the
    privilege on its tables, by default INSERT, or SELECT if it is read-only.
    """

    def declare(cls: ClassT) -> ClassT:
        declaration = Procedure(
            name=name,
            summary=summary,
            params=tuple(params),
            columns=tuple(columns),
            example=example,
            body=cls(),
            forms=tuple(forms),
            doc=inspect.cleandoc(cls.__doc__ or ""),
            reports=reports and not read_only,
            read_only=read_only,
            status=getattr(cls, "status", STATUS),
            requires=getattr(cls, "requires", Privilege.SELECT if read_only else Privilege.INSERT),
        )
        setattr(cls, _MARK, declaration)
        return cls

    return declare


def declared_in(module: object) -> list[Procedure]:
    """Return the procedures declared in `module`, in order of declaration."""
    return [d for value in vars(module).values() if isinstance(d := vars_of(value).get(_MARK), Procedure)]


def vars_of(value: object) -> dict[str, Any]:
    """Return the attributes defined by a class itself; empty for other values."""
    return dict(vars(value)) if isinstance(value, type) else {}
