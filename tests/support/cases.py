"""Cases of parametrized tests that differ in speed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    """Return values of one argument that only `make test-all` tests. They add little to the other values."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


def slow_after(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return all values of one argument. Only `make test-all` tests those after the first `count`."""
    values = list(cases)
    return [*values[:count], *slow(*values[count:])]
