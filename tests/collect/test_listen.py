"""Addresses and sockets of listeners."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from flowbuf.collect.listen import (
    MAX_BUFFER_BYTES,
    Address,
    find_worker,
    open_listeners,
    open_stream_listeners,
)
from flowbuf.errors import ListenError
from tests.support.live import send


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:2055", "0.0.0.0", 2055),
        ("[::]:6343", "::", 6343),
        ("udp://192.0.2.1:0", "192.0.2.1", 0),
        ("udp://[2001:db8::1]:65535", "2001:db8::1", 65535),
        ("tcp://192.0.2.1:4739", "192.0.2.1", 4739),
        ("tls://[::]:4740", "::", 4740),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert str(address) == text.removeprefix("udp://")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not an address; write ADDRESS:PORT"),
        ("2055", "is not an address"),
        ("::1:2055", "is not an address"),
        ("localhost:2055", "'localhost' is not an IP address; write one, or 0.0.0.0 or [::] for all"),
        ("192.0.2.256:1", "is not an IP address"),
        ("[192.0.2.1:1", "is not an address"),
        ("192.0.2.1:65536", "port 65536 is above 65535"),
        ("192.0.2.1:-1", "is not an address"),
        ("sctp://192.0.2.1:4739", "is not an address"),
    ],
)
def test_invalid_addresses(text: str, problem: str) -> None:
    with pytest.raises(ListenError) as raised:
        Address.parse(text)
    assert problem in str(raised.value)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_port_of_another_process(workers: int) -> None:
    """Also a socket with SO_REUSEPORT, which would receive a part of the datagrams."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(ListenError) as raised:
            open_listeners([Address("127.0.0.1", 0), Address("127.0.0.1", port)], workers)
    fix = "is used by another process; stop it, or choose another port"
    assert str(raised.value) == f"127.0.0.1:{port}: {fix}"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("one", "other"),
    [("127.0.0.1", "0.0.0.0"), ("0.0.0.0", "127.0.0.1"), ("::1", "::"), ("::1", "0::1")],
)
def test_addresses_that_overlap(one: str, other: str, workers: int) -> None:
    (probe,) = open_listeners([Address(one, 0)])
    with probe:
        port = probe.address.port
    first, second = Address(one, port), Address(other, port)
    with pytest.raises(ListenError) as raised:
        open_listeners([first, second], workers)
    assert str(raised.value) == f"{second}: overlaps with {first}; leave one of them out"


def test_streams_that_overlap() -> None:
    (probe,) = open_stream_listeners([Address("127.0.0.1", 0, "tcp")])
    probe.close()
    port = probe.address.port
    with pytest.raises(ListenError, match=f"overlaps with tcp://127.0.0.1:{port};"):
        open_stream_listeners([Address("127.0.0.1", port, "tcp"), Address("0.0.0.0", port, "tls")])


def test_an_interface_of_an_address_that_has_none() -> None:
    with pytest.raises(ListenError, match=r"\[::1%lo\]:0: cannot be resolved: .*; check the address"):
        open_listeners([Address.parse("[::1%lo]:0")])


def test_an_address_of_another_machine() -> None:
    with pytest.raises(ListenError, match="is not an address of this machine"):
        open_listeners([Address("192.0.2.77", 0)])


def test_a_buffer_beyond_the_largest_one() -> None:
    """The system grants what it allows."""
    for listener in open_listeners([Address("127.0.0.1", 0)], buffer_bytes=1 << 40):
        with listener:
            assert 0 < listener.buffer_bytes <= MAX_BUFFER_BYTES


def test_an_interface() -> None:
    with pytest.raises(ListenError, match=r"interface 'no-such-if', which does not exist|CAP_NET_RAW"):
        open_listeners([Address("127.0.0.1", 0)], interface="no-such-if")
    (listener,) = open_listeners([Address("0.0.0.0", 0)], interface="lo")
    with listener:
        bound = listener.sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
        assert bound.rstrip(b"\0") == b"lo"


def test_sockets_of_a_failed_start_are_closed() -> None:
    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    listener.close()
    with pytest.raises(ListenError):
        open_listeners([listener.address, Address("192.0.2.77", 1)])
    open_listeners([listener.address])[0].close()


def test_the_size_of_the_receive_buffer() -> None:
    (listener,) = open_listeners([Address("127.0.0.1", 0)], buffer_bytes=100_000)
    with listener:
        assert listener.buffer_bytes == 100_000


def test_the_worker_of_a_source_is_that_of_the_kernel() -> None:
    listeners = open_listeners([Address("127.0.0.1", 0), Address("::1", 0)], 3)
    sources = [*(f"127.0.{i}.{i}" for i in range(1, 30)), "::1"]
    for source in sources:
        listener = listeners[":" in source]
        send([b"x"], str(listener.address), source)
        expected = [i == find_worker(source, 3) for i in range(3)]
        assert [_has_datagram(each) for each in listener.sockets] == expected
    for listener in listeners:
        listener.close()


def _has_datagram(receiver: socket.socket) -> bool:
    try:
        return receiver.recv(10, socket.MSG_DONTWAIT) == b"x"
    except BlockingIOError:
        return False


def test_repeated_addresses_are_opened_once() -> None:
    (first,) = open_listeners([Address("127.0.0.1", 0)])
    first.close()
    (listener,) = open_listeners([first.address, first.address])
    listener.close()


def test_imports_of_a_listener_are_light() -> None:
    """A collector without outputs needs no optional library."""
    code = """if True:
        import sys, flowbuf.collect.collector
        print("pyarrow" in sys.modules, "click" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
