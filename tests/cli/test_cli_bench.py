"""`flowbuf bench`: its results, and its reports of peers that cannot be measured."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from flowbuf import _core
from tests.support.command import GOOD, WITHOUT_TEMPLATE, flowbuf, generated, pcap, write

FAST = ("--rounds", 3, "--seconds", 0.001)
PEERS = '''
"""Contestants with invented results."""


class Invented:
    does = "guess"

    def __init__(self, name, nanoseconds, share=1.0, reason=None, fault=None, protocol=""):
        self.name, self.nanoseconds, self.share = name, nanoseconds, share
        self.reason, self.fault, self.protocol = reason, fault, protocol

    def absent(self):
        return self.reason

    def version(self):
        return "2.0"

    def takes(self, workload):
        return self.protocol in "".join(workload.protocols)

    def open(self, workload):
        if self.fault:
            raise ValueError(self.fault)
        self.flows = int(workload.flows * self.share)
        return self

    def measure(self, seconds):
        return self.nanoseconds

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


PEERS = [
    Invented("exact", 123456.0),
    Invented("half", 1e6, share=0.5),
    Invented("missing", 1.0, reason="not installed: pip install missing"),
    Invented("broken", 1.0, fault="does not start"),
    Invented("other", 1.0, protocol="sflow"),
]


class Quotation:
    name, version, does, dataset, ns_per_flow = "far", "9", "it all", "v5", 5000
    source, noted = "its authors", "2026-11"


QUOTED = [Quotation()]
'''


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "v5.pcap", pcap(GOOD))


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    folder = tmp_path / "contestants"
    (folder / "peers").mkdir(parents=True)
    (folder / "peers/__init__.py").write_text(PEERS)
    return folder


def bench(*arguments: object) -> Result:
    return flowbuf("bench", *FAST, *arguments)


def bench_json(*arguments: object) -> dict[str, Any]:
    result = bench("--json", *arguments)
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def test_json_has_every_result(capture: Path, peers: Path) -> None:
    content = bench_json(capture, "--peers", peers)
    assert list(content) == ["datasets", "absent", "machine"]
    dataset = content["datasets"].pop("v5")
    assert content["datasets"] == {}
    assert dataset["bytes"] == 72 * dataset["datagrams"] >= 2_500_000
    assert dataset["flows"] == dataset["datagrams"]
    assert len(dataset["samples"]) == 3
    assert 0 < dataset["min"] <= dataset["ns_per_flow"] <= dataset["max"]
    assert dataset["min"] == pytest.approx(min(dataset["samples"]), abs=0.01)
    assert dataset["ns_per_flow"] == pytest.approx(sorted(dataset["samples"])[1], abs=0.01)
    assert dataset["peers"] == {"exact": 123456.0, "half": 1e6}
    assert dataset["peer_details"]["half"] == {
        "does": "guess",
        "version": "2.0",
        "flows": dataset["flows"] // 2,
        "min": 1e6,
        "max": 1e6,
        "spread": 0.0,
        "samples": [1e6, 1e6, 1e6],
    }
    assert dataset["failed"] == {"broken": "does not start"}
    (quoted,) = dataset["quoted"]
    assert list(quoted) == ["name", "version", "does", "ns_per_flow", "source", "noted"]
    assert list(quoted.values()) == ["far", "9", "it all", 5000, "its authors", "2026-11"]
    assert content["absent"] == {"missing": "not installed: pip install missing"}
    assert content["machine"]["compiler"] == _core.COMPILER
    assert all(content["machine"][key] for key in ("cpu", "cores", "system", "python", "flowbuf"))
    assert content["machine"]["instructions"] == _core.PROCESSORS[-1]


def test_the_instructions_of_older_processors_are_measured(capture: Path) -> None:
    content = bench_json(capture, "--no-peers", "--processor", "any")
    assert content["machine"]["instructions"] == "any"


def test_the_table_compares_flowbuf_with_its_peers(capture: Path, peers: Path) -> None:
    result = bench(capture, "--peers", peers)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    (own,) = [line for line in lines if line[:2] == ["v5", "flowbuf"]]
    flows, figure = own[3], float(own[4])
    (exact,) = [line for line in lines if line[:2] == ["exact", "2.0"]]
    assert exact[2:7] == [flows, "123,456", "123,456", "123,456", "0.01"]
    assert float(exact[7].rstrip("×").replace(",", "")) == pytest.approx(123456 / figure, rel=0.01)
    half = f"{int(flows.replace(',', '')) // 2:,}"
    (far,) = [line for line in lines if line[:3] == ["far", "9,", "quoted"]]
    assert far[3:5] == ["5,000", "0.20"]
    assert float(far[5].strip("(×)").replace(",", "")) == pytest.approx(5000 / figure, rel=0.01)
    text = " ".join(result.stdout.split())
    assert "flowbuf: decode + Protobuf exact: guess half: guess v5: half decodes" in text
    assert "quoted: far 9: it all; its authors, 2026-11" in text
    assert f"v5: half decodes {half} flows, not {flows}" in text
    assert "v5: broken failed: does not start" in text
    assert "missing is not measured: not installed: pip install missing" in text
    assert "other" not in text


def test_flowbuf_is_measured_without_peers(capture: Path) -> None:
    result = bench(capture, "--no-peers")
    assert re.search(r"dataset +flows +ns a flow +least +greatest +million/s *\n", result.stdout)
    assert re.search(r"v5 +[\d,]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ *\n", result.stdout)
    content = bench_json(capture, "--no-peers")
    assert content["datasets"]["v5"]["peers"] == {}
    assert content["absent"] == {}


def test_default_datasets_are_the_corpus_and_generated_traffic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated_names = ["generated-netflow5", "generated-netflow9", "generated-ipfix", "generated-sflow"]
    monkeypatch.delenv("FLOWBUF_CORPUS", raising=False)
    assert list(bench_json("--no-peers")["datasets"]) == generated_names
    write(tmp_path / "sflow-1140.pcap", generated("sflow", 10))
    monkeypatch.setenv("FLOWBUF_CORPUS", str(tmp_path))
    assert list(bench_json("--no-peers")["datasets"]) == ["sflow-1140", *generated_names]


def test_datasets_have_the_names_of_their_captures(tmp_path: Path, capture: Path) -> None:
    (tmp_path / "b").mkdir()
    same = write(tmp_path / "b/v5.pcap", pcap(GOOD))
    packed = write(tmp_path / "day.1.pcap.gz", gzip.compress(pcap(GOOD)))
    assert list(bench_json(packed, capture, "--no-peers")["datasets"]) == ["day.1", "v5"]
    assert list(bench_json(capture, same, "--no-peers")["datasets"]) == [str(capture), str(same)]


def test_captures_are_read_from_standard_input() -> None:
    result = flowbuf("bench", *FAST, "--no-peers", "--json", "-", stdin=pcap(GOOD))
    assert list(json.loads(result.stdout)["datasets"]) == ["-"]


def test_the_schema_option_selects_the_measured_schema(tmp_path: Path) -> None:
    sflow = write(tmp_path / "s.pcap", generated("sflow", 200))
    flows = bench_json(sflow, "--no-peers")["datasets"]["s"]
    counters = bench_json(sflow, "--no-peers", "--schema", "sflow_counters")["datasets"]["s"]
    assert counters["flows"] / counters["bytes"] < flows["flows"] / flows["bytes"]
    assert bench(sflow, "--no-peers", "--enable", "nothing").exit_code == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pcap(), "contains no flows"),
        (pcap(WITHOUT_TEMPLATE), "contains no flows"),
        (b"", "not a capture: it is empty"),
        (b"hello, world", "not a capture: neither pcap, pcapng, IPFIX nor nfcapd"),
    ],
)
def test_a_capture_without_flows_is_an_error(tmp_path: Path, content: bytes, reason: str) -> None:
    path = write(tmp_path / "a.pcap", content)
    result = bench(path, "--no-peers")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"flowbuf: {path}: {reason}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.pcap",), "nowhere.pcap: No such file or directory"),
        (
            ("--peers", "nowhere"),
            "nowhere: has no package `peers`; name the folder `benchmarks` of the sources",
        ),
        (("--peers", ".", "--no-peers"), "--peers cannot be combined with --no-peers; leave one out"),
        (("--rounds", "0"), "1 to 10000"),
        (("--seconds", "0"), "0<x"),
        (("--seconds", "nan"), "nan is not finite; give a number of seconds"),
    ],
)
def test_invalid_options_are_usage_errors(
    tmp_path: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = flowbuf("bench", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_failing_import_of_peers_is_a_usage_error(tmp_path: Path, capture: Path) -> None:
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers/__init__.py").write_text("import no_such_module\n")
    result = bench(capture, "--peers", tmp_path)
    assert result.exit_code == 2
    assert "No module named 'no_such_module'" in result.stderr


def test_peers_of_the_working_directory_are_the_default(
    capture: Path, peers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.rename(peers, peers.with_name("benchmarks"))
    monkeypatch.chdir(peers.parent)
    assert list(bench_json(capture)["datasets"]["v5"]["peers"]) == ["exact", "half"]
