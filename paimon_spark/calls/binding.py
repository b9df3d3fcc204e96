"""Binding of the arguments of a CALL to the parameters of its procedure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.procedure import DRY_RUN, NAMESPACE, Param, ParamType, PositionalOverload, Procedure
from paimon_spark.errors import ArgumentError, ErrorKind, did_you_mean
from paimon_spark.spec.quoted_text import string_literal
from paimon_spark.sqlparse.literals import Literal

_WIDER = {
    ParamType.INT: ("TINYINT", "SMALLINT", "INT"),
    ParamType.BIGINT: ("TINYINT", "SMALLINT", "INT", "BIGINT"),
}
_LIMIT = {ParamType.INT: 1 << 31, ParamType.BIGINT: 1 << 63}
_MOST_DIGITS = 40
_WORDS = {"true": True, "false": False}
_PLAN_HINT = f"To see the plan, write EXPLAIN CALL …, or give all arguments by name, with {DRY_RUN} => true."


def bind(procedure: Procedure, positional: Sequence[Literal], named: Sequence[tuple[str, Literal]]) -> Arguments:
    """Bind the arguments of one CALL.

    NULL and blank strings count as "not given". String literals are cast to the parameter's type, since many tools
    quote everything.

    Raises:
        ArgumentError: the arguments do not fit the procedure; the hint holds the signature.
    """
    if positional and named:
        wants_plan = any(name.lower() == DRY_RUN for name, _ in named) and _can_plan(procedure)
        hint = _PLAN_HINT if wants_plan else "Give all arguments by position, or all by name."
        raise _error(procedure, "mixes positional and named arguments", hint)
    if named:
        form, given = "", _by_name(procedure, named)
    else:
        form, given = _by_position(procedure, positional)
    present = {p.name: literal for p, literal in given if not literal.is_blank}
    _require(procedure, present, {p.name for p, _ in given})
    values = {name: _cast(procedure, procedure.param(name), literal) for name, literal in present.items()}
    own = procedure.has_own_dry_run
    dry_run = False if own else bool(values.pop(DRY_RUN, False))
    return Arguments(values, form, dry_run)


def _can_plan(procedure: Procedure) -> bool:
    """Return whether `dry_run` makes a CALL return its plan."""
    return not procedure.has_own_dry_run and not procedure.read_only


def literal_of(value: Any) -> Literal:
    """Return the literal for a plain Python value."""
    if value is None:
        return Literal("NULL", None, "NULL")
    if isinstance(value, bool):
        return Literal("BOOLEAN", value, str(value).upper())
    if isinstance(value, int):
        kind = "INT" if -(1 << 31) <= value < 1 << 31 else "BIGINT"
        return Literal(kind, value, str(value))
    if isinstance(value, Mapping):
        return Literal("MAP", dict(value), str(value))
    return Literal("STRING", str(value), string_literal(str(value)))


def _by_name(procedure: Procedure, named: Iterable[tuple[str, Literal]]) -> list[tuple[Param, Literal]]:
    out: dict[str, tuple[Param, Literal]] = {}
    spelled: dict[str, str] = {}
    for name, literal in named:
        param = procedure.find(name)
        if param is None:
            names = [n for p in procedure.named_params for n in (p.name, *p.aliases)]
            needless = name.lower() == DRY_RUN and procedure.read_only
            hint = "It changes nothing, so it has no dry run." if needless else did_you_mean(name, names)
            raise _error(procedure, f"names an unknown argument '{name}'", hint)
        if param.name in out:
            first = spelled[param.name]
            both = "" if first.lower() == name.lower() else f" (as '{first}' and as '{name}', which mean the same)"
            raise _error(procedure, f"names the argument '{param.name}' twice{both}", "Give it once.")
        out[param.name] = (param, literal)
        spelled[param.name] = name
    return list(out.values())


def _by_position(procedure: Procedure, literals: Sequence[Literal]) -> tuple[str, list[tuple[Param, Literal]]]:
    literals = _joined(procedure, literals)
    forms = [f for f in procedure.forms if len(f.params) == len(literals)]
    params = procedure.positional_params
    if not forms and len(literals) > len(params):
        raise _error(
            procedure,
            f"has {len(literals)} positional arguments, but takes at most {len(params)}",
            _PLAN_HINT if literals[-1].type == "BOOLEAN" and _can_plan(procedure) else "",
        )
    forms = forms or [PositionalOverload(tuple(p.name for p in params[: len(literals)]))]
    fitting = [f for f in forms if all(_fits(procedure.param(n), v) for n, v in zip(f.params, literals, strict=True))]
    form = (fitting or forms)[0]
    return form.name, [(procedure.param(n), v) for n, v in zip(form.params, literals, strict=True)]


def _joined(procedure: Procedure, literals: Sequence[Literal]) -> Sequence[Literal]:
    """Return the arguments with those of a variadic parameter as one text, joined with ``;``."""
    params = procedure.positional_params
    at = len(params) - 1
    if not params or not params[at].variadic or len(literals) <= at + 1:
        return literals
    for literal in literals[at:]:
        _cast(procedure, params[at], literal)
    given = [str(literal.value) for literal in literals[at:] if not literal.is_blank]
    return [*literals[:at], literal_of(";".join(given))]


def _fits(param: Param, literal: Literal) -> bool:
    """Return whether `literal` has the parameter's type; selects among positional forms."""
    if literal.is_blank:
        return True
    if param.type is ParamType.STRING:
        return literal.type == "STRING"
    if param.type is ParamType.BOOLEAN:
        return literal.type == "BOOLEAN" or (literal.type == "STRING" and literal.value.strip().lower() in _WORDS)
    if param.type is ParamType.MAP:
        return literal.type == "MAP"
    return literal.is_integer or (literal.type == "STRING" and _whole(literal.value) is not None)


def _require(procedure: Procedure, present: Mapping[str, Literal], given: set[str]) -> None:
    missing = [p.name for p in procedure.params if p.required and p.name not in present]
    if not missing:
        return
    empty = [name for name in missing if name in given]
    plural = "s" if len(missing) > 1 else ""
    note = f"An empty string or NULL counts as not given ({', '.join(empty)})." if empty else ""
    raise _error(procedure, f"lacks the required argument{plural} {', '.join(missing)}", note)


def _cast(procedure: Procedure, param: Param, literal: Literal) -> Any:
    value = _value(param.type, literal)
    if value is not None:
        return value
    place = f" (line {literal.line}, column {literal.column})" if literal.offset else ""
    raise _error(
        procedure,
        f"takes {param.type} for the argument '{param.name}', not the {literal.type} value {literal.text}{place}",
        f"Write {_EXAMPLES[param.type]}. '{param.name}': {param.doc}",
        ErrorKind.TYPE_MISMATCH,
    )


_EXAMPLES = {
    ParamType.STRING: "a quoted string",
    ParamType.INT: "a whole number such as 10",
    ParamType.BIGINT: "a whole number such as 10",
    ParamType.BOOLEAN: "true or false",
    ParamType.MAP: "map('key', 'value')",
}


def _value(kind: ParamType, literal: Literal) -> Any:
    """Cast a literal to a parameter's type; return None if it does not cast."""
    if kind is ParamType.STRING:
        if literal.type in ("MAP", "ARRAY", "BINARY"):
            return None
        if literal.type == "BOOLEAN":
            return "true" if literal.value else "false"
        return str(literal.value)
    if kind is ParamType.BOOLEAN:
        if literal.type == "STRING":
            return _WORDS.get(literal.value.strip().lower())
        return literal.value if literal.type == "BOOLEAN" else None
    if kind is ParamType.MAP:
        return {str(k): str(v) for k, v in literal.value.items()} if literal.type == "MAP" else None
    if literal.type == "STRING":
        number = _whole(literal.value)
        return number if number is not None and -_LIMIT[kind] <= number < _LIMIT[kind] else None
    return literal.value if literal.type in _WIDER[kind] else None


def _whole(text: str) -> int | None:
    text = text.strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else None


def _error(procedure: Procedure, what: str, hint: str, kind: ErrorKind = ErrorKind.INVALID_ARGUMENT) -> ArgumentError:
    signature = f"Signature: {procedure.signature}."
    return ArgumentError(
        f"The CALL of {NAMESPACE}.{procedure.name} {what}.", hint=f"{hint} {signature}".strip(), kind=kind
    )
