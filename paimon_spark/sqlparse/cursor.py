"""A position in the tokens of one statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NoReturn, TypeVar

from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.spec.quoted_text import name_value, string_value
from paimon_spark.sqlparse.tokens import join_touching_strings, position

T = TypeVar("T")
_OPENING, _CLOSING = ("(", "["), (")", "]")
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_WORD = re.compile(r"\S+")
_NAME = re.compile(r"(?!\d+$)\w+")
_NUMBER = re.compile(r"[0-9]{1,18}L?")


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a sign, a quoted name or a string literal, and where its source text starts."""

    source: str
    start: int
    is_string: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.source)


class _Words(Spark):
    """Spark's dialect with the words after SHOW and EXECUTE as tokens, too."""

    class Tokenizer(Spark.Tokenizer):
        """A tokenizer without commands of opaque text."""

        COMMANDS: ClassVar[set[TokenType]] = set()


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of `text`; the tokenizer's keywords of several words as their words."""
    behind = 0
    for token in _Words().tokenize(text):
        if token.start < behind:  # the type of a suffix such as the L of 5L
            continue
        behind = token.end + 1
        source = text[token.start : token.end + 1]
        if token.token_type in _STRINGS or source.startswith("`"):
            yield _Token(source, token.start, token.token_type in _STRINGS)
        else:
            yield from (_Token(m.group(), token.start + m.start()) for m in _WORD.finditer(source))


class Cursor:
    """Reads the tokens of a statement from left to right; keywords are matched in any case."""

    def __init__(self, text: str, *, hint: str = "") -> None:
        """Tokenize `text`.

        Args:
            text: the statement; semicolons may follow it.
            hint: the hint of errors.

        Raises:
            SqlSyntaxError: a quote or a comment is not closed.
        """
        self._hint = hint
        self.text = join_touching_strings(text)
        try:
            self._tokens = list(_tokens(self.text))
        except SqlglotError as e:
            raise SqlSyntaxError(f"The statement does not parse: {str(e).splitlines()[0]}.", hint=hint) from e
        while self._tokens and self._tokens[-1].source == ";":
            self._tokens.pop()
        self._at = 0

    @property
    def done(self) -> bool:
        """Return whether no token is left."""
        return self._at >= len(self._tokens)

    def peek(self, ahead: int = 0) -> str:
        """Return the text of a token in upper case, or the empty string after the last one and for quoted text."""
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at].is_string or self._tokens[at].source.startswith("`"):
            return ""
        return self._tokens[at].source.upper()

    @property
    def at_string(self) -> bool:
        """Return whether a string literal follows."""
        return not self.done and self._tokens[self._at].is_string

    @property
    def at_name(self) -> bool:
        """Return whether a name follows, plain or in backquotes."""
        source = "" if self.done else self._tokens[self._at].source
        return source.startswith("`") or _NAME.fullmatch(source) is not None

    def holds(self, *words: str) -> bool:
        """Return whether `words` occur later, outside parentheses."""
        depth, found = 0, False
        for i in range(len(self._tokens) - self._at):
            if depth == 0 and all(self.peek(i + n) == word for n, word in enumerate(words)):
                found = True
            depth += (self.peek(i) in _OPENING) - (self.peek(i) in _CLOSING)
        return found

    def accept(self, *words: str) -> bool:
        """Advance over `words` if they follow."""
        if any(self.peek(i) != word for i, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Advance over `words`.

        Raises:
            SqlSyntaxError: they do not follow.
        """
        if not self.accept(*words):
            self.fail(f"expected {' '.join(words)}")

    def end(self) -> None:
        """Raise SqlSyntaxError unless the statement ends here."""
        if not self.done:
            self.fail("expected the end of the statement")

    def identifier(self, what: str) -> str:
        """Return a name, plain or in backquotes."""
        source = "" if self.done else self._tokens[self._at].source
        if source.startswith("`"):
            self._at += 1
            return name_value(source)
        if not self.at_name:
            self.fail(f"expected {what}")
        self._at += 1
        return source

    def path(self, what: str) -> tuple[str, ...]:
        """Return the parts of a name."""
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier(what))
        return tuple(parts)

    def string(self, what: str) -> str:
        """Return the value of a string literal."""
        token = None if self.done else self._tokens[self._at]
        if token is None or not token.is_string:
            self.fail(f"expected {what} in quotes")
        self._at += 1
        return string_value(token.source)

    def number(self, what: str) -> int:
        """Return a whole number below 10¹⁸; a suffix `L` is allowed."""
        source = self.peek()
        if not _NUMBER.fullmatch(source):
            self.fail(f"expected {what}")
        self._at += 1
        return int(source.removesuffix("L"))

    def listed(self, item: Callable[[], T]) -> list[T]:
        """Return the items of a list in parentheses."""
        self.expect("(")
        items = [item()]
        while self.accept(","):
            items.append(item())
        self.expect(")")
        return items

    def options(self) -> dict[str, str]:
        """Return the pairs of ``('key' = 'value', …)``."""
        pairs = self.listed(self._option)
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise SqlSyntaxError(f"The statement has the key '{twice}' more than once.", hint=self._hint)
        return found

    def _option(self) -> tuple[str, str]:
        key = self.string("a key")
        self.expect("=")
        return key, self.string("a value")

    def expression(self, *stops: str) -> str:
        """Return the source text up to one of `stops` outside brackets, which is not read."""
        first, depth = self._at, 0
        while not self.done and not (depth == 0 and self.peek() in stops):
            depth += (self.peek() in _OPENING) - (self.peek() in _CLOSING)
            self._at += 1
        if first == self._at:
            self.fail("expected an expression")
        return self.text[self._tokens[first].start : self._tokens[self._at - 1].end]

    def rest(self) -> str:
        """Return the source text from here to the end."""
        first = self._at
        self._at = len(self._tokens)
        return self.text[self._tokens[first].start : self._tokens[-1].end] if first < len(self._tokens) else ""

    def fail(self, what: str) -> NoReturn:
        """Raise SqlSyntaxError at the current token."""
        if self.done:
            raise SqlSyntaxError(f"The statement does not parse at its end: {what}.", hint=self._hint)
        token = self._tokens[self._at]
        line, column = position(self.text, token.start)
        raise SqlSyntaxError(
            f"The statement does not parse at '{token.source}' (line {line}, column {column}): {what}.", hint=self._hint
        )
