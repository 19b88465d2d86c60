"""Explain why datagrams and messages give no flows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flowbuf._core import STATUSES
from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.streams.sessions import ORDINARY, REASONS
from flowbuf.collect.streams.worker import StreamCounters

__all__ = ["explain_silence"]

MAX_EXPORTERS = 10
MAX_REASONS = 3

_EXPLAINED = {"early_data": "data sets wait for their template; exporters send it every few minutes"}


def explain_silence(
    addresses: Sequence[str],
    counters: IntakeCounters,
    exporters: Sequence[dict[str, Any]],
    others: Sequence[dict[str, Any]],
    saved_in: str = "",
) -> Iterator[str]:
    """Yield lines that say which sources send, what they send, and why it gives no flows.

    Args:
        addresses: Addresses on which the collector listens.
        counters: Totals of the collector.
        exporters: State of the exporters: see `Decoder.read_exporters`.
        others: Counters of datagrams without an exporter, of each worker: see `Decoder.read_other`.
        saved_in: Path of the file of undecoded datagrams. Default: they are not saved.
    """
    if counters.streams:
        yield from _explain_sessions(counters.streams)
    if not counters.received and not counters.messages:
        yield (
            f"no datagram or message has arrived on {', '.join(addresses)}; check the destination that the "
            "exporters use, and the firewall"
        )
        return
    if counters.denied:
        yield f"{counters.denied:,} datagrams were denied; check the keys allow and deny"
    silent = sorted(
        (each for each in exporters if each["datagrams"] and not each["flows"]),
        key=lambda each: -each["datagrams"],
    )
    for exporter in silent[:MAX_EXPORTERS]:
        yield (
            f"{exporter['address']}: {exporter['datagrams']:,} {_unit(exporter)}, no flows: "
            f"{_explain(exporter['counters'])}"
        )
    if len(silent) > MAX_EXPORTERS:
        yield f"{len(silent) - MAX_EXPORTERS} more exporters send datagrams without flows"
    unknown = sum(each["datagrams"] for each in others)
    if unknown:
        reasons = sum((Counter(each["counters"]) for each in others), Counter[str]())
        yield f"{unknown:,} datagrams of unknown senders or protocols: {_explain(reasons)}"
    if silent or unknown:
        yield _suggest(saved_in)


def _suggest(saved_in: str) -> str:
    if saved_in:
        return f"datagrams that cannot be decoded are saved in {saved_in}; see: flowbuf inspect {saved_in}"
    return (
        "--save-undecoded FILE.pcap saves datagrams that cannot be decoded, for flowbuf inspect and Wireshark"
    )


def _unit(exporter: dict[str, Any]) -> str:
    return "messages" if "session" in exporter else "datagrams"


def _explain_sessions(streams: StreamCounters) -> Iterator[str]:
    """Yield the problems of TCP and TLS sessions, the most frequent one first."""
    reasons: Counter[str] = Counter()
    for each in streams.sessions:
        reasons += each.closed + each.refused
    for reason, count in reasons.most_common():
        if reason not in ORDINARY:
            yield f"{count:,} sessions or connections ended ({reason}): {REASONS[reason]}"


def _explain(counters: Mapping[str, int]) -> str:
    reasons = sorted(counters.items(), key=lambda item: -item[1])[:MAX_REASONS]
    texts = [f"{name} {count:,} ({_EXPLAINED.get(name, STATUSES[name][1])})" for name, count in reasons]
    return "; ".join(texts) or "they have no data yet"
