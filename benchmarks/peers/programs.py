"""Peers that are whole programs: nfdump's collectors and pmacct's. Nothing but all of what they do can be
timed.

A program is started for each measurement, is given the templates and then passes over the data, and ends. The
time is that of its process and its children, from start to end: reading the capture or the socket, and
writing or adding up the flows, are in it. There are so many passes that the start counts for little.
"""

from __future__ import annotations

import csv
import ipaddress
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from flowbuf.bench import Datagram, Workload

NETFLOW = frozenset({"netflow5", "netflow9", "ipfix"})
SFLOW = frozenset({"sflow"})
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PATIENCE = 60.0
"""Seconds that a program may take for what it does in a few."""


def find(program: str) -> str | None:
    """Also where users do not look."""
    return shutil.which(program, path=PATH)


def templates(workload: Workload) -> list[Datagram]:
    """What is not data: a program that starts anew has to be told again."""
    data = set(workload.data)
    return [datagram for datagram in workload.first if datagram not in data]


# Contestants ------------------------------------------------------------------------------------------------


@dataclass
class Program(ABC):
    """A contestant (flowbuf.bench.Contestant) that has one program for NetFlow and IPFIX, and one for sFlow."""

    name: str
    does: str
    netflow: str
    sflow: str
    packages: str
    """What brings them, on Debian."""

    def absent(self) -> str | None:
        if find(self.netflow) or find(self.sflow):
            return None
        return f"not installed: apt install {self.packages}"

    def takes(self, workload: Workload) -> bool:
        return any(
            workload.protocols <= protocols and find(program)
            for program, protocols in ((self.netflow, NETFLOW), (self.sflow, SFLOW))
        )

    def program(self, workload: Workload) -> str:
        found = find(self.sflow if workload.protocols <= SFLOW else self.netflow)
        assert found
        return found

    def version(self) -> str:
        program = find(self.netflow) or find(self.sflow)
        assert program
        said = subprocess.run([program, "-V"], capture_output=True, text=True)
        found = re.search(r"\d+\.\d+\.\d+\S*", said.stdout + said.stderr)
        return found.group() if found else "unknown"

    def open(self, workload: Workload) -> ProgramRun:
        return ProgramRun(self, workload)

    @abstractmethod
    def run(self, workload: Workload, passes: int, folder: Path) -> float:
        """Has the program decode all that in an empty folder; seconds of CPU time.

        Raises OSError when it fails.
        """

    @abstractmethod
    def count_flows(self, folder: Path) -> int:
        """How many flows it has left in the folder."""


class ProgramRun:
    """A program that is started anew each time (flowbuf.bench.Run). Raises OSError where it does not run."""

    def __init__(self, contestant: Program, workload: Workload) -> None:
        self._contestant = contestant
        self._workload = workload
        once, _ = self._run(1)
        twice, seconds = self._run(2)
        self.flows, self._seconds_a_pass = twice - once, seconds / 2
        self._flows_before = once - self.flows  # of datagrams that have templates and data

    def measure(self, seconds: float) -> float:
        passes, elapsed = 0, 0.0
        while not passes or elapsed < seconds:
            passes = max(passes + 1, round(2 * seconds / self._seconds_a_pass))
            flows, elapsed = self._run(passes)
            expected = self._flows_before + self.flows * passes
            if flows != expected:
                raise OSError(f"{self._contestant.name} lost flows: {flows:,} instead of {expected:,}")
            self._seconds_a_pass = elapsed / passes
        return elapsed / (passes * self._workload.flows) * 1e9

    def _run(self, passes: int) -> tuple[int, float]:
        """Flows, and seconds."""
        with tempfile.TemporaryDirectory() as name:
            elapsed = self._contestant.run(self._workload, passes, Path(name))
            return self._contestant.count_flows(Path(name)), elapsed

    def __enter__(self) -> ProgramRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive the `with`; what it says is in folder/log."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def cpu_time_until_end(process: subprocess.Popen[bytes], folder: Path, *, stop: bool = False) -> float:
    """Seconds of the process and of the children that it waited for. `stop` asks it to end, each second anew:
    a signal that comes just before it waits for a datagram is not noticed. Raises OSError when it does not
    end well.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    deadline = time.monotonic() + PATIENCE
    status = None
    while status is None:
        if stop:
            process.terminate()
        try:
            status = process.wait(1 if stop else PATIENCE)
        except subprocess.TimeoutExpired as error:
            if time.monotonic() >= deadline:
                raise OSError(f"{process.args!r} does not end") from error
    if status:
        raise OSError(f"{process.args!r} fails: {(folder / 'log').read_text(errors='replace')[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# pmacct -----------------------------------------------------------------------------------------------------

PMACCT = """\
daemonize: false
pcap_savefile: workload.pcap
plugins: print
print_output: csv
print_output_file: flows.csv
print_refresh_time: 3600
plugin_pipe_size: 100000000
plugin_buffer_size: 100000
aggregate: peer_src_ip,src_host,dst_host,src_port,dst_port,proto,tcpflags,in_iface,out_iface,src_as,dst_as,src_mask,\
dst_mask,flows
"""


class Pmacct(Program):
    """nfacctd and sfacctd, which read captures."""

    def run(self, workload: Workload, passes: int, folder: Path) -> float:
        write_pcap(templates(workload) + list(workload.data) * passes, folder / "workload.pcap")
        (folder / "pmacct.conf").write_text(PMACCT)
        with running([self.program(workload), "-f", "pmacct.conf"], folder) as process:
            return cpu_time_until_end(process, folder)

    def count_flows(self, folder: Path) -> int:
        with (folder / "flows.csv").open(newline="") as file:
            return sum(int(row["FLOWS"]) for row in csv.DictReader(file))


def write_pcap(datagrams: Iterable[Datagram], path: Path) -> None:
    """Ethernet frames, times in nanoseconds."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 0x40000, 1))
        for datagram in datagrams:
            frame = frame_of(datagram)
            seconds, nanoseconds = divmod(datagram.time, 10**9)
            file.write(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)


def frame_of(datagram: Datagram) -> bytes:
    """Without checksums, which nobody looks at, and without fragments."""
    payload, (address, port), _ = datagram
    source = ipaddress.ip_address(address)
    udp = struct.pack(">HHHH", port, port_for(payload), 8 + len(payload), 0) + payload
    if source.version == 4:
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, source.packed, b"\xc0\0\2\xfe"
        )
        return bytes(12) + b"\x08\x00" + ip + udp
    ip = struct.pack(">IHBB16s16s", 6 << 28, len(udp), 17, 64, source.packed, source.packed)
    return bytes(12) + b"\x86\xdd" + ip + udp


def port_for(payload: bytes) -> int:
    return 6343 if payload[:2] == b"\0\0" else 2055


# nfdump -----------------------------------------------------------------------------------------------------


class Nfdump(Program):
    """nfcapd and sfcapd. What Debian has of them reads no captures: they are sent datagrams, from addresses
    of the loopback interface, one for each exporter, and never more at a time than the socket holds.
    """

    def run(self, workload: Workload, passes: int, folder: Path) -> float:
        port = free_port()
        (folder / "flows").mkdir()
        command = [
            self.program(workload),
            "-4",
            "-b",
            "127.0.0.1",
            "-p",
            str(port),
            "-w",
            "flows",
            "-t",
            "3600",
        ]
        with running(command, folder) as process, ExitStack() as stack:
            wait_until(lambda: udp_queue(port) is not None, process)
            sockets = {
                address: stack.enter_context(sending_socket(f"127.0.0.{2 + index}", port))
                for index, address in enumerate(sorted({datagram.source[0] for datagram in workload.first}))
            }
            for datagrams in (templates(workload), *[workload.data] * passes):
                feed(datagrams, sockets, port, process)
            return cpu_time_until_end(process, folder, stop=True)

    def count_flows(self, folder: Path) -> int:
        nfdump = find("nfdump")
        if not nfdump:
            raise OSError("nfdump is not installed")
        done = subprocess.run([nfdump, "-R", folder / "flows", "-I"], capture_output=True, text=True)
        found = re.search(r"^Flows: (\d+)", done.stdout, re.MULTILINE)
        if not found:
            raise OSError(f"nfdump fails: {done.stdout}{done.stderr}")
        return int(found.group(1))


ROOM = 65536
"""Octets that may wait in the socket when more is sent: a third of what Linux gives it."""


def feed(
    datagrams: Sequence[Datagram],
    sockets: dict[str, socket.socket],
    port: int,
    process: subprocess.Popen[bytes],
) -> None:
    sent = 0
    for datagram in datagrams:
        sockets[datagram.source[0]].send(datagram.payload)
        sent += 1024 + len(datagram.payload)  # the kernel counts what it allocates for a datagram
        if sent > ROOM // 2:
            wait_until(lambda: (udp_queue(port) or 0) < ROOM, process)
            sent = 0
    wait_until(lambda: udp_queue(port) == 0, process)


def sending_socket(address: str, port: int) -> socket.socket:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((address, 0))
    sender.connect(("127.0.0.1", port))
    return sender


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def udp_queue(port: int) -> int | None:
    """Octets that wait at a UDP port; None where nobody listens. Raises OSError when some were dropped."""
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].partition(":")[2], 16) == port:
            if int(fields[-1]):
                raise OSError("datagrams were dropped")
            return int(fields[4].partition(":")[2], 16)
    return None


def wait_until(done: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        if process.poll() is not None or time.monotonic() > deadline:
            raise OSError(f"{process.args!r} does not listen")
        time.sleep(0.0002)


PROGRAMS = (
    Nfdump(
        "nfdump",
        "decode + its own file: the whole process, with its start, reading a socket",
        "nfcapd",
        "sfcapd",
        "nfdump nfdump-sflow",
    ),
    Pmacct(
        "pmacct",
        "decode + adding up by key: the whole process, with its start, reading a capture",
        "nfacctd",
        "sfacctd",
        "pmacct",
    ),
)
