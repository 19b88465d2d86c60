"""Peers that are whole programs: the collectors of nfdump and pmacct. Their parts cannot be timed separately.

Each measurement starts a program, sends the templates and then passes over the data, and waits for its exit.
The time is the CPU time of the process and its children from start to exit. It includes reading the capture
or the socket, and writing or aggregating the flows. The number of passes is large enough to make the start
negligible.
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
"""Time-out in seconds. The steps normally take a few seconds."""


def find(program: str) -> str | None:
    """Return the path of a program, which may be in a folder for administrators."""
    return shutil.which(program, path=PATH)


def templates(workload: Workload) -> list[Datagram]:
    """Return the datagrams without flows. Each start of a program needs their templates."""
    data = set(workload.data)
    return [datagram for datagram in workload.first if datagram not in data]


# Contestants ------------------------------------------------------------------------------------------------


@dataclass
class Program(ABC):
    """A contestant (flowbuf.bench.Contestant) with one program for NetFlow and IPFIX and one for sFlow."""

    name: str
    does: str
    netflow: str
    sflow: str
    packages: str
    """Debian packages that contain them."""

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
        """Run the program in an empty folder and return its CPU time in seconds.

        Raises OSError if it fails.
        """

    @abstractmethod
    def count_flows(self, folder: Path) -> int:
        """Return the number of flows in the program's output."""


class ProgramRun:
    """A program that each measurement starts (flowbuf.bench.Run). Raises OSError if it does not run."""

    def __init__(self, contestant: Program, workload: Workload) -> None:
        self._contestant = contestant
        self._workload = workload
        once, _ = self._run(1)
        twice, seconds = self._run(2)
        self.flows, self._seconds_a_pass = twice - once, seconds / 2
        self._flows_before = once - self.flows  # flows of datagrams that have templates and data

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
        """Return flows and seconds."""
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
    """Run a process that ends with the block at the latest. Its output goes to folder/log."""
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
    """Return the CPU seconds of the process and of the children that it waited for.

    `stop` sends SIGTERM every second until the process ends: a signal just before it waits for a datagram has
    no effect. Raises OSError if the process fails or does not end.
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

AGGREGATE = (
    "peer_src_ip,src_host,dst_host,src_port,dst_port,proto,tcpflags,"
    "in_iface,out_iface,src_as,dst_as,src_mask,dst_mask,flows"
)
PMACCT = f"""\
daemonize: false
plugins: print
print_output: csv
print_output_file: flows.csv
print_refresh_time: 3600
plugin_pipe_size: 500000000
plugin_buffer_size: 100000
aggregate: {AGGREGATE}
"""
"""Configuration of nfacctd and sfacctd, without their input."""


class Pmacct(Program):
    """nfacctd and sfacctd, which read captures."""

    def run(self, workload: Workload, passes: int, folder: Path) -> float:
        write_pcap(templates(workload) + list(workload.data) * passes, folder / "workload.pcap")
        (folder / "pmacct.conf").write_text(f"pcap_savefile: workload.pcap\n{PMACCT}")
        with running([self.program(workload), "-f", "pmacct.conf"], folder) as process:
            return cpu_time_until_end(process, folder)

    def count_flows(self, folder: Path) -> int:
        return count_aggregated(folder / "flows.csv")


def count_aggregated(path: Path) -> int:
    """Return the number of flows in a CSV file of pmacct."""
    with path.open(newline="") as file:
        return sum(int(row["FLOWS"]) for row in csv.DictReader(file))


def write_pcap(datagrams: Iterable[Datagram], path: Path) -> None:
    """Write a pcap file of Ethernet frames with times in nanoseconds."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 0x40000, 1))
        for datagram in datagrams:
            frame = frame_of(datagram)
            seconds, nanoseconds = divmod(datagram.time, 10**9)
            file.write(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)


def frame_of(datagram: Datagram) -> bytes:
    """Return an Ethernet frame without checksums and fragments."""
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
    """nfcapd and sfcapd, which receive datagrams.

    Debian's builds cannot read captures. Datagrams are sent over the loopback interface, from one address per
    exporter, and never more at once than the socket buffers.
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
        return count_captured(folder / "flows")


def count_captured(folder: Path) -> int:
    """Return the number of flows in a folder of nfcapd or sfcapd. Raises OSError."""
    nfdump = find("nfdump")
    if not nfdump:
        raise OSError("nfdump is not installed")
    done = subprocess.run([nfdump, "-R", folder, "-I"], capture_output=True, text=True)
    found = re.search(r"^Flows: (\d+)", done.stdout, re.MULTILINE)
    if not found:
        raise OSError(f"nfdump fails: {done.stdout}{done.stderr}")
    return int(found.group(1))


ROOM = 65536
"""Bytes in the socket up to which more is sent: a third of its default buffer on Linux."""


def feed(
    datagrams: Sequence[Datagram],
    sockets: dict[str, socket.socket],
    port: int,
    process: subprocess.Popen[bytes],
) -> None:
    sent = 0
    for datagram in datagrams:
        sockets[datagram.source[0]].send(datagram.payload)
        sent += 1024 + len(datagram.payload)  # the kernel also counts its overhead per datagram
        if sent > ROOM // 2:
            wait_until(lambda: (udp_queue(port) or 0) < ROOM, process)
            sent = 0
    wait_until(lambda: udp_queue(port) == 0, process)


def sending_socket(address: str, port: int) -> socket.socket:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((address, 0))
    sender.connect(("127.0.0.1", port))
    return sender


def free_port(kind: socket.SocketKind = socket.SOCK_DGRAM) -> int:
    """Return a UDP port, or one of another kind, on which nothing listens at 127.0.0.1."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def udp_queue(port: int) -> int | None:
    """Return the bytes queued at a UDP port, or None if it is closed. Raises OSError if some were dropped."""
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
        "decode + its own file: whole process with start, reading a socket",
        "nfcapd",
        "sfcapd",
        "nfdump nfdump-sflow",
    ),
    Pmacct(
        "pmacct",
        "decode + aggregation by key: whole process with start, reading a capture",
        "nfacctd",
        "sfacctd",
        "pmacct",
    ),
)
