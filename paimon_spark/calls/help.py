"""Descriptions of procedures for SHOW and DESCRIBE PROCEDURE, ``CALL sys.help()`` and the documentation.

``python -m paimon_spark.calls.help docs/procedures`` regenerates the pages; ``--check`` only reports stale ones.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from paimon_spark.calls.plan import MOST_LISTED, PLAN_COLUMNS
from paimon_spark.calls.procedure import NAMESPACE, PositionalOverload, Procedure
from paimon_spark.calls.refusals import REFUSED
from paimon_spark.calls.registry import Registry, installed_registry
from paimon_spark.calls.report import REPORT_COLUMNS

HELP_COLUMNS: tuple[tuple[str, str], ...] = (
    ("kind", "string"),
    ("name", "string"),
    ("type", "string"),
    ("required", "boolean"),
    ("description", "string"),
)


def describe(registry: Registry) -> list[dict[str, Any]]:
    """Return every procedure as plain values: name, summary, parameters in positional order, result columns."""
    return [
        {
            "name": p.name,
            "summary": p.summary,
            "signature": p.signature,
            "parameters": [
                {
                    "name": a.name,
                    "type": str(a.type),
                    "required": a.required,
                    "default": a.default,
                    "aliases": list(a.aliases),
                    "doc": a.doc,
                    "named_only": a not in p.params,
                }
                for a in p.named_params
            ],
            "columns": [{"name": n, "type": t, "nullable": nullable} for n, t, nullable in p.result_columns],
            "example": p.example,
        }
        for p in registry
    ]


def help_rows(registry: Registry, name: str | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of ``CALL sys.help()``: one per procedure, or the details of the procedure `name`.

    Raises:
        NotFoundError: there is no procedure `name`.
    """
    if name is None:
        return [("procedure", p.name, None, None, p.summary) for p in registry]
    p = registry.get(name.lower().removeprefix(f"{NAMESPACE}."))
    rows: list[tuple[Any, ...]] = [("procedure", p.name, None, None, p.summary)]
    rows += [("form", form_text(p, f), None, None, f.doc) for f in p.forms]
    rows += [("argument", a.name, str(a.type), a.required, _argument_text(a)) for a in p.named_params]
    rows += [("result", c.name, c.type.upper(), None, c.doc) for c in p.columns]
    rows += [("result", column, kind.upper(), None, doc) for column, kind, doc in p.report_columns]
    rows.append(("example", p.example, None, None, None))
    return rows


def form_text(procedure: Procedure, form: PositionalOverload) -> str:
    """Return a positional form as SQL."""
    return f"CALL {NAMESPACE}.{procedure.name}({', '.join(form.params)})"


def _argument_text(a: Any) -> str:
    text = str(a.doc)
    if a.default:
        text += f" Default: {a.default}."
    if a.aliases:
        text += f" Also called {', '.join(a.aliases)}."
    return text


def page(p: Procedure) -> str:
    """Return the documentation page of one procedure."""
    lines = [f"# {p.name}", "", p.doc, "", "```sql", p.example, "```", "", "## Arguments", ""]
    lines += ["In positional order; by name in any order.", "", "| argument | type | required | meaning |"]
    lines += ["| --- | --- | --- | --- |"]
    lines += [
        f"| `{a.name}` | {a.type} | {'yes' if a.required else 'no'} | {_cell(_argument_text(a))} |"
        for a in p.named_params
    ]
    if p.forms:
        lines += ["", "Other positional forms:", "", *(f"- `{form_text(p, f)}` — {f.doc}" for f in p.forms)]
    lines += ["", "## Result", "", "| column | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{c.name}` | {c.type} | {_cell(c.doc)} |" for c in p.columns]
    lines += [f"| `{name}` | {kind} | {_cell(doc)} |" for name, kind, doc in p.report_columns]
    lines += ["", "## Example script", "", f'```sql\n--8<-- "sql/procedures/{p.name}.sql"\n```', ""]
    return "\n".join(lines)


def index(registry: Registry) -> str:
    """Return the index page: all procedures, and the rules that apply to every CALL."""
    plan = ", ".join(f"`{name}`" for name, _ in PLAN_COLUMNS)
    report = ", ".join(f"`{name}`" for name, _, _ in REPORT_COLUMNS)
    lines = [
        "# Procedures",
        "",
        f"`CALL [catalog.]{NAMESPACE}.<procedure>(…)` runs a procedure in the named or the current catalog.",
        "",
        "| procedure | description |",
        "| --- | --- |",
        *(f"| [`{p.name}`]({p.name}.md) | {_cell(p.summary)} |" for p in registry),
        "",
        "## Procedures of Paimon that are refused",
        "",
        "A CALL of one of these fails with the code `UNSUPPORTED_FEATURE`.",
        "",
        "| procedure | reason | instead |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {_cell(why)} | {_cell(instead)} |" for name, (why, instead) in REFUSED.items()),
        "",
        "## Rules for every CALL",
        "",
        "- Arguments are given by position or by name (`name => value`), not both. NULL and `''` mean *not given*.",
        "- Values may be quoted: `'10'` is accepted as a number.",
        "- A table is named `t` (current database), `db.t` or `catalog.db.t`, with `$branch_x` for a branch.",
        "- `partitions` is a string: `,` means AND and `;` means OR, as in `'dt=2024-05-14,hh=1;dt=2024-05-15'`.",
        "- `options` is a string too, `'key=value,key=value'`: table options for this CALL only. Accepted are those "
        "marked *write* or *call* in the [list](../options.md).",
        f"- `EXPLAIN CALL …`, or `dry_run => true`, returns the plan ({plan}) and changes nothing. In Spark, a "
        f"plan of more than {MOST_LISTED} actions ends with a row `more`. Procedures that only read have no `dry_run`.",
        f"- The procedure's own result columns come first, then {report}. Procedures that only read, `maintain`, "
        "`cancel` and `stop` have only their own.",
        "- Intentional differences from Paimon's Spark module are listed in "
        "[Compatibility](../compatibility.md#intentional-deviations).",
        f"- `CALL {NAMESPACE}.help()` lists the procedures, `CALL {NAMESPACE}.help('compact')` describes one.",
        "",
    ]
    return "\n".join(lines)


def pages(registry: Registry) -> dict[str, str]:
    """Return all pages by file name."""
    return {"index.md": index(registry), **{f"{p.name}.md": page(p) for p in registry}}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str] | None = None) -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(prog="python -m paimon_spark.calls.help", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with status 1 if a page is stale")
    args = parser.parse_args(arguments)
    registry = installed_registry()
    if not registry.names:
        parser.error("no procedures are installed: run pip install -e . first")
    stale = []
    for name, text in pages(registry).items():
        path = args.folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path))
            if not args.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    sys.stdout.write("".join(f"{'stale' if args.check else 'written'}: {path}\n" for path in stale))
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
