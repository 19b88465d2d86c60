"""Counts of entries and flows in a spool."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Count", "Damage", "SpoolCounters", "SpoolProgress"]


@dataclass(frozen=True, order=True)
class Count:
    """A number of entries, and the flows in them.

    The entries and flows before an entry identify its place in the log. The difference of two places is the
    number of entries and flows between them, also if these are lost.
    """

    entries: int = 0
    flows: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.entries + other.entries, self.flows + other.flows)

    def __sub__(self, other: Count) -> Count:
        return Count(self.entries - other.entries, self.flows - other.flows)


@dataclass(frozen=True)
class SpoolProgress:
    """Progress of a spool over all processes: three places in its log. They only increase.

    Attributes:
        acknowledged: All entries before this place are acknowledged or lost.
        synced: All entries before this place were synced.
        end: End of the log.
    """

    acknowledged: Count = Count()
    synced: Count = Count()
    end: Count = Count()

    def join(self, other: SpoolProgress) -> SpoolProgress:
        """Return the later of each place."""
        return SpoolProgress(
            max(self.acknowledged, other.acknowledged),
            max(self.synced, other.synced),
            max(self.end, other.end),
        )


class Damage:
    """Lost entries and ignored bytes by reason. `SpoolCounters` lists the reasons."""

    def __init__(self) -> None:
        self.lost: dict[str, Count] = {}
        self.ignored: dict[str, int] = {}

    def add(self, reason: str, lost: Count, ignored: int = 0) -> None:
        """Count lost entries, and ignored bytes on disk."""
        if lost != Count():
            self.lost[reason] = self.lost.get(reason, Count()) + lost
        if ignored:
            self.ignored[reason] = self.ignored.get(reason, 0) + ignored


@dataclass(frozen=True)
class SpoolCounters:
    """Counters of a spool since it was opened.

    In entries and in flows, inherited + appended = acknowledged + waiting + damaged.

    Attributes:
        inherited: Entries that earlier processes left: appended and not acknowledged. Damage among them is
            counted when it is found.
        appended: Entries that `append` stored.
        acknowledged: Entries that were acknowledged.
        waiting: Entries that are not acknowledged yet.
        damaged: Lost entries by reason. "checksum": the data are damaged. "header": a header is damaged, and
            an intact one follows. "truncated": no intact header follows in the segment. "missing": a segment
            is missing. "unreadable": the system cannot read the segment. "unsynced": entries that were not
            synced are missing at the end of the log, as after a power loss.
        damaged_bytes: Ignored bytes on disk by the same reasons. Also "torn": bytes without an intact header
            at the end of the log. They are no loss by themselves, because a process that is killed in
            `append` leaves an incomplete entry.
        damaged_positions: Copies of the position that were damaged at start. With one, entries that were
            acknowledged last may be delivered again. With two, those of the oldest segment.
        position_errors: Failed attempts to store the position. The next acknowledgement stores it.
    """

    inherited: Count = Count()
    appended: Count = Count()
    acknowledged: Count = Count()
    waiting: Count = Count()
    damaged: dict[str, Count] = field(default_factory=dict)
    damaged_bytes: dict[str, int] = field(default_factory=dict)
    damaged_positions: int = 0
    position_errors: int = 0

    @property
    def lost(self) -> Count:
        """Sum of `damaged`."""
        return sum(self.damaged.values(), Count())

    def find_problems(self, before: SpoolCounters) -> list[str]:
        """Return a text for each kind of problem since earlier counters of the same spool.

        Args:
            before: The earlier counters. Those of a new `SpoolCounters` are from before the start.
        """
        problems = []
        lost = {
            reason: count.flows - before.damaged.get(reason, Count()).flows
            for reason, count in self.damaged.items()
        }
        if flows := sum(lost.values()):
            reasons = " ".join(f"{reason}={count}" for reason, count in lost.items() if count)
            problems.append(f"the spool is damaged, and {flows} of its flows are lost: {reasons}")
        if self.damaged_positions > before.damaged_positions:
            problems.append("the position of the spool is damaged; flows may be written again")
        if self.position_errors > before.position_errors:
            problems.append("the position of the spool was not stored; a restart may write flows again")
        return problems
