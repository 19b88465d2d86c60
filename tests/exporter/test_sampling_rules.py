"""Configured sampling rates apply by exporter and ingress interface."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from flowbuf import Decoder, SamplingRule
from tests.support.datagrams import (
    data_set,
    expanded_flow_sample,
    flow_sample,
    ipfix,
    netflow5,
    netflow9,
    record5,
    sflow,
    template,
    template_set,
    template_set9,
    u32,
)
from tests.support.decoding import Decode, both_decoders, columns

TOTALS = columns("sampling_rate", "bytes")


def rates(flows: list[dict[str, Any]]) -> list[int | None]:
    return [flow.get("sampling_rate") for flow in flows]


@both_decoders
def test_a_rate_is_for_exporters_that_report_none(decode: Decode) -> None:
    rule = SamplingRule("192.0.2.0/24", 1000)
    silent, reporting = netflow5(record5()), netflow5(record5(), sampling=10)
    assert rates(decode(silent, reporting, schema=TOTALS, sampling=[rule]).flows) == [1000, 10]


@both_decoders
def test_an_override_replaces_the_rate_of_the_exporter(decode: Decode) -> None:
    rule = SamplingRule("192.0.2.0/24", 1000, override=True)
    silent, reporting = netflow5(record5()), netflow5(record5(), sampling=10)
    assert rates(decode(silent, reporting, schema=TOTALS, sampling=[rule]).flows) == [1000, 1000]


@both_decoders
@pytest.mark.parametrize("order", [1, -1])
def test_the_longest_network_counts_and_then_the_interface(decode: Decode, order: int) -> None:
    rules = [
        SamplingRule("0.0.0.0/0", 1),
        SamplingRule("0.0.0.0/0", 2, interface=7),
        SamplingRule("192.0.2.0/24", 3, interface=8),
        SamplingRule("192.0.2.1", 4, interface=9),
        SamplingRule("192.0.3.0/24", 5),
        SamplingRule("::/0", 6),
    ][::order]
    payload = netflow5(*(record5(in_if=interface) for interface in (7, 8, 9, 10)))
    by_source = {
        "192.0.2.1": [2, 3, 4, 1],
        "192.0.2.2": [2, 3, 1, 1],
        "192.0.3.1": [5, 5, 5, 5],
        "198.51.100.1": [2, 1, 1, 1],
        "2001:db8::1": [6, 6, 6, 6],
    }
    datagrams = [(payload, (source, 9995)) for source in by_source]
    found = decode(*datagrams, schema=TOTALS, sampling=rules).datagrams
    assert [rates(flows) for flows in found] == list(by_source.values())


@both_decoders
def test_other_exporters_have_the_default_rate(decode: Decode) -> None:
    rules = [SamplingRule("192.0.2.2", 1000), SamplingRule("192.0.2.3", 3000, interface=7)]
    datagrams = [(netflow5(record5()), (f"192.0.2.{host}", 9995)) for host in (1, 2, 3)]
    outcome = decode(*datagrams, schema=TOTALS, sampling=rules, default_sampling_rate=50)
    assert rates(outcome.flows) == [50, 1000, 50]


@both_decoders
def test_configured_rates_scale_totals(decode: Decode) -> None:
    rule = SamplingRule("192.0.2.0/24", 1000)
    outcome = decode(netflow5(record5(octets=40)), schema=TOTALS, scale=True, sampling=[rule])
    assert outcome.flow == {"sampling_rate": 1000, "bytes": 40000}


@both_decoders
def test_interfaces_of_templates(decode: Decode) -> None:
    """The interface is element 10, or element 252 if that is 0 or absent."""
    rules = [SamplingRule("192.0.2.1", 100 + i, interface=i) for i in (1, 2, 3)]
    fields = [(1, 4), (252, 4), (10, 4)]
    records = [(5, 0, 1), (5, 2, 0), (5, 3, 1), (5, 0, 0), (5, 9, 9)]
    content = b"".join(u32(number) for record in records for number in record)
    for payload in (
        netflow9(template_set9(template(256, *fields)), data_set(256, content)),
        ipfix(template_set(template(256, *fields)), data_set(256, content)),
    ):
        outcome = decode(payload, schema=TOTALS, sampling=rules)
        assert rates(outcome.flows) == [101, 102, 101, None, None]


@both_decoders
def test_an_interface_above_32_bits_has_no_rule(decode: Decode) -> None:
    rule = SamplingRule("192.0.2.1", 100, interface=1)
    content = (1 << 32 | 1).to_bytes(8, "big") + u32(7)
    payload = ipfix(template_set(template(256, (10, 8), (1, 4))), data_set(256, content))
    assert rates(decode(payload, schema=TOTALS, sampling=[rule]).flows) == [None]


@both_decoders
def test_the_reverse_flow_of_a_biflow_has_its_own_interface(decode: Decode) -> None:
    """The reverse element of 10 is the ingress interface of the reverse flow."""
    rules = [SamplingRule("192.0.2.1", 100 + i, interface=i) for i in (1, 2)]
    fields = [(1, 4), (10, 4), (1, 4, 29305)]
    own = template_set(template(256, *fields, (10, 4, 29305)))
    shared = template_set(template(257, *fields))
    outcome = decode(
        ipfix(own, data_set(256, u32(5) + u32(1) + u32(6) + u32(2))),
        ipfix(shared, data_set(257, u32(5) + u32(1) + u32(6)), sequence=1),
        schema=TOTALS,
        sampling=rules,
    )
    assert rates(outcome.flows) == [101, 102, 101, 101]


@both_decoders
@pytest.mark.parametrize("expanded", [False, True])
def test_sflow_rates_are_those_of_the_agent(decode: Decode, expanded: bool) -> None:
    rules = [
        SamplingRule("192.0.2.1", 1, override=True),  # the source, which is not the agent
        SamplingRule("198.51.100.1", 300, override=True),
        SamplingRule("198.51.100.1", 400, interface=4, override=True),
    ]
    discarded = 1 << 30 | 4
    if expanded:
        samples = [expanded_flow_sample(rate=8, input=each) for each in ((0, 4), (0, 5), (1, 4))]
    else:
        samples = [flow_sample(rate=8, input=each) for each in (4, 5, discarded)]
    payload = sflow(*samples, agent="198.51.100.1")
    assert rates(decode(payload, schema=TOTALS, sampling=rules).flows) == [400, 300, 300]


@both_decoders
def test_data_that_waited_for_its_template_has_its_rate(decode: Decode) -> None:
    rules = [SamplingRule("192.0.2.1", 100), SamplingRule("192.0.2.1", 7, interface=3)]
    early = ipfix(data_set(256, u32(5) + u32(3)))
    late = ipfix(template_set(template(256, (1, 4), (10, 4))), sequence=1)
    assert rates(decode(early, late, schema=TOTALS, sampling=rules).flows) == [7]


@both_decoders
def test_a_rate_that_exceeds_its_column_is_left_out(decode: Decode) -> None:
    column = replace(TOTALS["sampling_rate"], type="uint8")
    narrow = replace(TOTALS, columns=(column, TOTALS["bytes"]))
    rule = SamplingRule("192.0.2.1", 256)
    outcome = decode(netflow5(record5()), schema=narrow, sampling=[rule])
    assert rates(outcome.flows) == [None]
    assert outcome.counters["out_of_range"] == 1


def test_schemas_without_a_rate_have_no_rules() -> None:
    rule = SamplingRule("192.0.2.1", 1000)
    decoder = Decoder(columns("bytes"), sampling=[rule])
    assert decoder.columns(netflow5(record5(octets=7)), "192.0.2.1").to_arrow().to_pylist() == [{"bytes": 7}]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("192.0.2.1/24", 1), "network '192.0.2.1/24' has host bits set; write '192.0.2.0/24'"),
        (
            ("192.0.2", 1),
            "network '192.0.2' is invalid; write an address or a network such as \"192.0.2.0/24\"",
        ),
        (("192.0.2.1", 0), "sampling rate is 0; it may be 1 to 9,223,372,036,854,775,807"),
        (("192.0.2.1", 1, 0), "interface is 0; it may be 1 to 4,294,967,295"),
    ],
)
def test_faults_of_rules(arguments: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        SamplingRule(*arguments)


def test_two_rates_for_the_same_flows_contradict_each_other() -> None:
    rules = [SamplingRule("192.0.2.1", 1), SamplingRule("::ffff:192.0.2.1", 2)]
    with pytest.raises(ValueError, match="has two sampling rates for all interfaces; leave one out"):
        Decoder("flow", sampling=rules)
    with pytest.raises(ValueError, match="has two sampling rates for interface 3"):
        Decoder("flow", sampling=[SamplingRule("192.0.2.1", rate, interface=3) for rate in (1, 2)])
