"""The common setting of all parts: processors, a folder, durations and traffic."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.core_programs import Failed, build

from .traffic import Traffic, load_traffic

__all__ = ["Absent", "Failed", "Setting", "WrongSum", "choose_processors"]

DATASETS = (
    *("sflow-1140", "generated-sflow", "netflow9-data", "generated-netflow9", "generated-ipfix"),
    "generated-netflow5",
)
QUICK_DATASETS = ("generated-netflow9",)

BUFFER = 32 << 20
"""Receive buffer that the collector and the bare receiver request, in bytes."""


class Absent(Exception):
    """A program that a part needs is not installed. The text says how to install it."""


class WrongSum(Exception):
    """Counters contradict each other, or datagrams or flows are missing."""


def choose_processors() -> tuple[int, int]:
    """Return the processors of the sender and of the collector. Raises Absent if there is only one."""
    permitted = sorted(os.sched_getaffinity(0))
    if len(permitted) < 2:
        raise Absent("the sender and the collector need a processor each; this process may use only one")
    return permitted[0], permitted[-1]


@dataclass
class Setting:
    """Setting of a run.

    Attributes:
        folder: Folder for temporary files. Each process has its own folder in it.
        sender: Processor of senders, brokers and this process.
        collector: Processor of collectors.
        seconds: Duration of a timed run in seconds. None: the duration of each part.
        quick: Run as briefly as possible. The results then have no meaning.
        show: Called with a description of each step.
    """

    folder: Path
    sender: int
    collector: int
    seconds: float | None = None
    quick: bool = False
    show: Callable[[str], None] = lambda text: None
    _count: int = field(default=0, init=False)

    def duration(self, seconds: float, quick: float = 1.0) -> float:
        """Return the duration of a timed run. The defaults are `seconds`, or `quick` in a quick run."""
        if self.seconds is not None:
            return self.seconds
        return quick if self.quick else seconds

    def rounds(self, count: int) -> int:
        """Return the number of repetitions whose default is `count`."""
        return 1 if self.quick else count

    def new_folder(self, name: str) -> Path:
        """Return a new folder in `folder`."""
        self._count += 1
        path = self.folder / f"{self._count:04}-{name}"
        path.mkdir()
        return path

    def program(self, name: str) -> Path:
        """Return the path of a program of ext/bench. Raises Failed if it cannot be built."""
        return build("bench-net") / "bench" / name

    def traffic(self, name: str) -> Traffic:
        """Return the traffic of a dataset. Raises Absent if its capture is missing."""
        found = load_traffic(name)
        if found is None:
            raise Absent(f"{name} is missing; set FLOWBUF_CORPUS to the folder of captures")
        return found

    def all_traffic(
        self, names: Sequence[str] = DATASETS, quick: Sequence[str] = QUICK_DATASETS
    ) -> Iterator[Traffic]:
        """Yield the traffic of the datasets that exist. `quick` are those of a quick run."""
        for name in quick if self.quick else names:
            found = load_traffic(name)
            if found is not None:
                yield found
