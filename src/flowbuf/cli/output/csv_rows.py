"""CSV as RFC 4180 has it, with `\\n` at the end of a row, and values that no spreadsheet takes for formulas.

A cell with a control character, a comma or a double quote stands in double quotes, so that no value makes a cell or a
row of its own. NUL becomes U+FFFD: many readers take it for the end of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from flowbuf.cli.output.terminal import clean_text
from flowbuf.io.output_file import OutputFile

__all__ = ["neutralize", "write_csv"]

_QUOTED = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029",]')
# The first characters that OWASP lists ("CSV Injection"), with their full-width forms, and | and %. Importers differ in
# what they remove before a first character: white space, controls, invisible format characters, double quotes.
_REMOVED = '\\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"'
_FORMULA = re.compile(f"[\t\r\n]|[{_REMOVED}]*[-=+@|%\uff1d\uff0b\uff0d\uff20]")


def write_csv(file: OutputFile, rows: Iterable[Iterable[str]]) -> None:
    """Append rows of cells; on a terminal without control characters."""
    if file.is_terminal:
        rows = (map(clean_text, row) for row in rows)
    file.write("".join([_line(list(map(_cell, row))) for row in rows]).encode())


def _line(cells: list[str]) -> str:
    """A row of one empty cell is no empty line, which readers skip."""
    return (",".join(cells) if cells != [""] else '""') + "\n"


def _cell(text: str) -> str:
    if not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""').replace("\0", "\ufffd") + '"'


def neutralize(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text
