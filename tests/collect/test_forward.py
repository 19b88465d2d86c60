"""Forwarding: each received datagram is sent to all targets, or counted with a reason."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import flowbuf
from flowbuf.collect.config import CollectConfig
from flowbuf.collect.copies import Copier, count_unsent
from flowbuf.collect.forward import check_circles, resolve_targets
from flowbuf.collect.intake import Intake, IntakeCounters, IntakeOptions
from flowbuf.collect.listen import Address
from flowbuf.collect.service import Service
from flowbuf.collect.totals import format_totals
from flowbuf.errors import ConfigError
from tests.collect.test_collector import LOCAL, flows5, payloads_of, rows_of
from tests.collect.test_service import ListOutput, address_of, running
from tests.support.live import Receiver, closed_port, receiver, send, wait_until

PAYLOADS = [*payloads_of("generated-ipfix.pcap"), b"", b"other", bytes(range(256)) * 30]


def counts_of(service: Service, target: str) -> Counter[str]:
    return service.read_counters().intake.copies.targets[target]


def wait_for(service: Service, datagrams: int) -> None:
    wait_until(lambda: service.read_counters().intake.received == datagrams, f"{datagrams} datagrams")


def wait_for_datagrams(intake: Intake, datagrams: int) -> None:
    wait_until(lambda: intake.read_counters().received == datagrams, f"{datagrams} datagrams")


def check_sums(counters: IntakeCounters) -> None:
    """Each datagram was sent to each target, or has a reason."""
    assert counters.copies.targets
    for target, counts in counters.copies.targets.items():
        assert counts["forwarded"] + sum(count_unsent(counts).values()) == counters.received, target


def payloads_at(target: Receiver) -> list[bytes]:
    return [datagram.payload for datagram in target.read()]


@pytest.mark.parametrize("workers", [1, 2])
def test_targets_receive_what_exporters_send(workers: int) -> None:
    """The payloads are those that a plain socket receives directly."""
    with receiver() as direct, receiver() as ipv4, receiver(socket.AF_INET6, "::1") as ipv6:
        with running({"a": ListOutput()}, forward=(ipv4.to, ipv6.to), workers=workers) as service:
            send(PAYLOADS, address_of(service))
            send(PAYLOADS, direct.to)
            wait_for(service, len(PAYLOADS))
        assert payloads_at(direct) == payloads_at(ipv4) == payloads_at(ipv6) == PAYLOADS
        check_sums(service.read_counters().intake)
        assert f"forward {ipv6.to}: forwarded={len(PAYLOADS)} unsent=0; a:" in format_totals(
            service.read_counters()
        )


def test_datagrams_of_ipv6_are_forwarded() -> None:
    with receiver() as target, forwarding("[::1]:0", target.to) as intake:
        send(PAYLOADS, str(intake.listeners[0].address))
        wait_for_datagrams(intake, len(PAYLOADS))
        assert payloads_at(target) == PAYLOADS


def test_a_second_collector_decodes_the_same_flows() -> None:
    expected = flowbuf.Decoder("flow").columns_many(payloads_of("generated-sflow.pcap"), "127.0.0.1")
    with (
        flowbuf.Collector([LOCAL], interval=0.02) as second,
        running({"a": ListOutput()}, forward=(second.addresses[0],)) as first,
    ):
        sent = send(payloads_of("generated-sflow.pcap"), address_of(first))
        wait_until(lambda: second.counters.received == sent, "the copies")
    assert rows_of(list(second)) == rows_of([expected])
    assert first.read_counters().intake.flows == second.counters.flows == len(expected)


def can_keep_source() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close()
    except PermissionError:
        return False
    return True


@pytest.mark.skipif(not can_keep_source(), reason="raw sockets need CAP_NET_RAW")
@pytest.mark.parametrize(("family", "local"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_original_source_is_kept(family: int, local: str) -> None:
    source = "127.0.0.9" if family == socket.AF_INET else local
    listen = str(Address(local, 0))
    with receiver(family, local) as target, receiver(family, local) as direct:
        with socket.socket(family, socket.SOCK_DGRAM) as exporter:
            exporter.bind((source, 0))
            with forwarding(listen, target.to, source="original") as intake:
                for payload in PAYLOADS:
                    exporter.sendto(payload, (local, intake.listeners[0].address.port))
                    exporter.sendto(payload, (local, direct.port))
                wait_for_datagrams(intake, len(PAYLOADS))
        assert target.read() == direct.read()
        check_sums(intake.read_counters())


@contextlib.contextmanager
def forwarding(listen: str, *targets: str, source: str = "own") -> Iterator[Intake]:
    """Run an intake that forwards."""
    with running_intake(listen, resolve_targets(targets, source)) as intake:
        yield intake


@contextlib.contextmanager
def running_intake(listen: str, targets: list[Any]) -> Iterator[Intake]:
    def fail(error: Exception) -> None:
        raise AssertionError from error

    schema, options = flowbuf.Schema.load("flow"), flowbuf.DecodeOptions()
    intake = Intake([Address.parse(listen)], [schema], options, IntakeOptions(), lambda batch: None, fail)
    intake.copy([Copier(targets)])
    intake.start()
    try:
        yield intake
    finally:
        intake.stop()


class FullTarget:
    """A target whose send buffer is full after some datagrams, because nobody reads the other end."""

    name, packed, port, original = "full", bytes(16), 0, False

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def open(self) -> socket.socket:
        return self._writer


def test_a_slow_target_delays_nothing_and_is_counted() -> None:
    full = FullTarget()
    with full.reader, receiver() as fast:
        targets = [full, *resolve_targets([fast.to], "own")]
        sent, arrived = 0, []
        with running_intake(LOCAL, targets) as intake:
            for _ in range(20):
                sent += send([flows5(30)] * 40, str(intake.listeners[0].address))
                wait_for_datagrams(intake, sent)
                arrived += payloads_at(fast)
        counters = intake.read_counters()
        counts = counters.copies.targets["full"]
        check_sums(counters)
        assert counts["blocked"] > 0
        assert counters.flows == 30 * sent
        assert arrived == [flows5(30)] * sent
        full.reader.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while full.reader.recv(65536):
                counts["forwarded"] -= 1
        assert counts["forwarded"] == 0


def test_a_closed_port_is_reported() -> None:
    target = f"127.0.0.1:{closed_port()}"
    with running({"a": ListOutput()}, forward=(target,)) as service:
        send([b"x"] * 10, address_of(service))
        wait_for(service, 10)
        assert counts_of(service, target)["forwarded"] == 10
        assert counts_of(service, target)["refused"] == 10
        assert f"forward {target}: forwarded=10 unsent=0 refused=10" in format_totals(service.read_counters())


def test_a_reload_changes_targets_and_keeps_their_counters() -> None:
    with receiver() as one, receiver() as two, running({"a": ListOutput()}, forward=(one.to,)) as service:
        config = CollectConfig(outputs=service._config.outputs)
        for number, targets in enumerate([(one.to, two.to), (two.to,), ()], 1):
            send([b"%d" % number], address_of(service))
            wait_for(service, number)
            service.reload(replace(config, forward=targets), [flowbuf.Schema.load("flow")])
        send([b"4"], address_of(service))
        wait_for(service, 4)
        assert (payloads_at(one), payloads_at(two)) == ([b"1", b"2"], [b"2", b"3"])
        assert counts_of(service, one.to)["forwarded"] == counts_of(service, two.to)["forwarded"] == 2


def test_a_failed_reload_keeps_the_targets() -> None:
    with receiver() as target, running({"a": ListOutput()}, forward=(target.to,)) as service:
        for forward in (("host.invalid:2055",), (address_of(service),)):
            config = CollectConfig(outputs=service._config.outputs, forward=forward)
            with pytest.raises(ConfigError, match=r"^forward: "):
                service.reload(config, [flowbuf.Schema.load("flow")])
        send([b"x"], address_of(service))
        wait_for(service, 1)
        assert payloads_at(target) == [b"x"]


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["10.0.0.9"], "'10.0.0.9' is not HOST:PORT; write it as 192.0.2.1:2055"),
        (["10.0.0.9:0"], "port 0 is out of range"),
        (["host.invalid:2055"], "host 'host.invalid' cannot be resolved"),
        (["10.0.0.9:2055", "10.0.0.9:2055"], "10.0.0.9:2055 exists twice; remove one"),
    ],
)
def test_faults_of_targets(texts: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"^forward: {problem}"):
        resolve_targets(texts, "own")


def test_a_target_may_be_a_name() -> None:
    (target,) = resolve_targets(["localhost:2055"], "own")
    assert target.name == "localhost:2055"
    assert target.address.is_loopback


def test_a_mapped_address_is_ipv4() -> None:
    (target,) = resolve_targets(["[::ffff:127.0.0.1]:2055"], "original")
    assert str(target.address) == "127.0.0.1"
    assert target.packed == bytes(10) + b"\xff\xff\x7f\x00\x00\x01"


def test_an_address_that_cannot_be_used_is_explained() -> None:
    (target,) = resolve_targets(["255.255.255.255:2055"], "own")
    with pytest.raises(ConfigError, match=r"^forward: 255.255.255.255:2055 is forbidden: Permission denied"):
        target.open()


@pytest.mark.parametrize(
    ("listening", "target", "circles"),
    [
        ("127.0.0.1:2055", "127.0.0.1:2055", True),
        ("0.0.0.0:2055", "127.0.0.1:2055", True),
        ("[::]:2055", "127.0.0.1:2055", True),
        ("[::]:2055", "[::1]:2055", True),
        ("0.0.0.0:2055", "[::1]:2055", False),
        ("127.0.0.1:2055", "127.0.0.2:2055", False),
        ("0.0.0.0:2055", "192.0.2.1:2055", False),
        ("0.0.0.0:2055", "127.0.0.1:2056", False),
    ],
)
def test_targets_that_would_circle_are_refused(listening: str, target: str, circles: bool) -> None:
    targets = resolve_targets([target], "own")
    if circles:
        with pytest.raises(ConfigError, match=r"itself listens on .*circle; choose another target"):
            check_circles(targets, [Address.parse(listening)])
    else:
        check_circles(targets, [Address.parse(listening)])


def count_sockets() -> int:
    """Return the number of open sockets of this process."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the folder itself
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sum(name.startswith("socket:") for name in names)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list open sockets")
def test_sockets_are_closed() -> None:
    with receiver() as target:
        before = count_sockets()
        with running({"a": ListOutput()}, forward=(target.to,)) as service:
            send([b"x"], address_of(service))
            wait_for(service, 1)
            opened = count_sockets()
            service.reload(replace(service._config, forward=(target.to,)), [flowbuf.Schema.load("flow")])
            assert count_sockets() == opened > before
        assert count_sockets() == before
