"""Copies of datagrams and messages: forwarded to other collectors, or saved because they were not decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flowbuf._core import Forwarder, Receiver, UndecodedBuffer, copy_datagrams, copy_messages
from flowbuf.collect.config import CollectConfig
from flowbuf.collect.forward import ForwardTarget, check_circles, resolve_targets
from flowbuf.collect.listen import Address
from flowbuf.collect.undecoded import UndecodedFile

__all__ = ["Copier", "CopyCounters", "count_unsent", "format_copies", "open_copiers"]


@dataclass
class CopyCounters:
    """Datagrams, and messages over TCP and TLS, that were copied.

    Attributes:
        targets: Per target of forwarding: `forwarded`, its part `refused`, and numbers of datagrams that were
            not sent, by reason (`flowbuf._core.UNFORWARDED`). `forwarded` plus all reasons is the number of
            datagrams and messages that were received and not denied since the target was configured.
        undecoded: `undecoded`, `saved`, and numbers of datagrams that were not saved, by reason. `undecoded`
            is the sum of the others. It is empty if undecoded datagrams are not saved.
    """

    targets: dict[str, Counter[str]] = field(default_factory=dict)
    undecoded: Counter[str] = field(default_factory=Counter)

    def add(self, other: CopyCounters) -> None:
        """Add the counters of another object."""
        for name, counts in other.targets.items():
            self.targets.setdefault(name, Counter()).update(counts)
        self.undecoded.update(other.undecoded)

    @property
    def unsaved(self) -> dict[str, int]:
        """Undecoded datagrams that were not saved, by reason."""
        return {name: count for name, count in self.undecoded.items() if name not in ("undecoded", "saved")}


def count_unsent(counts: Counter[str]) -> dict[str, int]:
    """Return the datagrams that a target was not sent, by reason."""
    return {name: count for name, count in counts.items() if name not in ("forwarded", "refused")}


def format_copies(copies: CopyCounters) -> Iterator[str]:
    """Yield the totals of each target of forwarding, and of the file of undecoded datagrams, as text."""
    for name, counts in copies.targets.items():
        unsent = sum(count_unsent(counts).values())
        refused = f" refused={counts['refused']}" if counts["refused"] else ""
        yield f"forward {name}: forwarded={counts['forwarded']} unsent={unsent}{refused}"
    if copies.undecoded:
        yield f"undecoded: saved={copies.undecoded['saved']} unsaved={sum(copies.unsaved.values())}"


class Copier:
    """Copy the datagrams or messages of a worker. Its thread calls all methods except the constructor.

    Args:
        targets: Targets of forwarding. The worker gets sockets of its own.
        file: File for undecoded datagrams, which the copier closes. Default: they are not saved.

    Raises:
        ConfigError: a target cannot be reached.
    """

    def __init__(self, targets: Sequence[ForwardTarget] = (), file: UndecodedFile | None = None) -> None:
        self._names = [target.name for target in targets]
        self._file = file
        self._forwarder = None
        try:
            self._forwarder = _open_forwarder(targets) if targets else None
        except BaseException:
            self.close()
            raise
        self._buffer = None if file is None else UndecodedBuffer()
        self._added: Counter[str] = Counter()  # results of adding to the file

    def attach(self, receiver: Receiver) -> None:
        """Copy the datagrams that a receiver gets from now on."""
        copy_datagrams(receiver, self._forwarder, self._buffer)

    def copy_messages(self, stream: memoryview, marks: bytearray, source: tuple[str, int], port: int) -> None:
        """Copy the complete messages at the start of a stream: see `flowbuf._core.copy_messages`."""
        if self._forwarder is not None or self._buffer is not None:
            copy_messages(stream, marks, source, port, self._forwarder, self._buffer)
            self._flush_due()

    def save_malformed(self, head: memoryview, source: tuple[str, int], port: int) -> None:
        """Save the beginning of a stream that is no message."""
        if self._buffer is not None:
            self._buffer.keep(head, source, port)
            self._flush_due()

    def _flush_due(self) -> None:
        if self._buffer is not None and self._buffer.due:
            self.flush()

    def flush(self) -> None:
        """Write undecoded datagrams to the file."""
        if self._file is None or self._buffer is None:
            return
        records, count = self._buffer.take()
        if count:
            self._added += self._file.add(records, count)
            self._buffer.full = self._file.full

    def read_counters(self) -> CopyCounters:
        """Return the counters since the creation of the copier, after a flush."""
        self.flush()
        counters = CopyCounters(undecoded=Counter(self._added))
        if self._forwarder is not None:
            targets = map(Counter, self._forwarder.read_counters())
            counters.targets.update(zip(self._names, targets, strict=True))
        if self._buffer is not None:
            counters.undecoded.update(self._buffer.read_counters())
        return counters

    def close(self) -> None:
        """Close the sockets and the file."""
        if self._forwarder is not None:
            for each in self._forwarder.sockets:
                each.close()
        if self._file is not None:
            self._file.close()


def _open_forwarder(targets: Sequence[ForwardTarget]) -> Forwarder:
    opened = []
    try:
        for target in targets:
            opened.append((target.open(), target.packed, target.port, target.original))
    except BaseException:
        for made, *_ in opened:
            made.close()
        raise
    return Forwarder(opened)


def open_copiers(config: CollectConfig, workers: int, listening: Sequence[Address]) -> list[Copier]:
    """Return one copier per worker.

    Args:
        config: Settings of the collector.
        workers: Number of workers.
        listening: UDP addresses of the collector, to which nothing is forwarded.

    Raises:
        ConfigError: a target or the file of undecoded datagrams cannot be used.
    """
    targets = resolve_targets(config.forward, config.forward_source)
    check_circles(targets, listening)
    path = config.save_undecoded
    first = UndecodedFile(path, config.save_undecoded_bytes) if path else None
    copiers: list[Copier] = []
    try:
        for number in range(workers):
            copiers.append(Copier(targets, first.share() if first and number else first))
    except BaseException:
        for copier in copiers:
            copier.close()
        raise
    return copiers
