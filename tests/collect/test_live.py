"""Counters and rates for the live view, of a running service."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import flowbuf
from flowbuf.collect.config import LIVE, CollectConfig, OutputConfig
from flowbuf.collect.live import ExporterRates, LiveSampler, Rates
from flowbuf.collect.metrics import format_metrics
from flowbuf.collect.outputs.null import NullOutput
from flowbuf.collect.totals import format_totals
from tests.collect.streams.peers import connect, sessions_of
from tests.collect.test_collector import LOCAL, flows5, payloads_of
from tests.collect.test_service import ListOutput, running
from tests.support.datagrams import data_set, ip, ipfix, netflow5, record5, template, template_set
from tests.support.live import send, wait_until


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = Rates()
    rates.add(0.0, {"old": 1000})
    assert (rates.rate("old"), rates.rate("unknown")) == (0, 0)
    for second in range(1, 21):
        rates.add(second, {"old": 1000 + min(second, 10) * 100, "new": second * 2})
    assert (rates.rate("old"), rates.rate("new")) == (0, 2)
    assert (rates.has_grown("old"), rates.has_grown("new")) == (False, True)
    rates.add(21.0, {"old": 5})  # the exporter was forgotten, and came back
    assert rates.rate("old") == 0


def test_a_sampler_reads_rates_exporters_and_losses() -> None:
    clock = Clock()
    with running({"null:": NullOutput()}) as service:
        sampler = LiveSampler(service, clock)
        first = sampler.read()
        assert (first.seconds, first.exporters, first.rows, first.seen) == (0, [], {"flows": 0}, 1)
        to = str(service.listeners[0].address)
        gap = [netflow5(record5(), sequence=number) for number in (0, 1, 8)]
        sent = send([*payloads_of("generated-sflow.pcap"), *gap, flows5(1)[:20]], to)
        wait_until(lambda: service.intake.read_counters().received == sent, "all datagrams")
        wait_until(lambda: service.read_counters().outputs["null:"].stored == 303, "all flows")
        clock.now += 2
        now = sampler.read()
    assert (now.datagrams, now.rows, now.seconds) == (sent / 2, {"flows": 303 / 2}, 2)
    assert now.bytes * 2 == now.intake.bytes
    assert [(each.name, each.written, each.limit, each.failing) for each in now.outputs] == [
        ("null:", 303 / 2, 1 << 20, "")
    ]
    assert now.exporter_count == 2
    assert now.exporters == [
        ExporterRates("192.0.2.1", 0, 0, 62 / 2, {"flows": 300 / 2}, {"datagrams": 0, "samples": 0}, 0.0),
        ExporterRates("127.0.0.1", 0, 5, 4 / 2, {"flows": 3 / 2}, {"flows": 6}, 0.0),
    ]
    losses = {name: count for name, (count, _) in now.losses.items() if count}
    assert losses == {"missing flows": 6, "truncated_header": 1}
    assert now.losses["truncated_header"][1] == 0.5
    assert now.losses["kernel drops"][0] == now.losses["dropped by outputs"][0] == 0


def test_tcp_counts_too() -> None:
    """Messages add to datagrams. Sessions of one address are one line."""
    clock, message = Clock(), ipfix(template_set(template(256, (8, 4))), data_set(256, ip("10.0.0.1")))
    with running({"null:": NullOutput()}, listen=("tcp://127.0.0.1:0", LOCAL)) as service:
        sampler = LiveSampler(service, clock)
        sampler.read()
        udp, tcp = (str(listener.address) for listener in service.listeners)
        send([flows5(1)], udp, "127.0.0.2")
        for _ in range(3):
            with connect(tcp) as peer:
                peer.sendall(message)
        wait_until(lambda: service.read_counters().outputs["null:"].stored == 4, "all flows")
        wait_until(lambda: sessions_of(service.read_counters().intake).open == 0, "the end")
        clock.now += 2
        now = sampler.read()
    assert (now.datagrams, now.bytes) == (4 / 2, (72 + 3 * len(message)) / 2)
    assert now.rows == {"flows": 4 / 2}
    assert [(each.address, each.datagrams) for each in now.exporters] == [
        ("127.0.0.1", 3 / 2),
        ("127.0.0.2", 1 / 2),
    ]


def test_exporters_become_quiet() -> None:
    clock = Clock()
    with running({"null:": NullOutput()}) as service:
        sampler = LiveSampler(service, clock)
        to = str(service.listeners[0].address)
        for count in (1, 2):
            send([flows5(1)], to)
            wait_until(lambda count=count: service.intake.read_counters().received == count, "the datagram")
            clock.now += 1
            assert [each.quiet for each in sampler.read().exporters] == [0.0]
        clock.now += 75
        (quiet,) = sampler.read().exporters
    assert (quiet.quiet, quiet.datagrams, quiet.rows) == (75.0, 0, {"flows": 0})


def test_a_blocked_view_delays_no_output_and_is_in_no_total() -> None:
    """The view drops flows. They are no losses of the collector."""
    blocked = threading.Event()
    view, output = ListOutput(lambda: blocked.wait() and None), ListOutput()
    sent = 200
    with running({LIVE: view, "list": output}, {LIVE: {"queue_flows": 60}}) as service:
        sampler = LiveSampler(service)
        sampler.read()
        try:
            to = str(service.listeners[0].address)
            for number in range(sent):
                send([flows5(30)], to)
                wait_until(
                    lambda number=number: service.intake.read_counters().received == number + 1, "a datagram"
                )
            wait_until(lambda: output.stored == 30 * sent, "all flows")
            live = service.read_live()
            counters = sampler.read()
        finally:
            blocked.set()
    totals = service.read_counters()
    assert list(totals.outputs) == ["list"]
    assert LIVE not in format_totals(totals)
    assert service.find_failures() == []
    assert live.queue.dropped > 0
    assert live.queue.offered == 30 * sent
    live = service.read_live()
    assert live.queue.offered == live.stored + live.queue.dropped == 30 * sent
    assert counters.seen == 1 - live.queue.dropped / live.queue.offered
    assert [each.name for each in counters.outputs] == ["list"]
    assert counters.losses["dropped by outputs"] == (0, 0)


def test_metrics_do_not_include_the_view() -> None:
    with running({LIVE: NullOutput(), "null:": NullOutput()}) as service:
        text = format_metrics(service).decode()
    assert 'output="null:"' in text
    assert LIVE not in text


def test_a_reload_keeps_the_view(tmp_path: Path) -> None:
    view = NullOutput()
    with running({LIVE: view, "null:": NullOutput()}) as service:
        outputs = (OutputConfig(to="null:", name="other"), OutputConfig(to=LIVE))
        before = service.read_live()
        service.reload(CollectConfig(listen=(), outputs=outputs), [flowbuf.Schema.load("flow")])
        send([flows5(30)], str(service.listeners[0].address))
        wait_until(lambda: service.read_live().stored == 30, "the flows")
        assert [each.name for each in service.outputs] == ["other"]
    assert (before.stored, view.stored) == (0, 30)


def test_the_destination_of_the_view_is_reserved() -> None:
    from flowbuf.cli.collect_outputs import new_output
    from flowbuf.errors import ConfigError
    from flowbuf.selection import FlowSelection

    with pytest.raises(ConfigError, match="'live:' is not a destination"):
        new_output(OutputConfig(to=LIVE), FlowSelection(flowbuf.Schema.load("flow")), "")
