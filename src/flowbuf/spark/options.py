"""Options of the Spark data source, which are texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from flowbuf.errors import did_you_mean

__all__ = ["choice", "flag", "names", "number", "read_options"]


def read_options(options: Mapping[str, str], known: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Return the values of options by name. Raises ValueError for an unknown option or an invalid value."""
    return {name.lower(): _read_option(name.lower(), text, known) for name, text in options.items()}


def _read_option(name: str, text: str, known: Mapping[str, Callable[[str], Any]]) -> Any:
    if name not in known:
        fix = did_you_mean(name, known) or f"options are {', '.join(known)}"
        raise ValueError(f"flowbuf has no option {name!r}; {fix}")
    try:
        return known[name](text)
    except ValueError as error:
        raise ValueError(f"option {name} is {text!r}; {error}") from None


def names(text: str) -> list[str]:
    """Return names that are separated by commas."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise ValueError("name at least one")
    return found


def flag(text: str) -> bool:
    """Return the value of "true" or "false"."""
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def number(highest: int, text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= highest:
        raise ValueError(f"write a whole number, 1 to {highest:,}")
    return int(text)


def choice(values: Collection[str], text: str) -> str:
    """Return a text that is one of the values."""
    if text not in values:
        raise ValueError(f"write {' or '.join(values)}")
    return text
