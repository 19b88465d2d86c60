"""How long decoding takes: one workload, several contestants, the same payloads, in turn.

A workload is timed as a collector meets it: all datagrams of a capture are fed once, so that templates and options are
known, and then only those with flows, over and over, from a working set of a few megabytes. Its copies are numbered on,
as their exporters would (flowbuf.bench.numbering): decoders tell what came twice.
"""

from __future__ import annotations

import importlib.util
import io
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, TracebackType
from typing import BinaryIO, NamedTuple, Protocol

from flowbuf import _core
from flowbuf.bench.numbering import Numberings
from flowbuf.decoder import Decoder
from flowbuf.errors import CaptureError
from flowbuf.io.capture import CaptureReader
from flowbuf.schema import Schema

__all__ = [
    *("GENERATED", "ROUNDS", "SECONDS", "WORKING_SET"),
    *("Contestant", "Datagram", "Flowbuf", "Measurement", "Quotation", "Result", "Run", "Workload"),
    *("generate_workload", "import_peers", "load_workload", "measure", "name_processor"),
]

BATCH = 100_000
"""Octets of payload that flowbuf decodes in one call: a batch and its messages fit into the second cache."""

WORKING_SET = 2_500_000
"""Octets of payload, at least, that are decoded in one pass: more than the first two caches of a processor hold."""

ROUNDS = 11
SECONDS = 0.1
"""Of CPU time, in a round, for each contestant."""

PATIENCE = 5.0
"""Seconds, on the wall, that the rounds of a contestant may take together; a slow one gets fewer, at least one."""

GENERATED = ("netflow5", "netflow9", "ipfix", "sflow")
"""Protocols that a workload can be generated for."""

_READ_LIMIT = 4 * WORKING_SET
_GENERATED_FLOWS = 20_000
_PROTOCOLS = {0: "sflow", 5: "netflow5", 7: "netflow7", 9: "netflow9", 10: "ipfix"}  # by the version of a domain


class Datagram(NamedTuple):
    """A UDP payload, where it came from, and when (ns since 1970)."""

    payload: bytes
    source: tuple[str, int]
    time: int


@dataclass(frozen=True)
class Workload:
    """`first` are all datagrams of a capture; `data` are those with flows, and without templates where there are such,
    all repeated, `repetitions` times, until they are WORKING_SET octets, each a copy of its own and numbered on;
    `flows` is how many flows flowbuf makes of one pass over `data`; `protocols` are "netflow5", "netflow9", "ipfix",
    "sflow"."""

    name: str
    first: tuple[Datagram, ...]
    data: tuple[Datagram, ...]
    flows: int
    protocols: frozenset[str]
    repetitions: int = 1


class Run(Protocol):
    """A contestant that has been fed `Workload.first` and is ready to be timed; a context manager."""

    flows: int
    """How many flows the contestant itself found in one pass over `Workload.data`."""

    def measure(self, seconds: float) -> float:
        """Passes over `Workload.data` until at least so many seconds of CPU time have gone; nanoseconds of CPU time a
        flow, by `Workload.flows`. Raises OSError or ValueError with what went wrong."""

    def __enter__(self) -> Run: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Contestant(Protocol):
    """Something that decodes flows: flowbuf itself, or a peer (benchmarks/peers)."""

    name: str
    does: str
    """What is timed: "decode + Protobuf", "parse alone"."""

    def absent(self) -> str | None:
        """Why it cannot be measured on this machine; None where it can."""

    def version(self) -> str:
        """Of what is measured. Raises OSError or ValueError where it cannot be told."""

    def takes(self, workload: Workload) -> bool:
        """Whether it decodes the protocols of a workload."""

    def open(self, workload: Workload) -> Run:
        """Gets ready. Raises OSError or ValueError with what went wrong."""


class Quotation(Protocol):
    """A figure that was measured elsewhere, at another time: it says nothing about this machine."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def does(self) -> str: ...
    @property
    def dataset(self) -> str: ...
    @property
    def ns_per_flow(self) -> float: ...
    @property
    def source(self) -> str:
        """Who measured it, and how."""

    @property
    def noted(self) -> str:
        """When: the month, 2026-11."""


# Workloads ------------------------------------------------------------------------------------------------------------


def load_workload(name: str, source: str | Path | BinaryIO, schema: Schema | str = "flow") -> Workload:
    """The workload of a capture: a path, "-" for standard input, or a binary file object. Of a large one, the first 10
    MB of payload. `schema` says what a flow is.

    Raises OSError, SchemaError, CaptureError where the source is no capture, or holds no flows.
    """
    decoder = Decoder(schema)
    with CaptureReader(source) as reader:
        first = tuple(_read(reader))
    for datagram in first:
        decoder.encode(*datagram)
    counted = [(datagram, _count_flows(decoder, [datagram])) for datagram in first]
    with_flows = [each for each in counted if each[1]]
    if not with_flows:
        raise CaptureError(f"{reader.name}: holds no flows")
    chosen = [each for each in with_flows if not _brings_templates(decoder, each[0])] or with_flows
    data = _fill(chosen)
    domains = [domain for exporter in decoder.read_exporters() for domain in exporter["domains"]]
    protocols = frozenset(_PROTOCOLS[domain["version"]] for domain in domains)
    return Workload(name, first, data, _count_flows(decoder, data), protocols, len(data) // len(chosen))


def generate_workload(protocol: str, schema: Schema | str = "flow") -> Workload:
    """The workload `generated-PROTOCOL`, of one in GENERATED; the same on every machine."""
    pieces = _core.generate(protocol=protocol, flows=_GENERATED_FLOWS, seed=1, exporters=4)
    return load_workload(f"generated-{protocol}", io.BytesIO(b"".join(pieces)), schema)


def _read(reader: CaptureReader) -> Iterator[Datagram]:
    octets = 0
    for batch in reader:
        for i in range(len(batch)):
            payload, source, _, received = batch[i]
            yield Datagram(payload, source, received)
            octets += len(payload)
            if octets >= _READ_LIMIT:
                return


def _count_flows(decoder: Decoder, datagrams: Iterable[Datagram]) -> int:
    before = decoder.flows
    for datagram in datagrams:
        decoder.encode(*datagram)
    return decoder.flows - before


def _brings_templates(decoder: Decoder, datagram: Datagram) -> bool:
    alone = _core.Decoder(decoder.plan)
    alone.encode(*datagram)
    return any(exporter["templates"] for exporter in alone.read_exporters())


def _fill(counted: Sequence[tuple[Datagram, int]]) -> tuple[Datagram, ...]:
    """Repeats datagrams, each of so many flows. Payloads are copied: one that is shared would stay in the cache."""
    repetitions = -(-WORKING_SET // sum(len(datagram.payload) for datagram, _ in counted))
    numberings = Numberings()
    return tuple(
        datagram._replace(payload=numberings.number_on(datagram.payload, datagram.source, flows))
        for _ in range(repetitions)
        for datagram, flows in counted
    )


# Contestants ----------------------------------------------------------------------------------------------------------


class Flowbuf:
    """flowbuf itself: a batch in one call, into length-delimited messages, by the CPU time of the thread."""

    name = "flowbuf"
    does = "decode + Protobuf"

    def __init__(self, schema: Schema | str = "flow") -> None:
        self._schema = schema

    def absent(self) -> str | None:
        """Never."""
        return None

    def version(self) -> str:
        """Of the installed package."""
        return version("flowbuf")

    def takes(self, workload: Workload) -> bool:
        """Always."""
        return True

    def open(self, workload: Workload) -> FlowbufRun:
        """A decoder that knows the exporters of the workload."""
        return FlowbufRun(workload, Decoder(self._schema))


def _split(datagrams: Sequence[Datagram]) -> Iterator[Sequence[Datagram]]:
    """Batches of at least BATCH octets, but for the last."""
    begin = octets = 0
    for end, datagram in enumerate(datagrams, 1):
        octets += len(datagram.payload)
        if octets >= BATCH or end == len(datagrams):
            yield datagrams[begin:end]
            begin, octets = end, 0


class FlowbufRun:
    """A decoder and the working set."""

    def __init__(self, workload: Workload, decoder: Decoder) -> None:
        for datagram in workload.first:
            decoder.encode(*datagram)
        self.decoder = decoder
        self._batches = [_core.pack_datagrams(*map(list, zip(*batch, strict=True))) for batch in _split(workload.data)]
        self._workload = workload
        before = decoder.flows
        self.decode()
        self.flows = decoder.flows - before

    def decode(self) -> None:
        """One pass over the working set: what is timed. Messages stay in the decoder's own buffer, as they do when they
        are written to a file from there."""
        for batch in self._batches:
            self.decoder.view_datagrams(batch)

    def measure(self, seconds: float) -> float:
        """Nanoseconds of CPU time a flow."""
        begin = time.thread_time()
        passes, taken = 0, 0.0
        while not passes or taken < seconds:
            self.decode()
            passes += 1
            taken = time.thread_time() - begin
        return taken * 1e9 / (passes * self._workload.flows)

    def __enter__(self) -> FlowbufRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is held that would have to be given back."""


def import_peers(folder: Path) -> ModuleType | None:
    """The package `peers` of a folder, which has `PEERS`, contestants, and may have `QUOTED`, quotations; None where
    the folder has none. Raises what its code raises. It is imported below a name of its own, so that it is not taken
    for that of another folder."""
    path = folder / "peers/__init__.py"
    if not path.is_file():
        return None
    name = "peers_of_" + re.sub(r"\W", "_", str(folder.resolve()))
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for the imports of its parts among each other
    spec.loader.exec_module(module)
    return module


# Measuring ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What a contestant needed for a workload: `samples` in nanoseconds of CPU time a flow, one a round. `flows` are
    those it found itself in one pass."""

    name: str
    does: str
    version: str
    flows: int
    samples: tuple[float, ...]

    @cached_property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def min(self) -> float:
        return min(self.samples)

    @property
    def max(self) -> float:
        return max(self.samples)

    @property
    def spread(self) -> float:
        """The interquartile range."""
        if len(self.samples) == 1:
            return 0.0
        lower, _, upper = statistics.quantiles(self.samples, n=4, method="inclusive")
        return upper - lower


@dataclass(frozen=True)
class Measurement:
    """The results of all contestants by name; `failed` is why others have none."""

    workload: Workload
    results: Mapping[str, Result]
    failed: Mapping[str, str]


class _Entry:
    """A contestant at one workload, ready to be timed."""

    def __init__(self, contestant: Contestant, run: Run) -> None:
        self.name = contestant.name
        self.failure: str | None = None
        self._contestant = contestant
        self._version = contestant.version()
        self._run = run
        self._samples: list[float] = []
        self._spent = 0.0

    def measure(self, seconds: float) -> None:
        """One round, unless it has failed or taken too long before."""
        if self.failure is not None or self._spent >= PATIENCE:
            return
        begin = time.perf_counter()
        try:
            self._samples.append(self._run.measure(seconds))
        except (OSError, ValueError) as error:
            self.failure = str(error)
        self._spent += time.perf_counter() - begin

    def result(self) -> Result:
        """Of the rounds so far."""
        return Result(self.name, self._contestant.does, self._version, self._run.flows, tuple(self._samples))


def measure(
    workload: Workload,
    contestants: Sequence[Contestant],
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    show: Callable[[int], None] = lambda done: None,
) -> Measurement:
    """Lets the contestants decode a workload in turn, for so many rounds; every other round in the opposite order, so
    that none always has the same one before it. Those that do not take the workload are left out; one that cannot get
    ready, or breaks down, is in `failed`. `show` takes how many rounds are done."""
    entries: list[_Entry] = []
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        for contestant in contestants:
            if contestant.takes(workload):
                try:
                    entries.append(_Entry(contestant, stack.enter_context(contestant.open(workload))))
                except (OSError, ValueError) as error:
                    failed[contestant.name] = str(error)
        for done in range(rounds):
            for entry in entries if done % 2 == 0 else reversed(entries):
                entry.measure(seconds)
            show(done + 1)
        failed |= {entry.name: entry.failure for entry in entries if entry.failure is not None}
        results = {entry.name: entry.result() for entry in entries if entry.failure is None}
    return Measurement(workload, results, failed)


def name_processor() -> str:
    """As its maker calls it: what Linux says; elsewhere, what Python knows."""
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
