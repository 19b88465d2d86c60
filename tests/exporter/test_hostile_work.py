"""Hostile datagrams cost a bounded multiple of the instructions of normal IPFIX.

The instructions are counted per byte (ext/bench/hostile.c).
"""

from __future__ import annotations

import shutil
from functools import cache

import pytest

from benchmarks import instructions
from benchmarks.core_programs import build

pytestmark = pytest.mark.expensive

LIMITS = {
    "withdrawals-beside-options": 20,
    "withdrawals-beside-contested": 20,
    "splits-beside-pending": 20,
    "options-netflow9": 20,
    "sub-template-lists": 20,
    # Each byte is a record, and each field of the template is an operation.
    "empty-fields": 100,
    # Each definition of a few bytes compiles a template, which costs as much as many records.
    "templates-inserted": 30,
    "templates-redefined": 100,
    "definitions-withdrawn-beside-options": 100,
    # Each record of a few bytes adds a sampler. Each datagram adds a domain.
    "samplers-inserted": 60,
    "split-of-pending": 40,
    "domains-beyond-limit": 30,
}
"""Highest allowed ratio to the instructions per byte of normal IPFIX, by scenario."""


@cache
def count_per_byte(scenario: str) -> float:
    """Return the instructions per byte of one round: the difference between two rounds and one."""
    programs = build()
    program, plan = programs / "bench/run_hostile", programs / "flow.plan"
    capture = instructions.DATA / "generated-ipfix.pcap"
    once, output = instructions.count_instructions(program, scenario, 1, plan, capture)
    twice, _ = instructions.count_instructions(program, scenario, 2, plan, capture)
    return (twice - once) / int(output)


@pytest.mark.parametrize(("scenario", "limit"), LIMITS.items())
def test_hostile_datagrams_cost_a_bounded_multiple_of_normal_ipfix(scenario: str, limit: int) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    normal, hostile = count_per_byte("normal"), count_per_byte(scenario)
    ratio = hostile / normal
    assert ratio <= limit, (
        f"{scenario}: {hostile:.1f} instructions per byte, {ratio:.1f} times those of IPFIX"
    )
