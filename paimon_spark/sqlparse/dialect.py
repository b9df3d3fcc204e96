"""The SQL dialect of paimon-spark: Spark's dialect with CALL as a parsed statement.

Arguments are parsed token by token, and each value is taken from the source text at the token's offsets. No SQL is ever
generated, so ``'it''s'`` keeps its quote and each error has line and column.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import hexdigits
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.spec.quoted_text import string_value
from paimon_spark.sqlparse.literals import Literal, number_value
from paimon_spark.sqlparse.tokens import PieceKind, pieces, position

_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_TRIPS = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
"""Exceptions that the sqlglot parser raises for some invalid texts."""
_EXPLAIN_MODES = ("EXTENDED", "FORMATTED", "CODEGEN", "COST")


@dataclass(frozen=True, slots=True)
class CallStatement:
    """A CALL as written. `positional` and `named` are in source order; named keys keep their case."""

    catalog: str | None
    namespace: str | None
    procedure: str
    positional: tuple[Literal, ...]
    named: tuple[tuple[str, Literal], ...]
    explain: bool


class CallNode(exp.Expression):
    """Wraps a `CallStatement` as an expression tree node."""

    arg_types: ClassVar[dict[str, bool]] = {"statement": True}


class _CallParser(SparkParser):
    """Spark's parser extended by the CALL statement."""

    def _parse_statement(self) -> Any:
        token = self._curr
        if token and token.token_type is TokenType.VAR and token.text.upper() in ("CALL", "EXPLAIN"):
            return self._parse_call()
        return super()._parse_statement()

    def _parse_call(self) -> CallNode:
        explain = bool(self._match_text_seq("EXPLAIN"))
        if explain:
            for mode in _EXPLAIN_MODES:
                if self._match_text_seq(mode):
                    break
        if not self._match_text_seq("CALL"):
            raise self._error("expected CALL")
        path = self._path()
        self._expect(TokenType.L_PAREN, "'(' after the procedure's name")
        positional: list[Literal] = []
        named: list[tuple[str, Literal]] = []
        while not self._match(TokenType.R_PAREN):
            if positional or named:
                self._expect(TokenType.COMMA, "',' or ')'")
            name = self._argument_name()
            value = self._literal()
            if name is None:
                positional.append(value)
            else:
                named.append((name, value))
        if self._curr:
            raise self._error("expected the end of the statement")
        catalog, namespace = self._qualifier(path)
        statement = CallStatement(catalog, namespace, path[-1], tuple(positional), tuple(named), explain)
        return CallNode(statement=statement)

    def _qualifier(self, path: list[str]) -> tuple[str | None, str | None]:
        if len(path) > 3:
            raise self._error(f"'{'.'.join(path)}' has too many parts: a procedure is [catalog.]sys.name", self._prev)
        return (path[-3] if len(path) == 3 else None, path[-2] if len(path) > 1 else None)

    def _path(self) -> list[str]:
        parts = [self._name("a procedure's name")]
        while self._match(TokenType.DOT):
            parts.append(self._name("a name after '.'"))
        return parts

    def _name(self, what: str) -> str:
        token = self._curr
        if not token or not (token.token_type is TokenType.IDENTIFIER or token.text[:1].isidentifier()):
            raise self._error(f"expected {what}")
        self._advance()
        return str(token.text)

    def _argument_name(self) -> str | None:
        following = self._next
        if not following or following.token_type is not TokenType.FARROW:
            return None
        name = self._name("an argument's name")
        self._advance()
        return name

    def _literal(self) -> Literal:
        token = self._curr
        if not token:
            raise self._error("expected a value")
        kind = token.token_type
        if kind in _STRINGS:
            return self._string()
        if kind in (TokenType.NUMBER, TokenType.DASH, TokenType.PLUS, TokenType.DOT):
            return self._number()
        if kind is TokenType.NULL:
            return self._simple(token, "NULL", None)
        if kind in (TokenType.TRUE, TokenType.FALSE):
            return self._simple(token, "BOOLEAN", kind is TokenType.TRUE)
        if kind is TokenType.HEX_STRING:
            digits = "0" * (len(token.text) % 2) + token.text
            return self._simple(token, "BINARY", bytes.fromhex(digits))
        word = token.text.upper()
        if word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") and self._next_is(_STRINGS):
            self._advance()
            return self._spanning(token, "DATE" if word == "DATE" else "TIMESTAMP", self._string().value)
        if word in ("MAP", "ARRAY") and self._next_is((TokenType.L_PAREN,)):
            return self._collection(token, word)
        raise self._error(
            "an argument must be a literal (text, number, TRUE, FALSE, NULL, DATE or TIMESTAMP '…', map(…), array(…))"
        )

    def _next_is(self, kinds: tuple[TokenType, ...]) -> bool:
        return bool(self._next) and self._next.token_type in kinds

    def _string(self) -> Literal:
        """Concatenate adjacent literals; without a gap between them, the doubled quote is an escaped quote."""
        first = last = self._curr
        text = ""
        while self._curr and self._curr.token_type in _STRINGS:
            token = self._curr
            quote = self.sql[token.end]
            touching = token is not first and last.end + 1 == token.start and self.sql[token.start] == quote
            text += (quote if touching else "") + string_value(self.sql[token.start : token.end + 1])
            last = token
            self._advance()
        return self._spanning(first, "STRING", text)

    def _number(self) -> Literal:
        first = self._curr
        negative = first.token_type is TokenType.DASH
        if first.token_type in (TokenType.DASH, TokenType.PLUS):
            self._advance()
        start = self._curr.start if self._curr else 0
        fraction = self._match(TokenType.DOT)
        token = self._curr
        if not token or token.token_type is not TokenType.NUMBER or token.start != start + bool(fraction):
            raise self._error("expected a number")
        source = self.sql[start : token.end + 1]
        found = number_value(source, negative=negative)
        if found is None:
            raise self._error(f"'{source}' is not a number, or is too large for its type")
        while self._curr and self._curr.start == token.start:
            self._advance()
        return self._spanning(first, *found)

    def _collection(self, first: Token, word: str) -> Literal:
        self._advance()
        self._advance()
        values: list[Any] = []
        while not self._match(TokenType.R_PAREN):
            if values:
                self._expect(TokenType.COMMA, "',' or ')'")
            values.append(self._literal().value)
        if word == "ARRAY":
            return self._spanning(first, word, tuple(values))
        if len(values) % 2:
            raise self._error("map(…) needs an even number of values: key, value, key, value, …", first)
        return self._spanning(first, word, dict(zip(values[::2], values[1::2], strict=True)))

    def _simple(self, token: Token, kind: str, value: Any) -> Literal:
        self._advance()
        return self._spanning(token, kind, value)

    def _spanning(self, first: Token, kind: str, value: Any) -> Literal:
        line, column = position(self.sql, first.start)
        return Literal(kind, value, self.sql[first.start : self._prev.end + 1], first.start, line, column)

    def _expect(self, kind: TokenType, what: str) -> None:
        if not self._match(kind):
            raise self._error(f"expected {what}")

    def _error(self, what: str, token: Token | None = None) -> SqlSyntaxError:
        token = token or self._curr
        if token:
            line, column = position(self.sql, token.start)
            found = self.sql[token.start : token.end + 1]
            where = f"at '{found}' (line {line}, column {column})"
        else:
            where = "at the end of the statement"
        return SqlSyntaxError(
            f"The CALL does not parse {where}: {what}.",
            hint="The form is CALL [catalog.]sys.procedure(value, …) or (name => value, …).",
        )


class PaimonDialect(Spark):
    """Spark's dialect with CALL parsed instead of kept as an opaque command."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokenizer without CALL and EXPLAIN among the opaque commands."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k not in ("CALL", "EXPLAIN")
        }

    Parser = _CallParser


def parse_statements(text: str) -> list[Any]:
    """Parse `text` in this dialect into sqlglot trees.

    Raises:
        SqlSyntaxError: `text` does not parse.
    """
    previous = None
    for piece in pieces(text):
        if previous is not None and piece.kind is PieceKind.STRING and previous.text in ("x", "X"):
            _check_bytes(previous.text, piece.text)
        previous = piece if piece.kind is PieceKind.CODE else None
        if not piece.closed:
            line, column = position(text, piece.start)
            what = "comment" if piece.kind is PieceKind.COMMENT else "quote"
            raise SqlSyntaxError(f"The {what} opened at line {line}, column {column} is never closed.")
    try:
        return [tree for tree in PaimonDialect().parse(text) if tree is not None]
    except (SqlglotError, *_TRIPS) as e:
        raise SqlSyntaxError(f"The text does not parse: {_first_line(e)}.") from e


def _check_bytes(mark: str, quoted: str) -> None:
    digits = quoted[1:-1]
    if quoted.endswith("'") and not all(c in hexdigits for c in digits):
        raise SqlSyntaxError(
            f"The bytes {mark}{quoted} are not written in hexadecimal digits.",
            hint="Write two of 0 to 9 and A to F for each byte, without blanks: X'0AFF'.",
        )


def _first_line(e: Exception) -> str:
    details = getattr(e, "errors", None)
    if details:
        d = details[0]
        what = "an expression is missing" if "Required keyword" in d["description"] else d["description"].rstrip(".")
        return f"{what} at line {d['line']}, column {d['col']}"
    return (str(e) or type(e).__name__).splitlines()[0].rstrip(".")
