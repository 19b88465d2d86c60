"""Compiled peers. A small program (go/, rust/) contains each of them; `make bench-peers` builds it.

A program loads a workload from a file, so that only decoding is timed. All numbers are little-endian:

```
u32 number of datagrams in `first`, u32 number of datagrams in `data`
then each datagram: u32 bytes of payload, 16 bytes IPv6 or IPv4-mapped source address, u16 source port,
                    u64 time (ns since 1970), payload
```

`PROGRAM version` prints the version of the peer. `PROGRAM run FILE` decodes `first` once and `data` once, and
prints `ready FLOWS` for the pass over `data`. It then answers each line `SECONDS` with `PASSES NANOSECONDS`:
the passes over `data` and the CPU time of the process. `PROGRAM dump FILE OUTPUT` writes the length-delimited
messages of one pass, if the peer creates messages.
"""

from __future__ import annotations

import ipaddress
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from flowbuf.bench import Datagram, Workload

BUILD = Path(__file__).parent / "build"


def write_workload(workload: Workload, path: Path) -> None:
    """Write the workload file that programs read. Raises OSError."""
    with path.open("wb") as file:
        file.write(struct.pack("<II", len(workload.first), len(workload.data)))
        for datagram in workload.first + workload.data:
            file.write(pack_datagram(datagram))


def pack_datagram(datagram: Datagram) -> bytes:
    payload, (address, port), time = datagram
    return struct.pack("<I16sHQ", len(payload), pack_address(address), port, time) + payload


def pack_address(text: str) -> bytes:
    """Return an address as 16 bytes. IPv4 addresses are mapped into IPv6."""
    address = ipaddress.ip_address(text)
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


@dataclass
class Harness:
    """A contestant (flowbuf.bench.Contestant) implemented by a program in build/."""

    name: str
    does: str
    protocols: frozenset[str]
    tool: str
    """Build tool: "go" or "cargo"."""

    @property
    def program(self) -> Path:
        return BUILD / self.name

    def absent(self) -> str | None:
        if self.program.exists():
            return None
        missing = "" if shutil.which(self.tool) else f", which needs {self.tool}"
        return f"not built: make bench-peers{missing}"

    def version(self) -> str:
        return run(self.program, "version").strip()

    def takes(self, workload: Workload) -> bool:
        return workload.protocols <= self.protocols

    def open(self, workload: Workload) -> HarnessRun:
        return HarnessRun(self.program, workload)

    def dump(self, workload: Workload) -> bytes:
        """Return the length-delimited messages of one pass over `data`.

        Raises OSError if the program creates no messages.
        """
        with tempfile.TemporaryDirectory() as folder:
            write_workload(workload, Path(folder, "workload"))
            run(self.program, "dump", Path(folder, "workload"), Path(folder, "messages"))
            return Path(folder, "messages").read_bytes()


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{Path(command[0]).name}: {done.stderr.strip()}")
    return done.stdout


class HarnessRun:
    """A program that has loaded its workload and waits (flowbuf.bench.Run)."""

    def __init__(self, program: Path, workload: Workload) -> None:
        self._name = program.name
        self._flows = workload.flows
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "workload")
            write_workload(workload, path)
            self._process = subprocess.Popen(
                [program, "run", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            try:
                word, flows = self._read(2)
                if word != "ready":
                    raise ValueError(f"{self._name} is not ready: {word}")
            except BaseException:
                self.close()
                raise
        self.flows = int(flows)

    def measure(self, seconds: float) -> float:
        assert self._process.stdin
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        passes, nanoseconds = map(int, self._read(2))
        return nanoseconds / (passes * self._flows)

    def _read(self, words: int) -> list[str]:
        assert self._process.stdout
        found = self._process.stdout.readline().split()
        if len(found) != words:
            raise OSError(f"{self._name} gave up (exit status {self._process.wait()})")
        return found

    def close(self) -> None:
        """Close the program's input, which ends it, and wait for its exit."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> HarnessRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


NETFLOW = frozenset({"netflow5", "netflow9", "ipfix"})

HARNESSES = (
    Harness("goflow2", "decode + Protobuf, as in its process", NETFLOW | {"sflow"}, "go"),
    Harness(
        "dynamic-append", "decode (GoFlow2's) + Protobuf appended field by field", NETFLOW | {"sflow"}, "go"
    ),
    Harness("netflow_parser", "parse only", NETFLOW, "cargo"),
)
