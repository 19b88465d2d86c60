"""Errors of SQL: the messages of duckdb with advice, and comparisons that no flow can match."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence

from flowbuf.arrow.sql_tokens import Token, columns_named, tokens_of
from flowbuf.errors import QueryError, did_you_mean
from flowbuf.schema import Column, Schema
from flowbuf.schema.assemble import list_columns, suggest_fix
from flowbuf.targets.flow_text import NUMBERS, format_address, format_mac
from flowbuf.targets.protocols import protocol_number

__all__ = ["check_literals", "errors_across_flows", "errors_across_kinds", "query_errors"]

_ACROSS_FLOWS = re.compile(
    r".*(Table with name .* does not exist|cannot contain (aggregates|window functions))"
)
_MAC = re.compile(r"[0-9A-Fa-f]{12}")
_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")
"""Flags of TCP, the lowest bit first."""
_FLAG_LETTERS = "FSRPAUEC"
_EXAMPLE = "write SQL, for example src_addr = '10.0.0.1' AND dst_port = 53"


@contextlib.contextmanager
def query_errors(columns: Iterable[str], condition: str | None = None) -> Iterator[None]:
    """Turn exceptions of duckdb into QueryError, with advice.

    Args:
        columns: Names of the columns that the SQL may use.
        condition: The SQL, if it is a condition.
    """
    import duckdb
    import pyarrow

    try:
        yield
    except duckdb.BinderException as error:
        advice = _advise(str(error), list(columns), condition or "")
        raise QueryError("\n".join(filter(None, (_message(error), advice)))) from error
    except duckdb.ParserException as error:
        raise QueryError("\n".join([_message(error), *([_EXAMPLE] if condition else [])])) from error
    except (duckdb.Error, pyarrow.ArrowException) as error:
        raise QueryError(_message(error)) from error


def _message(error: Exception) -> str:
    """Return the message of duckdb, without the Python traceback of an error inside a function."""
    if extension := re.search(r"required extension '(\w+)", str(error)):
        fix = f"python -c \"import duckdb; duckdb.install_extension('{extension[1]}')\""
        return (
            f"duckdb's extension {extension[1]} is not installed, and flowbuf does not download it; run {fix}"
        )
    lines = [
        line.rstrip() for line in str(error).splitlines() if line.strip() and "row_number_of_flow" not in line
    ]
    text = "\n".join(lines)
    return text.partition("ValueError: ")[2].partition("\nAt:")[0] or text


def _advise(message: str, columns: list[str], condition: str) -> str:
    """Return a suggestion for the missing column of an error, or the list of columns.

    Returns "" if no column is missing.
    """
    missing = re.search(r'[Cc]olumn (?:named )?"(.*?)"', message)
    if not missing or missing[1] in columns:
        return ""
    name = missing[1]
    number = protocol_number(name)
    if number is not None and "proto" in columns:
        return f"write proto = {number} for {name}"
    if f'"{name}"' in condition:
        return f"double quotes enclose names of columns; write texts in single quotes: '{name}'"
    return suggest_fix(name, columns) or list_columns(columns)


@contextlib.contextmanager
def errors_across_flows() -> Iterator[None]:
    """Raise QueryError with advice if a condition uses more than one flow."""
    import duckdb

    try:
        yield
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        said = _ACROSS_FLOWS.search(str(error))
        if not said:
            raise
        raise QueryError(
            f"{said[0]}\na condition sees one flow at a time; use flowbuf query for a query over all flows"
        ) from error


@contextlib.contextmanager
def errors_across_kinds(condition: str, schema: Schema, others: Iterable[Schema]) -> Iterator[None]:
    """Raise QueryError with advice if a condition has a column that only another kind of rows has."""
    try:
        yield
    except QueryError as error:
        named = ((name, other.rows) for other in others for name in columns_named(condition, other))
        missing = next((each for each in named if each[0] not in schema), None)
        if missing is None:
            raise
        problem = f"{schema.rows} have no column {missing[0]!r}, which {missing[1]} have"
        fix = "use columns that all kinds have, or filter each kind in a command or output of its own"
        raise QueryError(f"{problem}; {fix}") from error


def check_literals(condition: str, schema: Schema) -> None:
    """Check the texts that a condition compares columns with, as in `src_addr = '10.0.0.1'` or `IN ('…')`.

    A comparison is checked only if it certainly compares a column with exactly this text. `IS NULL` is
    checked too.

    Raises:
        QueryError: No flow has this text in the column: it is a network, is no address, is written in
            another way than flowbuf writes it, or is no member of the enum. Or the column is a number, which
            is 0 where it is absent. Or addresses are compared by the order of texts.
    """
    tokens = tokens_of(condition)
    if any(token.text in _SCOPES for token in tokens):
        return
    columns = {column.name.lower(): column for column in schema if not column.repeated}
    for name, text in _compared_texts(tokens):
        if name in columns and (problem := _find_problem(columns[name], text)):
            raise QueryError(f"{columns[name].name} is never '{text}': {problem}")
    for name, text in _ordered_texts(tokens):
        if name in columns and columns[name].type == "ip" and _is_address(text):
            own = columns[name].name
            problem = f"{own} is text in SQL, where '10.0.0.10' is less than '10.0.0.9'"
            raise QueryError(f"{problem}; for a range of addresses, write in_net({own}, '10.0.0.0/24')")
    for name in _compared_with_null(tokens):
        if name in columns and columns[name].type in NUMBERS and not columns[name].explicit:
            own = columns[name].name
            raise QueryError(f"{own} is never NULL: absent numbers are 0; write {own} = 0")


_SCOPES = {"select", "from", "values", "lambda"}
"""Words after which names may be those of other tables or of parameters."""
_BEFORE = {"", "(", "and", "or", "when", "where"}
"""Tokens before a comparison whose left side is one column."""
_AFTER = {"", ")", "and", "or", "then"}
"""Tokens after a comparison whose right side is one text."""
_NOTHING = Token(0, "")


def _comparisons(tokens: Sequence[Token]) -> Iterator[tuple[str, Token, Token, list[Token]]]:
    """Yield each name that begins a comparison, and what follows it: the sign, the value and the rest."""
    padded = [_NOTHING, _NOTHING, *tokens, _NOTHING, _NOTHING, _NOTHING, _NOTHING]
    for i, token in enumerate(tokens, 2):
        if len(token.words) == 1 and _begins(padded[i - 2], padded[i - 1]):
            sign, value, *rest = padded[i + 1 :]
            yield token.text, sign, value, rest


def _compared_texts(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield each name that is compared for equality, and the text."""
    for name, sign, value, rest in _comparisons(tokens):
        if sign.operator in ("=", "==") and value.literal is not None and _ends(rest):
            yield name, value.literal
        elif sign.text == "in" and value.text == "(":
            yield from ((name, text) for text in _listed_texts(rest))


def _ordered_texts(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield each name that is compared with a text by <, <=, > or >=, or by BETWEEN, and the text."""
    for name, sign, value, rest in _comparisons(tokens):
        if sign.text == "not":
            sign, value = value, rest[0]
        ordered = sign.operator in ("<", "<=", ">", ">=") or sign.text == "between"
        if ordered and value.literal is not None:
            yield name, value.literal


def _compared_with_null(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield each name that is followed by IS NULL."""
    for name, sign, value, rest in _comparisons(tokens):
        if (sign.text, value.text) == ("is", "null") and _ends(rest):
            yield name


def _begins(before: Token, token: Token) -> bool:
    """Return True if a comparison begins after a token. A bracket may be that of a call, or of NOT (…)."""
    if token.literal is not None or token.text not in _BEFORE:
        return False
    return token.text != "(" or (before.literal is None and before.text in _BEFORE)


def _ends(rest: Sequence[Token]) -> bool:
    """Return True if a comparison ends before these tokens. (…) IS NULL does not end at its bracket."""
    for token in rest:
        if token.literal is not None or token.text not in _AFTER:
            return False
        if token.text != ")":
            return True
    return True


def _listed_texts(tokens: Sequence[Token]) -> list[str]:
    """Return the texts of a list up to its bracket; none if it has anything else."""
    texts: list[str] = []
    for place, token in enumerate(tokens):
        if place % 2 == 0 and token.literal is not None:
            texts.append(token.literal)
        elif place % 2 and token.text == ")":
            return texts if _ends(tokens[place + 1 :]) else []
        elif not (place % 2 and token.text == ","):
            break
    return []


def _find_problem(column: Column, text: str) -> str:
    """Return the reason why no value of a column is equal to a text, and the fix; "" if there is none."""
    if column.type == "ip":
        return _find_address_problem(column.name, text)
    if column.type == "mac":
        digits = re.sub("[:.-]", "", text)
        if not _MAC.fullmatch(digits):
            return "the text is no MAC address, such as 00:00:5e:00:53:01"
        return _other_spelling(text, format_mac(int(digits, 16)))
    if column.type == "enum" and text not in column.values and not _is_number(text):
        fix = did_you_mean(text, column.values) or f"values are {', '.join(list(column.values)[:20])}"
        return f"the column has no such value; {fix}"
    if column.type in NUMBERS and not _is_number(text):
        number = protocol_number(text) if column.name.endswith("proto") else None
        fix = f"; write {column.name} = {number} for {text}" if number is not None else ""
        return f"the column is a number{fix or _suggest_flags(column.name, text)}"
    return ""


def _suggest_flags(name: str, text: str) -> str:
    """Return the condition for TCP flags that are written as letters (SA) or as a name (SYN)."""
    if not name.endswith("tcp_flags"):
        return ""
    letters = {text[0]} if text in _FLAGS else {*text}
    bits = sum(1 << _FLAG_LETTERS.index(letter) for letter in letters if letter in _FLAG_LETTERS)
    if not letters <= {*_FLAG_LETTERS} or not bits:
        return f"; write {name} & 2 <> 0 for flows with SYN"
    return f"; write {name} & {bits} = {bits} for {text}"


def _find_address_problem(name: str, text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            ipaddress.ip_network(text, strict=False)
            return f"the text is a network; write in_net({name}, '{text}')"
        return "the text is no IP address"
    return _other_spelling(text, format_address(address.packed))


def _is_address(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_network(text, strict=False))
    return False


def _other_spelling(text: str, spelling: str) -> str:
    return "" if text == spelling else f"addresses are compared as texts; write '{spelling}'"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return bool(re.match(r"\s*[-+]?0[xXbBoO]", text))  # duckdb reads these numbers too
    return True
