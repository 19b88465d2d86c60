"""Columns into ClickHouse, over HTTP: batch by batch, each there once however often it is sent."""

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

# Errors that pass: the server is busy, starting, or does not know what became of it.
_PASSING = frozenset((159, 201, 202, 203, 209, 210, 225, 236, 241, 242, 252, 285, 319, 425, 439, 999))
_PASSING_STATUS = frozenset((408, 429, 502, 503, 504))
_FIXES = {
    60: "; flowbuf schema clickhouse prints what makes it",
    16: "; flowbuf schema clickhouse --from OLD prints what adds columns",
}
_FIRST_WAIT, _LAST_WAIT = 0.2, 10.0  # seconds


class ClickHouseSink:
    """Inserts columns into the table of their schema, which `flowbuf schema clickhouse` makes.

    `url` is `http[s]://[user:password@]host[:port][/path][?database=NAME&setting=value]`; `options` say how the table
    is called. An insert that fails for reasons that pass (nobody answers, the server is busy) is sent again, the same
    octets under the same token, for up to `patience` seconds; `on_problem` is told. `timeout`: seconds for an answer.

    Raises ImportError without pyarrow, ValueError for a URL that cannot be, and ClickHouseError.
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
            raise ValueError("the URL of ClickHouse is no http://HOST:PORT or https://HOST:PORT")
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
        """Raises ClickHouseError where nobody answers in so many seconds, or does not let this user in."""
        parameters = {"query": "SELECT 1", **self._settings}
        self._send(f"{self._path}?{urlencode(parameters)}", memoryview(b""), timeout, "no answer")

    def insert(self, schema: Schema, batches: Sequence[FlowBatch], token: str) -> None:
        """Returns when the flows are there. Under one `token` the same are there once."""
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
        self._send(f"{self._path}?{urlencode(parameters)}", _to_stream(batches), self._patience, "not inserted")

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
        """Sends an insert once; what went wrong, if it may pass. Raises ClickHouseError for what does not."""
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
        """Closes the connection; the next insert opens another."""
        connection, self._connection = self._connection, None
        if connection:
            connection.close()

    def __enter__(self) -> ClickHouseSink:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _to_stream(batches: Sequence[FlowBatch]) -> memoryview:
    """The columns as an Arrow stream."""
    import pyarrow

    first, *rest = (batch.to_arrow() for batch in batches if len(batch))
    output = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(output, first.schema) as writer:
        for batch in (first, *rest):
            writer.write_batch(batch)
    return memoryview(output.getvalue())


def _first_line(answer: str) -> str:
    """What is wrong, without the version of the server and the schema that it repeats."""
    line = answer.strip().partition("\n")[0]
    return re.sub(r" \(version [^)]*\)+$", "", line)[:500]
