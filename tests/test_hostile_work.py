"""Hostile datagrams must not cost much more instructions per byte than normal IPFIX (ext/bench/hostile.c)."""

from __future__ import annotations

import shutil
from functools import cache

import instructions
import pytest
from core_programs import build

pytestmark = pytest.mark.expensive

LIMIT = 20
"""The highest ratio to normal IPFIX."""
SCENARIOS = (
    "withdrawals-beside-options",
    "withdrawals-beside-contested",
    "splits-beside-pending",
    "options-netflow9",
    "sub-template-lists",
)


@cache
def count_per_byte(scenario: str) -> float:
    """Instructions per byte of a round. Two runs differ by one round."""
    programs = build()
    program, plan = programs / "bench/run_hostile", programs / "flow.plan"
    capture = instructions.DATA / "generated-ipfix.pcap"
    once, output = instructions.count_instructions(program, scenario, 1, plan, capture)
    twice, _ = instructions.count_instructions(program, scenario, 2, plan, capture)
    return (twice - once) / int(output)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_hostile_datagrams_cost_at_most_twenty_times_the_normal(scenario: str) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    normal, hostile = count_per_byte("normal"), count_per_byte(scenario)
    ratio = hostile / normal
    assert ratio <= LIMIT, f"{scenario}: {hostile:.1f} instructions per byte, {ratio:.1f} times those of IPFIX"
