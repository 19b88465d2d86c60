"""Read SQL by the tokens of duckdb, so that names in literals and comments do not count."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from flowbuf.errors import QueryError
from flowbuf.schema import Schema
from flowbuf.schema.loader import ROWS
from flowbuf.schema.vendor_columns import vendor_names

__all__ = ["Token", "columns_named", "ends_of_scaled", "tokens_of", "with_rates"]

_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TEXT = re.compile(r"'((?:[^']|'')*)'")


class Token(NamedTuple):
    """A part of SQL: a sign, or words in lower case without quotes. A literal has "" and no words.

    duckdb returns several words as one token if spaces that are not ASCII separate them.

    Attributes:
        offset: Offset in bytes.
        text: First character of an operator, or the first word.
        words: All words.
        literal: Text of a literal in single quotes; None for all other tokens.
        operator: All characters of an operator; empty for all other tokens.
    """

    offset: int
    text: str
    words: Sequence[str] = ()
    literal: str | None = None
    operator: str = ""


def tokens_of(sql: str) -> list[Token]:
    """Return the tokens of SQL without comments. Raise QueryError for text that is not UTF-8."""
    import duckdb

    if not isinstance(sql, str):
        raise TypeError(f"a condition is SQL, not {type(sql).__name__}; write a text such as 'bytes > 512'")
    try:
        content = sql.encode()  # duckdb counts bytes
    except UnicodeEncodeError:
        raise QueryError("the SQL is not UTF-8") from None
    found = [(offset, str(kind).rpartition(".")[2]) for offset, kind in duckdb.tokenize(sql)]
    tokens = []
    for (offset, kind), (end, _) in itertools.pairwise([*found, (len(content), "")]):
        written = content[offset:end].decode()
        text = written.lower()  # and what follows: spaces, in some versions comments
        if kind == "operator":
            tokens.append(Token(offset, text[:1], operator=text.split()[0]))
        elif kind in ("identifier", "keyword"):
            words = _WORD.findall(_COMMENT.sub(" ", text))
            words = words[:1] if text.startswith('"') else words
            sign = text[:1]  # `::` is a keyword in duckdb 1
            tokens.append(Token(offset, words[0] if words else sign, words))
        elif kind != "comment":
            quoted = _TEXT.match(written)
            # duckdb 1 returns 'a' and 'b' on two lines, which mean 'ab', as one token
            one = quoted and "'" not in written[quoted.end() :]
            literal = quoted[1].replace("''", "'") if quoted and one else None
            tokens.append(Token(offset, "", literal=literal))
    return tokens


def columns_named(sql: str, schema: Schema) -> tuple[str, ...]:
    """Return the columns of a schema, enabled or not, whose names occur in SQL.

    Columns of vendors follow, which the schema gets when they are enabled. Upper and lower case are equal.
    Raise QueryError for text that is not UTF-8.
    """
    words = {word for token in tokens_of(sql) for word in token.words}
    if "columns" in words:  # COLUMNS('bytes') selects columns by a regular expression
        words = set(_WORD.findall(sql.lower()))
    own = tuple(column.name for column in schema if column.name.lower() in words)
    others = vendor_names(sorted(words)) if schema.rows == ROWS[0] else ()
    return (*own, *(name for name in others if name not in own))


def with_rates(sql: str, rate: str | None) -> str:
    """Return SQL with a second argument in each `scaled(value)`: the sampling rate.

    Args:
        sql: SQL of a query.
        rate: SQL of the rate, such as the name of its column. None: the flows have none.

    Raises:
        QueryError: `scaled(value)` occurs, and there is no rate. Or it has no value, or the text is not
            UTF-8.
    """
    ends = sorted(ends_of_scaled(sql), reverse=True)
    text = sql.encode()
    for end in ends:
        if rate is None:
            raise QueryError("scaled needs a sampling rate, and the schema has no column for it")
        text = text[:end] + f", {rate}".encode() + text[end:]
    return text.decode()


def ends_of_scaled(sql: str) -> Iterator[int]:
    """Yield the offset of the bracket that ends each call of `scaled` with one argument."""
    tokens = tokens_of(sql)
    for i in range(len(tokens) - 2):
        if tokens[i].text != "scaled" or tokens[i + 1].text != "(":
            continue
        if tokens[i + 2].text == ")":
            raise QueryError("scaled needs a value; write for example sum(scaled(bytes))")
        end = _find_end(tokens[i + 1 :])
        if end is not None:
            yield end


def _find_end(tokens: Iterable[Token]) -> int | None:
    """Return the offset of the bracket that ends a call with one argument; None for another number."""
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if depth == 0:
            return token.offset
        if depth == 1 and token.text == ",":
            return None
    return None
