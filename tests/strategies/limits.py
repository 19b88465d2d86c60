"""Datagrams of exporters whose flows are limited, with their times of reception."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.strategies.basics import uints
from tests.support.datagrams import (
    data_set,
    flow_sample,
    ipfix,
    netflow5,
    record5,
    sflow,
    template,
    template_set,
    u16,
    u32,
)

SECOND = 10**9
START = 1_700_000_000 * SECOND
Timed = tuple[bytes, tuple[str, int], int]


def at(seconds: float, payload: bytes, host: int = 1) -> Timed:
    """Return a datagram of an exporter, and its time of reception in seconds since START."""
    return payload, (f"192.0.2.{host}", 9995), START + round(seconds * SECOND)


@st.composite
def limited_sequences(draw: st.DrawFn) -> list[Timed]:
    """Draw datagrams of two exporters whose clock is sometimes wrong."""
    time, sent = 0.0, []
    known = template_set(template(256, (1, 4), (10, 2)))
    steps = st.sampled_from([0.0, 0.001, 0.05, 0.4, 1.0, 5.0, -0.3, -2.0, -1e6, 1e6])
    for _ in range(draw(st.integers(1, 30))):
        time += draw(steps)
        count, interface = draw(st.integers(0, 30)), draw(st.integers(0, 2) | uints(2))
        payload = draw(
            st.sampled_from(
                [
                    netflow5(*[record5(octets=7, in_if=interface)] * count, sampling=draw(st.integers(0, 3))),
                    ipfix(known, data_set(256, (u32(7) + u16(interface)) * count)),
                    sflow(*[flow_sample(rate=5, input=interface)] * count, agent="192.0.2.1"),
                ]
            )
        )
        sent.append(at(max(time, -1e9), payload, draw(st.integers(1, 2))))
    return sent
