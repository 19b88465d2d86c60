"""Report that a consumer waits for other members of its group, for example for one that was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from flowbuf.kafka.client import Notes, import_kafka, new_client

__all__ = ["HEARTBEAT", "Joining", "uses_kip_848"]

HEARTBEAT = 500
"""heartbeat.interval.ms of consumers.

The answer to a heartbeat asks a member to rejoin. librdkafka's default is 3,000.
"""

_PAUSE = 0.3  # seconds between two requests to the broker
_TIMEOUT = 2.0  # seconds to wait for an answer
_FIRST_TIMEOUT = 1.0  # seconds to wait before this member joins
_SESSION = 45_000  # librdkafka's default of session.timeout.ms
_MARGIN = 500  # milliseconds for a live member to rejoin after its heartbeat
_LONG_WAIT = 8.0
"""Seconds: more than the delay of a new group and a KIP-848 heartbeat (5 s).

A broker waits 3 s for the second member of a new group, and 3 s more after that member has joined.
"""


def uses_kip_848(settings: Mapping[str, Any]) -> bool:
    """Return True for the group protocol of KIP-848, in which the broker sets heartbeats and sessions."""
    return str(settings.get("group.protocol", "")).lower() == "consumer"


class Joining:
    """Watch a group while a member has no partitions yet. Create it before the member joins.

    A broker assigns no partitions until all known members have joined again, or their sessions have expired.
    A killed member stays known until then. Live members rejoin within a heartbeat, unless they are busy. So
    only longer waits are reported, and only for members that were in the group before.
    """

    def __init__(
        self, servers: str, group: str, settings: Mapping[str, Any], notes: Notes, note: Callable[[str], None]
    ) -> None:
        self._group = group
        self._note = note
        self._broker_side = uses_kip_848(settings)
        self._session = int(settings.get("session.timeout.ms", _SESSION)) / 1000
        self._wait = (int(settings.get("heartbeat.interval.ms", HEARTBEAT)) + _MARGIN) / 1000
        self._told = False
        self._since = time.monotonic()
        self._next = self._since + _PAUSE
        self._client = new_client("admin.AdminClient", servers, settings, {}, notes)
        self._answer: Any = self._ask(_FIRST_TIMEOUT)
        self._before: set[str] = set()
        with suppress(import_kafka().KafkaException):
            self._begin(self._answer.result())
        self._answer = None

    def _ask(self, timeout: float) -> Any:
        return self._client.describe_consumer_groups([self._group], request_timeout=timeout)[self._group]

    def _begin(self, found: Any) -> None:
        """Store the members that were in the group before this one.

        A group that is not stable may be a new one, which brokers delay. Its wait is reported later.
        """
        self._before = {each.member_id for each in found.members}
        if self._broker_side or found.state.name != "STABLE":
            self._wait = _LONG_WAIT

    def look(self) -> None:
        """Request the members of the group periodically, without waiting for the answer.

        Report once that the group waits for members that were there before.
        """
        now = time.monotonic()
        if self._told or not self._before or now < max(self._next, self._since + self._wait):
            return
        self._client.poll(0)
        if self._answer is None:
            self._answer = self._ask(_TIMEOUT)
        elif self._answer.done():
            if self._answer.exception() is None:
                self._report(len(self._before & {each.member_id for each in self._answer.result().members}))
            self._answer = None
            self._next = now + _PAUSE

    def _report(self, others: int) -> None:
        if others:
            self._told = True
            members = "1 other member" if others == 1 else f"{others} other members"
            setting = "group.consumer.session.timeout.ms of the broker"
            if not self._broker_side:
                setting = f"session.timeout.ms: {self._session:g} s"
            self._note(
                f"group {self._group!r}: waiting for {members} to rejoin; a killed member stays in the group "
                f"until its session expires ({setting})"
            )

    def end(self) -> None:
        """Report the end of the wait, if the wait was reported."""
        if self._told:
            self._note(f"group {self._group!r}: joined")
