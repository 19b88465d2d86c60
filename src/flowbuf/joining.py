"""Report that a consumer waits for other members of its group, for example for one that was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from flowbuf.kafka import Notes, new_client

__all__ = ["Joining"]

_PAUSE = 0.3  # seconds between two questions to the broker
_TIMEOUT = 2.0  # seconds for an answer
_SESSION = 45_000  # session.timeout.ms of librdkafka


class Joining:
    """Watches a group while a member has no partitions yet. A broker gives none before all members that it knows have
    joined again, or their sessions have expired; a killed member stays known until then."""

    def __init__(
        self, servers: str, group: str, settings: Mapping[str, Any], notes: Notes, note: Callable[[str], None]
    ) -> None:
        self._servers = servers
        self._group = group
        self._settings = settings
        self._notes = notes
        self._note = note
        self._client: Any = None
        self._answer: Any = None
        self._next = time.monotonic() + _PAUSE
        self._told = False

    def look(self, member: Callable[[], str | None]) -> None:
        """Ask for the members of the group now and then, without waiting for the answer. Report once that there are
        others. `member` returns the identifier of this one."""
        if self._told or time.monotonic() < self._next:
            return
        if self._client is None:
            self._client = new_client("admin.AdminClient", self._servers, self._settings, {}, self._notes)
        self._client.poll(0)
        if self._answer is None:
            answers = self._client.describe_consumer_groups([self._group], request_timeout=_TIMEOUT)
            self._answer = answers[self._group]
        elif self._answer.done():
            own = member()
            if own and self._answer.exception() is None:
                self._report([each for each in self._answer.result().members if each.member_id != own])
            self._answer = None
            self._next = time.monotonic() + _PAUSE

    def _report(self, others: list[Any]) -> None:
        if others:
            self._told = True
            session = int(self._settings.get("session.timeout.ms", _SESSION)) / 1000
            members = "1 other member" if len(others) == 1 else f"{len(others)} other members"
            self._note(
                f"group {self._group!r}: waiting for {members} to rejoin, or for the previous session to expire "
                f"(session.timeout.ms: {session:g} s)"
            )

    def end(self) -> None:
        """Forget the group. Report that the wait is over, if it was reported."""
        if self._told:
            self._note(f"group {self._group!r}: joined")
        self._client = self._answer = None
        self._told = False
