"""The dashboard and the alerts in examples/ use metrics and labels that the collector has."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flowbuf._core import STATUSES
from flowbuf.collect.metrics import METRICS, format_metrics
from flowbuf.collect.service import Service
from flowbuf.collect.streams.sessions import SessionCounters
from tests.collect.test_collector import flows5
from tests.collect.test_service import ListOutput, address_of, running
from tests.support.live import receiver, send, wait_until

EXAMPLES = Path(__file__).parents[2] / "examples/collector"
DASHBOARD = json.loads((EXAMPLES / "grafana.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
ALERTS = (EXAMPLES / "alerts.yml").read_text().split("- alert: ")[1:]
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds when it scrapes."""

NOT_SHOWN = {"received_bytes", "receive_errors", "output_offered_flows", "output_recovered_flows"}
NOT_SHOWN |= {"output_filtered_flows", "session_received_bytes", "decoded_datagrams"}

_METRIC = re.compile(r"\b((?:flowbuf|process)_\w+)\{([^}]*)\}")
_BY = re.compile(r"by \(([^)]*)\)")


def names_in(query: str) -> tuple[set[str], set[str]]:
    """Return the metrics and the labels of a query."""
    found = _METRIC.findall(query)
    labels = {label for _, selector in found for label in re.findall(r"(\w+)=", selector)}
    labels |= {label.strip() for group in _BY.findall(query) for label in group.split(",")}
    return {name for name, _ in found}, labels - OF_PROMETHEUS


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the labels of each metric of a collector that has received flows and garbage."""
    undecoded = str(tmp_path_factory.mktemp("undecoded") / "undecoded.pcap")
    settings = {"listen": ("127.0.0.1:0", "tcp://127.0.0.1:0"), "peer_session_limit": 1}
    with (
        receiver() as target,
        running({"one": ListOutput()}, forward=(target.to,), save_undecoded=undecoded, **settings) as service,
    ):
        send([flows5(30), b"other"], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 30, "the flows")
        end_sessions(service)
        text = format_metrics(service).decode()
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def end_sessions(service: Service) -> None:
    """Open a session that is refused, and one that ends because it sends another protocol."""
    to = ("127.0.0.1", service.intake.stream_listeners[0].address.port)

    def sessions() -> SessionCounters:
        streams = service.read_counters().intake.streams
        assert streams
        return streams.sessions[0]

    with socket.create_connection(to) as first:
        wait_until(lambda: sessions().open == 1, "the session")
        with socket.create_connection(to):
            wait_until(lambda: bool(sessions().refused), "the refusal")
        first.sendall(b"another protocol")
        wait_until(lambda: bool(sessions().closed), "the end of the session")


@pytest.mark.parametrize("query", QUERIES)
def test_queries_use_metrics_and_labels_that_exist(query: str, metrics: dict[str, set[str]]) -> None:
    names, labels = names_in(query)
    assert names
    for name in names:
        assert labels <= metrics[name], name


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.split()[0])
def test_alerts_use_metrics_and_labels_that_exist(alert: str, metrics: dict[str, set[str]]) -> None:
    (name,) = re.findall(r"flowbuf_\w+", alert) or ("up",)
    labels = set(re.findall(r"\$labels\.(\w+)|{(\w+)=", alert.replace("{{ $", "$")))
    assert {each or other for each, other in labels} - OF_PROMETHEUS <= {"up": set(), **metrics}[name]
    assert name != "up" or alert.startswith("FlowbufDown")


def test_losses_of_each_reason_have_a_series_from_the_start() -> None:
    """`increase` misses the first value of a series, so an alert would miss the first loss."""
    with running({"one": ListOutput()}) as service:
        families = text_string_to_metric_families(format_metrics(service).decode())
        zeros = {
            (sample.name.removeprefix("flowbuf_").removesuffix("_total"), sample.labels.get("reason"))
            for family in families
            for sample in family.samples
            if not sample.value
        }
    page = (EXAMPLES.parents[1] / "docs/reference/metrics.md").read_text()
    table = page.partition("## Reasons of dropped flows")[2].partition("\n## ")[0]
    reasons = re.findall(r"(?m)^\| `(\w+)` \|", table)
    assert len(reasons) == 12
    assert {("output_dropped_flows", reason) for reason in reasons} <= zeros
    losses = {name for name, (kind, _) in STATUSES.items() if kind in ("fault", "loss")}
    assert "template_missing" in losses
    assert {("decoder_events", reason) for reason in losses} <= zeros


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_legends_use_labels_of_their_query(panel: dict[str, Any]) -> None:
    for target in panel.get("targets", ()):
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert shown == {label for group in _BY.findall(target["expr"]) for label in group.split(", ")}


def test_variables_use_metrics_that_exist(metrics: dict[str, set[str]]) -> None:
    queries = [each["query"]["query"] for each in DASHBOARD["templating"]["list"][1:]]
    assert len(queries) == 2
    for query in queries:
        assert re.findall(r"label_values\((\w+)", query)[0] in metrics


def test_the_dashboard_shows_every_metric() -> None:
    shown = {
        re.sub(r"^flowbuf_|_total$", "", name)
        for query in QUERIES
        for name in names_in(query)[0]
        if name.startswith("flowbuf_")
    }
    assert shown == METRICS.keys() - NOT_SHOWN


def test_panels_do_not_overlap() -> None:
    places = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & places, panel["title"]
        assert place["x"] + place["w"] <= 24
        places |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
