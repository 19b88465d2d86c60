"""Times of reception that jump: nothing stalls, and all counters stay right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.strategies.limits import SECOND, START
from tests.support.datagrams import data_set, ipfix, netflow5, record5, template, template_set, u32
from tests.support.decoding import FLOW, Decode, both_decoders, run_decoder

HOUR = 3600 * SECOND
DAY = 24 * HOUR
SOURCE = ("192.0.2.1", 9995)
LEARNED = template_set(template(256, (1, 4)))
DATA = data_set(256, u32(7))
LATEST = 2**63 - 1

steps = pytest.mark.parametrize("step", [HOUR, 400 * DAY, -HOUR, -400 * DAY])


def sent(time: int, *sets: bytes, sequence: int = 0) -> tuple[bytes, tuple[str, int], int]:
    return ipfix(*sets, sequence=sequence), SOURCE, time


@both_decoders
@steps
def test_data_after_a_step_is_decoded_with_the_next_template(decode: Decode, step: int) -> None:
    """After a step forwards, templates have expired, and data waits for the next one. Nothing is lost."""
    outcome = decode(
        sent(START, LEARNED, DATA),
        sent(START + step, DATA, sequence=1),
        sent(START + step + SECOND, LEARNED, sequence=2),
        sent(START + step + 2 * SECOND, DATA, sequence=2),
        template_expiry=600 * SECOND,
        finish=True,
    )
    assert len(outcome.flows) == 3
    assert outcome.counters.get("template_expired", 0) == (step > 0)
    assert "template_missing" not in outcome.counters
    assert outcome.sequence["lost"] == 0


@both_decoders
@steps
def test_templates_expire_by_the_new_clock(decode: Decode, step: int) -> None:
    """A template that was refreshed after a step expires as long after it as any other."""
    outcome = decode(
        sent(START, LEARNED),
        sent(START + step, LEARNED, DATA),
        sent(START + step + 599 * SECOND, DATA, sequence=1),
        sent(START + step + 601 * SECOND, DATA, sequence=2),
        template_expiry=600 * SECOND,
        finish=True,
    )
    assert [len(flows) for flows in outcome.datagrams] == [0, 1, 1, 0]
    assert outcome.counters["template_expired"] == 1
    assert outcome.counters["template_missing"] == 1


@steps
def test_eviction_does_not_depend_on_the_clock(step: int) -> None:
    """The exporter that was used last stays, whatever its time of reception."""

    def evictions(step: int) -> dict[str, Any]:
        datagrams = [
            (
                ipfix(LEARNED, DATA, sequence=host),
                (f"192.0.2.{host}", 9995),
                START + (step if host % 3 else 0),
            )
            for round in range(3)
            for host in (*range(1, 12), 1, 2)
        ]
        return run_decoder("core", datagrams, FLOW, finish=True, exporter_limit=8).stats

    assert evictions(step) == evictions(0)


@pytest.mark.parametrize("time", [1, START, LATEST])
def test_any_time_is_accepted(time: int) -> None:
    """The first and the last time that a datagram can have, in turn with another one."""
    options: dict[str, Any] = {"rate_limit": 1000, "template_expiry": 600 * SECOND}
    datagrams = [
        (netflow5(record5(octets=7)), SOURCE, each) for each in (START, time, START, time) for _ in range(3)
    ]
    outcomes = [run_decoder(name, datagrams, FLOW, finish=True, **options) for name in ("reference", "core")]
    assert all(len(outcome.flows) == 12 for outcome in outcomes)
    assert outcomes[0].datagrams == outcomes[1].datagrams
