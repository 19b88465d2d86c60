"""Losses at the maximum of the sender, and the highest rate without loss."""

from __future__ import annotations

from typing import Any

from .collectors import BareReceiver, Flowbuf
from .senders import BareSender, Sent, replay
from .setting import Setting
from .sums import check_flows, check_received, require
from .traffic import Traffic

__all__ = ["measure_loss"]

SECONDS = 60.0
STEPS = 6
"""Steps of the search for the highest rate without loss. Each takes a sixth of the time."""


def measure_loss(setting: Setting) -> dict[str, Any]:
    """Return the losses of flowbuf and of a bare receive loop, for each dataset and sender."""
    rows = []
    for traffic in setting.all_traffic():
        rows += [_send_to_bare(setting, traffic), _send(setting, traffic), _replay(setting, traffic)]
    return {"runs": rows}


def _send_to_bare(setting: Setting, traffic: Traffic) -> dict[str, Any]:
    setting.show(f"loss: {traffic.name}, bare sender to bare receiver")
    with BareReceiver(setting) as running, BareSender(setting, traffic, running) as sender:
        sent = sender.send(setting.duration(SECONDS))
        running.wait_until_idle()
        received, drops = running.finish()
        require(
            sender.total == received + drops, f"received {received:,} + drops {drops:,} != {sender.total:,}"
        )
        return _describe(traffic, "bare sender", "bare receiver", sent, drops, running.buffer)


def _send(setting: Setting, traffic: Traffic) -> dict[str, Any]:
    setting.show(f"loss: {traffic.name}, bare sender to flowbuf")
    found = _send_at(setting, traffic, 0, setting.duration(SECONDS))
    if found["drops"]:
        found["sustainable"] = _search(setting, traffic, found["rate"])
    return found


def _send_at(setting: Setting, traffic: Traffic, rate: float, seconds: float) -> dict[str, Any]:
    with Flowbuf(setting, ["-o", "null:"]) as running, BareSender(setting, traffic, running) as sender:
        sent = sender.send(seconds, rate)
        drops = _finish(running, sender.total)
        return _describe(traffic, "bare sender", "flowbuf", sent, drops, running.buffer)


def _replay(setting: Setting, traffic: Traffic) -> dict[str, Any]:
    setting.show(f"loss: {traffic.name}, flowbuf replay to flowbuf")
    with Flowbuf(setting, ["-o", "null:"]) as running:
        sent = replay(setting, traffic, running, setting.duration(SECONDS), "--top-speed")
        drops = _finish(running, sent.datagrams)
        return _describe(traffic, "flowbuf replay", "flowbuf", sent, drops, running.buffer)


def _finish(running: Flowbuf, sent: int) -> int:
    """End the collector, check its sums, and return the drops of the kernel."""
    running.wait_until_idle()
    drops = running.read_drops()
    totals = running.finish()
    check_received(sent, [totals], drops)
    check_flows(totals)
    return drops


def _search(setting: Setting, traffic: Traffic, most: float) -> float:
    """Return the highest rate without loss that bisection finds below `most`, in datagrams per second."""
    least = 0.0
    for step in range(1 if setting.quick else STEPS):
        rate = (least + most) / 2
        setting.show(f"loss: {traffic.name}, search {step + 1}, {rate:,.0f} datagrams/s")
        if _send_at(setting, traffic, rate, setting.duration(SECONDS) / STEPS)["drops"]:
            most = rate
        else:
            least = rate
    return least


def _describe(
    traffic: Traffic, sender: str, receiver: str, sent: Sent, drops: int, buffer: int
) -> dict[str, Any]:
    return {
        "dataset": traffic.name,
        "sender": sender,
        "receiver": receiver,
        "sent": sent.datagrams,
        "seconds": sent.seconds,
        "rate": sent.datagrams / sent.seconds,
        "flows_per_datagram": traffic.flows_per_datagram,
        "drops": drops,
        "buffer": buffer,
    }
