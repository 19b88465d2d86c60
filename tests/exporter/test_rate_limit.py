"""A limit on the flows per second of an exporter. Other flows are skipped, and scaled totals stay right."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf import DecodeOptions, Decoder, FlowBatch, SamplingRule
from flowbuf._core import ColumnBuilder, pack_datagrams
from flowbuf.arrow.batch import new_table_type
from flowbuf.errors import SchemaError
from tests.strategies.limits import START, Timed, at, limited_sequences
from tests.support.columnar import rows_expected, rows_of
from tests.support.datagrams import (
    data_set,
    flow_sample,
    ipfix,
    netflow5,
    options_template,
    options_template_set,
    record5,
    sflow,
    template,
    template_set,
    u32,
)
from tests.support.decoding import FLOW, SOURCE, Decode, both_decoders, columns, run_decoder

SECOND = 10**9
HOUR = 3600 * SECOND
TOTALS = columns("sampling_rate", "bytes")


def flows5(count: int, octets: int = 100, **header: int) -> bytes:
    return netflow5(*[record5(octets=octets)] * count, **header)


def sum_rates(flows: list[dict[str, Any]]) -> int:
    return sum(flow.get("sampling_rate", 1) for flow in flows)


@both_decoders
def test_the_flows_of_a_second_are_decoded_at_once(decode: Decode) -> None:
    """Then the credit is used up. It grows with time."""
    times = [0, 0, 0, 0, 0.25, 0.6, 0.6, 3, 3, 3, 3]
    outcome = decode(*(at(time, flows5(10)) for time in times), schema=TOTALS, rate_limit=20)
    assert [len(flows) for flows in outcome.datagrams] == [10, 10, 0, 0, 10, 10, 0, 10, 10, 0, 0]
    assert outcome.counters["rate_limited"] == 50
    assert outcome.stats["192.0.2.1"]["flows"] == 60


@both_decoders
def test_decoded_flows_stand_for_those_skipped_before_them(decode: Decode) -> None:
    """Here, every datagram has as many flows as the average, so nothing is owed after the next one."""
    sent = [at(0, flows5(10)), at(0, flows5(10)), at(0, flows5(10)), at(1, flows5(10)), at(2, flows5(10))]
    outcome = decode(*sent, schema=TOTALS, scale=True, rate_limit=10)
    found = [[flow.get("sampling_rate") for flow in flows] for flows in outcome.datagrams]
    assert found == [[None] * 10, [], [], [3] * 10, [None] * 10]
    assert sum(flow["bytes"] for flow in outcome.flows) == 5 * 10 * 100


@both_decoders
def test_the_rate_of_the_exporter_is_multiplied(decode: Decode) -> None:
    sent = [at(0, flows5(10, sampling=100)), at(0, flows5(10, sampling=100)), at(1, flows5(10, sampling=100))]
    outcome = decode(*sent, schema=TOTALS, rate_limit=10)
    assert {flow["sampling_rate"] for flow in outcome.datagrams[2]} == {200}


@both_decoders
def test_configured_and_overridden_rates_are_multiplied(decode: Decode) -> None:
    sent = [at(0, flows5(10)), at(0, flows5(10)), at(1, flows5(10))]
    rule = SamplingRule("192.0.2.0/24", 7)
    configured = decode(*sent, schema=TOTALS, rate_limit=10, sampling=[rule])
    assert {flow["sampling_rate"] for flow in configured.datagrams[2]} == {14}
    default = decode(*sent, schema=TOTALS, rate_limit=10, default_sampling_rate=9)
    assert [flow["sampling_rate"] for flow in default.flows[9:11]] == [9, 18]
    overridden = decode(*sent, schema=TOTALS, rate_limit=10, override={"sampling_rate": 8})
    assert [flow["sampling_rate"] for flow in overridden.flows[9:11]] == [8, 16]


@both_decoders
def test_fractions_of_a_rate_are_carried_on(decode: Decode) -> None:
    """15 flows were skipped, so 10 decoded ones stand for 25."""
    sent = [at(0, flows5(10)), at(0, flows5(15)), at(1, flows5(10))]
    outcome = decode(*sent, schema=TOTALS, rate_limit=10)
    assert [flow["sampling_rate"] for flow in outcome.datagrams[2]] == [2, 3] * 5


@both_decoders
def test_exporters_have_limits_of_their_own(decode: Decode) -> None:
    sent = [at(0, flows5(10), host) for host in (1, 2, 1, 2, 3)]
    outcome = decode(*sent, schema=TOTALS, rate_limit=10)
    assert [len(flows) for flows in outcome.datagrams] == [10, 10, 0, 0, 10]


@both_decoders
def test_templates_and_options_of_skipped_datagrams_count(decode: Decode) -> None:
    """Only flows are skipped. Sequence numbers have no gap."""
    templates = template_set(template(256, (1, 4)), template(257, (1, 4), (2, 4)))
    options = options_template_set(options_template(258, [(149, 4)], [(34, 4)])) + data_set(
        258, u32(0) + u32(50)
    )
    sent = [
        at(0, ipfix(template_set(template(256, (1, 4))), data_set(256, u32(7) * 10))),
        at(0, ipfix(templates, options, data_set(256, u32(7) * 5), sequence=10)),
        at(1, ipfix(data_set(257, u32(8) + u32(1)), sequence=16)),
    ]
    outcome = decode(*sent, schema=TOTALS, rate_limit=10)
    assert [len(flows) for flows in outcome.datagrams] == [10, 0, 1]
    assert outcome.counters == {"rate_limited": 5}
    assert outcome.sequence["lost"] == 0
    assert outcome.datagrams[2][0]["bytes"] == 8
    assert outcome.datagrams[2][0]["sampling_rate"] == 50 * (10 + 5) // 10


@both_decoders
def test_variable_records_and_biflows_are_counted_as_flows(decode: Decode) -> None:
    fields = template(256, (1, 4), (1, 4, 29305), (82, 65535))
    both, one = u32(1) + u32(2) + b"\x01a", u32(1) + u32(0) + b"\x02ab"
    sent = [
        at(0, ipfix(template_set(fields), data_set(256, both * 2))),
        at(0, ipfix(data_set(256, both + one + both), sequence=2)),
    ]
    outcome = decode(*sent, schema=TOTALS, rate_limit=2)
    assert [len(flows) for flows in outcome.datagrams] == [4, 0]
    assert outcome.counters["rate_limited"] == 5


@both_decoders
def test_samples_of_sflow_are_limited(decode: Decode) -> None:
    samples = [flow_sample(rate=10, sequence=number) for number in range(1, 5)]
    sent = [at(0, sflow(*samples[:2], sequence=1)), at(0, sflow(*samples[2:3], sequence=2))]
    sent += [at(1, sflow(*samples[3:], sequence=3))]
    outcome = decode(*sent, schema=TOTALS, rate_limit=2)
    assert [len(flows) for flows in outcome.datagrams] == [2, 0, 1]
    assert outcome.counters == {"rate_limited": 1}
    assert outcome.datagrams[2][0]["sampling_rate"] == 10 + 10 // 2


@both_decoders
def test_datagrams_of_unknown_time_are_decoded(decode: Decode) -> None:
    outcome = decode(*[(flows5(10), SOURCE, 0)] * 5, schema=TOTALS, rate_limit=1)
    assert len(outcome.flows) == 50


@both_decoders
@pytest.mark.parametrize("step", [HOUR, 30 * 24 * HOUR, -HOUR, -30 * 24 * HOUR])
def test_a_clock_step_blocks_no_exporter(decode: Decode, step: int) -> None:
    """After a step, the credit is at most that of one second, and flows are decoded within two seconds."""
    before = [at(i / 10, flows5(10)) for i in range(30)]
    after = [at(3 + step / SECOND + i / 10, flows5(10)) for i in range(50)]
    outcome = decode(*before, *after, schema=TOTALS, rate_limit=50)
    decoded = [len(flows) for flows in outcome.datagrams[30:]]
    assert sum(decoded[:10]) <= 50 + 50 + 10
    assert all(sum(decoded[i : i + 10]) >= 40 for i in range(10, 40))
    assert sum(decoded) <= 50 * 6 + 10


@both_decoders
def test_datagrams_that_come_out_of_order_add_no_credit(decode: Decode) -> None:
    times = [time for i in range(20) for time in (i / 10, i / 10 - 0.05)]
    outcome = decode(*(at(time, flows5(10)) for time in times), schema=TOTALS, rate_limit=50)
    assert len(outcome.flows) <= 50 + 2 * 50 + 10


@both_decoders
def test_a_large_datagram_delays_later_ones_for_a_minute_at_most(decode: Decode) -> None:
    records = ipfix(template_set(template(256, (4, 1))), data_set(256, b"\x06" * 1000))
    sent = [at(0, records), *(at(time, flows5(1)) for time in (30, 59, 61, 62))]
    outcome = decode(*sent, schema=columns("sampling_rate", "proto"), rate_limit=1)
    assert [len(flows) for flows in outcome.datagrams] == [1000, 0, 0, 1, 1]


RULES = [SamplingRule("192.0.2.0/24", 10, interface=1), SamplingRule("192.0.2.2", 20, override=True)]


@given(limited_sequences(), st.integers(1, 100), st.sampled_from([[], RULES]), st.booleans())
def test_the_core_and_the_reference_agree(
    sequence: list[Timed], limit: int, rules: list[SamplingRule], scale: bool
) -> None:
    options: dict[str, Any] = {"rate_limit": limit, "sampling": rules, "scale": scale}
    expected, found = (
        run_decoder(name, sequence, FLOW, finish=True, **options) for name in ("reference", "core")
    )
    assert found.datagrams == expected.datagrams
    assert found.counters == expected.counters
    assert found.stats == expected.stats
    assert columns_of(sequence, **options) == [flow.get("sampling_rate") for flow in expected.flows]


@given(limited_sequences(), st.integers(1, 100))
def test_interrupted_datagrams_have_the_same_flows(sequence: list[Timed], limit: int) -> None:
    """A full buffer or batch interrupts a datagram, which continues with the same decision and rates."""
    options: dict[str, Any] = {"rate_limit": limit, "sampling": RULES}
    whole, small, batches = (Decoder(FLOW, capacity=size, **options) for size in (65536, 1, 65536))
    payloads, sources, times = (list(each) for each in zip(*sequence, strict=True))
    messages = whole.encode_many(payloads, sources, times)
    assert small.encode_many(payloads, sources, times) == messages
    builder = ColumnBuilder(batches, new_table_type(FLOW, batches.plan, "binary"), 2)
    tables = [*builder.decode(pack_datagrams(payloads, sources, times)), builder.finish()]
    rows = [row for table in tables for row in rows_of(FlowBatch(FLOW, table))]
    assert rows == rows_expected(messages, FLOW)
    assert small.counters == batches.counters == whole.counters


def columns_of(sequence: list[Timed], **options: Any) -> list[int | None]:
    """Return the sampling rates of all flows, decoded into columns."""
    payloads, sources, times = zip(*sequence, strict=True)
    batch = Decoder(FLOW, **options).columns_many(payloads, list(sources), list(times))
    return [row.get("sampling_rate") or None for row in rows_of(batch)]


DURATION = 30


def offer(load: float, spread: bool, seed: int) -> tuple[list[Timed], Counter[str]]:
    """Return DURATION seconds of datagrams with `load` flows per second, and their totals.

    The sizes of flows have a long tail. With `spread`, datagrams have 1 to 30 flows, else 30.
    """
    source = random.Random(seed)
    sizes = [int(source.paretovariate(2.5) * 1000) for _ in range(500)]
    records = [(octets, record5(octets=octets)) for octets in sizes]
    sent, totals, time = [], Counter[str](), 0.0
    while time < DURATION:
        chosen = source.choices(records, k=source.randint(1, 30) if spread else 30)
        sent.append(at(time, netflow5(*(record for _, record in chosen))))
        totals.update(flows=len(chosen), bytes=sum(octets for octets, _ in chosen))
        time += source.expovariate(load / (15.5 if spread else 30))
    return sent, totals


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("excess", [0.5, 1.5, 4, 15])
def test_scaled_totals_are_those_of_all_flows(excess: float, spread: bool) -> None:
    """The number of flows is exact but for those owed at the end. Bytes are an estimate from a sample."""
    limit = 200
    sent, totals = offer(limit * excess, spread, seed=1)
    decoder = Decoder(TOTALS, rate_limit=limit, scale=True)
    payloads, sources, times = zip(*sent, strict=True)
    rows = decoder.columns_many(payloads, list(sources), list(times)).to_arrow().to_pylist()
    skipped = decoder.counters.get("rate_limited", 0)
    assert len(rows) + skipped == totals["flows"]
    assert len(rows) <= limit * (DURATION + 1) + 30
    assert len(rows) >= min(totals["flows"], limit * DURATION) * 0.95
    flows = sum(row["sampling_rate"] or 1 for row in rows)
    assert abs(flows - totals["flows"]) <= 2 * 30 * max(excess, 1)
    assert sum(row["bytes"] for row in rows) == pytest.approx(totals["bytes"], rel=0.03)


def test_schemas_need_a_sampling_rate() -> None:
    with pytest.raises(SchemaError, match="a rate limit changes the sampling rate, and none is enabled"):
        Decoder(columns("bytes"), rate_limit=10)
    Decoder("sflow_counters", rate_limit=10)  # its rows are not flows


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rate_limit": -1}, "rate_limit is -1; it may be 0 to 100,000,000"),
        ({"rate_limit": 10**8 + 1}, "rate_limit is 100000001; it may be 0 to 100,000,000"),
        ({"rate_limit": 1, "strict": True}, "rate_limit skips flows, which strict forbids"),
    ],
)
def test_faults_of_options(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        DecodeOptions(**options)


def test_evicted_exporters_keep_their_counters() -> None:
    """The limit of an exporter is forgotten with it, so spoofed sources need no more memory."""
    decoder = Decoder(TOTALS, rate_limit=10, exporter_limit=20)
    for _ in range(3):
        for host in range(200):
            for _ in range(2):
                decoder.encode(flows5(10), (f"198.51.100.{host}", 9995), START)
    totals = decoder.read_totals()
    assert totals["flows"] + totals["counters"]["rate_limited"] == 3 * 200 * 2 * 10
    assert totals["datagrams"] == 3 * 200 * 2
    assert totals["counters"]["exporter_evicted"] == 3 * 200 - 20
    assert len(decoder.list_exporters()) == 20 + 1  # the last one has the totals of those evicted
    assert sum(limited for *_, limited in decoder.list_exporters()) == totals["counters"]["rate_limited"]
