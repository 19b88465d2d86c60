"""Standard output with tables and styles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

__all__ = ["StdoutConsole", "fit_table", "new_table"]

_UNBOUNDED = 10**6  # cells: as wide as a table wants to be


class StdoutConsole(Console):
    """Prints text as it is. A closed pipe ends the command as it does where rich is not used."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__(width=width, highlight=False, markup=False)

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
