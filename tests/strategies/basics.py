"""Hypothesis strategies for the parts of datagrams: numbers, byte strings, sources and times.

Importing this module registers the Hypothesis profiles and loads the one that HYPOTHESIS_PROFILE names.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Sent = tuple[bytes, tuple[str, int]]


def register_profiles() -> None:
    """Register the profiles of HYPOTHESIS_PROFILE: fast (`make test`), ci (the default) and deep."""
    common: dict[str, Any] = {
        "deadline": None,
        "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    }
    settings.register_profile("fast", max_examples=12, **common)
    settings.register_profile("ci", max_examples=150, **common)
    settings.register_profile("deep", max_examples=3000, **common)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


register_profiles()


def uints(size: int) -> st.SearchStrategy[int]:
    """Draw unsigned integers of `size` bytes. Zero, one and the highest number are frequent."""
    highest = (1 << 8 * size) - 1
    return st.sampled_from([0, 1, highest]) | st.integers(0, highest)


def octets(size: int) -> st.SearchStrategy[bytes]:
    return st.sampled_from([bytes(size), bytes(size - 1) + b"\x01" if size else b""]) | st.binary(
        min_size=size, max_size=size
    )


SOURCES = [("192.0.2.1", 9995), ("192.0.2.1", 2055), ("2001:db8::1", 4739)]
sources = st.sampled_from(SOURCES)
seconds = st.sampled_from([0, 1, 1_600_000_000, 1_601_500_000, 0xFFFFFFFF])
