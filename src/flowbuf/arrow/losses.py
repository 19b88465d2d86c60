"""Warn of damaged input where its counters are out of the user's reach."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from flowbuf._core import STATUSES

__all__ = ["warn_of_losses"]


def warn_of_losses(counters: Mapping[str, int]) -> None:
    """Warn of faults and losses. The warning appears at the place that called the caller."""
    found = [
        f"{count:,} {name}: {STATUSES[name][1]}"
        for name, count in counters.items()
        if STATUSES[name][0] in ("fault", "loss")
    ]
    if found:
        text = f"rows may be missing ({'; '.join(found)}); strict=True makes this an error"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
