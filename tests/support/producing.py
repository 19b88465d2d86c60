"""Run `flowbuf produce` as a process and feed it step by step, for tests with failing brokers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import flowbuf
from flowbuf.io.capture import CaptureReader
from tests.support.broker import PATIENCE, Broker

SILENT = ["--schema-topic", "none"]


def decode(capture: Path, schema: str | flowbuf.Schema = "flow") -> bytes:
    decoder = flowbuf.Decoder(schema)
    with CaptureReader(capture) as reader:
        return b"".join(decoder.encode_datagrams(batch) for batch in reader)


def wait_for(done: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it has not come to that in time"
        time.sleep(0.05)


def count_records(broker: Broker, topic: str) -> int:
    """Return the number of messages in a topic with one partition. Wait until the partition has a leader."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    wait_for(lambda: broker.leaders(topic) == [1])
    where = TopicPartition(topic, 0)
    return int(broker.admin.list_offsets({where: OffsetSpec.latest()})[where].result(PATIENCE).offset)


class Producing:
    """Run `flowbuf produce -` as a process and keep its output.

    A thread writes `content` as fast as the process reads, up to `limit` bytes. `feed` raises the limit.
    """

    def __init__(
        self, content: bytes, broker: Broker | str, *arguments: object, limit: int | None = None
    ) -> None:
        servers = broker if isinstance(broker, str) else broker.servers
        words = ["produce", "-", "--kafka", servers, *map(str, arguments)]
        command = [sys.executable, "-m", "flowbuf", *words]
        self.begun = time.monotonic()
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        self.fed = 0
        self.stdout = ""
        self.stderr = ""
        self._content = content
        self._limit = len(content) if limit is None else limit
        self._more = threading.Condition()
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        self._feeder.start()

    def feed(self, limit: int | None = None) -> None:
        """Write up to byte `limit`; None means all."""
        with self._more:
            self._limit = len(self._content) if limit is None else limit
            self._more.notify()

    def _feed(self) -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError), self.process.stdin as stdin:
            while self.fed < len(self._content):
                with self._more:
                    self._more.wait_for(lambda: self.fed < self._limit or self.process.returncode is not None)
                self.fed += stdin.write(self._content[self.fed : min(self.fed + 4096, self._limit)])

    def end(self, seconds: float = PATIENCE) -> int:
        """Return the exit status."""
        assert self.process.stdout
        assert self.process.stderr
        try:
            self.process.wait(seconds)
        finally:
            self.process.kill()
        self.seconds = time.monotonic() - self.begun
        self.feed()  # so that the writer finds the pipe closed
        self._feeder.join()
        with self.process.stdout as stdout, self.process.stderr as stderr:
            self.stdout, self.stderr = stdout.read().decode(), stderr.read().decode()
        return self.process.returncode

    @property
    def told(self) -> dict[str, int]:
        """Return the counts on standard output."""
        pairs = dict(pair.split("=") for pair in self.stdout.split())
        pairs.pop("topic")
        return {name: int(count) for name, count in pairs.items()}
