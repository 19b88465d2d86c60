"""Totals of the collector, and their text in the log."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowbuf.collect.copies import format_copies
from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.output_counters import OutputCounters
from flowbuf.io.statuses import LOSSES

__all__ = ["ServiceCounters", "format_output", "format_totals"]


@dataclass
class ServiceCounters:
    """Totals of the service at one moment.

    Attributes:
        intake: Totals of receiving and decoding.
        outputs: Totals of each output since the start, by name. Outputs of earlier configurations are
            included.
    """

    intake: IntakeCounters
    outputs: dict[str, OutputCounters] = field(default_factory=dict)


def format_totals(counters: ServiceCounters) -> str:
    """Return a line with the totals: datagrams, messages over TCP, flows, and flows of each output.

    It names each fault and loss of the decoder.
    """
    intake = counters.intake
    drops = "unknown" if intake.kernel_drops is None else intake.kernel_drops
    messages = f" messages={intake.messages}" if intake.streams else ""
    rows = " ".join(f"{kind}={rows.decoded}" for kind, rows in intake.rows.items())
    denied = f" denied={intake.denied} decoded={intake.decoded}" if intake.denied else ""
    parts = [f"received={intake.received} kernel_drops={drops}{denied}{messages} {rows}"]
    for name in (*LOSSES, "early_data_inherited", "early_data_handed_over"):
        if count := intake.statuses[name]:
            parts[0] += f" {name}={count}"
    if intake.lost_flows or intake.lost_datagrams:
        parts[0] += f" lost_flows={intake.lost_flows} lost_datagrams={intake.lost_datagrams}"
    parts += format_copies(intake.copies)
    parts += [f"{name}: {format_output(output)}" for name, output in counters.outputs.items()]
    return "; ".join(parts)


def format_output(output: OutputCounters) -> str:
    """Return the totals of an output as text."""
    return (
        f"stored={output.stored} pending={output.pending} queued={output.queued} "
        f"spooled={output.spooled} filtered={output.filtered} "
        f"dropped={output.dropped.total()}"
    )
