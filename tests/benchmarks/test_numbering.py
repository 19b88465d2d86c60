"""Copies in a working set have continuing sequence numbers: nothing is lost, late or repeated."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from flowbuf import Decoder
from flowbuf.bench import GENERATED, Workload, generate_workload, load_workload
from flowbuf.bench.numbering import LEAP, Numberings
from tests.support.command import generated
from tests.support.datagrams import (
    counters_sample,
    data_set,
    expanded_flow_sample,
    flow_sample,
    ipfix,
    netflow5,
    netflow9,
    record5,
    sample,
    sflow,
    u32,
)

HERE, THERE = ("192.0.2.1", 2000), ("192.0.2.2", 2000)
CORPUS = ("netflow5-29-records", "netflow9-data", "sflow-1140", "ipfix-cisco-srv6")
PASSES = 3


def number(offset: int, *payloads: bytes, source: tuple[str, int] = HERE, records: int = 0) -> list[int]:
    """Return the 32-bit words at an offset of payloads that are numbered one after the other."""
    numberings = Numberings()
    copies = [numberings.number_on(payload, source, records) for payload in payloads]
    return [int.from_bytes(copy[offset : offset + 4], "big") for copy in copies]


# Units of sequence numbers ----------------------------------------------------------------------------------


def test_netflow5_counts_flows() -> None:
    two, one = netflow5(record5(), record5(), sequence=40), netflow5(record5(), sequence=7)
    assert number(16, two, two, one, two) == [40 + LEAP, 42 + 2 * LEAP, 44 + 2 * LEAP, 45 + 2 * LEAP]


def test_netflow9_counts_packets() -> None:
    datagram = netflow9(data_set(256, bytes(8)), sequence=40)
    assert number(12, datagram, datagram, datagram) == [40 + LEAP, 41 + 2 * LEAP, 42 + 2 * LEAP]


def test_ipfix_counts_records() -> None:
    message = ipfix(data_set(256, bytes(8)), sequence=2**32 - LEAP)
    assert number(8, message, message, message, records=5) == [0, 5 + LEAP, 10 + LEAP]


def test_sflow_counts_datagrams_and_samples_of_each_kind_and_source() -> None:
    datagram = sflow(
        flow_sample(sequence=10, source_id=3),
        expanded_flow_sample(sequence=90, source=(0, 3)),  # the same source
        flow_sample(sequence=20, source_id=4),
        counters_sample(sequence=30, source=(0, 3)),
        counters_sample(sequence=90, source=(0, 3), expanded=True),
        sample(5, u32(40) + u32(0) + u32(3)),
        sample(6, u32(50) + u32(0) + u32(3)),  # unknown type, so not numbered
        sample(1, u32(60) + u32(0) + u32(3), enterprise=1),
        sequence=70,
    )
    numberings = Numberings()
    numbered = [numberings.number_on(datagram, HERE, 0) for _ in range(2)]
    words = [[int.from_bytes(copy[at : at + 4], "big") for at in range(0, len(copy), 4)] for copy in numbered]
    before = [int.from_bytes(datagram[at : at + 4], "big") for at in range(0, len(datagram), 4)]
    changed = [[(old, new) for old, new in zip(before, copy, strict=True) if old != new] for copy in words]
    assert changed[0] == [(70, 70 + LEAP), (90, 11), (90, 31)]
    assert changed[1] == [(70, 71 + 2 * LEAP), (10, 12), (90, 13), (20, 21), (30, 32), (90, 33), (40, 41)]


def test_numberings_have_the_same_keys_as_in_the_core() -> None:
    numberings = Numberings()

    def first(payload: bytes, source: tuple[str, int] = HERE) -> bool:
        """Return True if a numbering starts with this payload."""
        return numberings.number_on(payload, source, 1) == Numberings().number_on(payload, source, 1)

    other_port = (HERE[0], HERE[1] + 1)
    assert first(netflow5(record5()))
    assert first(netflow5(record5()), THERE)
    assert first(netflow5(record5(), engine_type=1))
    assert first(netflow5(record5(), engine_id=1))
    assert not first(netflow5(record5()), other_port)
    for make, domain in ((netflow9, "source_id"), (ipfix, "domain")):
        assert first(make())
        assert first(make(), THERE)
        assert first(make(), other_port)
        assert first(make(**{domain: 1}))
        assert not first(make())
    assert first(sflow())
    assert first(sflow(agent="2001:db8::1"))
    assert first(sflow(sub_agent=1))
    assert not first(sflow(), THERE)
    assert first(sflow(agent="0.0.0.0"))
    assert first(sflow(agent="0.0.0.0"), THERE)
    assert not first(sflow(agent=None), THERE)


@pytest.mark.parametrize(
    "payload",
    [
        netflow5(record5(), sequence=1),
        netflow9(data_set(256, bytes(8)), sequence=1),
        ipfix(data_set(256, bytes(8)), sequence=1),
        sflow(flow_sample(sequence=1), sample(5, bytes(12)), agent="2001:db8::1", sequence=1),
        sflow(flow_sample(length=2**32 - 1), sequence=1),
        sflow(flow_sample(), count=2**32 - 1, sequence=1),
    ],
)
def test_truncated_payloads_keep_their_length(payload: bytes) -> None:
    for size in range(len(payload) + 1):
        numberings = Numberings()
        for _ in range(2):
            assert len(numberings.number_on(payload[:size], HERE, 1)) == size
    for size in range(16):
        assert Numberings().number_on(payload[:size], HERE, 1) == payload[:size]


def test_other_payloads_are_not_changed() -> None:
    for payload in (
        b"",
        b"hello, world, and everybody else in it",
        sflow(sequence=1).replace(b"\0\0\0\1", b"\0\0\0\3"),
    ):
        assert Numberings().number_on(payload, HERE, 1) == payload


# Working sets -----------------------------------------------------------------------------------------------


def check_in_order(workload: Workload) -> None:
    """Check that each numbering jumps twice per pass and is continuous otherwise."""
    decoder = Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    before = totals(decoder)
    for passes in range(1, PASSES + 1):
        for datagram in workload.data:
            decoder.encode(*datagram)
        for key, (late, lost, restarts) in totals(decoder).items():
            assert (late, lost) == before[key][:2], (key, passes)
            assert restarts - before[key][2] in (0, 2 * passes), (key, passes)


def totals(decoder: Decoder) -> dict[tuple[str, int, int | None], tuple[int, int, int]]:
    """Return late, lost and restarts of each domain. Late and lost include datagrams and samples."""
    found = {}
    for exporter in decoder.read_exporters():
        for domain in exporter["domains"]:
            sequence = domain["sequence"]
            samples = sequence.get("samples") or {"late": 0, "lost": 0}
            late, lost = (sequence[name] + samples[name] for name in ("late", "lost"))
            found[exporter["address"], domain["id"], domain["port"]] = (late, lost, sequence["restarts"])
    return found


@pytest.mark.parametrize("protocol", GENERATED)
def test_generated_data_is_in_order(protocol: str) -> None:
    check_in_order(generate_workload(protocol))


@pytest.mark.parametrize("protocol", GENERATED)
def test_data_of_many_exporters_is_in_order(protocol: str) -> None:
    """Each exporter has fewer datagrams in the working set than the window for late ones."""
    capture = generated(protocol, 4000, exporters=100)
    check_in_order(load_workload("many", io.BytesIO(capture)))


@pytest.mark.parametrize("name", CORPUS)
def test_data_of_real_exporters_is_in_order(corpus: Path, name: str) -> None:
    check_in_order(load_workload(name, corpus / f"{name}.pcap"))
