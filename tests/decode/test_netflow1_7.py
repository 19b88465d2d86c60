"""NetFlow v1 and v7 have the fields of NetFlow v5 at other offsets. Each case runs against both decoders."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.datagrams import mapped, netflow1, netflow7, record1, record7
from tests.support.decoding import Decode, both_decoders, columns, short_id

pytestmark = both_decoders

RECORD: dict[str, Any] = {
    "src": "10.0.0.1", "dst": "10.0.0.2", "next_hop": "10.0.0.254", "in_if": 3, "out_if": 4, "packets": 5,
    "octets": 6000, "first": 900_000, "last": 950_000, "src_port": 443, "dst_port": 50000, "tcp_flags": 0x1B,
    "proto": 6, "tos": 0xB8,
}  # fmt: skip
CLOCK = {"uptime": 1_000_000, "seconds": 1_600_000_000, "nanoseconds": 250_000_000}
NAMES = (
    *(
        "flow_type",
        "sequence_number",
        "sampling_rate",
        "src_addr",
        "dst_addr",
        "next_hop",
        "in_if",
        "out_if",
        "packets",
    ),
    *(
        "bytes",
        "src_port",
        "dst_port",
        "tcp_flags",
        "proto",
        "ip_tos",
        "etype",
        "time_flow_start",
        "time_flow_end",
    ),
    *(
        "src_as",
        "dst_as",
        "src_prefix_len",
        "dst_prefix_len",
        "engine_id",
        "bypassed_router",
        "time_exported",
    ),
)
FLOW_OF_RECORD: dict[str, Any] = {
    "src_addr": mapped("10.0.0.1"), "dst_addr": mapped("10.0.0.2"), "next_hop": mapped("10.0.0.254"),
    "in_if": 3, "out_if": 4, "packets": 5, "bytes": 6000, "src_port": 443, "dst_port": 50000,
    "tcp_flags": 0x1B, "proto": 6, "ip_tos": 0xB8, "etype": 0x0800, "time_exported": 1_600_000_000_250,
    "time_flow_start": 1_599_999_900_250, "time_flow_end": 1_599_999_950_250,
}  # fmt: skip


@pytest.mark.parametrize("size", [48, 52])
def test_netflow1_records_fill_their_columns(decode: Decode, size: int) -> None:
    outcome = decode(
        netflow1(record1(**RECORD, size=size), record1(size=size), **CLOCK), schema=columns(*NAMES)
    )
    start = 1_599_999_000_250
    nothing = {"time_flow_start": start, "time_flow_end": start, "time_exported": 1_600_000_000_250}
    assert outcome.flows == [FLOW_OF_RECORD | {"flow_type": 5}, nothing | {"flow_type": 5, "etype": 0x0800}]
    assert outcome.counters == {}
    assert outcome.sequences == {"192.0.2.1": {}}


def test_netflow7_records_fill_their_columns(decode: Decode) -> None:
    more = {"src_as": 64500, "dst_as": 64501, "src_mask": 24, "dst_mask": 16}
    record = record7("192.0.2.99", 5, **RECORD, **more)
    outcome = decode(netflow7(record, sequence=7, **CLOCK), schema=columns(*NAMES))
    filled = {"src_as": 64500, "dst_as": 64501, "src_prefix_len": 24, "dst_prefix_len": 16}
    filled |= {"bypassed_router": mapped("192.0.2.99"), "flow_type": 6, "sequence_number": 7}
    assert outcome.flow == FLOW_OF_RECORD | filled
    assert outcome.counters == {}


def test_netflow7_sequence_numbers_count_flows(decode: Decode) -> None:
    sent = [netflow7(record7(), record7(), sequence=number) for number in (10, 12, 20)]
    outcome = decode(*sent)
    assert outcome.counters == {"sequence_gap": 1}
    assert outcome.sequence["lost"] == 6


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (netflow1(), "other_packet"),
        (netflow7(), "other_packet"),
        (netflow1(record1(), record1())[:-1], "other_packet"),
        (netflow7(record7(), count=2), "other_packet"),
        (netflow1(record1(), record1(), record1(), count=1), "unsupported_version"),
        (netflow1(record1(size=49), nanoseconds=1_000_000_000), "other_packet"),
        (netflow1(record1(size=60)), "unsupported_version"),
    ],
    ids=short_id,
)
def test_netflow1_and_7_of_wrong_sizes_are_counted(decode: Decode, payload: bytes, status: str) -> None:
    outcome = decode(payload)
    assert outcome.flows == []
    assert outcome.counters == {status: 1}
