"""CPU time per flow of flowbuf and of other collectors, under the same load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from benchmarks.lab.split import compare_rounds
from benchmarks.peers.programs import PROGRAMS
from benchmarks.pipeline.run import make_topics
from flowbuf import __version__

from .bursts import Burst, send_burst, summarize, warm_up
from .collectors import Flowbuf, GoFlow2, Nfdump, Peer, Pmacct, find_goflow2
from .kafka import running_broker
from .processes import Running
from .senders import BareSender
from .setting import Absent, Setting
from .sums import check_flows, check_received, require
from .traffic import Traffic

__all__ = ["CONTESTANTS", "measure_comparison"]

SECONDS = 15.0
ROUNDS = 3
DATASETS = ("sflow-1140", "netflow9-data", "generated-netflow9")
QUICK_DATASETS = ("generated-sflow", "generated-netflow9")
FLOWS_PER_SECOND = 30_000.0
"""Load that every collector can take on one processor."""

SETTLE = 6.0
"""Seconds after a burst. GoFlow2 sends to Kafka every five seconds."""


@contextmanager
def _flowbuf(setting: Setting, traffic: Traffic, broker: str | None) -> Iterator[Running]:
    with ExitStack() as stack:
        place = f"pb:{setting.new_folder('flows')}/"
        if broker:
            place = f"kafka://{broker}/{stack.enter_context(make_topics(broker, 1))[0]}"
        # The sender then waits for the output, as it waits for the outputs of the other collectors.
        yield stack.enter_context(Flowbuf(setting, ["-o", place, "--on-overflow", "block"]))


@contextmanager
def _goflow2(setting: Setting, traffic: Traffic, broker: str | None) -> Iterator[Running]:
    with ExitStack() as stack:
        topic = f"{broker}/{stack.enter_context(make_topics(broker, 1))[0]}" if broker else ""
        yield stack.enter_context(GoFlow2(setting, traffic, topic))


@contextmanager
def _program(
    kind: type[Nfdump] | type[Pmacct], setting: Setting, traffic: Traffic, broker: str | None
) -> Iterator[Running]:
    with kind(setting, traffic) as running:
        yield running


Start = Callable[[Setting, Traffic, str | None], AbstractContextManager[Running]]

CONTESTANTS: dict[str, tuple[Start, bool]] = {
    "flowbuf, file": (_flowbuf, False),
    "GoFlow2, file": (_goflow2, False),
    "flowbuf, Kafka": (_flowbuf, True),
    "GoFlow2, Kafka": (_goflow2, True),
    "nfdump": (partial(_program, Nfdump), False),
    "pmacct": (partial(_program, Pmacct), False),
}
"""Name of each contestant: its process, and whether it needs a broker."""

RIVALS = {
    **{"GoFlow2, file": "flowbuf, file", "GoFlow2, Kafka": "flowbuf, Kafka"},
    **{"nfdump": "flowbuf, file", "pmacct": "flowbuf, file"},
}
"""Each peer, and the flowbuf that it is compared with."""


def measure_comparison(setting: Setting) -> dict[str, Any]:
    """Return the CPU times per flow of each dataset and collector.

    All collectors get the same datagrams at the same rate, in turn. Afterwards, the sender sends as fast as
    each receives, which gives the rate of one processor.
    """
    absent = _find_absent(setting)
    with ExitStack() as stack:
        broker = None
        try:
            broker = stack.enter_context(running_broker(setting))
        except Absent as error:
            absent |= {name: str(error) for name, (_, needs) in CONTESTANTS.items() if needs}
        datasets = [
            _measure(setting, traffic, [name for name in CONTESTANTS if name not in absent], broker)
            for traffic in setting.all_traffic(DATASETS, QUICK_DATASETS)
        ]
    return {"datasets": datasets, "missing": absent, "versions": _find_versions(absent)}


def _find_absent(setting: Setting) -> dict[str, str]:
    """Return the reasons for the contestants that are not installed."""
    needs: dict[str, Callable[[Traffic], Any]] = {
        "GoFlow2, file": lambda traffic: find_goflow2(),
        "GoFlow2, Kafka": lambda traffic: find_goflow2(),
        "nfdump": Nfdump.find,
        "pmacct": Pmacct.find,
    }
    absent = {}
    for traffic in setting.all_traffic(DATASETS, QUICK_DATASETS):
        for name, find in needs.items():
            try:
                find(traffic)
            except Absent as error:
                absent[name] = str(error)
    return absent


def _find_versions(absent: dict[str, str]) -> dict[str, str]:
    versions = {"flowbuf": __version__}
    if "GoFlow2, file" not in absent:
        versions["GoFlow2"] = GoFlow2.version()
    return versions | {each.name: each.version() for each in PROGRAMS if each.name not in absent}


def _measure(setting: Setting, traffic: Traffic, names: list[str], broker: str | None) -> dict[str, Any]:
    equal: dict[str, list[Burst]] = {name: [] for name in names}
    fastest: dict[str, list[Burst]] = {name: [] for name in names}
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(setting.rounds(ROUNDS)):
        for name in names if turn % 2 == 0 else names[::-1]:
            setting.show(f"comparison: {traffic.name}, {name}, round {turn + 1}")
            start, needs_broker = CONTESTANTS[name]
            with start(setting, traffic, broker if needs_broker else None) as running:
                burst, full_speed, share = _measure_once(setting, traffic, running)
            equal[name].append(burst)
            fastest[name].append(full_speed)
            found[name].append(share)
    flows = traffic.flows_per_datagram
    times = {name: [each.ns_per_datagram / flows for each in equal[name]] for name in names}
    ratios = {
        peer: compare_rounds(times[peer], times[own])
        for peer, own in RIVALS.items()
        if peer in names and own in names
    }
    return {
        "dataset": traffic.name,
        "flows_per_datagram": flows,
        "contestants": {
            name: {
                "ns_per_flow": summarize(times[name]),
                "flows_per_second": summarize([each.rate * flows for each in equal[name]]),
                "fastest_ns_per_flow": summarize([each.ns_per_datagram / flows for each in fastest[name]]),
                "fastest_flows_per_second": summarize([each.rate * flows for each in fastest[name]]),
                "found": min(found[name]),
            }
            for name in names
        },
        "ratios": {name: {"median": ratio.ratio, "spread": ratio.spread} for name, ratio in ratios.items()},
    }


def _measure_once(setting: Setting, traffic: Traffic, running: Running) -> tuple[Burst, Burst, float]:
    """Return a burst at FLOWS_PER_SECOND, one as fast as possible, and the share of flows that were found."""
    seconds, flows = setting.duration(SECONDS), traffic.flows_per_datagram
    settle = 1.0 if setting.quick else SETTLE
    with BareSender(setting, traffic, running) as sender:
        warm_up(running)
        rate, window = FLOWS_PER_SECOND / flows, running.window
        equal = send_burst(running, sender, seconds, rate=rate, window=window, settle=settle)
        fastest = send_burst(running, sender, seconds / 2, window=window, settle=settle)
        drops = running.read_drops()
        require(not drops, f"{running.name}: {drops:,} datagrams were dropped although the sender waited")
        share = _count_found(running, sender) / sender.flows
    return equal, fastest, share


def _count_found(running: Running, sender: BareSender) -> int:
    """End the collector, and return the flows that it stored. Raises WrongSum if flowbuf misses any."""
    if isinstance(running, Flowbuf):
        totals = running.finish()
        check_received(sender.total, [totals], 0)
        check_flows(totals)
        require(totals.stored == sender.flows, f"flowbuf stored {totals.stored:,} of {sender.flows:,} flows")
        return totals.stored
    assert isinstance(running, Peer)
    running.finish()
    return running.count_flows()
