"""Warnings about full receive buffers, queues and spools. Other losses have messages of their own."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from flowbuf.collect.listen import Listener
from flowbuf.collect.runner import OutputRunner

__all__ = ["LossLog"]

logger = logging.getLogger("flowbuf.collect")

PERIOD = 60.0
"""Least time in seconds between two warnings about one place."""

_KERNEL = (
    "{}: the kernel dropped {:,} {}datagrams, because the receive buffer was full; raise --receive-buffer "
    "and net.core.rmem_max, or use more --workers"
)
_QUEUES = {
    "queue_full": (
        "output {}: {:,} {}flows were dropped, because its queue was full; flows arrive faster than it "
        "writes them: see --on-overflow and --queue-flows"
    ),
    "spool_full": (
        "output {}: {:,} {}flows were dropped, because its spool was full; repair the destination, or raise "
        "--spool-bytes"
    ),
}


class _Losses(NamedTuple):
    """Losses at a place since its start.

    Attributes:
        place: Listener or output, and the reason.
        number: Number of lost datagrams or flows.
        text: Form of the warning: of the name, the number, and "more " or "".
        name: Name of the place in messages.
        kind: Field of the log record with the name.
    """

    place: tuple[object, str]
    number: int
    text: str
    name: str
    kind: str


class LossLog:
    """Warn about each place that loses data: at the first loss, and then at most once per minute.

    A warning has the number of losses since the one before.

    Args:
        clock: Clock without steps, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._warned: dict[tuple[object, str], tuple[int, float]] = {}  # losses in the log, and when

    def report(
        self, listeners: Iterable[Listener], outputs: Iterable[OutputRunner], last: bool = False
    ) -> None:
        """Log the losses that are due.

        Args:
            listeners: Listeners for UDP, whose sockets are open.
            outputs: Outputs of the configuration. Those of an earlier one are forgotten.
            last: Log all losses that are not in the log yet.
        """
        now, before, self._warned = self._clock(), self._warned, {}
        for place, number, text, name, kind in (*_read_kernel_drops(listeners), *_read_queues(outputs)):
            known, warned = before.get(place, (0, -math.inf))
            if number > known and (last or now - warned >= PERIOD):
                warning = text.format(name, number - known, "more " if known else "")
                logger.warning("%s", warning, extra={kind: name})
                known, warned = number, now
            self._warned[place] = known, warned


def _read_kernel_drops(listeners: Iterable[Listener]) -> Iterator[_Losses]:
    """Read the counters of the sockets, because a worker that waits for a full queue does not answer."""
    for listener in listeners:
        name = str(listener.address)
        drops = sum(listener.read_drops(worker) or 0 for worker in range(len(listener.sockets)))
        yield _Losses((name, "kernel_drops"), drops, _KERNEL, name, "listener")


def _read_queues(outputs: Iterable[OutputRunner]) -> Iterator[_Losses]:
    for output in outputs:
        reasons = output.queue.read_counters().reasons
        for reason, text in _QUEUES.items():
            yield _Losses((output, reason), reasons.get(reason, 0), text, output.name, "output")
