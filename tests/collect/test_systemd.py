"""Notification of the service manager, and sockets that it has opened."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flowbuf.collect.systemd import Watchdog, notify, watchdog_seconds
from tests.collect.test_collector import flows5
from tests.collect.test_service import ListOutput, address_of, running
from tests.support.live import send, wait_until


@pytest.fixture
def manager(tmp_path: Path) -> socket.socket:
    """Return a socket that receives what a service manager receives."""
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(tmp_path / "notify"))
    receiver.settimeout(30)
    return receiver


def test_states_are_sent(manager: socket.socket) -> None:
    notify("READY=1", "MAINPID=7", environment={"NOTIFY_SOCKET": manager.getsockname()})
    assert manager.recv(1000) == b"READY=1\nMAINPID=7"
    notify("READY=1", environment={})
    manager.close()


def test_slow_work_and_the_end_need_no_further_thread() -> None:
    """The limit of a container on threads may be reached."""
    with running({"one": ListOutput()}) as service:
        send([flows5(3)], address_of(service))
        wait_until(lambda: service.read_counters().intake.received == 1, "the datagram")
        before = threading.stack_size(1 << 47)  # more than a process can have
        try:
            with pytest.raises(RuntimeError, match="can't start new thread"):
                threading.Thread(target=list).start()
            assert Watchdog(list).attend(threading.current_thread).result() is threading.current_thread()
            service.stop()
            wait_until(lambda: service.read_counters().outputs["one"].stored == 3, "the flows")
            wait_until(lambda: not service.outputs[0]._thread.is_alive(), "the end of the output")
        finally:
            threading.stack_size(before)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_interval_of_the_watchdog(environment: dict[str, str], seconds: float | None) -> None:
    assert watchdog_seconds(environment) == seconds


def test_a_service(tmp_path: Path, manager: socket.socket) -> None:
    """The service manager opens the socket, and hears of each step. Datagrams before the start are kept."""
    path = tmp_path / "collector.toml"
    path.write_text('workers = 2\n[[output]]\nto = "null:"\n')
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{opened.getsockname()[1]}"
        send([flows5(3)], address)
        # As systemd does, the child finds the socket at descriptor 3 and its own process in LISTEN_PID.
        code = f"import os, sys; os.dup2({opened.fileno()}, 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
        code += "os.execv(sys.executable, [sys.executable, '-m', 'flowbuf', 'collect', sys.argv[1]])"
        environment = {
            **os.environ,
            "LISTEN_FDS": "1",
            "NOTIFY_SOCKET": manager.getsockname(),
            "WATCHDOG_USEC": "200000",
        }
        service = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            env=environment,
            pass_fds=[opened.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
    assert manager.recv(1000).decode() == f"READY=1\nMAINPID={service.pid}"
    assert manager.recv(1000) == b"WATCHDOG=1"
    service.send_signal(signal.SIGHUP)
    heard = []
    wait_until(lambda: heard.append(manager.recv(1000)) or heard[-1] != b"WATCHDOG=1", "the reload")
    assert re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", heard[-1])
    wait_until(lambda: manager.recv(1000) == b"READY=1", "the end of the reload")
    service.send_signal(signal.SIGTERM)
    wait_until(lambda: manager.recv(1000) == b"STOPPING=1", "the stop")
    log = service.communicate(timeout=60)[1]
    manager.close()
    assert service.returncode == 0
    assert f"listening on {address}\n" in log
    assert "systemd opens one socket per address, so one worker receives instead of 2" in log
    assert "need a restart" not in log  # the addresses are those of systemd
    assert "received=1 kernel_drops=0 flows=3; null:: stored=3" in log


def test_sighup_does_not_end_a_collector_that_writes_its_last_flows(
    tmp_path: Path, manager: socket.socket
) -> None:
    """The reader is slow, so that the end lasts until the test reads."""
    service = subprocess.Popen(
        [sys.executable, "-m", "flowbuf", "collect", "--listen", "127.0.0.1:0", "-o", "-"],
        env={**os.environ, "NOTIFY_SOCKET": manager.getsockname()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert service.stderr
    assert manager.recv(1000).startswith(b"READY=1")
    address = service.stderr.readline().split()[-1]
    sent = send([flows5(30)] * 100, address)  # more than a pipe holds
    service.send_signal(signal.SIGTERM)
    assert manager.recv(1000) == b"STOPPING=1"
    service.send_signal(signal.SIGHUP)
    lines, log = service.communicate(timeout=60)
    manager.close()
    assert service.returncode == 0, log
    assert f"received={sent} kernel_drops=0 flows={30 * sent}; -: stored={30 * sent}" in log
    assert lines.count("\n") == 30 * sent


def test_a_destination_that_does_not_answer_delays_neither_watchdog_nor_signals(
    tmp_path: Path, manager: socket.socket
) -> None:
    """SIGHUP adds an object store that accepts connections only. SIGTERM ends the attempt."""
    path = tmp_path / "collector.toml"
    config = 'listen = ["127.0.0.1:0"]\n[[output]]\nto = "{}"\n'
    path.write_text(config.format("null:"))
    with socket.create_server(("127.0.0.1", 0)) as store:
        service = subprocess.Popen(
            [sys.executable, "-m", "flowbuf", "collect", str(path)],
            env={**os.environ, "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "400000"},
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: manager.recv(1000).startswith(b"READY=1"), "the start")
        place = f"s3://user:secret@bucket/x?scheme=http&endpoint_override=127.0.0.1:{store.getsockname()[1]}"
        path.write_text(config.format(place))
        service.send_signal(signal.SIGHUP)
        wait_until(lambda: manager.recv(1000).startswith(b"RELOADING=1"), "the reload")
        store.settimeout(30)
        with store.accept()[0]:
            assert [manager.recv(1000) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            service.send_signal(signal.SIGTERM)
            wait_until(lambda: manager.recv(1000) == b"STOPPING=1", "the stop")
            log = service.communicate(timeout=60)[1]
    manager.close()
    assert service.returncode == 0
    assert "the old configuration stays, because a signal ended the reload" in log
    assert "null:: stored=0" in log.splitlines()[-1]


class HangingStore(BaseHTTPRequestHandler):
    """An object store that answers HEAD only: it can be opened, but takes no file."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_PUT(self) -> None:
        self.server.left.wait()  # type: ignore[attr-defined]

    do_GET = do_POST = do_PUT

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


IMPATIENT = """
from flowbuf.cli import run
from flowbuf.collect import runner

runner.GRACE = 1.0
runner.OutputRunner.__init__.__defaults__ = (0.5, None, None)
run()
"""
"""The command with less time for outputs to end."""


def test_the_collector_ends_although_an_object_store_does_not_answer() -> None:
    """The library of the object store would wait at its exit, for longer than this test."""
    with ThreadingHTTPServer(("127.0.0.1", 0), HangingStore) as store:
        store.daemon_threads = True
        store.left = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=store.serve_forever, daemon=True).start()
        place = f"s3://user:secret@bucket/x?scheme=http&endpoint_override=127.0.0.1:{store.server_port}"
        command = [sys.executable, "-c", IMPATIENT, "collect", "--listen", "127.0.0.1:0", "-o", place]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert service.stderr
            address = service.stderr.readline().split()[-1]
            send([flows5(1)], address)
            time.sleep(0.5)  # until the flow is in the output
            service.send_signal(signal.SIGTERM)
            log = service.communicate(timeout=45)[1].splitlines()
        finally:
            service.kill()
            store.left.set()  # type: ignore[attr-defined]
            store.shutdown()
    assert service.returncode == 1
    assert "does not answer; the flows that wait are lost" in log[-2]
    assert "stored=0" in log[-1]
    assert "dropped=1" in log[-1]
