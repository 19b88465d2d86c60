"""Print tables and styled text on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flowbuf.cli.output.terminal import clean_text, terminal_of

__all__ = ["StdoutConsole", "fit_table", "new_table"]

_UNBOUNDED = 10**6  # cells: the natural width of a table


class StdoutConsole(Console):
    """Print text without control characters, and with all colons: `:100:` in an IPv6 address is no emoji.

    A closed pipe ends the command with the same status as without rich.

    Args:
        width: Width in cells. Default: that of the terminal.
        file: Text stream. Default: standard output.
    """

    def __init__(self, width: int | None = None, file: IO[str] | None = None) -> None:
        file = file or terminal_of(sys.stdout)
        super().__init__(file=file, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Clean the text between the styles."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(clean_text(text), style)

    def on_broken_pipe(self) -> None:
        """Re-raise the current BrokenPipeError. rich would end with status 1."""
        raise


def new_table(title: str, *headings: str, numbers: tuple[str, ...] = (), wraps: str = "") -> Table:
    """Return an empty table.

    Columns in `numbers` are right-aligned, and the column `wraps` may take several lines.
    """
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.pad_edge = False
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in numbers else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != wraps)
    return table


def fit_table(
    title: str,
    rows: Sequence[Mapping[str, str | Text]],
    numbers: tuple[str, ...],
    dispensable: tuple[str, ...],
    width: int,
) -> Table:
    """Return a table with as many columns as fit. Columns of `dispensable` are removed in their order."""
    headings = list(rows[0])
    for spared in (None, *dispensable):
        headings = [heading for heading in headings if heading != spared]
        table = new_table(title, *headings, numbers=numbers)
        for row in rows:
            table.add_row(*(row[heading] for heading in headings))
        console = Console(width=_UNBOUNDED)
        if Measurement.get(console, console.options, table).maximum <= width:
            break
    return table
