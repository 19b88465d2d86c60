"""Annotations of classes."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator
from typing import Any

__all__ = ["read_hints"]

_UNDEFINED = (AttributeError, NameError, SyntaxError, TypeError)  # errors of annotations

Fail = Callable[[type, str, Any, Exception], Exception]
"""Return the error for an annotation that cannot be evaluated: of which class, name, annotation, cause."""


def read_hints(cls: type, names: Collection[str], fail: Fail, *, extras: bool = False) -> dict[str, Any]:
    """Return the annotations of a class. Those of other attributes than `names` may be undefined.

    Args:
        cls: The class.
        names: Attributes whose annotations are needed.
        fail: Returns the exception to raise for one that cannot be evaluated.
        extras: Keep `Annotated`. Default: False.
    """
    try:
        return typing.get_type_hints(cls, include_extras=extras)
    except _UNDEFINED:  # of any attribute; in Python 3.10, also for the text "InitVar[int]"
        return dict(_one_by_one(cls, names, fail, extras))


def _one_by_one(cls: type, names: Collection[str], fail: Fail, extras: bool) -> Iterator[tuple[str, Any]]:
    for owner in reversed(cls.__mro__):
        module = sys.modules.get(owner.__module__)
        place = {"typing": typing, **getattr(module, "__dict__", {})}  # dataclasses write "typing.Any"
        for name, hint in inspect.get_annotations(owner).items():
            if name not in names:
                continue
            holder = types.SimpleNamespace(__annotations__={name: hint})
            try:
                yield name, typing.get_type_hints(holder, place, include_extras=extras)[name]
            except _UNDEFINED as error:
                raise fail(owner, name, hint, error) from None
