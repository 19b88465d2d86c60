"""Replay captures: send their datagrams to a UDP receiver, at a chosen pace."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from flowbuf._core import Recording, Sender
from flowbuf.io.capture import CaptureReader

__all__ = ["STEP", "UNSENT", "Replay", "ReplayOptions", "record_capture"]

STEP = 0.1
"""Longest time that `Replay.step` takes, in seconds."""

UNSENT = {
    "no_buffers": "the system has no free buffers; choose a lower rate",
    "blocked": "the send buffer stayed full; choose a lower rate",
    "too_long": "they are longer than UDP or the route allows; send them to another receiver",
}
"""Reasons of the system not to send a datagram, and their fixes."""


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay.

    Without rate and speed, datagrams are sent as fast as possible.

    Args:
        rate: Datagrams per second, 1 to 1,000,000,000. Default: the times of the captures.
        speed: Seconds of the captures per second, more than 0. None: ignore the times of the captures.
        loop: Repeat the captures until another option ends the replay.
        renumber: Write sequence numbers and uptimes that continue without gaps.
        now: Write the time of sending as the time of export.
        duration: Seconds after which the replay ends.
        limit: Number of datagrams after which the replay ends.
    """

    rate: int | None = None
    speed: float | None = 1.0
    loop: bool = False
    renumber: bool = False
    now: bool = False
    duration: float | None = None
    limit: int | None = None

    def count(self, recorded: int) -> int | None:
        """Return the number of datagrams to send of a recording. None: no limit."""
        if self.loop:
            return self.limit
        return recorded if self.limit is None else min(self.limit, recorded)


def record_capture(reader: CaptureReader, recording: Recording, limit: int | None = None) -> int:
    """Append the datagrams of a capture to a recording, and return their number.

    Args:
        reader: Capture.
        recording: Receives copies of the datagrams.
        limit: Number of datagrams that the recording may have. Default: no limit.

    Raises:
        CaptureError: The file is not a capture, or cannot be read.
        MemoryError: The datagrams do not fit into memory.
    """
    before = len(recording)
    recording.begin_capture()
    for batch in reader.batches():
        recording.add(batch, len(batch) if limit is None else min(len(batch), limit - len(recording)))
        if len(recording) == limit:
            break
    return len(recording) - before


class Replay:
    """Send a recording to sockets, step by step.

    Args:
        recording: Datagrams. It can be sent once, because sending may rewrite them.
        sockets: Connected sockets, at most one per source of the recording. They must stay open.
        options: Pace, rewriting and end of the replay.

    Attributes:
        total: Number of datagrams that will be sent, or None if it has no limit.

    Raises:
        ValueError: The recording is empty, or an option is out of range.
    """

    def __init__(
        self, recording: Recording, sockets: Sequence[socket.socket], options: ReplayOptions
    ) -> None:
        if not len(recording) or not sockets:
            raise ValueError("a replay needs datagrams and sockets")
        if options.renumber:
            recording.renumber(options.now, len(sockets))
        self.total = options.count(len(recording))
        self._sender = Sender(
            recording,
            sockets,
            rate=options.rate,
            speed=options.speed if options.rate is None else None,
            now=options.now,
            limit=self.total,
        )
        self._duration = options.duration
        self._begin: float | None = None
        self._end = 0.0

    def step(self) -> bool:
        """Send for at most STEP seconds, or until a signal arrives. Return True if the replay goes on.

        Raises:
            OSError: The system cannot send.
        """
        now = time.monotonic()
        self._begin = now if self._begin is None else self._begin
        left = STEP if self._duration is None else min(STEP, self._begin + self._duration - now)
        try:
            self._sender.run(left)
        finally:
            self._end = time.monotonic()
        expired = self._duration is not None and self._end - self._begin >= self._duration
        return not self._sender.done and not expired

    @property
    def sent(self) -> int:
        """Number of datagrams that the system accepted."""
        return self._sender.sent

    @property
    def bytes(self) -> int:
        """Sum of the UDP payloads that were sent, in bytes."""
        return self._sender.bytes

    @property
    def refused(self) -> int:
        """Number of sent datagrams for which the receiver's host reported a closed port."""
        return self._sender.refused

    @property
    def unsent(self) -> dict[str, int]:
        """Datagrams that the system did not accept, by reason (UNSENT)."""
        return self._sender.unsent

    @property
    def handled(self) -> int:
        """Number of datagrams that were sent or not accepted."""
        return self._sender.handled

    @property
    def seconds(self) -> float:
        """Time since the first step, up to the end of the last one."""
        return 0.0 if self._begin is None else self._end - self._begin

    @property
    def delay(self) -> float:
        """Seconds by which the replay is behind its schedule, because sending took too long."""
        return self._sender.delay / 1e9
