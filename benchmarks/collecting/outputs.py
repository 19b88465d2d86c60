"""Rates of Parquet and Kafka, each alone and both at once."""

from __future__ import annotations

import shutil
import time
from typing import Any

from benchmarks.lab.split import compare_rounds
from benchmarks.pipeline.run import make_topics

from .bursts import summarize
from .collectors import Flowbuf
from .kafka import running_broker
from .senders import BareSender
from .setting import Setting
from .sums import check_flows, check_received, require
from .traffic import Traffic

__all__ = ["measure_outputs"]

SECONDS = 20.0
ROUNDS = 3
DATASET = "generated-netflow9"
QUEUE_FLOWS = 1 << 17
"""Flows that a queue holds. It is small, so that the outputs soon determine the rate."""

KINDS = ("null", "parquet", "kafka", "both")


def measure_outputs(setting: Setting) -> dict[str, Any]:
    """Return the rates that outputs allow, in flows per second.

    Outputs block, and the sender waits for the collector, so nothing is lost. The time ends when all flows
    are stored and the collector has ended. The broker shares the processor of the sender in all runs.
    """
    traffic = setting.traffic(DATASET)
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with running_broker(setting) as broker:
        for turn in range(setting.rounds(ROUNDS)):
            for kind in KINDS if turn % 2 == 0 else KINDS[::-1]:
                setting.show(f"outputs: {kind}, round {turn + 1}")
                rates[kind].append(_measure(setting, traffic, kind, broker))
    allowed = [min(pair) for pair in zip(rates["parquet"], rates["kafka"], strict=True)]
    ratio = compare_rounds(rates["both"], allowed)
    serial = compare_rounds(rates["both"], [_add_times(*each) for each in _rounds(rates)])
    return {
        "dataset": traffic.name,
        "rates": {kind: summarize(values) for kind, values in rates.items()},
        "ratio": {"median": ratio.ratio, "spread": ratio.spread},
        "ratio_of_serial": {"median": serial.ratio, "spread": serial.spread},
    }


def _rounds(rates: dict[str, list[float]]) -> list[tuple[float, float, float]]:
    return list(zip(rates["null"], rates["parquet"], rates["kafka"], strict=True))


def _add_times(null: float, parquet: float, kafka: float) -> float:
    """Return the rate of one processor that does the work of both outputs, and receives and decodes once."""
    return 1 / (1 / parquet + 1 / kafka - 1 / null)


def _measure(setting: Setting, traffic: Traffic, kind: str, broker: str) -> float:
    """Return the flows per second of one run. Raises WrongSum if a flow is missing."""
    folder = setting.new_folder("outputs")
    with make_topics(broker, 1) as topics:
        places = {
            "null": ["null:"],
            "parquet": [f"{folder}/"],
            "kafka": [f"kafka://{broker}/{topics[0]}"],
            "both": [f"{folder}/", f"kafka://{broker}/{topics[0]}"],
        }
        options = ["--on-overflow", "block", "--queue-flows", str(QUEUE_FLOWS)]
        outputs = [word for place in places[kind] for word in ("-o", place)]
        with (
            Flowbuf(setting, [*outputs, *options]) as running,
            BareSender(setting, traffic, running) as sender,
        ):
            before, begin = sender.flows, time.monotonic()
            sender.send(setting.duration(SECONDS), window=running.window)
            _finish(running, sender)
            seconds = time.monotonic() - begin
    shutil.rmtree(folder)
    return (sender.flows - before) / seconds


def _finish(running: Flowbuf, sender: BareSender) -> None:
    running.wait_until_idle()
    drops = running.read_drops()
    totals = running.finish()
    check_received(sender.total, [totals], drops)
    check_flows(totals)
    for name, output in totals.outputs.items():
        require(
            drops > 0 or output["stored"] == sender.flows, f"{name}: {output} instead of {sender.flows:,}"
        )
