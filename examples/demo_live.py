"""Send a capture to a collector with the live view, and count the flows that were sent, received and stored.

python examples/demo_live.py [SECONDS] [CAPTURE...]

The last line is `sent=N received=N stored=N`, in flows. The exit status is 1 if the numbers differ.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pyarrow.parquet

import flowbuf
from flowbuf import CaptureReader

DATA = Path(__file__).parent.parent / "tests/data"
CAPTURES = [DATA / "softflowd-ipfix.pcap", DATA / "generated-sflow.pcap"]
SECONDS = 10.0
RATE = 300  # datagrams per second: the smallest receive buffer of Linux holds those of half a second
START_SECONDS = 60.0
FLOWBUF = [sys.executable, "-m", "flowbuf"]


class Collector:
    """A running `flowbuf collect`, with the live view if standard output is a terminal."""

    def __init__(self, folder: Path) -> None:
        self.log: list[str] = []
        self._shown = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        options = ["--listen", "127.0.0.1:0", "-o", f"{folder}/", "--name", "flows"]
        options += ["--live", "--live-top", "src_addr,dst_addr"] if self._shown else ["--report", "1s"]
        self._process = subprocess.Popen(
            [*FLOWBUF, "collect", *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read_log)
        self._thread.start()

    def _read_log(self) -> None:
        """Keep the messages. Print them if there is no live view, which shows them."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if not self._shown:
                print(line, end="", flush=True)
            with self._changed:
                self.log.append(line)
                self._changed.notify_all()
        with self._changed:
            self.log.append("")  # the collector has ended
            self._changed.notify_all()

    def wait_for_address(self) -> str:
        """Return the address on which the collector listens."""
        with self._changed:
            self._changed.wait_for(lambda: self._find_address() or "" in self.log, START_SECONDS)
            address = self._find_address()
        if not address:
            self.stop()
            sys.exit(f"the collector did not start:\n{''.join(self.log)}")
        return address

    def _find_address(self) -> str:
        found = re.search(r"listening on (\S+)", "".join(self.log))
        return found[1] if found else ""

    def stop(self) -> None:
        """End the collector after it has written everything."""
        self._process.terminate()
        self._process.wait()
        self._thread.join()

    def read_totals(self) -> str:
        """Return the last message, which has the totals."""
        lines = [line for line in self.log if "received=" in line]
        return lines[-1].strip() if lines else "the collector reported no totals"


def replay(captures: list[Path], address: str, seconds: float) -> int:
    """Send captures repeatedly, and return the number of datagrams."""
    options = ["--loop", "--renumber", "--now", "--rate", str(RATE), "--duration", str(seconds)]
    command = [*FLOWBUF, "replay", *map(str, captures), "--to", address, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"sent=(\d+)", done.stdout)
    assert found, done.stdout
    return int(found[1])


def count_sent(captures: list[Path], datagrams: int) -> int:
    """Return the number of flows in so many datagrams of captures that are repeated."""
    payloads: list[bytes] = []
    for capture in captures:
        with CaptureReader(capture) as reader:
            payloads += [batch[i][0] for batch in reader for i in range(len(batch))]
    decoder = flowbuf.Decoder()
    decoder.encode_many(list(itertools.islice(itertools.cycle(payloads), datagrams)), "127.0.0.1")
    return decoder.flows


def count_stored(folder: Path) -> int:
    """Return the number of rows in the Parquet files of a folder."""
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    captures = [Path(name) for name in sys.argv[2:]] or CAPTURES
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(Path(folder))
        try:
            datagrams = replay(captures, collector.wait_for_address(), seconds)
        finally:
            collector.stop()
        stored = count_stored(Path(folder))
    totals = collector.read_totals()
    found = re.search(r" flows=(\d+)", totals)
    received = int(found[1]) if found else 0
    sent = count_sent(captures, datagrams)
    if not sent == received == stored:
        print(f"flows are missing; the collector reports: {totals}")
    print(f"sent={sent} received={received} stored={stored}")
    sys.exit(0 if sent == received == stored else 1)


if __name__ == "__main__":
    main()
