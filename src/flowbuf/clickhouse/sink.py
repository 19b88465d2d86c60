"""Insert columns into ClickHouse over HTTP. A batch is stored once, even if it is sent several times."""

from __future__ import annotations

import base64
import http.client
import re
import ssl
import time
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from flowbuf.arrow.batch import FlowBatch
from flowbuf.errors import ClickHouseError
from flowbuf.schema import Schema
from flowbuf.targets.clickhouse_insert import insert_query
from flowbuf.targets.clickhouse_tables import TableOptions

__all__ = ["ClickHouseSink"]

_PORTS = {"http": 8123, "https": 8443}
_CONTENT = "application/vnd.apache.arrow.stream"

# Temporary errors: the server is busy or starting, or the result of the insert is unknown.
_PASSING = frozenset((159, 201, 202, 203, 209, 210, 225, 236, 241, 242, 252, 285, 319, 425, 439, 999))
_PASSING_STATUS = frozenset((408, 429, 502, 503, 504))
_FIXES = {
    60: "; create it with the SQL of flowbuf schema clickhouse",
    16: "; add the columns with the SQL of flowbuf schema clickhouse --from OLD",
}
_FIRST_WAIT, _LAST_WAIT = 0.2, 10.0  # seconds


class ClickHouseSink:
    """Insert columns into the table of their schema.

    `flowbuf schema clickhouse` prints the SQL that creates the table.

    An insert that fails for a temporary reason (no answer, busy server) is repeated with the same bytes and
    the same token.

    Args:
        url: `http[s]://[user:password@]host[:port][/path][?database=NAME&setting=value]`. Default ports: 8123
            for http, 8443 for https.
        options: Names of the database and the table. Default: those of `TableOptions()`.
        timeout: Seconds to wait for an answer. Default: 60.
        patience: Seconds during which an insert is repeated. Default: 300.
        on_problem: Function that receives a text for each temporary problem. Default: problems are not
            reported.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: The URL is invalid.
        ClickHouseError: The server rejected a request, or did not accept it within `patience` seconds. Raised
            by `check` and `insert`.

    Example:
        with ClickHouseSink("http://localhost:8123?database=net") as sink:
            for number, batch in enumerate(flowbuf.read_capture("capture.pcap")):
                sink.insert(batch.schema, [batch], f"capture.pcap:{number}")
    """

    def __init__(
        self,
        url: str,
        options: TableOptions | None = None,
        *,
        timeout: float = 60.0,
        patience: float = 300.0,
        on_problem: Callable[[str], None] = lambda text: None,
    ) -> None:
        import pyarrow  # noqa: F401

        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("the ClickHouse URL is invalid; write http://HOST:PORT or https://HOST:PORT")
        self.name = f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"
        self.options = options or TableOptions()
        self._secret = unquote(parts.password or "")
        self._host, self._port = parts.hostname, parts.port or _PORTS[parts.scheme]
        self._context = ssl.create_default_context() if parts.scheme == "https" else None
        self._path = parts.path or "/"
        self._settings = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._headers = {"User-Agent": "flowbuf", "Content-Type": _CONTENT}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{self._secret}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._timeout = timeout
        self._patience = patience
        self._on_problem = on_problem
        self._connection: http.client.HTTPConnection | None = None

    def check(self, timeout: float) -> None:
        """Raise ClickHouseError if the server rejects the user, or has no answer in `timeout` seconds."""
        parameters = {"query": "SELECT 1", **self._settings}
        self._send(f"{self._path}?{urlencode(parameters)}", memoryview(b""), timeout, "no answer")

    def insert(self, schema: Schema, batches: Sequence[FlowBatch], token: str) -> None:
        """Insert flows, and return when they are stored.

        Args:
            schema: Schema of the flows.
            batches: Flows to insert. Nothing is sent if they are empty.
            token: Name of this insert. ClickHouse stores inserts with the same token once.

        Raises:
            ClickHouseError: The flows were not inserted.
            SchemaError: The schema cannot become a table of ClickHouse.
        """
        if not any(map(len, batches)):
            return
        insert = insert_query(schema, self.options)
        parameters = {
            "query": insert.sql,
            "insert_deduplication_token": token,
            "wait_end_of_query": "1",
            **insert.settings,
            **self._settings,
        }
        self._send(
            f"{self._path}?{urlencode(parameters)}", _to_stream(batches), self._patience, "not inserted"
        )

    def _send(self, target: str, body: memoryview, patience: float, failure: str) -> None:
        deadline = time.monotonic() + patience
        wait, told = _FIRST_WAIT, ""
        while problem := self._try(target, body):
            if time.monotonic() + wait > deadline:
                raise ClickHouseError(f"{self.name}: {failure} in {patience:g} s: {problem}")
            if problem != told:
                self._on_problem(f"{self.name}: {problem}; trying again")
                told = problem
            time.sleep(wait)
            wait = min(2 * wait, _LAST_WAIT)

    def _try(self, target: str, body: memoryview) -> str:
        """Send an insert once.

        Return the problem if it is temporary, else an empty text. Raise ClickHouseError for a permanent
        problem.
        """
        try:
            status, headers, answer = self._request(target, body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return self._clean(str(error) or type(error).__name__)
        code = int(headers.get("X-ClickHouse-Exception-Code") or 0)
        if status == 200 and not code:
            return ""
        problem = self._clean(_first_line(answer) or f"HTTP status {status}")
        if code in _PASSING or (not code and status in _PASSING_STATUS):
            return problem
        raise ClickHouseError(f"{self.name}: {problem}{_FIXES.get(code, '')}")

    def _request(self, target: str, body: memoryview) -> tuple[int, http.client.HTTPMessage, str]:
        if self._connection is None:
            if self._context:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout, context=self._context
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        self._connection.request("POST", target, body, self._headers)
        response = self._connection.getresponse()
        return response.status, response.headers, response.read().decode("utf-8", "replace")

    def _clean(self, text: str) -> str:
        return text.replace(self._secret, "***") if self._secret else text

    def close(self) -> None:
        """Close the connection. The next insert opens a new one."""
        connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def __enter__(self) -> ClickHouseSink:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _to_stream(batches: Sequence[FlowBatch]) -> memoryview:
    """Return the columns as an Arrow stream."""
    import pyarrow

    first, *rest = (batch.to_arrow() for batch in batches if len(batch))
    output = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(output, first.schema) as writer:
        for batch in (first, *rest):
            writer.write_batch(batch)
    return memoryview(output.getvalue())


def _first_line(answer: str) -> str:
    """Return the problem without the repeated version of the server and schema."""
    line = answer.strip().partition("\n")[0]
    return re.sub(r" \(version [^)]*\)+$", "", line)[:500]
