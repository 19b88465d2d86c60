"""The collectors that are measured: flowbuf, a bare receive loop, and other programs.

Each function or class starts a process that is pinned to the processor of collectors. README.md of
benchmarks/peers says how the other programs are installed.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.harness import BUILD
from benchmarks.peers.programs import PMACCT, count_aggregated, count_captured, find, free_port
from flowbuf._core import split_messages
from flowbuf.errors import DecodeError

from .processes import PATIENCE, Running, pin, wait_until
from .setting import BUFFER, Absent, Failed, Setting
from .sums import Metrics, Totals
from .traffic import Traffic

__all__ = ["BareReceiver", "Flowbuf", "GoFlow2", "Nfdump", "Peer", "Pmacct", "find_goflow2", "write_outputs"]

DEFAULT_WINDOW = 1 << 16
"""Bytes that the default receive buffer of Linux (212,992 bytes) certainly holds."""

PAUSE = 1_000_000
"""Nanoseconds that the bare receiver sleeps after a call that returned few datagrams, as flowbuf does."""


def write_outputs(path: Path, outputs: Sequence[Mapping[str, object]]) -> Path:
    """Write a configuration of `flowbuf collect` with these outputs, and return its path."""
    lines: list[str] = []
    for output in outputs:
        lines += ["[[output]]", *(f"{key} = {json.dumps(value)}" for key, value in output.items()), ""]
    path.write_text("\n".join(lines))
    return path


class Flowbuf(Running):
    """`flowbuf collect`, which requests a receive buffer of 32 MiB.

    Args:
        setting: Setting of the run.
        arguments: Outputs and other options, or the name of a configuration file and options.
        stdout: A pipe for standard output. Default: the log.
        takeover: Collector whose sockets are taken over. Its addresses and its folder are used.
    """

    def __init__(
        self,
        setting: Setting,
        arguments: Sequence[str],
        stdout: int | None = None,
        takeover: Flowbuf | None = None,
    ) -> None:
        self._takeover = takeover
        port = takeover.port if takeover else free_port()
        self.metrics: str = takeover.metrics if takeover else f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        options = ["--listen", f"127.0.0.1:{port}", "--metrics", self.metrics, "--report", "0"]
        command = [sys.executable, "-m", "flowbuf", "collect", *arguments, *options]
        command += ["--takeover"] if takeover else []
        folder = setting.new_folder("flowbuf")
        super().__init__("flowbuf", pin(setting.collector, command), folder, port, BUFFER // 2, stdout)
        self.buffer = self._read_buffer()
        self.window = self.buffer // 2

    def wait_for_start(self) -> None:
        """Wait until the workers run."""
        wait_until(
            lambda: self.has_ended() or "info: listening on " in self.read_log(), "flowbuf does not listen"
        )
        if self.has_ended():
            raise Failed(f"flowbuf has ended: {self.read_log()[-1000:]}")

    def _read_buffer(self) -> int:
        """Return the bytes of the receive buffer that the kernel granted."""
        found = re.search(r"granted receive buffers of ([\d,]+) bytes", self.read_log())
        return int(found[1].replace(",", "")) if found else BUFFER

    def read_metrics(self) -> Metrics:
        """Return the metrics of this moment. Raises Failed."""
        try:
            with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=60) as answer:
                return Metrics(answer.read().decode())
        except (OSError, urllib.error.URLError) as error:
            raise Failed(f"flowbuf does not serve metrics: {error}") from error

    def finish(self) -> Totals:
        """Ask the collector to end, and return its totals. Raises Failed if it ends with an error."""
        self.send_signal(signal.SIGTERM)
        return self.wait_for_totals()

    def wait_for_totals(self) -> Totals:
        """Wait for the end, and return the totals. Raises Failed if it ends with an error."""
        status = self.wait()
        if status not in (0, 1):  # 1: flows were lost, and the totals have them
            raise Failed(f"flowbuf ended with status {status}: {self.read_log()[-1000:]}")
        return Totals.parse(self.read_log())


class BareReceiver(Running):
    """The bare receive loop (ext/bench/bare_receiver.c)."""

    def __init__(self, setting: Setting) -> None:
        port = free_port()
        command = [setting.program("bare_receiver"), str(port), str(BUFFER), str(PAUSE)]
        super().__init__(
            "bare receiver", pin(setting.collector, command), setting.new_folder("bare"), port, BUFFER // 2
        )
        wait_until(lambda: "ready" in self.read_log(), "the bare receiver is not ready")
        self.buffer = int(self.read_log().split()[1])
        self.window = self.buffer // 2

    def finish(self) -> tuple[int, int]:
        """Ask the loop to end, and return the datagrams that it received and the drops of the kernel."""
        self.end()
        datagrams, _, drops, _ = map(int, self.read_log().splitlines()[-1].split())
        return datagrams, drops


# Peers ------------------------------------------------------------------------------------------------------


def find_goflow2() -> Path:
    """Return the program of GoFlow2. Raises Absent."""
    program = BUILD / "collectors/goflow2"
    if not program.exists():
        missing = "" if shutil.which("go") else ", which needs Go"
        raise Absent(f"GoFlow2 is not built: make bench-collectors{missing}")
    return program


class Peer(Running):
    """Another collector, with its default receive buffer."""

    def __init__(
        self, setting: Setting, name: str, command: Sequence[object], port: int, folder: Path
    ) -> None:
        super().__init__(name, pin(setting.collector, command), folder, port, DEFAULT_WINDOW)

    def finish(self) -> None:
        """Ask the program to end. Raises Failed if it does not end."""
        end = time.monotonic() + PATIENCE
        while not self.has_ended() and time.monotonic() < end:
            self.send_signal(signal.SIGINT)  # one just before it waits for a datagram has no effect
            time.sleep(0.5)
        self.wait()

    def count_flows(self) -> int:
        """Return the flows in the output after the end."""
        raise NotImplementedError


class GoFlow2(Peer):
    """GoFlow2 with the format `bin`, to a file or to a topic of Kafka (`HOST:PORT/TOPIC`)."""

    def __init__(self, setting: Setting, traffic: Traffic, kafka: str = "") -> None:
        port, web, folder = free_port(), free_port(socket.SOCK_STREAM), setting.new_folder("goflow2")
        protocol = "sflow" if traffic.workload.protocols <= {"sflow"} else "netflow"
        listen = ["-listen", f"{protocol}://127.0.0.1:{port}", "-addr", f"127.0.0.1:{web}"]
        if kafka:
            broker, _, topic = kafka.partition("/")
            place = ["-transport.kafka.brokers", broker, "-transport.kafka.topic", topic]
            output = ["-transport", "kafka", *place]
        else:
            # Without the separator: its two threads would mix messages and separators.
            output = ["-transport", "file", "-transport.file", "flows.bin", "-transport.file.sep", ""]
        self._kafka = kafka
        command = [find_goflow2(), *listen, "-format", "bin", *output]
        super().__init__(setting, "GoFlow2", command, port, folder)

    def count_flows(self) -> int:
        """Return the messages in its file or topic."""
        return count_kafka_records(self._kafka) if self._kafka else count_messages(self.folder / "flows.bin")

    @staticmethod
    def version() -> str:
        """Return the version of the program."""
        if not shutil.which("go"):
            return "unknown"
        done = subprocess.run(["go", "version", "-m", find_goflow2()], capture_output=True, text=True)
        found = re.search(r"^\s+mod\s+\S+\s+v(\S+)", done.stdout, re.MULTILINE)
        return found[1] if found else "unknown"


class Nfdump(Peer):
    """nfcapd or sfcapd, which write their own files."""

    @staticmethod
    def find(traffic: Traffic) -> str:
        """Return the path of the program for the protocol of the traffic. Raises Absent."""
        return find_program(traffic, "nfcapd", "sfcapd", "nfdump nfdump-sflow")

    def __init__(self, setting: Setting, traffic: Traffic) -> None:
        program = self.find(traffic)
        port, folder = free_port(), setting.new_folder("nfdump")
        (folder / "flows").mkdir()
        listen = ["-4", "-b", "127.0.0.1", "-p", str(port)]
        super().__init__(setting, "nfdump", [program, *listen, "-w", "flows", "-t", "3600"], port, folder)

    def count_flows(self) -> int:
        """Return the flows in its files."""
        return count_captured(self.folder / "flows")


class Pmacct(Peer):
    """nfacctd or sfacctd, which aggregate flows with the same key."""

    @staticmethod
    def find(traffic: Traffic) -> str:
        """Return the path of the program for the protocol of the traffic. Raises Absent."""
        return find_program(traffic, "nfacctd", "sfacctd", "pmacct")

    def __init__(self, setting: Setting, traffic: Traffic) -> None:
        program = self.find(traffic)
        port, folder = free_port(), setting.new_folder("pmacct")
        listen = "".join(f"{name}_ip: 127.0.0.1\n{name}_port: {port}\n" for name in ("nfacctd", "sfacctd"))
        (folder / "pmacct.conf").write_text(listen + PMACCT)
        super().__init__(setting, "pmacct", [program, "-f", "pmacct.conf"], port, folder)

    def count_flows(self) -> int:
        """Return the flows of all keys."""
        return count_aggregated(self.folder / "flows.csv")


def count_messages(path: Path) -> int:
    """Return the number of length-delimited messages of a file. Raises Failed if it has something else."""
    try:
        return len(split_messages(path.read_bytes(), b""))
    except DecodeError as error:
        raise Failed(f"{path.name}: {error}") from error


def count_kafka_records(place: str) -> int:
    """Return the number of Kafka records of a topic with one partition (`HOST:PORT/TOPIC`)."""
    from confluent_kafka import Consumer, TopicPartition

    broker, _, topic = place.partition("/")
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "count", "log_level": 0})
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        return int(end - first)
    finally:
        consumer.close()


def find_program(traffic: Traffic, netflow: str, sflow: str, packages: str) -> str:
    """Return the path of the program for the protocol of the traffic. Raises Absent."""
    name = sflow if traffic.workload.protocols <= {"sflow"} else netflow
    found = find(name)
    if not found:
        raise Absent(f"{name} is not installed: apt install {packages}")
    return found
