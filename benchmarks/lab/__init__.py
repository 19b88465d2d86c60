"""The serialization lab: the same records in many formats, each by its library, all measured in one run.

`FAMILIES` are kinds of records, with deterministic data; `FORMATS` are ways of writing them, behind one
interface. This can be imported with none of the libraries installed: `Format.absent()` says what it takes to
have one.
"""

from __future__ import annotations

from .families import FAMILIES, Family, Field
from .formats import FORMATS, Coder, Format

__all__ = ["FAMILIES", "FORMATS", "Coder", "Family", "Field", "Format", "select_formats"]


def select_formats(names: str | None = None) -> list[Format]:
    """Formats by their names, separated by commas; None is all of them.

    Raises ValueError for a name that none has.
    """
    if names is None:
        return list(FORMATS)
    by_name = {each.name: each for each in FORMATS}
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise ValueError(f"no format is called {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in wanted]
