"""The serialization lab: the same records in many formats, measured in one run.

`FAMILIES` are kinds of records with deterministic data. `FORMATS` are serialization formats with one common
interface. The package can be imported without their libraries: `Format.absent()` returns the missing ones.
"""

from __future__ import annotations

from .families import FAMILIES, Family, Field
from .formats import FORMATS, Coder, Format

__all__ = ["FAMILIES", "FORMATS", "Coder", "Family", "Field", "Format", "select_formats"]


def select_formats(names: str | None = None) -> list[Format]:
    """Return formats by comma-separated names. None selects all. Raises ValueError for an unknown name."""
    if names is None:
        return list(FORMATS)
    by_name = {each.name: each for each in FORMATS}
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise ValueError(f"unknown format {', '.join(unknown)}; choose from {', '.join(by_name)}")
    return [by_name[name] for name in wanted]
