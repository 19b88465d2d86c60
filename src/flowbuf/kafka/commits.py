"""Commit offsets, and try again while a broker is unavailable."""

from __future__ import annotations

import threading
import time
from concurrent import futures
from typing import Any

from flowbuf.kafka.client import import_kafka

__all__ = ["LOST", "Commits"]

LOST = {
    *(
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "REBALANCE_IN_PROGRESS",
        "STALE_MEMBER_EPOCH",
        "FENCED_MEMBER_EPOCH",
    ),
    "_ASSIGNMENT_LOST",
}
"""Errors for a member that was removed from its group, or whose partitions are being reassigned."""

_AWAY = {
    *(
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_TIMED_OUT",
        "_WAIT_COORD",
        "NETWORK_EXCEPTION",
        "REQUEST_TIMED_OUT",
    ),
    *("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "_TIMED_OUT_QUEUE"),
}
"""Temporary errors: a broker is unavailable or has just started."""

# Seconds to retry a commit. After them, a group gives the partitions of a silent member to others.
_PATIENCE = 300.0
_PAUSE = 0.1  # seconds between two attempts


class Commits:
    """Commit offsets with a consumer. A signal can interrupt the wait for the broker.

    The client does not return while a broker is unavailable, not even after a signal. So a thread calls it.

    Args:
        consumer: Consumer of `confluent_kafka`.
    """

    def __init__(self, consumer: Any) -> None:
        self._kafka = import_kafka()
        self._consumer = consumer
        self._answer: futures.Future[Any] | None = None

    @property
    def running(self) -> bool:
        """True if a commit was interrupted, and its thread still uses the consumer."""
        return self._answer is not None and not self._answer.done()

    def commit(self, place: Any) -> Any:
        """Commit an offset, and return the error, or None. Retry while a broker is unavailable.

        Args:
            place: Partition, offset and metadata.
        """
        deadline = time.monotonic() + _PATIENCE
        while (error := self._try(place, deadline)) is not None:
            if error.name() not in _AWAY or time.monotonic() > deadline:
                return error
            time.sleep(_PAUSE)
        return None

    def _try(self, place: Any, deadline: float) -> Any:
        """Try to commit once. Return the error, or None."""
        answer: futures.Future[Any] = futures.Future()
        self._answer = answer

        def call() -> None:
            try:
                answer.set_result(self._consumer.commit(offsets=[place], asynchronous=False))
            except Exception as error:
                answer.set_exception(error)

        threading.Thread(target=call, name="flowbuf-commit", daemon=True).start()
        try:
            (done,) = answer.result(max(deadline - time.monotonic(), 0))
        except futures.TimeoutError:
            return self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT)
        except self._kafka.KafkaException as error:
            return error.args[0]
        return done.error
