"""Write CSV as in RFC 4180, but with `\\n` line ends, and neutralize formulas for spreadsheets.

A cell with a control character, a comma or a double quote is quoted, so that no value creates a cell or a
row. NUL becomes U+FFFD, because many readers treat it as the end of the file. The core writes flows with the
same rules (`fb_format_csv_cell`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from flowbuf.cli.output.terminal import clean_text
from flowbuf.io.output_file import OutputFile

__all__ = ["csv_line", "neutralize", "write_csv"]

_QUOTED = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029",]')
# The first characters that OWASP lists ("CSV Injection"), their full-width forms, and | and %. Before a first
# character, importers may remove white space, controls, invisible format characters and double quotes.
_REMOVED = '\\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"'
_FORMULA = re.compile(f"[\t\r\n]|[{_REMOVED}]*[-=+@|%\uff1d\uff0b\uff0d\uff20]")


def write_csv(file: OutputFile, rows: Iterable[Iterable[str]]) -> None:
    """Append rows of cells. On a terminal, control characters are replaced."""
    if file.is_terminal:
        rows = (map(clean_text, row) for row in rows)
    file.write("".join([csv_line(row) + "\n" for row in rows]).encode())


def csv_line(cells: Iterable[str]) -> str:
    """Return a row as a line without its end.

    A single empty cell is quoted, because readers skip empty lines.
    """
    texts = list(map(_cell, cells))
    return ",".join(texts) if texts != [""] else '""'


def _cell(text: str) -> str:
    if not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""').replace("\0", "\ufffd") + '"'


def neutralize(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would read as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text
