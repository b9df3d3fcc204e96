"""Parsing of `source_sqls`: CREATE TEMPORARY VIEW, USE and CREATE CATALOG, and nothing else.

A statement is recognized by its first words, which are unambiguous in Spark's grammar; any other statement is rejected
before the first one runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paimon_spark.errors import ArgumentError
from paimon_spark.spec.quoted_text import string_value
from paimon_spark.sqlparse.script import split_script
from paimon_spark.sqlparse.tokens import Piece, PieceKind, join_touching_strings, pieces

_VIEW = re.compile(r"^CREATE (OR REPLACE )?TEMP(ORARY)? VIEW ", re.IGNORECASE)
_USE = re.compile(r"^USE (?:(?P<word>CATALOG|DATABASE|SCHEMA|NAMESPACE) )?(?P<name>\S+(?: ?\. ?\S+)*)$", re.IGNORECASE)
_CATALOG = re.compile(
    r"^CREATE CATALOG (?P<safe>IF NOT EXISTS )?`?(?P<name>\w+)`?(?: COMMENT \S+)? ?WITH ?\((?P<options>.*)\)$",
    re.IGNORECASE | re.DOTALL,
)
_RULE = "Only CREATE TEMPORARY VIEW … AS, USE and CREATE CATALOG … WITH (…) are allowed there."


@dataclass(frozen=True, slots=True)
class TemporaryView:
    """A temporary view for the duration of the procedure."""

    text: str


@dataclass(frozen=True, slots=True)
class UseName:
    """A change of the current catalog or database."""

    text: str
    name: str


@dataclass(frozen=True, slots=True)
class CreateCatalog:
    """A catalog for the duration of the procedure."""

    text: str
    name: str
    options: dict[str, str]
    if_not_exists: bool


SourceStatement = TemporaryView | UseName | CreateCatalog


def parse_source_sqls(text: str, parameter: str = "source_sqls") -> list[SourceStatement]:
    """Return the statements of `text`, separated by ``;``.

    Raises:
        ArgumentError: a statement is of another kind; none of them may then run.
        SqlSyntaxError: a quote or comment is not closed.
    """
    return [_statement(s.text, parameter) for s in split_script(text)]


def _statement(text: str, parameter: str) -> SourceStatement:
    flat = _on_one_line(text)
    if _VIEW.match(flat) and re.search(r"\bAS\b", flat, re.IGNORECASE):
        return TemporaryView(join_touching_strings(_without_comments(text)))
    use = _USE.match(flat)
    if use is not None:
        return UseName(text, "".join(_code(text)[2 if use["word"] else 1 :]))
    catalog = _CATALOG.match(flat)
    if catalog is not None:
        return CreateCatalog(text, catalog["name"], _options(text, parameter), bool(catalog["safe"]))
    raise ArgumentError(
        f"The argument '{parameter}' contains a statement that is not allowed there: {text}", hint=_RULE
    )


def _code(text: str) -> list[str]:
    return [p.text for p in pieces(text) if p.kind not in (PieceKind.BLANK, PieceKind.COMMENT)]


def _without_comments(text: str) -> str:
    """Return the text to run, without comments, so that Spark cannot tokenize comments differently."""
    plain = (p.kind is not PieceKind.COMMENT or p.text.startswith("/*+") for p in pieces(text))
    return "".join(p.text if kept else " " for p, kept in zip(pieces(text), plain, strict=True)).strip()


def _on_one_line(text: str) -> str:
    """Return `text` on one line without comments, with single blanks, and with underscores for blanks in quotes."""
    out: list[str] = []
    for piece in pieces(text):
        if piece.kind in (PieceKind.BLANK, PieceKind.COMMENT):
            out.append(" ")
        elif piece.kind is PieceKind.CODE:
            out.append(piece.text)
        else:
            out.append("_".join(piece.text.split()) or piece.text)
    return " ".join("".join(out).split())


def _options(text: str, parameter: str) -> dict[str, str]:
    code = [p for p in pieces(text) if p.kind not in (PieceKind.BLANK, PieceKind.COMMENT)]
    opening = next(i for i, p in enumerate(code) if p.text == "(")
    body = code[opening + 1 : -1]
    options: dict[str, str] = {}
    for i in range(0, len(body), 4):
        entry = body[i : i + 4]
        if not _is_entry(entry):
            raise ArgumentError(
                f"The options of the catalog in '{parameter}' do not parse: {text}",
                hint="Write WITH ('type' = 'paimon', 'warehouse' = '…').",
            )
        options[string_value(entry[0].text)] = string_value(entry[2].text)
    if options.get("type") != "paimon":
        raise ArgumentError(
            f"The catalog in '{parameter}' has the type '{options.get('type', '')}'.", hint="Write 'type' = 'paimon'."
        )
    return options


def _is_entry(entry: list[Piece]) -> bool:
    kinds = [p.kind for p in entry[::2]]
    marks = [p.text for p in entry[1::2]]
    return kinds == [PieceKind.STRING, PieceKind.STRING] and marks in (["="], ["=", ","])
