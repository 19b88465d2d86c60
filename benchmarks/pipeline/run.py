"""Fill topics, run consumers in turn, and collect their results."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.lab import FAMILIES, Format
from benchmarks.lab.timing import measure

from .cgroup import Group, make_group
from .load import Load

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

__all__ = ["Failed", "Outcome", "Plan", "run"]

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60.0
MICRO_BATCH = 1000
"""Records of a batch in the microbenchmark that packed messages are compared with."""

Show = Callable[[str], None]


class Failed(Exception):
    """A process or the broker failed."""


@dataclass(frozen=True)
class Plan:
    """A run of all formats in all `packings` (True: packed), for `rounds` rounds."""

    servers: str
    family: str
    formats: Sequence[Format]
    messages: int
    packings: Sequence[bool]
    rounds: int
    memory: int
    """Memory limit of a consumer in bytes, resident and in its cgroup."""

    @property
    def steps(self) -> int:
        """Number of calls of `Show`."""
        return len(self.packings) * len(self.formats) * (2 + 2 * self.rounds)


@dataclass
class Outcome:
    """Result of a format. Times are nanoseconds per record, one sample per round.

    `raw` is the wall time without decoding, `total` with it. `raw_cpu` and `cpu` are the CPU times of all
    threads of the same consumers. `micro` is the time of decoding in memory. `peak` is the peak resident
    memory in bytes. `cgroup` is True if all consumers ran in a cgroup. `failed` is the reason of a failure.
    """

    load: Load
    version: str
    bytes: float = 0.0
    """Bytes of the values per record."""
    raw: list[float] = field(default_factory=list)
    raw_cpu: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    micro: list[float] = field(default_factory=list)
    peak: int = 0
    cgroup: bool = True
    failed: str | None = None

    @property
    def decoding(self) -> float:
        """Time without the transport: the median of the differences within rounds."""
        return statistics.median(total - raw for total, raw in zip(self.total, self.raw, strict=True))

    @property
    def per_second(self) -> float:
        """Records per second."""
        return 1e9 / statistics.median(self.total)

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        plain = {key: value for key, value in vars(self).items() if key != "load"}
        found = {**self.load.to_dict(), "records_in_a_message": self.load.a_pack, **plain}
        if self.failed is None:
            found |= {"records_per_second": round(self.per_second), "ns_decoding": round(self.decoding, 1)}
        return found


def run(plan: Plan, show: Show) -> list[Outcome]:
    """Run all packings, one after the other. Raises Failed if the broker fails."""
    outcomes: list[Outcome] = []
    for packed in plan.packings:
        outcomes += run_packing(plan, packed, show)
    return outcomes


def run_packing(plan: Plan, packed: bool, show: Show) -> list[Outcome]:
    """Run all formats with one packing.

    Each format has a topic. Each round reads all topics, without and with decoding. Every other round runs in
    the opposite order.
    """
    loads = [Load(plan.family, form.name, plan.messages, packed) for form in plan.formats]
    outcomes = [Outcome(load, form.version()) for load, form in zip(loads, plan.formats, strict=True)]
    with make_topics(plan.servers, len(loads)) as topics:
        pairs = list(zip(outcomes, topics, strict=True))
        for outcome, topic in pairs:
            show(f"{describe(outcome.load)}: filling")
            given = {"servers": plan.servers, "topic": topic, "load": outcome.load.to_dict()}
            outcome.bytes = start("producer", given)["bytes"] / plan.messages
        drains = [(outcome, topic, decode) for outcome, topic in pairs for decode in (False, True)]
        for turn in range(plan.rounds):
            for outcome, topic, decode in drains if turn % 2 == 0 else reversed(drains):
                drain(plan, outcome, topic, decode, show)
    measure_decoding(plan, packed, outcomes, show)
    return outcomes


def describe(load: Load) -> str:
    return f"{load.format}, {'packed' if load.packed else 'one per message'}"


def drain(plan: Plan, outcome: Outcome, topic: str, decode: bool, show: Show) -> None:
    """Read a topic once, with a new consumer in a new cgroup if possible. Skip a format that has failed."""
    show(f"{describe(outcome.load)}: reading{'' if decode else ' without decoding'}")
    if outcome.failed is not None:
        return
    given = {"servers": plan.servers, "topic": topic, "load": outcome.load.to_dict(), "memory": plan.memory}
    with make_group(plan.memory) as group:
        outcome.cgroup &= group is not None
        try:
            result = start("consumer", {**given, "decode": decode}, group)
        except Failed as error:
            outcome.failed = str(error)
            return
    (outcome.total if decode else outcome.raw).append(result["wall"] * 1e9 / plan.messages)
    (outcome.cpu if decode else outcome.raw_cpu).append(result["cpu"] * 1e9 / plan.messages)
    if decode:
        outcome.peak = max(outcome.peak, result["peak"])


def measure_decoding(plan: Plan, packed: bool, outcomes: Sequence[Outcome], show: Show) -> None:
    """Measure decoding in memory with the same formats, in turn."""
    timings = measure(FAMILIES[plan.family], "decode", MICRO_BATCH if packed else 1, plan.formats)
    for outcome in outcomes:
        outcome.micro = list(timings[outcome.load.format].samples)
        show(f"{describe(outcome.load)}: decoding in memory")


def start(name: str, given: dict[str, Any], group: Group | None = None) -> dict[str, Any]:
    """Run a process in the group and return its result.

    Raises Failed with its error message, or with the reason if the kernel killed it.
    """
    command = [sys.executable, "-m", f"benchmarks.pipeline.{name}", json.dumps(given)]
    done = subprocess.run(
        group.enclose(command) if group else command, cwd=ROOT, capture_output=True, text=True
    )
    if group and done.returncode == -signal.SIGKILL and group.has_killed():
        raise Failed(f"the kernel killed it: more than {group.limit / 2**20:.0f} MiB in its cgroup")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise Failed(lines[-1] if lines else f"the {name} ended with status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# Topics -----------------------------------------------------------------------------------------------------


@contextmanager
def make_topics(servers: str, count: int) -> Iterator[list[str]]:
    """Provide new topics of one partition with unlimited retention, and delete them after the block.

    Raises Failed.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    names = [f"pipeline-{uuid.uuid4().hex}" for _ in range(count)]
    try:
        create(admin, names)
    except KafkaException as error:
        raise Failed(f"{servers}: {error.args[0].str()}") from error
    try:
        yield names
    finally:
        with suppress(KafkaException):
            for future in admin.delete_topics(names).values():
                future.result(PATIENCE)


def create(admin: AdminClient, names: Sequence[str]) -> None:
    from confluent_kafka.admin import NewTopic

    config = {"retention.ms": "-1", "retention.bytes": "-1"}
    new = [NewTopic(name, num_partitions=1, replication_factor=1, config=config) for name in names]
    for future in admin.create_topics(new, operation_timeout=PATIENCE, request_timeout=10).values():
        future.result(PATIENCE)
