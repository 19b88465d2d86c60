"""Recordings and senders: their limits, and threads that use them at once."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from flowbuf._core import Recording, Sender, pack_datagrams


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return two connected sockets that lose no datagrams."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with left, right:
        right.settimeout(30)
        yield left, right


def recording_of(*payloads: bytes) -> Recording:
    recording = Recording()
    recording.add(pack_datagrams(list(payloads), ("192.0.2.1", 9), 1.0), len(payloads))
    return recording


def test_a_recording_keeps_copies(pair: tuple[socket.socket, socket.socket]) -> None:
    payloads = [bytes([i]) * 1000 for i in range(10)]
    recording = Recording()
    recording.add(pack_datagrams(payloads, [("192.0.2.1", i % 2) for i in range(10)], 1.0), 7)
    assert (len(recording), recording.sources, recording.duration) == (7, 2, 0)
    Sender(recording, [pair[0]], limit=7).run(10)
    assert [pair[1].recv(2000) for _ in range(7)] == payloads[:7]


def test_a_recording_is_complete_once_it_is_sent_or_renumbered(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    recording = recording_of(b"a")
    recording.renumber(now=False, sockets=1)
    Sender(recording, [pair[0]])
    for use in (
        lambda: recording.add(pack_datagrams([b"b"], "192.0.2.1"), 1),
        lambda: recording.renumber(now=False, sockets=1),
        lambda: Sender(recording, [pair[0]]),
    ):
        with pytest.raises(RuntimeError, match=r"already (renumbered or )?sent; fill another one"):
            use()
    assert len(recording) == 1


def test_a_sender_needs_datagrams_and_sockets(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(ValueError, match="needs datagrams and sockets"):
        Sender(Recording(), [pair[0]])
    with pytest.raises(ValueError, match="needs datagrams and sockets"):
        Sender(recording_of(b"a"), [])


@pytest.mark.parametrize(
    "pace",
    [
        *({"rate": 0}, {"rate": 10**9 + 1}),
        *({"speed": value} for value in (0.0, -1.0, float("nan"), float("inf"))),
    ],
)
def test_the_pace_has_limits(pair: tuple[socket.socket, socket.socket], pace: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"(rate|speed) is .+; it (may be 1 to|must be)"):
        Sender(recording_of(b"a"), [pair[0]], **pace)  # type: ignore[arg-type]


def test_counts_are_exact(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(recording_of(b"a", b"bc"), [pair[0]], limit=5)
    assert not sender.done
    sender.run(10)
    assert sender.done
    assert (sender.sent, sender.handled, sender.bytes, sender.unsent, sender.refused) == (5, 5, 7, {}, 0)
    assert [pair[1].recv(9) for _ in range(5)] == [b"a", b"bc", b"a", b"bc", b"a"]
    sender.run(10)
    assert sender.sent == 5


def test_a_datagram_is_not_sent_if_nothing_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(recording_of(bytes(1000)), [pair[0]])
    while not sender.unsent:
        sender.run(0.5)
    assert sender.unsent["blocked"] + sender.sent == sender.handled


def test_a_closed_socket_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(recording_of(b"a"), [pair[0]])
    pair[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        sender.run(1)
    assert sender.handled == 0


def test_a_second_thread_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    sender = Sender(recording_of(b"a"), [pair[0]], rate=1)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            with contextlib.suppress(RuntimeError):  # or this thread is the second one
                sender.run(0.1)

    thread = threading.Thread(target=run)
    thread.start()
    pair[1].recv(9)  # the other thread is sending
    try:
        with pytest.raises(RuntimeError, match="in use by another thread"):
            run_repeatedly(sender)
    finally:
        ended.set()
        thread.join(60)


def run_repeatedly(sender: Sender) -> None:
    while True:
        sender.run(0)
