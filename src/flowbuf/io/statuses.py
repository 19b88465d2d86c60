"""Classes of statuses, and their order for display."""

from __future__ import annotations

from collections.abc import Mapping

from flowbuf._core import STATUSES

__all__ = ["LOSSES", "Counters", "describe_losses", "sort_counters"]

Counters = Mapping[str, int]
"""Name of a status -> number of occurrences."""

CLASSES = ("fault", "loss", "note")

LOSSES = tuple(name for name, (kind, _) in STATUSES.items() if kind in ("fault", "loss"))
"""Statuses of data that was damaged or lost, in the order of the core."""


def describe_losses(counters: Counters) -> str:
    """Return the counts and meanings of data that was damaged or lost; "" if there is none."""
    return "; ".join(f"{counters[name]:,} {name}: {STATUSES[name][1]}" for name in LOSSES if name in counters)


def sort_counters(counters: Counters) -> list[tuple[str, int]]:
    """Return the names with their counts, by class (fault, loss, note) and descending count."""
    return sorted(counters.items(), key=lambda item: (CLASSES.index(STATUSES[item[0]][0]), -item[1], item[0]))
