"""Checks of arguments. Their errors name the argument, its value and the fix."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

__all__ = ["check_flag", "check_range", "check_type", "check_whole", "list_texts"]


def check_range(name: str, value: float, lowest: float, highest: float = math.inf, note: str = "") -> None:
    """Raise ValueError if value is outside lowest to highest, or NaN. Raise TypeError if it is no number."""
    try:
        inside = lowest <= value <= highest
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a number") from None
    if not inside:
        upper = "or more" if highest == math.inf else f"to {highest:,}"
        raise ValueError(f"{name} is {value}; it may be {lowest:,} {upper}{note}")


def check_whole(name: str, value: Any, lowest: int, highest: float = math.inf) -> None:
    """Raise TypeError if value is no whole number, and ValueError if it is outside lowest to highest."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    check_range(name, number, lowest, highest)


def check_flag(name: str, value: object) -> None:
    """Raise TypeError if value is neither True nor False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; it must be True or False")


def check_type(name: str, value: object, kind: type, fix: str) -> None:
    """Raise TypeError, with this fix, if value is neither None nor of this kind."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}; {fix}")


def list_texts(name: str, values: Iterable[str], items: str, example: str) -> list[str]:
    """Return texts as a list.

    Args:
        name: Name of the argument.
        values: Value of the argument.
        items: Noun for the texts, such as "names".
        example: One of them.

    Raises:
        TypeError: values is one text, whose letters would be taken for the items, or has other items.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        parts = values.split(",") if isinstance(values, str) else ()
        fix = [part.strip() for part in parts if part.strip()] or [example]
        raise TypeError(f"{name} is {values!r}; pass a list of {items}, such as {fix!r}")
    texts = list(values)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name} has {text!r}; write {items} as texts, such as {example!r}")
    return texts
