"""The benchmark of the collector (benchmarks/collector.py).

Quick runs check the sums and the presence of all results. Measured values are not tested.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.collecting.report import find_targets, make_report
from benchmarks.collecting.setting import WrongSum
from benchmarks.collecting.sums import PLACES, Metrics, Totals, check_flows, check_metrics, check_received
from benchmarks.collecting.traffic import load_traffic
from benchmarks.machine import find_machine
from flowbuf.decoder import Decoder
from tools import make_docs

ROOT = Path(__file__).parents[2]
QUICK = ["generated-netflow9"]

LOG = """\
2026-01-01T00:00:00Z info: listening on 127.0.0.1:2055
2026-01-01T00:00:09Z info: received=90 kernel_drops=10 flows=300; \
null:: stored=300 pending=0 queued=0 spooled=0 filtered=0 dropped=0; \
b: stored=100 pending=0 queued=0 spooled=50 filtered=80 dropped=70
"""


# Sums -------------------------------------------------------------------------------------------------------


def test_totals_are_read_from_the_last_line_of_the_log() -> None:
    totals = Totals.parse(LOG)
    assert totals.intake == {"received": 90, "kernel_drops": 10, "flows": 300}
    assert totals.outputs["null:"] == {**dict.fromkeys(PLACES, 0), "stored": 300}
    assert totals.stored == 400
    with pytest.raises(WrongSum, match="the log has no totals"):
        Totals.parse("info: listening on 127.0.0.1:2055\n")


def test_right_sums_are_accepted() -> None:
    totals = Totals.parse(LOG)
    check_flows(totals)
    check_received(100, [totals], 10)
    check_received(200, [totals, totals], 20)


@pytest.mark.parametrize(("sent", "drops"), [(99, 10), (101, 10), (100, 9)])
def test_missing_datagrams_are_a_failure(sent: int, drops: int) -> None:
    with pytest.raises(WrongSum, match=f"sent={sent}|/proc/net/udp has {drops}"):
        check_received(sent, [Totals.parse(LOG)], drops)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("filtered=80", "filtered=81"),
        ("flows=300", "flows=299"),
        ("stored=100 pending=0", "stored=99 pending=1"),
        ("stored=100 pending=0 queued=0", "stored=99 pending=0 queued=1"),
    ],
)
def test_wrong_sums_of_an_output_are_a_failure(right: str, wrong: str) -> None:
    totals = Totals.parse(LOG.replace(right, wrong))
    with pytest.raises(WrongSum):
        check_flows(totals)


def metrics(offered: int, **flows: int) -> Metrics:
    values = {"stored_flows_total": 5, "filtered_flows_total": 2, "dropped_flows_total": 1}
    values |= {"queued_flows": 3, "pending_flows": 0, "spooled_flows": 0, "recovered_flows_total": 0} | flows
    lines = [f'flowbuf_output_{name}{{output="a"}} {value}' for name, value in values.items()]
    lines.append(f'flowbuf_output_offered_flows_total{{output="a"}} {offered}')
    return Metrics("\n".join([*lines, 'flowbuf_decoded_flows_total{rows="flows",worker="0"} 12', ""]))


def test_sums_of_metrics_are_checked() -> None:
    pytest.importorskip("prometheus_client")
    check_metrics(metrics(11))
    for wrong in (metrics(12), metrics(13, queued_flows=5), metrics(11, queued_flows=4, pending_flows=-1)):
        with pytest.raises(WrongSum):
            check_metrics(wrong)


# Traffic ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["generated-sflow", *QUICK])
def test_flows_of_any_number_of_datagrams_are_known(name: str) -> None:
    traffic = load_traffic(name)
    assert traffic
    data = traffic.workload.data
    count = len(data) + 100
    decoder = Decoder()
    for datagram in (*traffic.workload.first, *data, *data[:100]):
        decoder.encode(*datagram)
    assert traffic.count_flows(count) == decoder.flows
    assert traffic.count_flows(0) == traffic.first_flows


# The report -------------------------------------------------------------------------------------------------


def summary(value: float) -> dict[str, Any]:
    return {"median": value, "spread": 0.01, "samples": [value]}


def results(ratio: float, drops: int) -> dict[str, Any]:
    part = {"machine": find_machine(), "quick": False, "took": 61.0}
    dataset = {
        **{"dataset": "a", "bytes_per_datagram": 1000.0, "flows_per_datagram": 4.0, "ratio": summary(ratio)},
        **{name: summary(1500) for name in ("flowbuf", "bare", "decode")},
        "rates": {"flowbuf": summary(1e5)},
    }
    run = {
        "dataset": "a",
        "bytes_per_datagram": 1000.0,
        "receiver": "flowbuf",
        "buffer": 1 << 25,
        "drops": drops,
    }
    return {
        "overhead": {**part, "datasets": [dataset]},
        "pause": {**part, "datagrams": 25_000, "runs": [run]},
        "memory": {**part, "failed": "WrongSum: some text"},
        "outputs": {**part, "absent": "no Kafka broker"},
    }


@pytest.mark.parametrize(("ratio", "drops", "met"), [(1.15, 0, True), (1.16, 1, False)])
def test_targets_are_met_up_to_their_limits(ratio: float, drops: int, met: bool) -> None:
    targets = find_targets(results(ratio, drops))
    assert [target.met for target in targets] == [met, met]


def test_the_report_has_all_parts_also_those_without_results() -> None:
    report = make_report(results(1.1, 0))
    assert "| `a` | 1,000 | 4.0 | 1,500 ± 0 | 1,500 ± 0 | 1,500 ± 0 | 1.10 ± 0.01 | 100,000 |" in report
    assert "Failed: WrongSum: some text" in report
    assert "Not measured: no Kafka broker" in report
    assert "no meaning" not in report


def test_the_page_shows_the_results_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_docs, "COLLECTOR_RESULTS", tmp_path / "collector.json")
    assert make_docs.collector_results().startswith("No results are recorded")
    (tmp_path / "collector.json").write_text(json.dumps(results(1.1, 0)))
    assert "### CPU time per datagram" in make_docs.collector_results()


# Quick runs -------------------------------------------------------------------------------------------------


def measure(folder: Path, *parts: str) -> dict[str, Any]:
    """Measure parts quickly, and return their results."""
    if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("the benchmark of the collector needs Linux and two processors")
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    path = folder / "collector.json"
    command = [sys.executable, "benchmarks/collector.py", "--quick", "--only", ",".join(parts)]
    done = subprocess.run([*command, "--results", path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    assert set(found) == set(parts)
    assert path.with_suffix(".md").read_text() == make_report(found) == done.stdout.removesuffix("\n")
    assert "no meaning" in done.stdout
    return found


@pytest.mark.slow
def test_overhead_and_memory(tmp_path: Path) -> None:
    found = measure(tmp_path, "overhead", "memory")
    assert [each["dataset"] for each in found["overhead"]["datasets"]] == QUICK
    for each in found["overhead"]["datasets"]:
        assert all(each[name]["median"] > 0 for name in ("flowbuf", "bare", "decode", "ratio"))
    assert len(found["memory"]["samples"]) >= 2
    assert all(resident > 1 << 20 for _, resident in found["memory"]["samples"])
    chart = (tmp_path / "collector.svg").read_text()
    assert "</svg>" in chart


@pytest.mark.slow
def test_loss_and_pause(tmp_path: Path) -> None:
    found = measure(tmp_path, "loss", "pause")
    runs = found["loss"]["runs"]
    pairs = [("bare sender", "bare receiver"), ("bare sender", "flowbuf"), ("flowbuf replay", "flowbuf")]
    assert [(run["sender"], run["receiver"]) for run in runs] == pairs
    assert all(run["sent"] > 0 and ("sustainable" in run) <= (run["drops"] > 0) for run in runs)
    receivers = {run["receiver"] for run in found["pause"]["runs"]}
    assert receivers == {"bare receiver", "flowbuf"}


@pytest.mark.slow
def test_overload(tmp_path: Path) -> None:
    runs = measure(tmp_path, "overload")["overload"]["runs"]
    kinds = ["a slow output, drop", "a slow output, spool", "a slow output, block", "a throttled collector"]
    assert [run["kind"] for run in runs] == kinds
    for run in runs:
        totals = run["totals"]
        assert run["sent"] == totals["received"] + totals["kernel_drops"]
        for output in totals["outputs"].values():
            assert sum(output[place] for place in PLACES) == totals["flows"]
        assert totals["outputs"]["filtered"]["filtered"] > 0
        assert run["checks"] > 0
    dropping, spooling, blocking, throttled = runs
    assert dropping["totals"]["outputs"]["slow"]["dropped"] > 0
    assert spooling["most_spooled"] > 0
    assert blocking["totals"]["kernel_drops"] > 0
    assert throttled["totals"]["kernel_drops"] > 0


@pytest.mark.slow
def test_handover(tmp_path: Path) -> None:
    runs = measure(tmp_path, "handover")["handover"]["runs"]
    assert [run["dataset"] for run in runs] == ["generated-sflow", "generated-netflow9"]
    for run in runs:
        assert (run["reloads"], run["takeovers"]) == (3, 2)
        received = [each["received"] for each in run["collectors"]]
        assert len(received) == 3
        assert run["sent"] == sum(received) + run["drops"]
        assert received[0] > 0


@pytest.mark.expensive
def test_outputs_and_comparison(tmp_path: Path) -> None:
    found = measure(tmp_path, "outputs", "comparison")
    if absent := found["outputs"].get("absent"):
        pytest.skip(absent)
    assert set(found["outputs"]["rates"]) == {"null", "parquet", "kafka", "both"}
    for each in found["comparison"]["datasets"]:
        contestants = each["contestants"]
        assert {"flowbuf, file", "flowbuf, Kafka"} <= contestants.keys()
        assert set(contestants) | set(found["comparison"]["missing"]) == {
            *("flowbuf, file", "flowbuf, Kafka", "GoFlow2, file", "GoFlow2, Kafka", "nfdump", "pmacct")
        }
        for name, contestant in contestants.items():
            assert contestant["found"] == 1 or (not name.startswith("flowbuf") and contestant["found"] > 0.99)


def test_an_unknown_part_is_named() -> None:
    command = [sys.executable, "benchmarks/collector.py", "--only", "overhead,speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(r"speed is no part; the parts are overhead, loss, ", done.stderr)
