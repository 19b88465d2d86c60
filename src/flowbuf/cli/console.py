"""Standard output with tables and styles."""

from __future__ import annotations

from rich.console import Console

__all__ = ["StdoutConsole"]


class StdoutConsole(Console):
    """Prints text as it is. A closed pipe ends the command as it does where rich is not used."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__(width=width, highlight=False, markup=False)

    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is handled; rich would end with status 1."""
        raise
