"""The commands of the tutorial docs/tutorials/first-collector.md give the output that the page shows."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT, check_output, read_blocks, run_shell
from tests.support.live import wait_until

PAGE = (ROOT / "docs/tutorials/first-collector.md").read_text()
FETCH = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"


def free_port(kind: socket.SocketKind) -> int:
    """Return a port below those that the system chooses. Other tests send only to chosen ones."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.replace("127.0.0.1:2055", f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}")
    text = text.replace("127.0.0.1:9990", f"127.0.0.1:{free_port(socket.SOCK_STREAM)}")
    text = text.replace("curl -s", f"{shlex.quote(sys.executable)} -c {shlex.quote(FETCH)}")
    blocks = list(read_blocks(text))
    _, collect, send, ask, query = (block.code for block in blocks if block.language == "sh")
    start, sent, counters, end, flows = (block.code for block in blocks if block.language == "text")
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", *shlex.split(collect)]
    log = tmp_path / "log"
    with open(log, "wb") as file, subprocess.Popen(command, stderr=file, env=environment) as collector:
        wait_until(lambda: "listening" in log.read_text(), "the start")
        try:
            assert lines_of(log.read_text()) == lines_of(start)
            assert run_shell(send, "send").split(" seconds=")[0] == sent.split(" seconds=")[0]
            wait_until(lambda: counters.splitlines()[-1] in run_shell(ask, "ask"), "the last counter")
            assert run_shell(ask, "ask") == counters
        finally:
            collector.send_signal(signal.SIGINT)
            status = collector.wait(60)
    assert status == 0
    assert lines_of(log.read_text())[-1:] == lines_of(end)
    check_output(flows, run_shell(query, "query"), "query")


def lines_of(log: str) -> list[str]:
    """Return the lines of a log without their times."""
    return [line.split(" ", 1)[1] for line in log.splitlines()]
