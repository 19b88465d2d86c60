"""Metrics of the collector in the format of Prometheus."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any

from flowbuf._core import OTHERS
from flowbuf.collect.copies import CopyCounters, count_unsent
from flowbuf.collect.intake import ExporterTotals
from flowbuf.errors import optional_import
from flowbuf.io.statuses import LOSSES

if TYPE_CHECKING:
    from flowbuf.collect.intake import IntakeCounters
    from flowbuf.collect.service import Service
    from flowbuf.collect.streams.worker import StreamCounters
    from flowbuf.collect.totals import ServiceCounters
    from flowbuf.collect.worker import WorkerCounters

__all__ = ["Sample", "format_metrics"]

EXPORTER_LABELS = 100
"""Most exporters with labels of their own, by datagrams. The others are summed as "other"."""

EXPORTER_SECONDS = 1.0
"""Longest time to wait for the exporters of all workers. Prometheus waits 10 s for all metrics by default."""

METRICS = {
    "received_datagrams": "Datagrams received.",
    "received_bytes": "Bytes of the payloads of datagrams.",
    "kernel_dropped_datagrams": "Datagrams that the kernel dropped because a receive buffer was full.",
    "denied_datagrams": "Datagrams of sources that are denied or not allowed.",
    "decoded_datagrams": "Datagrams given to the decoder, also malformed ones.",
    "waiting_datagrams": "Datagrams that were received and not decoded yet.",
    "truncated_datagrams": "Datagrams that were longer than 65,528 bytes, whose end was lost.",
    "receive_errors": "Failed system calls that receive.",
    "received_messages": "IPFIX messages received over TCP and TLS.",
    "session_received_bytes": "Bytes received over TCP and TLS, after decryption.",
    "session_incomplete_bytes": "Bytes of messages that were not complete when their session was closed.",
    "sessions_opened": "TCP and TLS sessions opened.",
    "sessions_closed": "TCP and TLS sessions closed, by reason.",
    "sessions_refused": "TCP and TLS connections refused, by reason.",
    "sessions_open": "TCP and TLS sessions that are open.",
    "decoded_flows": "Flows decoded.",
    "worker_failures": "Failures after which a worker was started again.",
    "worker_lost_flows": "Flows lost in failures of a worker.",
    "worker_lost_datagrams": "Datagrams lost in failures of a worker.",
    "decoder_events": "Events of the decoder, by reason; see the reference of counters.",
    "forwarded_datagrams": "Datagrams, and messages over TCP and TLS, sent to a target of forwarding.",
    "forward_refused_datagrams": "Forwarded datagrams to a closed port, as far as it was reported.",
    "forward_unsent_datagrams": "Datagrams and messages that a target of forwarding was not sent, by reason.",
    "undecoded_datagrams": "Datagrams and messages not decoded completely, if they are to be saved.",
    "undecoded_saved_datagrams": "Undecoded datagrams and messages that were saved.",
    "undecoded_unsaved_datagrams": "Undecoded datagrams and messages that were not saved, by reason.",
    "exporter_datagrams": "Datagrams of an exporter, and its messages over TCP and TLS.",
    "exporter_flows": "Flows of an exporter.",
    "exporter_rate_limited_flows": "Flows of an exporter that were not decoded because of the rate limit.",
    "exporters": "Exporters that are known.",
    "output_offered_flows": "Flows offered to an output.",
    "output_recovered_flows": "Flows that the spool of an output had at the start.",
    "output_stored_flows": "Flows that are durable at the destination of an output.",
    "output_filtered_flows": "Flows that the condition or an enrichment of an output removed.",
    "output_dropped_flows": "Flows that an output did not store, by reason.",
    "output_failures": "Failed attempts of an output to write.",
    "output_queued_flows": "Flows that wait in the queue of an output.",
    "output_pending_flows": "Flows that an output has written and not stored yet.",
    "output_spooled_flows": "Flows that wait in the spool of an output.",
}
"""Names of metrics without prefix and suffix, and their descriptions."""

GAUGES = {
    "waiting_datagrams",
    "sessions_open",
    "exporters",
    "output_queued_flows",
    "output_pending_flows",
    "output_spooled_flows",
}

DROP_REASONS = (
    *("queue_full", "spool_full", "spool_error", "spool_damaged", "kafka_error", "selection_error"),
    *("bad_batch", "output_error", "file_removed", "output_closed", "shutdown", "closed"),
)
"""Reasons of dropped flows. Each has a series from the start, because `increase` misses its first value."""

Sample = tuple[str, dict[str, str], float]
"""Name of a metric, labels and value."""


def format_metrics(service: Service, exporters: list[Sample] | None = None) -> bytes:
    """Return all metrics of a service in the text format of Prometheus.

    Args:
        service: Service to report.
        exporters: Samples of the exporters of an earlier call. They are repeated while a worker waits for a
            full queue, and replaced otherwise. Default: none.

    Raises:
        ImportError: prometheus-client is not installed (`flowbuf[collect]`).
    """
    with optional_import("metrics need prometheus-client", "flowbuf[collect]"):
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    registry.register(_Source(service, [] if exporters is None else exporters))
    ProcessCollector(registry=registry)  # CPU time, memory and open files of the process
    text: bytes = generate_latest(registry)
    return text


class _Source:
    """The metrics of a service as prometheus-client reads them."""

    def __init__(self, service: Service, exporters: list[Sample]) -> None:
        self._service = service
        self._exporters = exporters

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Any] = {}
        for name, labels, value in self._samples():
            if name not in families:
                family = GaugeMetricFamily if name in GAUGES else CounterMetricFamily
                families[name] = family(f"flowbuf_{name}", METRICS[name], labels=list(labels))
            families[name].add_metric(list(labels.values()), value)
        yield from families.values()

    def _samples(self) -> Iterator[Sample]:
        counters = self._service.read_counters()
        intake = self._service.intake
        yield from _datagram_samples(
            counters.intake, [str(each.address) for each in intake.datagram_listeners]
        )
        if counters.intake.streams:
            yield from _stream_samples(
                counters.intake.streams, [str(each.address) for each in intake.stream_listeners]
            )
        for reason, count in {**dict.fromkeys(LOSSES, 0), **counters.intake.statuses}.items():
            yield "decoder_events", {"reason": reason}, count
        yield from _copy_samples(counters.intake.copies)
        yield from _output_samples(counters)
        with contextlib.suppress(FutureTimeout):  # a worker waits for a full queue
            self._exporters[:] = _exporter_samples(intake.list_exporters(EXPORTER_SECONDS))
        yield from list(self._exporters)  # another request may replace them


def _datagram_samples(counters: IntakeCounters, listeners: list[str]) -> Iterator[Sample]:
    for number, worker in enumerate(counters.workers):
        for address, listener, drops in zip(listeners, worker.listeners, worker.kernel_drops, strict=True):
            labels = {"listener": address, "worker": str(number)}
            yield "received_datagrams", labels, listener["datagrams"]
            yield "received_bytes", labels, listener["bytes"]
            yield "truncated_datagrams", labels, listener["truncated"]
            yield "receive_errors", labels, listener["errors"]
            if drops is not None:
                yield "kernel_dropped_datagrams", labels, drops
        yield from _worker_samples(str(number), worker)


def _stream_samples(counters: StreamCounters, listeners: list[str]) -> Iterator[Sample]:
    for address, sessions in zip(listeners, counters.sessions, strict=True):
        labels = {"listener": address}
        yield "received_messages", labels, sessions.messages
        yield "session_received_bytes", labels, sessions.bytes
        yield "session_incomplete_bytes", labels, sessions.incomplete_bytes
        yield "sessions_opened", labels, sessions.opened
        yield "sessions_open", labels, sessions.open
        for reason, count in sessions.closed.items():
            yield "sessions_closed", {**labels, "reason": reason}, count
        for reason, count in sessions.refused.items():
            yield "sessions_refused", {**labels, "reason": reason}, count
    yield from _worker_samples("streams", counters)


def _worker_samples(name: str, worker: WorkerCounters) -> Iterator[Sample]:
    labels = {"worker": name}
    yield "denied_datagrams", labels, worker.denied
    yield "decoded_datagrams", labels, worker.decoded
    yield "waiting_datagrams", labels, worker.waiting
    for kind, rows in worker.rows.items():
        yield "decoded_flows", {**labels, "rows": kind}, rows.decoded
        yield "worker_lost_flows", {**labels, "rows": kind}, rows.lost
    yield "worker_failures", labels, worker.failures
    yield "worker_lost_datagrams", labels, worker.lost_datagrams


def _copy_samples(copies: CopyCounters) -> Iterator[Sample]:
    for target, counts in copies.targets.items():
        labels = {"target": target}
        yield "forwarded_datagrams", labels, counts["forwarded"]
        yield "forward_refused_datagrams", labels, counts["refused"]
        for reason, count in count_unsent(counts).items():
            yield "forward_unsent_datagrams", {**labels, "reason": reason}, count
    if copies.undecoded:
        yield "undecoded_datagrams", {}, copies.undecoded["undecoded"]
        yield "undecoded_saved_datagrams", {}, copies.undecoded["saved"]
        for reason, count in copies.unsaved.items():
            yield "undecoded_unsaved_datagrams", {"reason": reason}, count


def _output_samples(counters: ServiceCounters) -> Iterator[Sample]:
    for output in counters.outputs.values():
        labels = {"output": output.name, "rows": output.rows}
        yield "output_offered_flows", labels, output.queue.offered
        yield "output_recovered_flows", labels, output.queue.recovered
        yield "output_spooled_flows", labels, output.spooled
        yield "output_stored_flows", labels, output.stored
        yield "output_filtered_flows", labels, output.filtered
        yield "output_queued_flows", labels, output.queued
        yield "output_pending_flows", labels, output.pending
        yield "output_failures", labels, output.failures
        for reason, flows in {**dict.fromkeys(DROP_REASONS, 0), **output.dropped}.items():
            yield "output_dropped_flows", {**labels, "reason": reason}, flows


def _exporter_samples(exporters: Sequence[ExporterTotals]) -> Iterator[Sample]:
    """Yield the totals of the exporters with most datagrams, and those of all others.

    Exporters that were evicted are among the others.
    """
    yield "exporters", {}, sum(address != OTHERS for address, *_ in exporters)
    datagrams: Counter[str] = Counter()
    for address, _, received, *_ in exporters:
        datagrams[address] += received
    del datagrams[OTHERS]
    shown = {address for address, _ in datagrams.most_common(EXPORTER_LABELS)}
    totals: dict[str, Counter[str]] = {}
    rows: dict[str, Counter[str]] = {}
    for address, _, received, _, _, _, _, decoded, limited in exporters:
        name = address if address in shown else "other"
        totals.setdefault(name, Counter()).update(datagrams=received, rate_limited_flows=limited)
        rows.setdefault(name, Counter(flows=0)).update(decoded)
    for name, counts in totals.items():
        for kind, count in counts.items():
            yield f"exporter_{kind}", {"exporter": name}, count
        for kind, flows in rows[name].items():
            yield "exporter_flows", {"exporter": name, "rows": kind}, flows
