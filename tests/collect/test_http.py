"""`flowbuf collect --metrics`: metrics, health and exporters over HTTP."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flowbuf.collect.http import WAIT_SECONDS, HttpServer
from flowbuf.collect.listen import Address
from tests.cli.test_cli_collect import collecting, get
from tests.collect.test_collector import flows5, payloads_of
from tests.collect.test_service import ListOutput, running
from tests.support.live import room_for_files, send, wait_until


def test_metrics_and_health(tmp_path: Path) -> None:
    options = ("-o", "null:", "--name", "nowhere", "--metrics", "127.0.0.1:0", "--interval", "50ms")
    with collecting(tmp_path, *options, "--workers", "2") as running:
        to, url = running.address, running.find(r"metrics are at (\S+)/metrics")
        sent = send([*payloads_of("generated-ipfix.pcap"), b"other"], to)
        wait_until(
            lambda: 'stored_flows_total{output="nowhere",rows="flows"} 300' in get(f"{url}/metrics")[1],
            "300 flows",
        )
        status, text = get(f"{url}/metrics")
        values = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert status == 200
        received = [value for key, value in values.items() if key[0] == "flowbuf_received_datagrams_total"]
        assert (len(received), sum(received)) == (2, sent)
        assert values["flowbuf_decoder_events_total", ("reason", "other_packet")] == 1
        assert values["flowbuf_exporter_flows_total", ("exporter", "127.0.0.1"), ("rows", "flows")] == 300
        assert values["flowbuf_output_queued_flows", ("output", "nowhere"), ("rows", "flows")] == 0
        assert get(f"{url}/healthz") == get(f"{url}/readyz") == (200, "ok\n")
        (exporter,) = json.loads(get(f"{url}/exporters")[1])
        assert (exporter["address"], exporter["flows"]) == ("127.0.0.1", 300)
        (domains,) = [each["domains"] for each in json.loads(get(f"{url}/templates")[1])]
        assert domains[0]["templates"]
        assert get(f"{url}/other")[0] == 404


def test_head_has_the_status_and_the_headers_of_get() -> None:
    with (
        running({"one": ListOutput()}) as service,
        HttpServer(Address.parse("127.0.0.1:0"), service) as server,
    ):
        for path, status in {"/healthz": 200, "/exporters": 200, "/other": 404}.items():
            got, body = ask(server, "GET", path)
            assert ask(server, "HEAD", path) == (got, b"")
            assert (got[0], got[1]["content-length"]) == (status, str(len(body)))


def ask(server: HttpServer, method: str, path: str) -> tuple[tuple[int, dict[str, str]], bytes]:
    """Return the status and the headers of an answer, without its time, and the body."""
    connection = http.client.HTTPConnection(*address_of(server), timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders() if name != "Date"}
        return (answer.status, headers), answer.read()


def address_of(server: HttpServer) -> tuple[str, int]:
    assert server._server
    host, port = server._server.server_address[:2]
    return str(host), int(port)


def test_a_client_that_does_not_wait_for_metrics_is_no_error(tmp_path: Path) -> None:
    with collecting(tmp_path, "-o", "null:", "--metrics", "127.0.0.1:0") as running:
        host, port = running.find(r"metrics are at http://(\S+)/metrics").split(":")
        for _ in range(20):
            with socket.create_connection((host, int(port))) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # resets it
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert get(f"http://{host}:{port}/healthz") == (200, "ok\n")
    lines = running.log.read_text().splitlines()
    assert all(" info: " in line for line in lines), lines


def test_a_server_without_free_descriptors_waits_between_its_attempts() -> None:
    """Otherwise, it would take a processor from the workers."""
    attempts: list[float] = []

    def accept(original: Callable[[], Any]) -> Any:
        attempts.append(time.monotonic())
        return original()

    with (
        running({"one": ListOutput()}) as service,
        HttpServer(Address.parse("127.0.0.1:0"), service) as server,
        socket.socket() as client,
    ):
        assert server._server
        client.settimeout(30)
        server._server.get_request = functools.partial(accept, server._server.get_request)
        with room_for_files(3):
            client.connect(address_of(server))
            client.sendall(b"GET /other HTTP/1.0\r\n\r\n")
            wait_until(lambda: len(attempts) > 1, "the second attempt")
        assert client.recv(100).startswith(b"HTTP/1.0 404 ")
    assert attempts[1] - attempts[0] >= WAIT_SECONDS


def test_the_server_starts_without_the_name_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that does not answer would delay the collector."""
    monkeypatch.delattr("socket.getfqdn")
    monkeypatch.delattr("socket.gethostbyaddr")
    with (
        running({"one": ListOutput()}) as service,
        HttpServer(Address.parse("127.0.0.1:0"), service) as server,
    ):
        assert ask(server, "GET", "/healthz")[1] == b"ok\n"


def test_a_request_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if each of its bytes comes in time."""
    monkeypatch.setattr("flowbuf.collect.http.REQUEST_SECONDS", 0.5)
    with (
        running({"one": ListOutput()}) as service,
        HttpServer(Address.parse("127.0.0.1:0"), service) as server,
        socket.create_connection(address_of(server)) as client,
    ):
        client.settimeout(0.1)
        wait_until(lambda: not is_open_after(client, b"G"), "the end of the request")


def is_open_after(client: socket.socket, sent: bytes) -> bool:
    """Send bytes, and return True if the server has not closed the connection."""
    try:
        client.sendall(sent)
        return client.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def test_requests_above_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbuf.collect.http.MOST_REQUESTS", 2)
    with (
        running({"one": ListOutput()}) as service,
        HttpServer(Address.parse("127.0.0.1:0"), service) as server,
        contextlib.ExitStack() as stack,
    ):
        slow = [stack.enter_context(socket.create_connection(address_of(server), 30)) for _ in range(2)]
        with pytest.raises(ConnectionError):
            ask(server, "GET", "/healthz")
        slow[0].close()
        wait_until(lambda: is_answered(server), "the free place")


def is_answered(server: HttpServer) -> bool:
    try:
        return ask(server, "GET", "/healthz")[0][0] == 200
    except ConnectionError:
        return False


def test_connections_wait_while_none_is_accepted() -> None:
    """The kernel would ignore them otherwise, and the clients would try again after a second."""
    with running({"one": ListOutput()}) as service, contextlib.ExitStack() as stack:
        server = HttpServer(Address.parse("127.0.0.1:0"), service)
        assert server._server
        stack.callback(server._server.server_close)
        for _ in range(30):
            stack.enter_context(socket.create_connection(address_of(server), 30))


def test_a_successor_reports_an_address_for_metrics_that_is_not_here(tmp_path: Path) -> None:
    """It waits only for an address that the running collector may release."""
    with collecting(tmp_path, "-o", "-", "--interval", "20ms") as running:
        options = ("--listen", running.address, "-o", "null:", "--takeover", "--metrics", "192.0.2.1:9990")
        command = [sys.executable, "-m", "flowbuf", "collect", *options]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        send([flows5(1)], running.address)
        wait_until(lambda: running.out.read_text().count("\n") == 1, "a flow in the old collector")
    assert done.returncode == 2
    assert "192.0.2.1:9990: metrics cannot be served: Cannot assign requested address" in done.stderr


def test_a_successor_serves_metrics_at_the_same_address(tmp_path: Path) -> None:
    new_folder = tmp_path / "new"
    new_folder.mkdir()
    with collecting(tmp_path, "-o", "null:", "--metrics", "127.0.0.1:0") as old:
        address, url = old.address, old.find(r"metrics are at http://(\S+)/metrics")
        with collecting(new_folder, "-o", "null:", "--takeover", "--metrics", url, listen=address) as new:
            assert old.process.wait(60) == 0
            assert new.find(r"metrics are at http://(\S+)/metrics") == url
            assert get(f"http://{url}/healthz") == (200, "ok\n")
