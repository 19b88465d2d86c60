"""Errors of SQL: the messages of duckdb with advice, and comparisons that no flow can match."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from flowbuf.arrow.sql_tokens import Token, tokens_of
from flowbuf.errors import QueryError, did_you_mean
from flowbuf.schema import Column, Schema
from flowbuf.schema.assemble import list_columns, suggest_fix
from flowbuf.targets.flow_text import NUMBERS, format_address, format_mac
from flowbuf.targets.protocols import protocol_number

__all__ = ["check_literals", "errors_across_flows", "query_errors"]

_ACROSS_FLOWS = re.compile(
    r".*(Table with name .* does not exist|cannot contain (aggregates|window functions))"
)
_MAC = re.compile(r"[0-9A-Fa-f]{12}")
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


def check_literals(condition: str, schema: Schema) -> None:
    """Check the texts that a condition compares columns with, as in `src_addr = '10.0.0.1'` or `IN ('…')`.

    Raises:
        QueryError: No flow has this text in the column: it is a network, is no address, is written in
            another way than flowbuf writes it, or is no member of the enum. Or the column is a number.
    """
    columns = {column.name.lower(): column for column in schema if not column.repeated}
    for name, text in _compared_texts(tokens_of(condition)):
        if name in columns and (problem := _find_problem(columns[name], text)):
            raise QueryError(f"{columns[name].name} is never '{text}': {problem}")


def _compared_texts(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield each name that is compared for equality, and the text."""
    signs = [token.text for token in tokens] + ["", ""]
    for i, token in enumerate(tokens):
        if not token.words or (signs[i - 1] in ("|", "+", "-") and i):
            continue
        rest = i + 1
        if signs[rest] in ("=", "!", "<") and _ends_operand(tokens, rest + 1):
            yield token.words[-1], tokens[rest + 1].literal or ""
        rest += signs[rest] == "not"
        if signs[rest] == "in" and signs[rest + 1] == "(":
            members = itertools.takewhile(lambda each: each.text != ")", tokens[rest + 2 :])
            yield from ((token.words[-1], each.literal) for each in members if each.literal is not None)


def _ends_operand(tokens: Sequence[Token], place: int) -> bool:
    """Return True if a token is a text, and no operator follows that changes it."""
    after = tokens[place + 1].text if place + 1 < len(tokens) else ""
    return place < len(tokens) and tokens[place].literal is not None and after not in ("|", ":", "[", "+")


def _find_problem(column: Column, text: str) -> str:
    """Return the reason why no value of a column is equal to a text, and the fix; "" if there is none."""
    if column.type == "ip":
        return _find_address_problem(column.name, text)
    if column.type == "mac":
        digits = re.sub("[:.-]", "", text)
        if not _MAC.fullmatch(digits):
            return "the text is no MAC address, such as 00:00:5e:00:53:01"
        return _other_spelling(text, format_mac(int(digits, 16)))
    if column.type == "enum" and text not in column.values and not text.isdecimal():
        fix = did_you_mean(text, column.values) or f"values are {', '.join(list(column.values)[:20])}"
        return f"the column has no such value; {fix}"
    if column.type in NUMBERS and not _is_number(text):
        number = protocol_number(text) if column.name.endswith("proto") else None
        fix = f"; write {column.name} = {number} for {text}" if number is not None else ""
        return f"the column is a number{fix}"
    return ""


def _find_address_problem(name: str, text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            ipaddress.ip_network(text, strict=False)
            return f"the text is a network; write in_net({name}, '{text}')"
        return "the text is no IP address"
    return _other_spelling(text, format_address(address.packed))


def _other_spelling(text: str, spelling: str) -> str:
    return "" if text == spelling else f"addresses are compared as texts; write '{spelling}'"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
