"""Datagrams that arrive while a worker is paused, and while a collector is reloaded or replaced."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .collectors import BareReceiver, Flowbuf, write_outputs
from .processes import wait_until
from .senders import BareSender
from .setting import Setting
from .sums import Metrics, check_flows, check_received, require
from .traffic import Traffic

__all__ = ["measure_handover", "measure_pause"]

PAUSED_DATAGRAMS = 25_000
PAUSE_ROUNDS = 3
SECONDS = 30.0
QUICK_SECONDS = 8.0
RATES = {"generated-sflow": 200_000.0, "generated-netflow9": 100_000.0}
"""Datagrams per second of each dataset. The successor starts on the processor of the collector, which must
have time for that."""

QUICK_RATE = 20_000.0

LOST_NUMBERS = ("sequence_gap", "sample_gap", "out_of_sequence")
"""Counters of the decoder that increase if a datagram is missing, late or doubled."""


# A paused worker --------------------------------------------------------------------------------------------


def measure_pause(setting: Setting) -> dict[str, Any]:
    """Return the losses of PAUSED_DATAGRAMS datagrams that are sent while the receiver is stopped."""
    rows = []
    for traffic in setting.all_traffic():
        for turn in range(setting.rounds(PAUSE_ROUNDS)):
            setting.show(f"pause: {traffic.name}, round {turn + 1}")
            with BareReceiver(setting) as bare:
                rows.append(_describe(traffic, "bare receiver", bare, _pause_bare(setting, traffic, bare)))
            with Flowbuf(setting, ["-o", "null:"]) as flowbuf:
                rows.append(_describe(traffic, "flowbuf", flowbuf, _pause_flowbuf(setting, traffic, flowbuf)))
    return {"datagrams": PAUSED_DATAGRAMS, "runs": rows}


def _describe(traffic: Traffic, name: str, running: BareReceiver | Flowbuf, drops: int) -> dict[str, Any]:
    return {
        "dataset": traffic.name,
        "bytes_per_datagram": traffic.bytes_per_datagram,
        "receiver": name,
        "buffer": running.buffer,
        "drops": drops,
    }


def _send_while_stopped(running: BareReceiver | Flowbuf, sender: BareSender) -> int:
    """Send the datagrams to a stopped process, continue it, and return the drops of the kernel."""
    running.wait_until_idle()
    running.send_signal(signal.SIGSTOP)
    sender.send(count=PAUSED_DATAGRAMS)
    running.send_signal(signal.SIGCONT)
    running.wait_until_idle()
    return running.read_drops()


def _pause_bare(setting: Setting, traffic: Traffic, running: BareReceiver) -> int:
    with BareSender(setting, traffic, running) as sender:
        drops = _send_while_stopped(running, sender)
        received, counted = running.finish()
    require(counted == drops, f"the bare loop read {counted:,} drops, but /proc/net/udp has {drops:,}")
    require(sender.total == received + drops, f"{received:,} + {drops:,} instead of {sender.total:,}")
    return drops


def _pause_flowbuf(setting: Setting, traffic: Traffic, running: Flowbuf) -> int:
    with BareSender(setting, traffic, running) as sender:
        drops = _send_while_stopped(running, sender)
        totals = running.finish()
    check_received(sender.total, [totals], drops)
    check_flows(totals)
    return drops


# Reload and takeover ----------------------------------------------------------------------------------------


def _write_config(path: Path, second: bool) -> None:
    """Write a configuration with one output or with two, so that each reload changes the outputs."""
    outputs: list[dict[str, Any]] = [{"to": "null:", "name": "all"}]
    if second:
        outputs.append({"to": "null:", "name": "second", "columns": ["src_addr", "bytes"]})
    write_outputs(path, outputs)


class Chain:
    """A collector and its successors, which receive without interruption."""

    def __init__(self, setting: Setting, stack: ExitStack) -> None:
        self._setting = setting
        self._stack = stack
        self._config = setting.new_folder("config") / "collector.toml"
        self._second = False
        _write_config(self._config, self._second)
        self.running = stack.enter_context(Flowbuf(setting, [str(self._config)]))
        self.all = [self.running]
        self.events: list[Metrics] = []
        self.reloads = 0

    def reload(self) -> None:
        """Change the configuration, send SIGHUP, and wait until the collector has read it."""
        self._second = not self._second
        self.reloads += 1
        _write_config(self._config, self._second)
        done = "info: the configuration was read again"
        before = self.running.read_log().count(done)
        self.running.send_signal(signal.SIGHUP)
        wait_until(
            lambda: self.running.read_log().count(done) > before, "the configuration is not read again"
        )

    def take_over(self) -> None:
        """Start a successor, and wait until the running collector has ended with status 0."""
        self.events.append(self.running.read_metrics())
        successor = self._stack.enter_context(
            Flowbuf(self._setting, [str(self._config)], takeover=self.running)
        )
        status = self.running.wait()
        require(status == 0, f"the old collector ended with status {status}")
        self.running = successor
        self.all.append(successor)


def measure_handover(setting: Setting) -> dict[str, Any]:
    """Return the losses of reloads and takeovers while datagrams arrive at the rate of each dataset."""
    return {"runs": [_hand_over(setting, setting.traffic(name), rate) for name, rate in RATES.items()]}


def _hand_over(setting: Setting, traffic: Traffic, rate: float) -> dict[str, Any]:
    setting.show(f"handover: {traffic.name}, reload and take over")
    seconds = setting.duration(SECONDS, QUICK_SECONDS)
    rate = QUICK_RATE if setting.quick else rate
    with ExitStack() as stack:
        chain = Chain(setting, stack)
        sender = stack.enter_context(BareSender(setting, traffic, chain.running))
        steps: list[Callable[[], None]] = [
            *(chain.reload, chain.take_over, chain.reload, chain.take_over, chain.reload),
        ]
        begin = time.monotonic()
        sender.begin(seconds, rate)
        for number, step in enumerate(steps, 1):
            time.sleep(max(0.0, begin + seconds * number / (len(steps) + 1) - time.monotonic()))
            step()
        late = time.monotonic() - begin > seconds
        sent = sender.finish()
        chain.running.wait_until_idle()
        drops = chain.running.read_drops()
        chain.events.append(chain.running.read_metrics())
        totals = [*(each.wait_for_totals() for each in chain.all[:-1]), chain.running.finish()]
    check_received(sender.total, totals, drops)
    for each in totals:
        check_flows(each, ["all"])
    if not drops:
        flows = sum(each.intake["flows"] for each in totals)
        require(flows == sender.flows, f"{flows:,} flows instead of {sender.flows:,}")
    return {
        "dataset": traffic.name,
        "flows_per_datagram": traffic.flows_per_datagram,
        "rate": sent.datagrams / sent.seconds,
        "wanted_rate": rate,
        "sent": sender.total,
        "drops": drops,
        "reloads": chain.reloads,
        "takeovers": len(chain.all) - 1,
        "ended_before_last_step": late,
        "sequence": _sum_events(chain.events),
        "collectors": [each.to_dict() for each in totals],
    }


def _sum_events(metrics: list[Metrics]) -> dict[str, int]:
    """Return the counters of LOST_NUMBERS over all collectors."""
    return {
        name: sum(each.sum("decoder_events_total", reason=name) for each in metrics) for name in LOST_NUMBERS
    }
