"""Insert columns into ClickHouse over HTTP. A batch is stored once, even if it is sent several times."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from flowbuf.arrow.batch import FlowBatch
from flowbuf.errors import ClickHouseError, error_text, optional_import
from flowbuf.schema import Schema
from flowbuf.targets.clickhouse import columns_of, identifier
from flowbuf.targets.clickhouse_insert import insert_query
from flowbuf.targets.clickhouse_tables import TableOptions

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ClickHouseSink"]

_PORTS = {"http": 8123, "https": 8443}

# clickhouse-connect logs failed requests. Python prints log records without a handler to stderr.
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())

# Temporary errors: the server is busy or starting, or the result of the insert is unknown.
_PASSING = frozenset((159, 201, 202, 203, 209, 210, 225, 236, 241, 242, 252, 285, 319, 425, 439, 999))
_PASSING_STATUS = tuple(f"HTTP status {status}" for status in (408, 429, 502, 503, 504))
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
        timeout: Seconds to wait for an answer, rounded up. Default: 60.
        patience: Seconds during which an insert is repeated. Default: 300.
        on_problem: Function that receives a text for each temporary problem. Default: problems are not
            reported.

    Raises:
        ImportError: clickhouse-connect or pyarrow is not installed (`flowbuf[clickhouse]`).
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
        with optional_import("ClickHouseSink needs clickhouse-connect and pyarrow", "flowbuf[clickhouse]"):
            import clickhouse_connect  # noqa: F401
            import pyarrow  # noqa: F401

        fix = "write http://HOST:PORT or https://HOST:PORT"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:  # its text may have the password
            raise ValueError(f"the ClickHouse URL has an invalid host or port; {fix}") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"the ClickHouse URL is invalid; {fix}")
        port = port or _PORTS[parts.scheme]
        self.name = f"{parts.scheme}://{parts.hostname}:{port}"
        self.options = options or TableOptions()
        self._secret = unquote(parts.password or "")
        self._settings = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._server = {
            "interface": parts.scheme,
            "host": parts.hostname,
            "port": port,
            "proxy_path": parts.path,
            "username": unquote(parts.username or "") or None,
            "password": self._secret,
            "database": self._settings.pop("database", None),
            "settings": self._settings,
            "connect_timeout": math.ceil(timeout),
            "send_receive_timeout": math.ceil(timeout),
        }
        self._patience = patience
        self._on_problem = on_problem
        self._client: Any = None

    def check(self, timeout: float) -> None:
        """Raise ClickHouseError if the server rejects the user, or has no answer in `timeout` seconds."""
        self._send(lambda client: client.command("SELECT 1"), timeout, "no answer")

    def insert(self, schema: Schema, batches: Sequence[FlowBatch | pyarrow.RecordBatch], token: str) -> None:
        """Insert flows, and return when they are stored.

        Args:
            schema: Schema of the flows.
            batches: Flows to insert, with the enabled columns of the schema. Nothing is sent if they
                are empty.
            token: Name of this insert. ClickHouse stores inserts with the same token once.

        Raises:
            ClickHouseError: The flows were not inserted.
            SchemaError: The schema cannot become a table of ClickHouse.
        """
        if not any(map(len, batches)):
            return
        settings = {
            "insert_deduplication_token": token,
            "wait_end_of_query": "1",
            **insert_query(schema, self.options).settings,
            **self._settings,
        }
        table = self.options.name(schema)
        columns = [identifier(column.name) for column in columns_of(schema)]
        body = _to_stream(batches)
        self._send(
            lambda client: client.raw_insert(table, columns, body, settings, "ArrowStream"),
            self._patience,
            "not inserted",
        )

    def _send(self, request: Callable[[Any], object], patience: float, failure: str) -> None:
        deadline = time.monotonic() + patience
        wait, told = _FIRST_WAIT, ""
        while problem := self._try(request):
            if time.monotonic() + wait > deadline:
                raise ClickHouseError(f"{self.name}: {failure} in {patience:g} s: {problem}")
            if problem != told:
                self._on_problem(f"{self.name}: {problem}; trying again")
                told = problem
            time.sleep(wait)
            wait = min(2 * wait, _LAST_WAIT)

    def _try(self, request: Callable[[Any], object]) -> str:
        """Send a request once.

        Return the problem if it is temporary, else an empty text. Raise ClickHouseError for a permanent
        problem.
        """
        from clickhouse_connect.driver.exceptions import Error

        try:
            if self._client is None:
                self._client = _connect(self._server)
            request(self._client)
        except Error as error:
            problem, passing = _explain(error)
            if self._secret:
                problem = problem.replace(self._secret, "***")
            if passing:
                return problem
            raise ClickHouseError(f"{self.name}: {problem}{_FIXES.get(error.code or 0, '')}") from None
        return ""

    def close(self) -> None:
        """Close the connection. The next insert opens a new one."""
        client, self._client = self._client, None
        if client:
            client.close_connections()

    def __enter__(self) -> ClickHouseSink:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _connect(server: dict[str, Any]) -> Any:
    """Return a client that sends each request once, to this server only."""
    import clickhouse_connect
    from clickhouse_connect.driver.httputil import get_pool_manager

    client: Any = clickhouse_connect.get_client(
        **server,
        client_name="flowbuf",
        compress=False,
        query_retries=0,
        autogenerate_session_id=False,
        autogenerate_query_id=False,
        pool_mgr=get_pool_manager(),
    )
    # The answer to an insert that was redirected would be that of another service, such as a login page.
    client.http_retries = False
    return client


def _explain(error: Any) -> tuple[str, bool]:
    """Return the text of an error of clickhouse-connect, and True if it is temporary."""
    if error.__cause__:  # there was no answer
        return _first_cause(error), True
    # The status is only in the text: "HTTP driver received HTTP status 502, server response: …".
    text = re.sub(r" \(for url \S+\)$", "", str(error))
    head, _, answer = text.partition(", server response: ")
    line = (answer or head).partition("\n")[0]
    problem = re.sub(r" \(version [^)]*\)+$", "", line)[:500]
    return problem, error.code in _PASSING if error.code else head.endswith(_PASSING_STATUS)


def _first_cause(error: BaseException) -> str:
    """Return the text of the first exception of a chain. The others repeat it and the URL."""
    while cause := error.__cause__ or next((e for e in error.args if isinstance(e, Exception)), None):
        error = cause
    return error_text(error)


def _to_stream(batches: Sequence[FlowBatch | pyarrow.RecordBatch]) -> pyarrow.Buffer:
    """Return the columns as an Arrow stream. The client sends a buffer without a copy."""
    import pyarrow

    first, *rest = (
        batch.to_arrow() if isinstance(batch, FlowBatch) else batch for batch in batches if len(batch)
    )
    output = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(output, first.schema) as writer:
        for batch in (first, *rest):
            writer.write_batch(batch)
    return output.getvalue()
