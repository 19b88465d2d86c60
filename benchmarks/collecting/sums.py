"""Totals and metrics of `flowbuf collect`, and the sums that they must satisfy."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .setting import WrongSum

__all__ = ["PLACES", "Metrics", "Totals", "check_flows", "check_metrics", "check_received", "require"]

PLACES = ("stored", "pending", "queued", "spooled", "filtered", "dropped")
"""Places where a flow that was offered to an output can be."""


@dataclass(frozen=True)
class Totals:
    """Last line of the log of a collector.

    Attributes:
        intake: `received`, `kernel_drops` and `flows`; `lost_flows` and `lost_datagrams` if there are any.
        outputs: Flows in each of PLACES, by name of the output.
    """

    intake: Mapping[str, int]
    outputs: Mapping[str, Mapping[str, int]]

    @classmethod
    def parse(cls, log: str) -> Totals:
        """Return the totals of a log. Raises WrongSum if it has none."""
        lines = re.findall(r"^.* info: (received=\d.*)$", log, re.MULTILINE)
        if not lines:
            raise WrongSum(f"the log has no totals: {log[-1000:]}")
        intake, *outputs = lines[-1].split("; ")
        named = (text.rpartition(": ") for text in outputs)
        return cls(_read_counts(intake), {name: _read_counts(counts) for name, _, counts in named})

    @property
    def stored(self) -> int:
        """Flows that all outputs have stored."""
        return sum(output["stored"] for output in self.outputs.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the totals for JSON."""
        return {**self.intake, "outputs": {name: dict(output) for name, output in self.outputs.items()}}


def _read_counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", text)}


class Metrics:
    """Metrics of a collector at one moment."""

    def __init__(self, text: str) -> None:
        from prometheus_client.parser import text_string_to_metric_families

        self._samples = [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]

    def sum(self, name: str, **labels: str) -> int:
        """Return the sum of all samples of a metric that have these labels."""
        return sum(
            int(value)
            for each, found, value in self._samples
            if each == f"flowbuf_{name}" and labels.items() <= found.items()
        )

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [
            found["output"] for each, found, _ in self._samples if each.endswith("output_stored_flows_total")
        ]


def require(holds: bool, problem: str) -> None:
    """Raise WrongSum with the problem unless a condition holds."""
    if not holds:
        raise WrongSum(problem)


def check_received(sent: int, collectors: Sequence[Totals], drops: int) -> None:
    """Check that sent = received + kernel drops, for one collector or several that followed each other.

    Args:
        sent: Datagrams that the sender has sent.
        collectors: Totals of the collectors.
        drops: Drops of the socket as /proc/net/udp counts them.

    Raises:
        WrongSum: the sum or the drops differ.
    """
    received = sum(totals.intake["received"] for totals in collectors)
    counted = sum(totals.intake["kernel_drops"] for totals in collectors)
    require(counted == drops, f"kernel_drops={counted:,}, but /proc/net/udp has {drops:,}")
    text = f"sent={sent:,}, but received={received:,} + kernel_drops={counted:,} = {received + counted:,}"
    require(sent == received + counted, text)


def check_flows(totals: Totals, names: Collection[str] | None = None) -> None:
    """Check that each flow is in one place of each output, after the end of the collector.

    Args:
        totals: Totals of the collector.
        names: Outputs that existed all the time. Default: all.

    Raises:
        WrongSum: a sum is wrong.
    """
    for name in totals.outputs if names is None else names:
        output = totals.outputs[name]
        total = sum(output[place] for place in PLACES)
        delivered = totals.intake["flows"] - totals.intake.get("lost_flows", 0)
        text = " + ".join(f"{place}={output[place]:,}" for place in PLACES)
        require(delivered == total, f"{name}: {delivered:,} flows, but {text} = {total:,}")
        require(not output["queued"], f"{name}: {output['queued']:,} flows are queued after the end")
        require(not output["pending"], f"{name}: {output['pending']:,} flows are pending after the end")


def check_metrics(metrics: Metrics) -> None:
    """Check the flows of each output while the collector runs. Raises WrongSum."""
    decoded = metrics.sum("decoded_flows_total")
    for name in metrics.outputs:
        offered = metrics.sum("output_offered_flows_total", output=name)
        recovered = metrics.sum("output_recovered_flows_total", output=name)
        counted = ("stored", "filtered", "dropped")
        places = {each: metrics.sum(f"output_{each}_flows_total", output=name) for each in counted}
        for each in ("queued", "pending", "spooled"):
            places[each] = metrics.sum(f"output_{each}_flows", output=name)
        text = f"{name}: offered={offered:,}, recovered={recovered:,}, decoded={decoded:,}, {places}"
        require(offered + recovered == sum(places.values()), text)
        require(min(places.values()) >= 0 and offered <= decoded, text)
