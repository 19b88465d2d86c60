"""Sequence numbers: losses, late datagrams, and restarts of exporters.

NetFlow v5 counts flows, and NetFlow v9 counts export packets (Cisco's export format pages, RFC 3954 section
5.1). IPFIX counts data records, options included (RFC 7011 section 3.1). sFlow counts datagrams, and each
flow, counter and drop sample counts the samples of its kind and source ("sFlow Version 5", section 5). The
number in a header is the count at the beginning of its datagram.

The specifications leave these points open:

- The first number is a start. 0 after 0 is an exporter that does not number its datagrams.
- An exporter restarted if its uptime went back by more than ten seconds. An IPFIX exporter restarted if a
  message begins at 0 and is no older than the newest. A datagram with a lower number shows a restart if it
  was sent more than ten seconds after the newest. It also does if it is behind by more than the window of its
  unit, and in no gap that is remembered. A datagram with a higher number shows a restart if no exporter can
  send so fast.
- Other datagrams with a lower number are late or duplicates. Units in one of the last eight gaps are then no
  longer lost.
- If the records of the newest IPFIX message could not be counted, units missing before the next may have been
  in it. They are not counted as lost.
- Some IPFIX exporters include the message itself in its number, or omit records of options. Of the four ways
  to count, the one that explained most numbers applies; at a tie, that of the standard.
- A domain has a numbering for each UDP port (RFC 7011 counts by transport session), at most four. The least
  recently used one is replaced. A datagram from a new port that begins at the end of a numbering continues
  it.
- When an sFlow agent restarts, its sources restart, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

MODULUS = 1 << 32
TOLERANCE = 10_000  # milliseconds
GAPS, STREAMS = 8, 4
SAMPLE_KINDS = {1: "flows", 3: "flows", 2: "counters", 4: "counters", 5: "drops"}
COMPACT_SAMPLES = {1, 2}


@dataclass(frozen=True)
class Unit:
    name: str
    window: int
    most_a_second: int


FLOWS = Unit("flows", 8192, 1 << 20)
PACKETS = Unit("packets", 128, 1 << 16)
RECORDS = Unit("records", 8192, 1 << 20)
DATAGRAMS = Unit("datagrams", 128, 1 << 16)
SAMPLES = Unit("samples", 1024, 1 << 20)


def signed(difference: int) -> int:
    """Return the difference of two numbers modulo 2^32, as the shorter way from one to the other."""
    return (difference + MODULUS // 2) % MODULUS - MODULUS // 2


@dataclass
class Content:
    """The number of units in a datagram. For an IPFIX message, also the number of options records."""

    units: int = 0
    options: int = 0
    complete: bool = True


@dataclass(frozen=True)
class Convention:
    """A way to count the records of IPFIX. `itself`: the number includes the message itself.

    `options`: the number includes records of options.
    """

    itself: bool
    options: bool

    def units(self, content: Content) -> int:
        return content.units if self.options else content.units - content.options


CONVENTIONS = [Convention(itself, options) for itself in (False, True) for options in (True, False)]


@dataclass(frozen=True)
class Mark:
    """The position of a datagram: its number, its send time by the exporter's clock (ms modulo 2^32), and its
    port.
    """

    number: int
    sent: int
    port: int
    content: Content

    def begin(self, convention: Convention) -> int:
        return self.number - (convention.units(self.content) if convention.itself else 0)

    def end(self, convention: Convention) -> int:
        return self.number + (0 if convention.itself else convention.units(self.content))


@dataclass
class Totals:
    expected: int = 0
    lost: int = 0
    late: int = 0
    restarts: int = 0


@dataclass
class Numbering:
    unit: Unit
    newest: Mark
    used: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)  # (begin, size)
    hits: list[int] = field(default_factory=lambda: [0] * len(CONVENTIONS))

    def check(self, mark: Mark, totals: Totals) -> str | None:
        """Update the numbering. Return the status to count, if any."""
        unnumbered = mark.number == self.newest.number == 0
        convention = CONVENTIONS[0] if unnumbered else self.convention(mark)
        units = convention.units(mark.content)
        ahead = 0 if unnumbered else signed(mark.begin(convention) - self.newest.end(convention))
        if ahead and self.began_anew(mark, convention, ahead):
            self.gaps = []
            status: str | None = "exporter_restart"
            totals.restarts += 1
        elif ahead < 0:
            totals.late += 1
            totals.lost -= self.fill(mark.begin(convention), units)
            return "out_of_sequence"
        elif ahead:
            totals.expected += ahead
            certain = (mark if convention.itself else self.newest).content.complete
            status = "sequence_gap" if certain else None
            if certain:
                totals.lost += ahead
                self.gaps = [*self.gaps, (self.newest.end(convention) % MODULUS, ahead)][-GAPS:]
        else:
            status = None
        totals.expected += units
        self.newest = mark
        return status

    def convention(self, mark: Mark) -> Convention:
        if self.unit is not RECORDS:
            return CONVENTIONS[0]
        if mark.content.complete and self.newest.content.complete:
            for i, convention in enumerate(CONVENTIONS):
                explained = signed(mark.begin(convention) - self.newest.end(convention)) == 0
                self.hits[i] += explained
        best = CONVENTIONS[self.hits.index(max(self.hits))]
        if max(self.hits) == 255:
            self.hits = [hits // 2 for hits in self.hits]
        return best

    def began_anew(self, mark: Mark, convention: Convention, ahead: int) -> bool:
        begin = mark.begin(convention) % MODULUS
        later = signed(mark.sent - self.newest.sent)
        if self.unit is RECORDS:
            if begin == 0 and later >= 0:
                return True
        elif later < -TOLERANCE:
            return True
        if ahead > 0:
            return ahead > (max(later, 0) // 1000 + 1) * self.unit.most_a_second
        return later > TOLERANCE or (-ahead > self.unit.window and not self.is_missing(begin))

    def is_missing(self, begin: int) -> bool:
        return any((begin - start) % MODULUS < size for start, size in self.gaps)

    def fill(self, begin: int, units: int) -> int:
        """Remove a span from the gaps. Return how many of its units were in them."""
        rest = [piece for gap in self.gaps for piece in cut(gap, begin, units)]
        found = sum(size for _, size in self.gaps) - sum(size for _, size in rest)
        self.gaps = rest[-GAPS:]
        return found


def cut(gap: tuple[int, int], begin: int, units: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a gap on both sides of a span."""
    start, size = gap
    first = signed(begin - start)
    last = first + units
    if units == 0 or last <= 0 or first >= size:
        yield gap
        return
    if first > 0:
        yield start, first
    if last < size:
        yield (start + last) % MODULUS, size - last


@dataclass
class Sequences:
    """The numberings of one domain of an exporter."""

    unit: Unit
    totals: Totals = field(default_factory=Totals)
    streams: list[Numbering] = field(default_factory=list)
    clock: int = 0
    samples: Samples | None = None

    def check(self, mark: Mark) -> str | None:
        self.clock += 1
        stream = self.find(mark)
        if stream is None:
            if len(self.streams) == STREAMS:
                self.streams.remove(min(self.streams, key=lambda stream: stream.used))
            self.streams.append(Numbering(self.unit, mark, self.clock))
            self.totals.expected += mark.content.units
            return None
        stream.used = self.clock
        stream.newest = replace(stream.newest, port=mark.port)
        return stream.check(mark, self.totals)

    def find(self, mark: Mark) -> Numbering | None:
        for stream in self.streams:
            if stream.newest.port == mark.port:
                return stream
        fitting = [
            stream
            for stream in self.streams
            if mark.number
            and mark.number == stream.newest.end(CONVENTIONS[0]) % MODULUS
            and stream.newest.content.complete
        ]
        return max(fitting, key=lambda stream: stream.used, default=None)

    def describe(self) -> dict[str, object]:
        described: dict[str, object] = {"unit": self.unit.name, **vars(self.totals)}
        if self.samples is not None:
            described["samples"] = dict(vars(self.samples.totals))
        return described


@dataclass
class Samples:
    """The samples of an sFlow agent: a numbering for each kind and source."""

    totals: Totals = field(default_factory=Totals)
    sources: dict[tuple[str, int, int], tuple[int, Numbering]] = field(default_factory=dict)

    def check(self, sample_format: int, sample: bytes, run: int) -> str | None:
        """Update the numbering of a sample's source. Return the status to count, if any.

        The sample begins with its number and its source: type (8 bits) and index, or a word each. `run`
        changes when the agent restarts.
        """
        if sample_format not in SAMPLE_KINDS or len(sample) < 12:
            return None
        number, first, second = (int.from_bytes(sample[at : at + 4], "big") for at in (0, 4, 8))
        kind, index = (first >> 24, first & 0xFFFFFF) if sample_format in COMPACT_SAMPLES else (first, second)
        source = SAMPLE_KINDS[sample_format], kind % (1 << 30), index
        mark = Mark(number, 0, 0, Content(1))
        known = self.sources.get(source)
        if known is None or known[0] != run:
            self.sources[source] = run, Numbering(SAMPLES, mark)
            self.totals.expected += 1
            return None
        return "sample_gap" if known[1].check(mark, self.totals) == "sequence_gap" else None
