"""flowbuf agrees with GoFlow2, Akvorado, NetGauze and TShark on real captures, in every field of every flow.

golden_exceptions.py explains all differences. The environment variable FLOWBUF_CORPUS names the folder of
captures. Without it, these tests are skipped.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest

from tests.support.golden_exceptions import ANY, EARLY_RECORDS, EXCEPTIONS, UNMATCHED, Difference, Exception_
from tests.support.golden_netgauze import NETGAUZE, netgauze_occurrences
from tests.support.goldens import (
    AKVORADO,
    AKVORADO_DECAPSULATED,
    AKVORADO_PACKETS,
    GOFLOW2,
    GOFLOW2_PACKETS,
    SCHEMA,
    TSHARK_PACKETS,
    Collector,
    Decoded,
    Flow,
    decode_capture,
    decode_frames,
    tshark_totals,
)

COLLECTORS = (GOFLOW2, AKVORADO, AKVORADO_DECAPSULATED, NETGAUZE)
PACKET_PARSERS = (GOFLOW2_PACKETS, *AKVORADO_PACKETS, TSHARK_PACKETS)

# Expected counters of captures.
COUNTERS = {
    "netflow9-data-late-template": {"early_data": 2},
    "netflow9-data-before-template": {"early_data": 1},
    "netflow9-data-before-template-twice": {"early_data": 1},
    "ipfix-cisco-mpls-two-domains": {"unmapped": 12},  # flowDirection 255
    "ipfix-biflow-ipfixprobe": {"biflow": 2},
    # Options about interfaces and VRFs, which flowbuf ignores.
    "ipfix-cisco-srv6": {"no_system_start": 2},
    # Flow times are uptimes, and no option has the start of the exporter.
    "ipfix-cisco-sampling-option": {"no_system_start": 6},
    "mixed-two-exporters": {"no_system_start": 26},
    # Cut out of datagrams of several samples: the header counts one, the others follow.
    "sflow-discarded-output": {"excess_data": 1},
    "sflow-local-interface": {"excess_data": 1},
    "sflow-multiple-outputs": {"excess_data": 1},
}

# Columns that captures fill and no collector has. Only the reference decoder checks them.
UNKNOWN_TO_COLLECTORS = {
    *("in_if_name", "in_if_description", "out_if_name", "out_if_description", "sampler_name"),
    *("ingress_vrf_name", "egress_vrf_name", "other_elements", "other_values"),
    *("source_address", "source_port", "frame_length", "engine_id", "nat_event", "sampling_mode"),
    *(
        "sub_agent_id",
        "agent_uptime",
        "sample_sequence_number",
        "sample_pool",
        "sample_drops",
        "sample_source_id",
    ),
    *("router_as", "src_peer_as", "local_pref", "section_length", "frame_section", "src_vlan_priority"),
}


def captures(folder: str = "") -> list[str]:
    """Return the names of captures, `packets/NAME` for single frames. Without a corpus, return a dummy."""
    corpus = os.environ.get("FLOWBUF_CORPUS")
    if not corpus:
        return ["none"]
    return sorted(
        str(path.relative_to(corpus).with_suffix("")) for path in Path(corpus, folder).glob("*.pcap")
    )


def goldens(collectors: tuple[Collector, ...], names: list[str]) -> list[tuple[str, Collector]]:
    """Return (capture, collector) of every golden file, or of every possible one without a corpus."""
    corpus = os.environ.get("FLOWBUF_CORPUS")
    pairs = [(name, collector) for name in names for collector in collectors]
    return [pair for pair in pairs if not corpus or pair[1].path(Path(corpus), pair[0]).exists()]


FLOW_GOLDENS = goldens(COLLECTORS, captures())
FRAME_GOLDENS = goldens(PACKET_PARSERS, captures("packets"))


def each_golden(pairs: list[tuple[str, Collector]]) -> pytest.MarkDecorator:
    ids = [f"{capture}-{collector.id}" for capture, collector in pairs]
    return pytest.mark.parametrize(("capture", "collector"), pairs, ids=ids)


each_capture = pytest.mark.parametrize("capture", captures())


@functools.cache
def decode(corpus: Path, capture: str, decapsulate: tuple[str, ...] = ()) -> Decoded:
    return decode_capture(corpus / f"{capture}.pcap", decapsulate)


def matched_flows(corpus: Path, capture: str, collector: Collector) -> list[tuple[int, Flow, Flow]]:
    """Return (index of ours, ours, theirs), without the flows that only one side has.

    Both sides keep the order of the datagrams.
    """
    if capture.startswith("packets/"):
        flows = decode_frames(corpus / f"{capture}.pcap", collector.decapsulate)
    else:
        flows = decode(corpus, capture, collector.decapsulate).flows
    ours = dict(enumerate(flows))
    theirs = dict(enumerate(collector.flows(corpus, capture)))
    for row in UNMATCHED:
        if (row.capture, row.collector) == (capture, collector.name):
            for index in row.ours:
                del ours[index]
            for index in row.theirs:
                del theirs[index]
    assert len(ours) == len(theirs)
    return [
        (index, flow, golden) for (index, flow), golden in zip(ours.items(), theirs.values(), strict=True)
    ]


def compare(corpus: Path, capture: str, collector: Collector) -> list[Difference]:
    netgauze = NETGAUZE.path(corpus, capture)
    occurrences = netgauze_occurrences(netgauze) if netgauze.exists() else []
    return [
        Difference(
            capture, collector.id, name, index, field.of(flow), golden.get(name), flow, golden,
            occurrences[index].get(field.column, ()) if occurrences else (),
        )
        for index, flow, golden in matched_flows(corpus, capture, collector)
        for name, field in collector.fields.items()
        if field.of(flow) != golden.get(name)
    ]  # fmt: skip


def explanation(difference: Difference) -> Exception_ | None:
    return next((row for row in EXCEPTIONS if row.explains(difference)), None)


def describe(difference: Difference) -> str:
    d = difference
    return f"{d.capture}, flow {d.index}: {d.field} is {d.ours!r}, {d.collector} says {d.theirs!r}"


def check_against(corpus: Path, capture: str, collector: Collector) -> None:
    unexplained = [each for each in compare(corpus, capture, collector) if not explanation(each)]
    assert not unexplained, "\n".join(map(describe, unexplained))


@each_golden(FLOW_GOLDENS)
def test_flows_equal_the_collectors(corpus: Path, capture: str, collector: Collector) -> None:
    check_against(corpus, capture, collector)


@each_golden(FRAME_GOLDENS)
def test_sampled_frames_equal_the_parsers(corpus: Path, capture: str, collector: Collector) -> None:
    """Each frame is decoded as an sFlow sample, in every mode of decapsulation that has a golden file."""
    check_against(corpus, capture, collector)


@each_capture
def test_counts_equal_those_of_tshark(corpus: Path, capture: str) -> None:
    tshark = tshark_totals(corpus / f"{capture}.tshark.txt")
    ours = decode(corpus, capture)
    assert ours.total("datagrams") == tshark.datagrams
    assert ours.total("flows") == len(ours.flows)
    records = ours.total("flows") - ours.counters.get("biflow", 0) + ours.total("options_records")
    assert records == tshark.records + tshark.samples + EARLY_RECORDS.get(capture, 0)
    assert ours.total("templates") == tshark.templates


def test_every_tunnel_opened_by_akvorado_is_opened(corpus: Path) -> None:
    for capture, collector in FLOW_GOLDENS:
        if collector is AKVORADO_DECAPSULATED:
            assert decode(corpus, capture, collector.decapsulate).counters == {}


SEQUENCE_NOTES = {"sequence_gap", "sample_gap", "out_of_sequence", "exporter_restart"}


@each_capture
def test_nothing_is_lost_unexpectedly(corpus: Path, capture: str) -> None:
    """tests/exporter/test_losses.py checks the losses by sequence numbers."""
    counters = {
        name: count for name, count in decode(corpus, capture).counters.items() if name not in SEQUENCE_NOTES
    }
    assert counters == COUNTERS.get(capture, {})


def test_no_golden_file_is_missing(corpus: Path) -> None:
    """GoFlow2 and Akvorado have read every capture, NetGauze only its own captures."""
    manifest = [json.loads(line) for line in (corpus / "manifest.jsonl").read_text().splitlines()]
    names = sorted(each["name"] for each in manifest if "/" not in each["name"])
    netgauze = [each["name"] for each in manifest if each["origin"].lower() == "netgauze/netgauze"]
    assert captures() == names
    opened = ["ipfix-315-juniper-common-properties", "ipfix-315-srv6", "sflow-vxlan"]
    expectations = (
        (GOFLOW2, names),
        (AKVORADO, names),
        (AKVORADO_DECAPSULATED, opened),
        (NETGAUZE, sorted(netgauze)),
    )
    for collector, expected in expectations:
        assert [capture for capture, each in FLOW_GOLDENS if each is collector] == expected
    assert len(FRAME_GOLDENS) == len(PACKET_PARSERS) * len(captures("packets"))


def test_every_exception_explains_something(corpus: Path) -> None:
    """Every capture and field of an exception must have a difference. Obsolete exceptions must be removed."""
    used = set()
    for capture, collector in FLOW_GOLDENS + FRAME_GOLDENS:
        for difference in compare(corpus, capture, collector):
            if row := explanation(difference):
                used |= {(row, "capture", capture), (row, "field", difference.field)}
    wanted = {(row, "field", field) for row in EXCEPTIONS for field in row.fields}
    wanted |= {(row, "capture", name) for row in EXCEPTIONS if row.captures != ANY for name in row.captures}
    unused = [
        f"{row.collector} {row.fields}: {what} {name}: {row.reason}" for row, what, name in wanted - used
    ]
    assert not unused, "\n".join(unused)


def test_every_filled_column_is_compared(corpus: Path) -> None:
    compared = {field.column for collector in COLLECTORS for field in collector.fields.values()}
    filled = {column for capture in captures() for flow in decode(corpus, capture).flows for column in flow}
    assert filled - compared == UNKNOWN_TO_COLLECTORS
    assert compared <= {column.name for column in SCHEMA.enabled}


def test_data_before_its_template_is_decoded_like_data_after_it(corpus: Path) -> None:
    """The same four datagrams in either order give the same flows, with the times of their own datagrams.

    Reference [1] of golden_exceptions.py describes early data.
    """

    def without_time(capture: str) -> list[Flow]:
        return [{**flow, "time_received": None} for flow in decode(corpus, capture).flows]

    assert without_time("netflow9-data-late-template") == without_time("netflow9-data")
    assert {flow["sampling_rate"] for flow in without_time("netflow9-data-late-template")} == {30000}
    once = decode(corpus, "netflow9-data-before-template").flows
    twice = decode(corpus, "netflow9-data-before-template-twice").flows
    assert (len(once), len(twice)) == (21, 42)
    assert {flow["sampling_rate"] for flow in twice} == {100}
