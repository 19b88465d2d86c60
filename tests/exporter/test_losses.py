"""Detect losses by sequence numbers, end to end, in generated traffic and in real captures."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from flowbuf import Decoder, _core
from flowbuf.io.capture import CaptureReader
from flowbuf.io.encode import decode_batches
from tests.support.datagrams import flow_sample, netflow5, netflow9, record5, sflow

PROTOCOLS = {"netflow5": "flows", "netflow9": "packets", "ipfix": "records", "sflow": "datagrams"}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)

Datagram = tuple[bytes, tuple[str, int], int]  # payload, source, time in ns


def traffic(protocol: str, flows: int = 6000) -> list[Datagram]:
    """Return the datagrams of two exporters, which alternate."""
    capture = b"".join(_core.generate(protocol=protocol, flows=flows, exporters=2, seed=3))
    _, status, batch = _core.Capture().scan(capture, True)
    assert status == "end"
    return [(payload, source, time) for payload, source, _, time in (batch[i] for i in range(len(batch)))]


def decode(datagrams: list[Datagram]) -> Decoder:
    decoder = Decoder()
    for datagram in datagrams:
        decoder.encode(*datagram)
    return decoder


def sequences(decoder: Decoder) -> dict[str, dict[str, int]]:
    """Return the amounts by unit, summed over all exporters."""
    total: dict[str, dict[str, int]] = {}
    for exporter in decoder.read_exporters():
        for sequence in (domain["sequence"] for domain in exporter["domains"]):
            for unit, amounts in ((sequence["unit"], sequence), ("samples", sequence.get("samples"))):
                for key in ("expected", "lost", "late", "restarts") if amounts else ():
                    of_unit = total.setdefault(
                        unit, dict.fromkeys(("expected", "lost", "late", "restarts"), 0)
                    )
                    of_unit[key] += amounts[key]
    return total


def units_of(datagrams: list[Datagram]) -> list[int]:
    """Return the number of units that each datagram adds to its sequence: its decoded records, or 1."""
    decoder, units = Decoder(), []
    for datagram in datagrams:
        before = decoded_records(decoder)
        decoder.encode(*datagram)
        numbers_records = datagram[0][:2] in (b"\0\5", b"\0\x0a")
        units.append(decoded_records(decoder) - before if numbers_records else 1)
    return units


def decoded_records(decoder: Decoder) -> int:
    return sum(stats["flows"] + stats["options_records"] for stats in decoder.stats.values())


@every_protocol
def test_generated_sequence_numbers_follow_the_protocol(protocol: str) -> None:
    datagrams = traffic(protocol)
    decoder = decode(datagrams)
    assert set(decoder.counters) <= {"counter_sample"}
    amounts = sequences(decoder)
    assert amounts[PROTOCOLS[protocol]]["expected"] == sum(units_of(datagrams))
    assert all(of_unit["lost"] == of_unit["late"] == of_unit["restarts"] == 0 for of_unit in amounts.values())


@every_protocol
@pytest.mark.parametrize("k", [2, 3, 7])
def test_dropped_datagrams_are_lost(protocol: str, k: int) -> None:
    """Drop every k-th pair of datagrams in the middle third of the traffic.

    Sample losses before the first sample of a source and after its last sample are undetectable.
    """
    datagrams = traffic(protocol, 20_000)
    units = units_of(datagrams)
    third = len(datagrams) // 3
    dropped = {i for i in range(third, 2 * third) if i // 2 % k == 0}
    decoder = decode([datagram for i, datagram in enumerate(datagrams) if i not in dropped])
    amounts = sequences(decoder)
    unit = PROTOCOLS[protocol]
    lost = sum(units[i] for i in dropped)
    assert amounts[unit] == {"expected": sum(units), "lost": lost, "late": 0, "restarts": 0}
    assert sum(stats["lost"][unit] for stats in decoder.stats.values()) == lost
    if protocol == "sflow":
        samples = [int.from_bytes(datagrams[i][0][24:28], "big") for i in dropped if datagrams[i][0][7] == 1]
        assert amounts["samples"]["lost"] == sum(samples)


@every_protocol
def test_reordered_datagrams_are_late_and_not_lost(protocol: str) -> None:
    datagrams = traffic(protocol)
    chance = random.Random(5)
    head, rest = datagrams[:4], datagrams[4:]
    rest = [rest[i] for i in sorted(range(len(rest)), key=lambda i: i + chance.random() * 12)]
    decoder = decode(head + rest)
    for unit, amounts in sequences(decoder).items():
        assert amounts["late"] > 10, unit
        assert (amounts["lost"], amounts["restarts"]) == (0, 0), unit
    assert sequences(decoder)[PROTOCOLS[protocol]]["expected"] == sum(units_of(datagrams))
    assert decoder.counters["out_of_sequence"] > 10
    assert decoder.counters["sequence_gap"] > 10


@every_protocol
def test_duplicate_datagrams_do_not_change_the_losses(protocol: str) -> None:
    """A capture of two interfaces contains each datagram twice."""
    datagrams = traffic(protocol, 2000)
    lossy = datagrams[:10] + datagrams[12:]
    once, twice = decode(lossy), decode([datagram for datagram in lossy for _ in range(2)])
    unit = PROTOCOLS[protocol]
    # A duplicate of a message without records is undetectable.
    empty = sum(units == 0 for units in units_of(datagrams))
    late = sequences(twice)[unit].pop("late")
    assert late == len(lossy) - empty
    assert {**sequences(twice)[unit], "late": 0} == sequences(once)[unit]
    assert sequences(once)[unit]["lost"] > 0


@every_protocol
def test_reading_a_capture_twice_counts_a_restart(protocol: str) -> None:
    datagrams = traffic(protocol, 20_000)
    amounts = sequences(decode([*datagrams, *datagrams]))[PROTOCOLS[protocol]]
    assert (amounts["lost"], amounts["late"]) == (0, 0)
    assert amounts["restarts"] == 2, "one per exporter"


def test_stats_add_up_the_domains_of_an_exporter() -> None:
    decoder = Decoder()
    for payload in [
        *(netflow9(sequence=number, source_id=domain) for domain in (1, 2) for number in (5, 6 + domain)),
        *(netflow5(record5(), sequence=number) for number in (7, 10)),
    ]:
        decoder.encode(payload, "192.0.2.1", 1.0)
    for number in (1, 4):
        decoder.encode(
            sflow(flow_sample(sequence=2 * number), sequence=number, agent="192.0.2.9"), "192.0.2.1", 1.0
        )
    assert decoder.stats["192.0.2.1"]["lost"] == {"packets": 3, "flows": 2}
    assert decoder.stats["192.0.2.9"]["lost"] == {"datagrams": 2, "samples": 5}


def test_losses_of_evicted_exporters_are_kept() -> None:
    decoder = Decoder(exporter_limit=2)  # NetFlow and sFlow from one address count as two
    for address in ("192.0.2.1", "192.0.2.2"):
        for number in (1, 5):
            for payload in (netflow5(record5(), sequence=number), netflow9(sequence=number)):
                decoder.encode(payload, address, 1.0)
            decoder.encode(sflow(flow_sample(sequence=number), sequence=number, agent=address), address, 1.0)
    assert decoder.stats["others"]["lost"] == {"flows": 3, "packets": 3, "datagrams": 3, "samples": 3}
    assert decoder.stats["others"]["counters"]["exporter_evicted"] == 2
    assert decoder.stats["192.0.2.2"]["lost"] == {"flows": 3, "packets": 3, "datagrams": 3, "samples": 3}


@pytest.mark.parametrize("protocol", ["netflow5", "netflow9", "ipfix"])
def test_softflowd_loses_nothing(protocol: str) -> None:
    """Its IPFIX sequence numbers include the records of the message itself, and no options records."""
    decoder = decode_capture(Path(__file__).parents[1] / "data" / f"softflowd-{protocol}.pcap")
    assert decoder.counters == {}
    assert decoder.stats["192.0.2.1"]["lost"] == {PROTOCOLS[protocol]: 0}


# Real captures ----------------------------------------------------------------------------------------------

# (lost, expected, late, restarts) of every domain that lost records or received them out of order, with the
# sequence numbers that explain them. All other domains lost nothing. Many captures were assembled: their
# templates and their data are from different times.
UNEVEN: dict[str, list[tuple[int, int, int, int]]] = {
    # The data was sent three seconds before the templates that precede it here. Its sequence number is 6,716
    # records lower.
    "ipfix-315-eompls-control-word": [(0, 0, 1, 0)],
    # 63 (options templates), 63 (one record), 76 (templates), 76 (one record), 86: 64 to 75 and 77 to 85 were
    # removed.
    "ipfix-cisco-sampling-option": [(12 + 9, 25, 0, 0)],
    # The templates up to 2377939 precede the data, which starts at 2377915: 16 messages are older than the
    # newest templates. From 2377917, the first template, to 2377997 are 81 records, of which 51 arrive.
    "ipfix-cisco-srv6-among-bgp": [(30, 81, 16, 0)],
    # 1221457, then 1221494 (one record). Two template messages and the records 1221492 and 1221493 follow.
    "ipfix-huawei-vrf-name": [(37 - 2, 38, 4, 0)],
    # NetFlow v9: same as netflow9-cisco-mpls. IPFIX: 455467 follows 455478. 455480 to 455487 are missing.
    "mixed-two-exporters": [(6, 17, 0, 1), (8, 19, 1, 0)],
    # The template is 147688. It precedes 147674, sent 19 seconds earlier. From there to 147736, 39 of 63
    # arrive.
    "netflow9-cisco-mpls": [(24, 1 + 63, 0, 1)],
    # The templates were sent 12 seconds later, but come first: 798471 and 798473, then 15 of 798466 to
    # 798500; 615729 and 615732, then 6 of 615730 to 615750.
    "netflow9-cisco-two-processes": [(2 + 15, 4 + 21, 0, 1), (1 + 20, 3 + 35, 0, 1)],
    # The same datagram, twice.
    "netflow9-data-before-template-twice": [(0, 1, 1, 0)],
    # 44796855, 44796856, 44796985, 44797001. In the second capture, the last of them comes first. The next
    # one is too far behind it.
    "netflow9-data": [(128 + 15, 147, 0, 0)],
    "netflow9-data-late-template": [(128, 131, 1, 1)],
    # 2436874580, 2436874581, then 2436874127, which is too far behind, then 2436874733.
    "netflow9-multiple-sampling-rates": [(605, 609, 0, 1)],
    # 2073 and 2089, but the uptime decreases by 114 seconds between them.
    "netflow9-sampling-rate-in-record": [(0, 2, 0, 1)],
}


def decode_capture(path: Path) -> Decoder:
    decoder = Decoder()
    with CaptureReader(path) as reader:
        for _ in decode_batches(reader, decoder):
            pass
    return decoder


def uneven(decoder: Decoder) -> list[tuple[int, int, int, int]]:
    found: list[dict[str, Any]] = []
    for exporter in decoder.read_exporters():
        for sequence in (domain["sequence"] for domain in exporter["domains"]):
            found += [sequence, sequence["samples"]] if "samples" in sequence else [sequence]
    amounts = [(each["lost"], each["expected"], each["late"], each["restarts"]) for each in found]
    return sorted(each for each in amounts if each[0] or each[2] or each[3])


def test_real_captures(corpus: Path) -> None:
    paths = sorted(corpus.glob("*.pcap"))
    assert {path.stem for path in paths} >= set(UNEVEN)
    assert {path.stem: amounts for path in paths if (amounts := uneven(decode_capture(path)))} == UNEVEN


def test_cisco_sequence_numbers_include_options_records(corpus: Path) -> None:
    """The capture has 86 options records and 86 flow records in 170 messages. No message is missing."""
    (exporter,) = decode_capture(corpus / "ipfix-cisco-srv6.pcap").read_exporters()
    (domain,) = exporter["domains"]
    assert domain["sequence"] == {"unit": "records", "expected": 172, "lost": 0, "late": 0, "restarts": 0}
