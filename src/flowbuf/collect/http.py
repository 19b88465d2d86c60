"""HTTP endpoints of the collector: metrics, health, and the state of exporters."""

from __future__ import annotations

import errno
import io
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flowbuf.collect.listen import Address
from flowbuf.collect.metrics import Sample, format_metrics
from flowbuf.errors import ListenError

if TYPE_CHECKING:
    from flowbuf.collect.service import Service

__all__ = ["HttpServer", "parse_address"]

logger = logging.getLogger("flowbuf.collect")

WAIT_SECONDS = 0.1
REQUEST_SECONDS = 10.0
"""Longest time that a client may take for its request, and then for reading the answer."""

MOST_REQUESTS = 256
"""Most requests at one moment. Without a limit, clients could take the descriptors that outputs need."""

Answer = tuple[int, str, bytes]


def parse_address(text: str) -> Address:
    """Return the address for metrics that a text such as "127.0.0.1:9990" names.

    Raises:
        ListenError: the text is not an address, or names a transport.
    """
    if "://" in text:
        raise ListenError(f"metrics: {text!r} has a prefix; write ADDRESS:PORT")
    return Address.parse(text)


class HttpServer:
    """Answer GET and HEAD requests about a service, in threads, inside a `with` block.

    | Path | Answer |
    |---|---|
    | /metrics | all counters, in the format of Prometheus |
    | /healthz | 200 while the workers run, otherwise 503 |
    | /readyz | 200 while all outputs and their spools work, otherwise 503 with their errors |
    | /exporters | JSON: exporters with their counters |
    | /templates | JSON: exporters with their domains and templates |

    Args:
        address: Address to listen on. Use a loopback address, because there is no authentication.
        service: Service to report.
        patient: If another process uses the address, wait in the background until it releases it.
            Default: False.

    Raises:
        ListenError: the address cannot be listened on.
    """

    def __init__(self, address: Address, service: Service, patient: bool = False) -> None:
        self._address = address
        self._service = service
        self._closed = threading.Event()
        self._server = self._bind(patient)
        self._thread = threading.Thread(target=self._run, name="flowbuf-http", daemon=True)

    def _bind(self, patient: bool) -> _Server | None:
        """Return the server. If `patient`, return None while another process uses the address."""
        handler = type("Handler", (_Handler,), {"answers": self._answers()})
        try:
            server = _Server((self._address.host, self._address.port), handler, self._address)
        except OSError as error:
            if patient and error.errno == errno.EADDRINUSE:
                return None
            problem = f"{self._address}: metrics cannot be served: {error.strerror or error}"
            raise ListenError(f"{problem}; choose another address") from error
        place = Address(*server.server_address[:2])  # type: ignore[arg-type]
        logger.info("metrics are at http://%s/metrics", place)
        return server

    def _run(self) -> None:
        while self._server is None:
            if self._closed.wait(WAIT_SECONDS):
                return
            try:
                self._server = self._bind(patient=True)
            except ListenError as error:
                logger.error("%s", error)
                return
        while not self._closed.is_set():  # serve_forever could begin after shutdown, which then never returns
            self._server.handle_request()

    def __enter__(self) -> HttpServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()
        if self._server:
            self._server.server_close()

    def _answers(self) -> dict[str, Callable[[], Answer]]:
        exporters: list[Sample] = []
        return {
            "/metrics": lambda: (200, "text/plain; version=0.0.4", format_metrics(self._service, exporters)),
            "/healthz": lambda: _report(self._service.find_dead_workers()),
            "/readyz": lambda: _report(self._service.find_dead_workers() + self._service.find_failures()),
            "/exporters": lambda: _to_json(self._service.intake.read_exporters(), "domains"),
            "/templates": lambda: _to_json(self._service.intake.read_exporters(), "counters"),
        }


class _Server(ThreadingTCPServer):  # ThreadingHTTPServer would ask name servers for the name of its address
    timeout = WAIT_SECONDS  # of handle_request
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # with the default of 5, some of several clients wait for seconds

    def __init__(
        self, place: tuple[str, int], handler: type[BaseHTTPRequestHandler], address: Address
    ) -> None:
        self.address_family = address.family
        self._free = threading.Semaphore(MOST_REQUESTS)
        super().__init__(place, handler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. If no descriptor is free, wait: the next attempt would fail at once."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(WAIT_SECONDS)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return False, which closes the connection, if there are too many requests."""
        return self._free.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread."""
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer in this thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of a request. A client that does not wait for its answer is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            logger.error("metrics: a request failed: %s", error, exc_info=error)


class _RequestBytes(io.RawIOBase):
    """The bytes of a request, which must be complete after REQUEST_SECONDS.

    With a limit for each read alone, a client could send single bytes without end.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._end = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has arrived into the buffer. Return the number of bytes; 0: the client has ended.

        Raises:
            TimeoutError: the time is over.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    answers: dict[str, Callable[[], Answer]]
    server_version = "flowbuf"
    sys_version = ""

    def setup(self) -> None:
        """Limit the time of the request."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_RequestBytes(self.connection))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answer = self.answers.get(path, self._unknown)
        self.connection.settimeout(REQUEST_SECONDS)
        try:
            status, kind, body = answer()
        except Exception as error:
            status, kind, body = 500, "text/plain", f"{error}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # health checks send it

    def _unknown(self) -> Answer:
        return 404, "text/plain", f"no such path; there are {', '.join(self.answers)}\n".encode()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a scrape every few seconds would hide other messages."""


def _report(problems: list[str]) -> Answer:
    text = "".join(f"{problem}\n" for problem in problems) or "ok\n"
    return 503 if problems else 200, "text/plain", text.encode()


def _to_json(exporters: list[dict[str, Any]], without: str) -> Answer:
    shown = [{key: value for key, value in each.items() if key != without} for each in exporters]
    return 200, "application/json", json.dumps(shown).encode()
