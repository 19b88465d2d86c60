"""Measure the decoding time of several contestants for the same payloads, in turn.

A workload is timed like the traffic of a collector. All datagrams of a capture are decoded once, so that
templates and options are known. Then the datagrams with flows are decoded repeatedly, from a working set of a
few megabytes. Its copies have consecutive sequence numbers (flowbuf.bench.numbering), because decoders detect
duplicates.
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
from flowbuf.options import DecodeOptions
from flowbuf.schema import Schema

__all__ = [
    *("GENERATED", "ROUNDS", "SECONDS", "WORKING_SET"),
    *("Contestant", "Datagram", "Flowbuf", "Measurement", "Quotation", "Result", "Run", "Workload"),
    *("generate_workload", "import_peers", "load_workload", "measure", "name_processor"),
]

BATCH = 100_000
"""Bytes of payload that flowbuf decodes in one call.

A batch and its messages fit into the second-level cache.
"""

WORKING_SET = 2_500_000
"""Minimum bytes of payload per pass: more than the first two cache levels of a processor hold."""

ROUNDS = 11
SECONDS = 0.1
"""CPU time in seconds per round and contestant."""

PATIENCE = 5.0
"""Seconds of elapsed time that all rounds of a contestant may take.

A slow contestant gets fewer rounds, but at least one.
"""

GENERATED = ("netflow5", "netflow9", "ipfix", "sflow")
"""Protocols of generated workloads."""

_READ_LIMIT = 4 * WORKING_SET
_GENERATED_FLOWS = 20_000
# by the version of a domain
_PROTOCOLS = {0: "sflow", 5: "netflow5", 7: "netflow7", 9: "netflow9", 10: "ipfix"}


class Datagram(NamedTuple):
    """A UDP payload, its source address and port, and its time of arrival (ns since 1970)."""

    payload: bytes
    source: tuple[str, int]
    time: int


@dataclass(frozen=True)
class Workload:
    """Datagrams to time.

    Attributes:
        name: Name of the workload.
        first: All datagrams of a capture.
        data: Datagrams with flows, numbered consecutively, repeated until they have WORKING_SET bytes.
            Datagrams that also bring templates are left out, unless there are no others.
        flows: Number of flows that flowbuf finds in one pass over `data`.
        protocols: "netflow5", "netflow7", "netflow9", "ipfix" and "sflow", as far as they occur.
        repetitions: Number of copies of each datagram in `data`.
    """

    name: str
    first: tuple[Datagram, ...]
    data: tuple[Datagram, ...]
    flows: int
    protocols: frozenset[str]
    repetitions: int = 1


class Run(Protocol):
    """A contestant that has decoded `Workload.first` and is ready to be timed. A context manager."""

    flows: int
    """Number of flows that the contestant found in one pass over `Workload.data`."""

    def measure(self, seconds: float) -> float:
        """Decode `Workload.data` until at least `seconds` of CPU time have passed.

        Returns:
            float: Nanoseconds of CPU time per flow, with the flow count of `Workload.flows`.

        Raises:
            OSError, ValueError: The contestant failed. The text describes the problem.
        """

    def __enter__(self) -> Run: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Contestant(Protocol):
    """A decoder of flows: flowbuf itself, or a peer (benchmarks/peers)."""

    name: str
    does: str
    """Work that is timed, for example "decode + Protobuf" or "parse only"."""

    def absent(self) -> str | None:
        """Return the reason why the contestant cannot run on this machine, or None if it can."""

    def version(self) -> str:
        """Return the version of the contestant. Raise OSError or ValueError if it cannot be determined."""

    def takes(self, workload: Workload) -> bool:
        """Return True if the contestant decodes the protocols of a workload."""

    def open(self, workload: Workload) -> Run:
        """Prepare a run. Raise OSError or ValueError with the problem if that fails."""


class Quotation(Protocol):
    """A result that was measured elsewhere, at another time. It does not describe this machine."""

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
        """Author and method of the measurement."""

    @property
    def noted(self) -> str:
        """Month of the measurement, for example 2026-11."""


# Workloads --------------------------------------------------------------------------------------------------


def load_workload(name: str, source: str | Path | BinaryIO, schema: Schema | str = "flow") -> Workload:
    """Return the workload of a capture. Of a large capture, only the first 10 MB of payload are used.

    Args:
        name: Name of the workload.
        source: Path, "-" for standard input, or binary file object.
        schema: Schema that determines the flows and their columns. Default: "flow".

    Raises:
        OSError: The capture cannot be read.
        SchemaError: The schema cannot be loaded.
        CaptureError: The source is not a capture, or has no flows.
    """
    decoder = Decoder(schema)
    with CaptureReader(source) as reader:
        first = tuple(_read(reader))
    for datagram in first:
        decoder.encode(*datagram)
    counted = [(datagram, _count_flows(decoder, [datagram])) for datagram in first]
    with_flows = [each for each in counted if each[1]]
    if not with_flows:
        raise CaptureError(f"{reader.name}: contains no flows")
    chosen = [each for each in with_flows if not _brings_templates(decoder, each[0])] or with_flows
    data = _fill(chosen)
    domains = [domain for exporter in decoder.read_exporters() for domain in exporter["domains"]]
    protocols = frozenset(_PROTOCOLS[domain["version"]] for domain in domains)
    return Workload(name, first, data, _count_flows(decoder, data), protocols, len(data) // len(chosen))


def generate_workload(protocol: str, schema: Schema | str = "flow") -> Workload:
    """Return the workload `generated-PROTOCOL` for a protocol of GENERATED.

    It is the same on every machine.
    """
    pieces = _core.generate(protocol=protocol, flows=_GENERATED_FLOWS, seed=1, exporters=4)
    return load_workload(f"generated-{protocol}", io.BytesIO(b"".join(pieces)), schema)


def _read(reader: CaptureReader) -> Iterator[Datagram]:
    size = 0
    for batch in reader:
        for i in range(len(batch)):
            payload, source, _, received = batch[i]
            yield Datagram(payload, source, received)
            size += len(payload)
            if size >= _READ_LIMIT:
                return


def _count_flows(decoder: Decoder, datagrams: Iterable[Datagram]) -> int:
    before = decoder.flows
    for datagram in datagrams:
        decoder.encode(*datagram)
    return decoder.flows - before


def _brings_templates(decoder: Decoder, datagram: Datagram) -> bool:
    alone = _core.Decoder(decoder.plan, DecodeOptions())
    alone.encode(*datagram)
    return any(exporter["templates"] for exporter in alone.read_exporters())


def _fill(counted: Sequence[tuple[Datagram, int]]) -> tuple[Datagram, ...]:
    """Repeat datagrams, given with their numbers of flows.

    Payloads are copied, because a shared one would stay in the cache.
    """
    repetitions = -(-WORKING_SET // sum(len(datagram.payload) for datagram, _ in counted))
    numberings = Numberings()
    return tuple(
        datagram._replace(payload=numberings.number_on(datagram.payload, datagram.source, flows))
        for _ in range(repetitions)
        for datagram, flows in counted
    )


# Contestants ------------------------------------------------------------------------------------------------


class Flowbuf:
    """flowbuf itself: decodes each batch in one call into length-delimited messages.

    Timed by the CPU time of the thread.
    """

    name = "flowbuf"
    does = "decode + Protobuf"

    def __init__(self, schema: Schema | str = "flow", processor: str | None = None) -> None:
        self._schema = schema
        self._processor = processor

    def absent(self) -> str | None:
        """Return None: flowbuf can always run."""
        return None

    def version(self) -> str:
        """Return the version of the installed package."""
        return version("flowbuf")

    def takes(self, workload: Workload) -> bool:
        """Return True: flowbuf decodes all protocols."""
        return True

    def open(self, workload: Workload) -> FlowbufRun:
        """Return a run with a decoder that has decoded the exporters' templates and options."""
        return FlowbufRun(workload, Decoder(self._schema, processor=self._processor))


def _split(datagrams: Sequence[Datagram]) -> Iterator[Sequence[Datagram]]:
    """Yield batches of at least BATCH bytes. Only the last may be smaller."""
    begin = size = 0
    for end, datagram in enumerate(datagrams, 1):
        size += len(datagram.payload)
        if size >= BATCH or end == len(datagrams):
            yield datagrams[begin:end]
            begin, size = end, 0


class FlowbufRun:
    """A decoder and the working set."""

    def __init__(self, workload: Workload, decoder: Decoder) -> None:
        for datagram in workload.first:
            decoder.encode(*datagram)
        self.decoder = decoder
        self._batches = [
            _core.pack_datagrams(*map(list, zip(*batch, strict=True))) for batch in _split(workload.data)
        ]
        self._workload = workload
        before = decoder.flows
        self.decode()
        self.flows = decoder.flows - before

    def decode(self) -> None:
        """Decode the working set once.

        This is the timed work. Messages stay in the decoder's buffer, as when they are written to a file.
        """
        for batch in self._batches:
            self.decoder.view_datagrams(batch)

    def measure(self, seconds: float) -> float:
        """Return the nanoseconds of CPU time per flow."""
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
        """Do nothing: the run holds no resources."""


def import_peers(folder: Path) -> ModuleType | None:
    """Return the package `peers` of a folder, or None if it does not exist. Raise any error of its code.

    The package has `PEERS` (contestants) and may have `QUOTED` (quotations). It is imported under a name for
    its folder, so that packages of different folders stay apart.
    """
    path = folder / "peers/__init__.py"
    if not path.is_file():
        return None
    name = "peers_of_" + re.sub(r"\W", "_", str(folder.resolve()))
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)])
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for imports inside the package
    spec.loader.exec_module(module)
    return module


# Measuring --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """Times of a contestant for a workload.

    Attributes:
        name: Name of the contestant.
        does: Work that was timed.
        version: Version of the contestant.
        flows: Number of flows that the contestant found in one pass.
        samples: Nanoseconds of CPU time per flow, one value per round.
    """

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
        """Interquartile range of the samples."""
        if len(self.samples) == 1:
            return 0.0
        lower, _, upper = statistics.quantiles(self.samples, n=4, method="inclusive")
        return upper - lower


@dataclass(frozen=True)
class Measurement:
    """Results of the contestants by name. `failed` has the reasons for contestants without a result."""

    workload: Workload
    results: Mapping[str, Result]
    failed: Mapping[str, str]


class _Entry:
    """A contestant that is ready to be timed for one workload."""

    def __init__(self, contestant: Contestant, run: Run) -> None:
        self.name = contestant.name
        self.failure: str | None = None
        self._contestant = contestant
        self._version = contestant.version()
        self._run = run
        self._samples: list[float] = []
        self._spent = 0.0

    def measure(self, seconds: float) -> None:
        """Time one round, unless the contestant has failed or has used up its time."""
        if self.failure is not None or self._spent >= PATIENCE:
            return
        begin = time.perf_counter()
        try:
            self._samples.append(self._run.measure(seconds))
        except (OSError, ValueError) as error:
            self.failure = str(error)
        self._spent += time.perf_counter() - begin

    def result(self) -> Result:
        """Return the result of the rounds so far."""
        return Result(self.name, self._contestant.does, self._version, self._run.flows, tuple(self._samples))


def measure(
    workload: Workload,
    contestants: Sequence[Contestant],
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    show: Callable[[int], None] = lambda done: None,
) -> Measurement:
    """Time the contestants for a workload in turn.

    Every other round runs in reverse order, so that no contestant always has the same predecessor.

    Args:
        workload: Datagrams to decode.
        contestants: Decoders. Those that do not decode the protocols of the workload are skipped.
        rounds: Number of rounds. Default: ROUNDS.
        seconds: CPU time in seconds per round and contestant. Default: SECONDS.
        show: Function that receives the number of completed rounds.

    Returns:
        Measurement: Results. Contestants that cannot start, or that fail, are in `failed`.
    """
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
    """Return the model name of the processor: from Linux if it has one, otherwise from Python."""
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
