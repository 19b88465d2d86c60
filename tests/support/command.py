"""Functions that call the command line, and captures as its input."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowbuf import _core
from flowbuf.cli.main import main
from tests.support.datagrams import data_set, ipfix, ipv4, netflow5, record5, udp

EXPORTER = "192.0.2.1"


def flowbuf(*arguments: object, stdin: bytes = b"") -> Result:
    """Run a command in this process.

    A command excludes all objects from garbage collection, because its process ends soon. This one does not
    end, and clients of Kafka would keep their sockets.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.freeze", lambda: None)
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def generated(protocol: str = "ipfix", flows: int = 100, **options: Any) -> bytes:
    return b"".join(_core.generate(protocol=protocol, flows=flows, **options))


def pcap(*payloads: bytes, source: str = EXPORTER, ports: Sequence[int] = ()) -> bytes:
    """Return a capture of raw IPv4 packets, one per second, each with one datagram.

    `ports` gives a source port per datagram; by default all have the same one.
    """
    packets = [
        ipv4(udp(port, 2055, payload), src=source, dst="192.0.2.250", proto=17)
        for port, payload in zip(ports or [2000] * len(payloads), payloads, strict=True)
    ]
    return struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101) + b"".join(
        struct.pack("<IIII", 1_700_000_000 + second, 500_000, len(packet), len(packet)) + packet
        for second, packet in enumerate(packets)
    )


GOOD = netflow5(
    record5(
        src="198.51.100.1", dst="203.0.113.2", src_port=53, dst_port=4000, proto=17, packets=2, octets=300
    )
)
WITHOUT_TEMPLATE = ipfix(data_set(256, bytes(8)))
CUT_SHORT = netflow5(record5(octets=1, src="198.51.100.9"), count=2)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def end(
    process: subprocess.Popen[bytes], number: signal.Signals, begun: Callable[[], object], says: str = ""
) -> int:
    """Send a signal to a process as soon as `begun` returns True, and return its exit status.

    Standard error of the process must be `says`.
    """
    deadline = time.monotonic() + 30
    while not begun():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)  # until it waits for input that never comes
    process.send_signal(number)
    status = process.wait(20)
    assert process.stderr
    assert process.stderr.read().decode() == says
    return status


def environment_without_xdist() -> dict[str, str]:
    """Return the environment for a child process without the variables of pytest-xdist.

    pytest-benchmark measures nothing in a process that has them.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}


def json_lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]
