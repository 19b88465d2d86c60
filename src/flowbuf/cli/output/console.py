"""Standard output with tables and styles."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flowbuf.cli.output.terminal import clean_text, terminal_of

__all__ = ["StdoutConsole", "fit_table", "new_table"]

_UNBOUNDED = 10**6  # cells: as wide as a table wants to be


class StdoutConsole(Console):
    """Prints text as it is, except for control characters. A closed pipe ends the command as it does where rich is not
    used."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__(file=terminal_of(sys.stdout), width=width, highlight=False, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Clean the text between the styles."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(clean_text(text), style)

    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is handled; rich would end with status 1."""
        raise


def new_table(title: str, *headings: str, numbers: tuple[str, ...] = (), wraps: str = "") -> Table:
    """An empty table with these columns: `numbers` are set to the right, the column `wraps` may take several lines."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
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
    """A table of as many columns as there is room for. Of those that can be spared, the first goes first."""
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
