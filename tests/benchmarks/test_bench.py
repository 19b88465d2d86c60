"""flowbuf.bench: selection of the workload, order of contestants, and contestants that fail or miscount."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from flowbuf import CaptureError, Decoder, Schema
from flowbuf.bench.bench import (
    GENERATED,
    PATIENCE,
    WORKING_SET,
    Flowbuf,
    Result,
    Workload,
    generate_workload,
    import_peers,
    load_workload,
    measure,
)
from tests.support.command import GOOD, WITHOUT_TEMPLATE, generated, pcap, write
from tests.support.datagrams import data_set, ipfix, netflow5, record5, template, template_set, u32

TEMPLATE = ipfix(template_set(template(256, (1, 4))), domain=7)
DATA = ipfix(data_set(256, u32(500), u32(600)), domain=7)
BOTH = ipfix(template_set(template(256, (1, 4))), data_set(256, u32(700)), domain=7)


def payloads_of(workload: Workload) -> set[bytes]:
    """Return the IPFIX payloads of a workload, with sequence number 0 as in the messages above."""
    return {datagram.payload[:8] + bytes(4) + datagram.payload[12:] for datagram in workload.data}


def load(*payloads: bytes, **options: Any) -> Workload:
    return load_workload("made", io.BytesIO(pcap(*payloads)), **options)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return generate_workload("netflow5")


# Workloads --------------------------------------------------------------------------------------------------


def test_data_has_flows_and_no_templates() -> None:
    workload = load(TEMPLATE, DATA, BOTH, b"hello")
    assert [datagram.payload for datagram in workload.first] == [TEMPLATE, DATA, BOTH, b"hello"]
    assert payloads_of(workload) == {DATA}
    assert workload.flows == 2 * len(workload.data)
    assert workload.protocols == {"ipfix"}


def test_data_before_its_template_counts_as_data() -> None:
    assert payloads_of(load(DATA, TEMPLATE)) == {DATA}


def test_data_with_templates_is_used_if_all_data_has_templates() -> None:
    assert payloads_of(load(BOTH)) == {BOTH}


def test_the_working_set_consists_of_whole_copies_without_shared_memory() -> None:
    workload = load(GOOD, netflow5(record5(octets=1), record5(octets=2)))
    data = workload.data
    size = sum(len(datagram.payload) for datagram in data)
    assert WORKING_SET <= size < WORKING_SET + 24 + 48 + 24 + 96
    assert len(data) == 2 * workload.repetitions
    assert len({id(datagram.payload) for datagram in data}) == len(data)


def test_only_the_beginning_of_a_large_capture_is_read() -> None:
    workload = load_workload("large", io.BytesIO(generated("ipfix", 200_000)))
    assert (
        4 * WORKING_SET <= sum(len(datagram.payload) for datagram in workload.first) < 4 * WORKING_SET + 2000
    )


def test_the_schema_defines_flows() -> None:
    counters = Schema.load("sflow_counters")
    assert generate_workload("sflow", counters).flows < generate_workload("sflow").flows
    with pytest.raises(CaptureError, match="contains no flows"):
        generate_workload("netflow5", counters)


@pytest.mark.parametrize("protocol", GENERATED)
def test_generated_workloads(protocol: str) -> None:
    workload = generate_workload(protocol)
    assert (workload.name, workload.protocols) == (f"generated-{protocol}", {protocol})
    decoder = Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    before = decoder.flows
    payloads, sources, times = zip(*workload.data, strict=True)
    decoder.encode_many(payloads, sources, times)
    assert decoder.flows - before == workload.flows


@pytest.mark.parametrize("content", [pcap(), pcap(WITHOUT_TEMPLATE), pcap(b"hello")])
def test_a_capture_without_flows(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "a.pcap", content)
    with pytest.raises(CaptureError, match=r"a\.pcap: contains no flows"):
        load_workload("a", path)


def test_a_file_that_is_not_a_capture(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="neither pcap, pcapng, IPFIX nor nfcapd"):
        load_workload("a", write(tmp_path / "a.pcap", b"hello, world"))
    with pytest.raises(FileNotFoundError):
        load_workload("a", tmp_path / "b.pcap")


# flowbuf ----------------------------------------------------------------------------------------------------


def test_flowbuf_is_measured_in_cpu_time(workload: Workload) -> None:
    """A measurement takes at least the requested CPU time."""
    flowbuf = Flowbuf()
    assert flowbuf.absent() is None
    assert flowbuf.takes(workload)
    with flowbuf.open(workload) as run:
        assert run.flows == workload.flows
        before = run.decoder.flows
        began = time.thread_time()
        nanoseconds = run.measure(0.05)
        taken = time.thread_time() - began
        decoded = run.decoder.flows - before
    assert decoded % workload.flows == 0
    assert 0.05 <= nanoseconds * decoded / 1e9 <= taken


def test_a_round_is_at_least_one_pass(workload: Workload) -> None:
    with Flowbuf().open(workload) as run:
        before = run.decoder.flows
        run.measure(0)
        assert run.decoder.flows - before == workload.flows


# Order ------------------------------------------------------------------------------------------------------


class Slow:
    """A contestant with a fixed result, which logs its calls."""

    does = "nothing"

    def __init__(self, name: str, asked: list[str], flows: int = 0, nanoseconds: float = 1.0) -> None:
        self.name, self.asked, self.flows, self.nanoseconds = name, asked, flows, nanoseconds

    def absent(self) -> str | None:
        return None

    def version(self) -> str:
        return "1.0"

    def takes(self, workload: Workload) -> bool:
        return True

    def open(self, workload: Workload) -> Slow:
        self.asked.append(f"open {self.name}")
        return self

    def measure(self, seconds: float) -> float:
        self.asked.append(self.name)
        return self.nanoseconds

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *error: object) -> None:
        self.asked.append(f"close {self.name}")


class Unable(Slow):
    def open(self, workload: Workload) -> Slow:
        raise OSError("no such program")


class Breaking(Slow):
    def measure(self, seconds: float) -> float:
        if self.name in self.asked:
            raise ValueError("it broke")
        return super().measure(seconds)


class Picky(Slow):
    def takes(self, workload: Workload) -> bool:
        return "sflow" in workload.protocols


def test_every_other_round_is_in_the_opposite_order(workload: Workload) -> None:
    asked: list[str] = []
    shown: list[int] = []
    measure(workload, [Slow(name, asked) for name in "abc"], 4, 0.1, shown.append)
    assert "".join(name for name in asked if len(name) == 1) == "abccbaabccba"
    assert asked[:3] == ["open a", "open b", "open c"]
    assert asked[-3:] == ["close c", "close b", "close a"]
    assert shown == [1, 2, 3, 4]


def test_a_contestant_that_miscounts_is_reported_with_its_count(workload: Workload) -> None:
    measured = measure(workload, [Slow("half", [], flows=workload.flows // 2, nanoseconds=7.5)], 3)
    result = measured.results["half"]
    assert (result.flows, result.median, result.samples) == (workload.flows // 2, 7.5, (7.5, 7.5, 7.5))


def test_a_contestant_that_fails_is_reported_and_the_others_continue(workload: Workload) -> None:
    asked: list[str] = []
    contestants = [
        Unable("unable", asked),
        Breaking("breaking", asked),
        Picky("picky", asked),
        Slow("able", asked),
    ]
    measured = measure(workload, contestants, 5)
    assert measured.failed == {"unable": "no such program", "breaking": "it broke"}
    assert list(measured.results) == ["able"]
    assert asked.count("breaking") == 1
    assert asked.count("close breaking") == 1
    assert asked.count("able") == 5


def test_a_slow_contestant_gets_fewer_rounds(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PATIENCE > 1
    monkeypatch.setattr("flowbuf.bench.bench.PATIENCE", 1e-9)
    assert measure(workload, [Slow("slow", [])], 5).results["slow"].samples == (1.0,)


def test_statistics_of_a_result() -> None:
    result = Result("a", "parse", "1", 10, (4.0, 1.0, 2.0, 3.0, 100.0))
    assert (result.median, result.min, result.max, result.spread) == (3.0, 1.0, 100.0, 2.0)
    assert Result("a", "parse", "1", 10, (5.0,)).spread == 0


def test_peers_are_imported_from_a_folder(tmp_path: Path) -> None:
    assert import_peers(tmp_path) is None
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers/part.py").write_text("PEERS = ['a']\n")
    (tmp_path / "peers/__init__.py").write_text("from .part import PEERS\n")
    module = import_peers(tmp_path)
    assert module
    assert module.PEERS == ["a"]
    assert "peers" not in sys.modules or sys.modules["peers"] is not module
