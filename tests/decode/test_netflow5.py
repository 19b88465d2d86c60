"""NetFlow v5 datagrams built by hand. Each case runs against the Python reference and the core."""

from __future__ import annotations

import pytest

from tests.support.datagrams import mapped, netflow5, record5
from tests.support.decoding import Decode, both_decoders, columns

pytestmark = both_decoders


def test_netflow5_records_fill_their_columns(decode: Decode) -> None:
    record = record5(
        src="10.0.0.1",
        dst="10.0.0.2",
        next_hop="10.0.0.3",
        in_if=4,
        out_if=65535,
        packets=6,
        octets=0xFFFFFFFF,
        first=900_000,
        last=950_000,
        src_port=443,
        dst_port=50000,
        tcp_flags=0x1B,
        proto=6,
        tos=0xB8,
        src_as=64500,
        dst_as=64501,
        src_mask=24,
        dst_mask=32,
    )
    datagram = netflow5(
        record,
        uptime=1_000_000,
        seconds=1_600_000_000,
        nanoseconds=250_000_000,
        sequence=77,
        engine_type=1,
        engine_id=2,
        sampling=0x4064,
    )
    names = [
        "time_received",
        "time_exported",
        "exporter_address",
        "source_address",
        "source_port",
        "flow_type",
        "sampling_rate",
        "sampling_mode",
        "sequence_number",
        "observation_domain_id",
        "engine_type",
        "engine_id",
        "bytes",
        "packets",
        "src_addr",
        "dst_addr",
        "next_hop",
        "etype",
        "proto",
        "src_port",
        "dst_port",
        "in_if",
        "out_if",
        "src_as",
        "dst_as",
        "src_prefix_len",
        "dst_prefix_len",
        "tcp_flags",
        "ip_tos",
        "time_flow_start",
        "time_flow_end",
    ]
    assert decode(datagram, schema=columns(*names)).flow == {
        "time_received": 1_700_000_000_123,
        "time_exported": 1_600_000_000_250,
        "exporter_address": mapped("192.0.2.1"),
        "source_address": mapped("192.0.2.1"),
        "source_port": 9995,
        "flow_type": 2,
        "sampling_rate": 100,
        "sampling_mode": 1,
        "sequence_number": 77,
        "engine_type": 1,
        "engine_id": 2,
        "bytes": 0xFFFFFFFF,
        "packets": 6,
        "src_addr": mapped("10.0.0.1"),
        "dst_addr": mapped("10.0.0.2"),
        "next_hop": mapped("10.0.0.3"),
        "etype": 0x0800,
        "proto": 6,
        "src_port": 443,
        "dst_port": 50000,
        "in_if": 4,
        "out_if": 65535,
        "src_as": 64500,
        "dst_as": 64501,
        "src_prefix_len": 24,
        "dst_prefix_len": 32,
        "tcp_flags": 0x1B,
        "ip_tos": 0xB8,
        "time_flow_start": 1_599_999_900_250,
        "time_flow_end": 1_599_999_950_250,
    }


def test_netflow5_zeros_are_absent(decode: Decode) -> None:
    assert decode(
        netflow5(record5()), schema=columns("src_addr", "bytes", "etype", "sampling_rate")
    ).flow == {"etype": 0x0800}


def test_netflow5_uptimes_may_wrap_between_flow_and_export(decode: Decode) -> None:
    datagram = netflow5(record5(first=0xFFFFFFFF, last=1_000), uptime=2_000, seconds=1_000)
    outcome = decode(datagram, schema=columns("time_flow_start", "time_flow_end"))
    assert outcome.flow == {"time_flow_start": 997_999, "time_flow_end": 999_000}


def test_netflow5_time_before_1970_is_out_of_range(decode: Decode) -> None:
    outcome = decode(netflow5(record5(first=0), uptime=2_000, seconds=1), schema=columns("time_flow_start"))
    assert outcome.flow == {}
    assert outcome.counters == {"out_of_range": 1}


def test_a_netflow5_count_above_its_records_is_a_truncated_datagram(decode: Decode) -> None:
    records = [record5(octets=1), record5(octets=2)]
    outcome = decode(netflow5(*records, count=30) + bytes(47), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}, {"bytes": 2}]
    assert outcome.counters == {"truncated_datagram": 1}


@pytest.mark.parametrize(
    ("rest", "counters"),
    [(b"", {}), (bytes(5), {"padding": 1}), (bytes(47) + b"x", {"excess_data": 1})],
)
@pytest.mark.parametrize("count", [1, 2])
def test_netflow5_bytes_beyond_the_count_are_counted(
    decode: Decode, count: int, rest: bytes, counters: dict[str, int]
) -> None:
    datagram = netflow5(record5(octets=1), record5(octets=2), count=count) + rest
    outcome = decode(datagram, schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}, {"bytes": 2}][:count]
    assert outcome.counters == ({"excess_data": 1} if count == 1 else counters)


def test_netflow5_icmp_type_and_code_are_in_the_destination_port(decode: Decode) -> None:
    outcome = decode(netflow5(record5(proto=1, dst_port=0x0301)), schema=columns("icmp_type", "icmp_code"))
    assert outcome.flow == {"icmp_type": 3, "icmp_code": 1}
