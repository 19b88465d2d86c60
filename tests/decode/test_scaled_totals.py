"""Scaled totals are multiplied by the sampling rate of their flow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.datagrams import (
    data_set,
    flow_sample,
    ipfix,
    ipv4,
    netflow5,
    netflow9,
    options_template,
    options_template9,
    options_template_set,
    options_template_set9,
    record5,
    sampled_header,
    sflow,
    template,
    template_set,
    template_set9,
    u8,
    u16,
    u32,
    udp,
)
from tests.support.decoding import FLOW, Decode, both_decoders, columns

pytestmark = both_decoders

TOTALS = columns("sampling_rate", "bytes", "packets")


def flow(sampling_rate: int | None, bytes: int | None, packets: int | None) -> dict[str, int]:
    values = {"sampling_rate": sampling_rate, "bytes": bytes, "packets": packets}
    return {name: value for name, value in values.items() if value is not None}


def test_netflow5_totals_scale_by_the_rate_of_the_header(decode: Decode) -> None:
    datagram = netflow5(record5(packets=3, octets=400), record5(packets=1, octets=40), sampling=100)
    assert decode(datagram, schema=TOTALS, scale=True).flows == [flow(100, 40000, 300), flow(100, 4000, 100)]
    assert decode(datagram, schema=TOTALS).flows == [flow(100, 400, 3), flow(100, 40, 1)]


def test_netflow9_totals_scale_by_the_sampler_of_the_record(decode: Decode) -> None:
    datagram = netflow9(
        options_template_set9(options_template9(257, [(1, 4)], [(48, 1), (50, 4)])),
        data_set(257, u32(0) + u8(1) + u32(10), u32(0) + u8(2) + u32(1000)),
        template_set9(template(256, (1, 4), (2, 4), (48, 1))),
        data_set(256, u32(1500) + u32(2) + u8(2), u32(60) + u32(1) + u8(1)),
    )
    assert decode(datagram, schema=TOTALS, scale=True).flows == [
        flow(1000, 1_500_000, 2000),
        flow(10, 600, 10),
    ]


def test_ipfix_totals_scale_by_the_rate_in_the_record(decode: Decode) -> None:
    datagram = ipfix(
        template_set(template(256, (305, 4), (1, 4), (306, 4), (2, 2))),
        data_set(256, u32(1) + u32(700) + u32(49) + u16(7)),
    )
    assert decode(datagram, schema=TOTALS, scale=True).flow == flow(50, 35000, 350)


def test_sflow_totals_scale_by_the_rate_of_the_sample(decode: Decode) -> None:
    packet = ipv4(udp(53, 4000, bytes(72)), src="192.0.2.7", dst="198.51.100.7", proto=17)
    assert len(packet) == 100
    samples = [flow_sample(sampled_header(packet, 11, 100), rate=rate) for rate in (512, 1, 0)]
    expected = [flow(512, 51200, 512), flow(1, 100, 1), flow(None, 100, 1)]
    assert decode(sflow(*samples), schema=TOTALS, scale=True).flows == expected


def test_a_rate_applies_from_its_arrival(decode: Decode) -> None:
    """Earlier flows are not scaled."""
    data = data_set(256, u32(500) + u32(5))
    options = (
        options_template_set(options_template(257, [(149, 4)], [(34, 4)])),
        data_set(257, u32(0) + u32(20)),
    )
    outcome = decode(
        ipfix(template_set(template(256, (1, 4), (2, 4))), data),
        ipfix(*options),
        ipfix(data),
        schema=TOTALS,
        scale=True,
    )
    assert outcome.flows == [flow(None, 500, 5), flow(20, 10000, 100)]


def test_an_overridden_rate_scales_totals(decode: Decode) -> None:
    datagrams = (
        netflow5(record5(packets=3, octets=400), sampling=100),
        netflow5(record5(packets=3, octets=400)),
    )
    outcome = decode(*datagrams, schema=TOTALS, scale=True, override={"sampling_rate": 7})
    assert outcome.flows == [flow(7, 2800, 21)] * 2


def test_an_overridden_rate_without_scaling_changes_no_totals(decode: Decode) -> None:
    datagram = netflow5(record5(packets=3, octets=400), sampling=100)
    assert decode(datagram, schema=TOTALS, override={"sampling_rate": 7}).flow == flow(7, 400, 3)


@pytest.mark.parametrize(
    ("total", "rate", "scaled"),
    [
        (2**62, 3, 3 * 2**62),
        (2**62, 4, None),
        (2**32, 2**32 - 1, 2**64 - 2**32),
        (2**64 - 1, 1, 2**64 - 1),
        (2**64 - 1, 2, None),
        (0x5555555555555555, 3, 2**64 - 1),
        (0x5555555555555556, 3, None),
    ],
)
def test_a_total_of_more_than_64_bits_is_absent_and_counted(
    decode: Decode, total: int, rate: int, scaled: int | None
) -> None:
    datagram = ipfix(
        template_set(template(256, (1, 8), (2, 4), (34, 4))),
        data_set(256, total.to_bytes(8, "big") + u32(1) + u32(rate)),
    )
    outcome = decode(datagram, schema=TOTALS, scale=True)
    assert outcome.flow == flow(rate, scaled, rate)
    assert outcome.counters == ({} if scaled else {"out_of_range": 1})
    assert outcome.stats["192.0.2.1"]["counters"] == outcome.counters


@pytest.mark.parametrize(
    ("type", "most"),
    [
        *(("uint8", 2**8 - 1), ("uint16", 2**16 - 1), ("uint32", 2**32 - 1)),
        *(("fixed32", 2**32 - 1), ("uint64", 2**64 - 1), ("fixed64", 2**64 - 1)),
    ],
)
@pytest.mark.parametrize("explicit", [False, True])
def test_the_type_of_the_column_limits_totals(decode: Decode, type: str, most: int, explicit: bool) -> None:
    schema = columns("sampling_rate").add("total", 1000, type, ["ipfix:85"], scale="count", explicit=explicit)
    for value, rate in ((most // 5, 5), (most // 5 + 1, 5), (0, 5)):
        record = value.to_bytes(8, "big") + u32(rate)
        datagram = ipfix(template_set(template(256, (85, 8), (34, 4))), data_set(256, record))
        outcome = decode(datagram, schema=schema, scale=True)
        total: Any = {"total": value * rate} if value * rate <= most and (value or explicit) else {}
        assert outcome.flow == {"sampling_rate": rate} | total
        assert outcome.counters == ({} if value * rate <= most else {"out_of_range": 1})


def test_other_columns_are_not_scaled(decode: Decode) -> None:
    datagram = netflow5(record5(packets=3, octets=400, src_port=53, src_as=65001), sampling=100)
    scaled, plain = decode(datagram, scale=True).flow, decode(datagram).flow
    assert {name for name in plain if scaled[name] != plain[name]} == {"bytes", "packets"}
    assert {column.name for column in FLOW if column.scale == "count"} == {"bytes", "packets"}
