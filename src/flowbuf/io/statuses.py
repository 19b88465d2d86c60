"""The order in which counters of statuses are told."""

from __future__ import annotations

from collections.abc import Mapping

from flowbuf._core import STATUSES

__all__ = ["Counters", "sort_counters"]

Counters = Mapping[str, int]
"""The name of a status -> how often it was met."""

CLASSES = ("fault", "loss", "note")


def sort_counters(counters: Counters) -> list[tuple[str, int]]:
    """The names with their counts: faults first, then losses, then notes; the most frequent first."""
    return sorted(counters.items(), key=lambda item: (CLASSES.index(STATUSES[item[0]][0]), -item[1], item[0]))
