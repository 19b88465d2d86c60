"""CPU time per datagram, beside that of a bare receive loop and of decoding from memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks.lab.split import compare_rounds

from .bursts import send_burst, summarize, warm_up
from .collectors import BareReceiver, Flowbuf
from .decode import DecodeProcess
from .senders import BareSender
from .setting import Setting
from .sums import check_flows, check_received, require
from .traffic import Traffic

__all__ = ["measure_overhead"]

SECONDS = 5.0
ROUNDS = 7
DECODE_SECONDS = 1.0


def measure_overhead(setting: Setting) -> dict[str, Any]:
    """Return the CPU times per datagram of each dataset, and their ratio.

    In each round, the sender sends to the bare loop and to flowbuf as fast as each receives, and the same
    datagrams are decoded from memory. Every other round has the opposite order.
    """
    return {"datasets": [_measure(setting, traffic) for traffic in setting.all_traffic()]}


def _measure(setting: Setting, traffic: Traffic) -> dict[str, Any]:
    samples: dict[str, list[float]] = {"flowbuf": [], "bare": [], "decode": []}
    rates: dict[str, list[float]] = {"flowbuf": [], "bare receiver": []}
    with ExitStack() as stack:
        decode = stack.enter_context(DecodeProcess(setting, traffic))
        bare = stack.enter_context(BareReceiver(setting))
        flowbuf = stack.enter_context(Flowbuf(setting, ["-o", "null:"]))
        to_bare = stack.enter_context(BareSender(setting, traffic, bare))
        to_flowbuf = stack.enter_context(BareSender(setting, traffic, flowbuf))

        for running in (bare, flowbuf):
            warm_up(running)

        def receive(running: BareReceiver | Flowbuf, sender: BareSender) -> float:
            burst = send_burst(running, sender, setting.duration(SECONDS), window=running.window)
            rates[running.name].append(burst.rate)
            return burst.ns_per_datagram

        turns: dict[str, Callable[[], float]] = {
            "bare": lambda: receive(bare, to_bare),
            "decode": lambda: decode.measure(0.1 if setting.quick else DECODE_SECONDS),
            "flowbuf": lambda: receive(flowbuf, to_flowbuf),
        }
        for turn in range(setting.rounds(ROUNDS)):
            setting.show(f"overhead: {traffic.name}, round {turn + 1}")
            for name in list(turns) if turn % 2 == 0 else list(turns)[::-1]:
                samples[name].append(turns[name]())
        _check(bare, flowbuf, to_bare, to_flowbuf)
    both = [one + other for one, other in zip(samples["bare"], samples["decode"], strict=True)]
    ratio = compare_rounds(samples["flowbuf"], both)
    return {
        "dataset": traffic.name,
        "bytes_per_datagram": traffic.bytes_per_datagram,
        "flows_per_datagram": traffic.flows_per_datagram,
        **{name: summarize(values) for name, values in samples.items()},
        "rates": {name: summarize(values) for name, values in rates.items()},
        "ratio": {"median": ratio.ratio, "spread": ratio.spread},
    }


def _check(bare: BareReceiver, flowbuf: Flowbuf, to_bare: BareSender, to_flowbuf: BareSender) -> None:
    drops = flowbuf.read_drops()
    totals = flowbuf.finish()
    check_received(to_flowbuf.total, [totals], drops)
    check_flows(totals)
    received, lost = bare.finish()
    require(to_bare.total == received + lost, f"the bare loop received {received:,} of {to_bare.total:,}")
    if not drops:
        flows = totals.intake["flows"]
        require(flows == to_flowbuf.flows, f"{flows:,} flows instead of {to_flowbuf.flows:,}")
