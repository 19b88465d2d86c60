"""Find the log of a spool on disk after its last process ended or was killed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise

from flowbuf.collect.spools.counts import Count, Damage
from flowbuf.collect.spools.position import IDENTITY_BYTES, PositionFile
from flowbuf.collect.spools.segment import SEGMENT_HEADER, Segment, find_segments, is_damage
from flowbuf.errors import SpoolError

__all__ = ["RecoveredLog", "recover_log"]


@dataclass
class RecoveredLog:
    """The log of a spool at start.

    Attributes:
        identity: Identity of the spool.
        segments: Segments with entries, loaded, in order.
        acknowledged: All entries before this place are acknowledged, or lost and counted.
        end: End of the log. New entries continue here.
        inherited: Entries that were appended and not acknowledged, with the damage found at start.
        damage: Damage found at start. Entries with damaged data or headers are found when they are read.
        damaged_positions: Damaged copies of the position.
    """

    identity: bytes
    segments: list[Segment]
    acknowledged: Count
    end: Count
    inherited: Count = field(default_factory=Count)
    damage: Damage = field(default_factory=Damage)
    damaged_positions: int = 0


def recover_log(folder: str, position: PositionFile) -> RecoveredLog:
    """Load the segments of a folder, and compare them with the stored progress.

    An incomplete entry at the end of the log is removed. Segments without a single intact header are removed
    and counted.

    Raises:
        SpoolError: A newer flowbuf wrote a segment, or segments belong to different spools.
        OSError: A segment cannot be read for a reason that may pass, or cannot be changed.
    """
    segments = find_segments(folder)
    identity = _choose_identity(folder, position, segments)
    log = RecoveredLog(identity, [], position.progress.acknowledged, position.progress.end)
    known = position.identity is not None
    log.damaged_positions = position.damaged if known or not segments else 2
    for segment in segments:
        _add_segment(log, segment)
    for before, after in pairwise(log.segments):
        before.stop = before.next = after.start
    written = _find_end(log)
    _compare(log, position, written)
    return log


def _choose_identity(folder: str, position: PositionFile, segments: list[Segment]) -> bytes:
    known = {segment.identity for segment in segments}
    if position.identity is not None:
        known.add(position.identity)
    if len(known) > 1:
        names = ", ".join(sorted(identity.hex() for identity in known))
        raise SpoolError(f"{folder}: has segments of several spools ({names}); move all but one elsewhere")
    return known.pop() if known else os.urandom(IDENTITY_BYTES)


def _add_segment(log: RecoveredLog, segment: Segment) -> None:
    """Load a segment and append it to the log, unless it is useless."""
    reason = "header"
    try:
        segment.load()
        useful = segment.intact or next(segment.frames(), None) is not None
    except OSError as error:
        if not is_damage(error):
            raise
        useful, reason = False, "unreadable"
    if useful and log.segments:  # places only increase, also if damage was not detected
        earlier = log.segments[-1].start
        useful = segment.start.entries >= earlier.entries and segment.start.flows >= earlier.flows
    if useful:
        log.segments.append(segment)
        log.damage.add("header", Count(), 0 if segment.intact else SEGMENT_HEADER)
        return
    log.damage.add(reason, Count(), segment.size)
    if reason == "header":
        os.unlink(segment.path)


def _find_end(log: RecoveredLog) -> Count:
    """Remove an incomplete entry from the end of the log, and return the place after the last entry."""
    if not log.segments:
        return Count()
    last = log.segments[-1]
    size, reason = SEGMENT_HEADER, "torn"
    try:
        for frame in last.frames():
            size, last.stop = frame.end, frame.stop
    except OSError as error:
        if not is_damage(error):
            raise
        reason = "unreadable"
    last.next = last.stop
    log.damage.add(reason, Count(), last.size - size)
    if reason == "torn":
        os.truncate(last.path, size)
    last.size = size
    if size == SEGMENT_HEADER:
        os.unlink(last.path)
        log.segments.pop()
    return last.stop


def _compare(log: RecoveredLog, position: PositionFile, written: Count) -> None:
    """Count the entries that the stored progress knows and the log lacks, at its end and at its start."""
    log.end = max(written, log.end, log.acknowledged)
    first = log.segments[0].start if log.segments else log.end
    if log.damaged_positions:  # entries before the first segment may have been acknowledged later
        log.acknowledged = max(log.acknowledged, first)
    log.inherited = log.end - log.acknowledged
    if log.segments:
        log.segments[-1].next = log.end
    else:
        written = log.acknowledged
    _count_end(log, max(written, log.acknowledged), position.progress.synced)
    if log.acknowledged >= written:
        log.acknowledged = log.end
    elif log.acknowledged < first:
        log.damage.add("missing", first - log.acknowledged)
        log.acknowledged = first


def _count_end(log: RecoveredLog, present: Count, synced: Count) -> None:
    """Count the entries between the last one that is present and the end of the log."""
    synced = min(max(synced, present), log.end)
    log.damage.add("truncated" if log.segments else "missing", synced - present)
    log.damage.add("unsynced", log.end - synced)
