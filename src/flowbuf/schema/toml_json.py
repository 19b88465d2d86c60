"""Parsers for TOML and JSON documents from users, with limits on nesting depth and on numbers."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

__all__ = ["MAX_DEPTH", "DocumentError", "parse_json", "parse_toml"]

MAX_DEPTH = 50
"""Largest nesting depth of tables and lists. No document of flowbuf needs more than six."""
MAX_BITS = 1024
"""Largest size of an integer. Columns have at most 64 bits; Python does not print more than 4300 digits."""


_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*){{{MAX_DEPTH}}}")
"""A key of more than MAX_DEPTH parts. Python's parser takes quadratic time and memory for one."""


class DocumentError(ValueError):
    """A document cannot be parsed. `line` is the line number, or None."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line

    def place(self, origin: str) -> str:
        """Return the origin, followed by the line if it is known."""
        return origin if self.line is None else f"{origin}:{self.line}"


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document. A byte order mark at its start is ignored.

    Raises:
        DocumentError: the text is not TOML, its values are nested too deeply, a number is too long, or a
            string has a NUL character.
    """
    if sys.version_info >= (3, 11):  # here, because the built-in schemas are read without it
        import tomllib
    else:
        import tomli as tomllib
    try:
        if any(line.count(".") >= MAX_DEPTH and _LONG_KEY.search(line) for line in text.split("\n")):
            raise _too_deep()
        document = _check(tomllib.loads(text.removeprefix("\ufeff")))
    except DocumentError:
        raise
    except ValueError as error:  # also raised for a number with too many digits
        line = re.search(r"line (\d+)", str(error))
        raise DocumentError(f"is not TOML: {error}", int(line[1]) if line else None) from None
    except RecursionError:
        raise _too_deep() from None
    _check_texts(document)
    return document  # type: ignore[no-any-return]


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON document.

    Raises:
        DocumentError: the text is not JSON, its values are nested too deeply, or a number is too long.
    """
    try:
        return _check(json.loads(text))
    except DocumentError:
        raise
    except ValueError as error:  # also raised for text that is not Unicode
        raise DocumentError(f"is not JSON: {error}") from None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> DocumentError:
    return DocumentError(f"is nested deeper than {MAX_DEPTH} tables or lists")


def _check(document: Any) -> Any:
    """Return the document after checking depth and numbers. Its users may recurse and print values."""
    level = [document] if isinstance(document, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        inner = [child for value in level for child in (value.values() if isinstance(value, dict) else value)]
        if any(isinstance(child, int) and child.bit_length() > MAX_BITS for child in inner):
            raise DocumentError(f"has a number of more than {MAX_BITS} bits")
        level = [child for child in inner if isinstance(child, (dict, list))]
        if not level:
            return document
    raise _too_deep()


def _check_texts(value: Any) -> None:
    """Raise DocumentError for a NUL character. Functions that open files raise ValueError for one."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, str) and "\0" in value:
        raise DocumentError(f"has a NUL character in {value[:60]!r}; remove it")
