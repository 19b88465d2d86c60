"""Addresses of receivers, and sockets to them."""

from __future__ import annotations

import pytest

from flowbuf.collect.destination import Destination, connected_sockets
from tests.support.live import receiver, room_for_sockets


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.0.2.1:2055", "192.0.2.1", 2055),
        ("[2001:db8::1]:6343", "2001:db8::1", 6343),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ("collector.example.net:65535", "collector.example.net", 65535),
    ],
)
def test_a_destination_is_text(text: str, host: str, port: int) -> None:
    destination = Destination.parse(text)
    assert (destination.host, destination.port) == (host, port)
    assert str(destination) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:", ":2055", "2055", "::1:2055", "[::1]", "[]:1", "[::1]2055", "a b:1"),
        *("host:12x", "host:123456", "host:\N{ARABIC-INDIC DIGIT ONE}", "udp://host:1"),
    ],
)
def test_other_text_is_not_a_destination(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not HOST:PORT; write it as 192\.0\.2\.1:2055"):
        Destination.parse(text)


@pytest.mark.parametrize("port", ["0", "00", "65536", "99999"])
def test_ports_have_a_range(port: str) -> None:
    with pytest.raises(ValueError, match=r"port \d+ is out of range; choose 1 to 65535"):
        Destination.parse(f"host:{port}")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, ".", "1.2.3.4.5"])
def test_a_host_that_cannot_be_resolved_is_named(host: str) -> None:
    with pytest.raises(ValueError, match=r"host '.+' cannot be resolved: .+; check its name"):
        Destination(host, 2055).resolve()


def test_each_socket_has_a_port_of_its_own() -> None:
    with (
        receiver() as listener,
        connected_sockets(Destination("127.0.0.1", listener.port), 20) as sockets,
    ):
        assert len({each.getsockname()[1] for each in sockets}) == 20
    assert all(each.fileno() == -1 for each in sockets)


def test_sockets_leave_descriptors_for_the_process() -> None:
    with room_for_sockets(30), connected_sockets(Destination("127.0.0.1", 9), 1000) as sockets:
        assert 20 < len(sockets) <= 30
    with room_for_sockets(-20), connected_sockets(Destination("127.0.0.1", 9), 1000) as sockets:
        assert len(sockets) == 1


def test_an_unreachable_destination_is_named() -> None:
    with (
        pytest.raises(OSError, match="Permission denied") as raised,
        connected_sockets(Destination("255.255.255.255", 9), 1),
    ):
        pass
    assert raised.value.filename == "255.255.255.255:9"
