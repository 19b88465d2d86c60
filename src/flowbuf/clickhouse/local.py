"""Run ClickHouse's engine in this process, with chdb, for tests, demonstrations and analysis.

No server is needed.

    import flowbuf
    from flowbuf.clickhouse import Local

    with Local() as database:
        flows = flowbuf.read_capture("capture.pcap")
        database.create(flows.schema)
        database.insert(flows)
        print(database.query("SELECT src_addr, sum(bytes) FROM flows GROUP BY src_addr"))

The tables and their contents are the same as those of `flowbuf schema clickhouse`.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flowbuf.arrow.batch import FlowBatch, FlowStream
from flowbuf.errors import FlowbufError, QueryError
from flowbuf.schema import Schema
from flowbuf.targets.clickhouse_insert import insert_query
from flowbuf.targets.clickhouse_migration import migration
from flowbuf.targets.clickhouse_tables import KafkaOptions, Statement, TableOptions, drop_ddl, to_ddl, to_text

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "KafkaOptions",
    "Local",
    "TableOptions",
    "drop_ddl",
    "insert_query",
    "migration",
    "to_ddl",
    "to_text",
]

_open = threading.Lock()
"""Held by the open database.

The engine has one folder per process, so all of its sessions see the same tables.
"""


class Local:
    """A ClickHouse database in this process, as a context manager.

    A process can have one open database at a time. Any thread may use it.

    Args:
        path: Folder of the database. Default: None, a database in memory.

    Raises:
        FlowbufError: chdb or pyarrow is not installed (`flowbuf[chdb]`), another database is open, or the
            folder cannot be used.

    Example:
        with Local("flows.db") as database:
            database.create("flow")
            database.insert(flowbuf.read_capture("capture.pcap"))
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._session: Any = None
        self._cached = _list_cache()
        try:
            import pyarrow  # noqa: F401
            from chdb.session import Session
        except ImportError as error:
            raise FlowbufError(f"{error.name} is missing; run pip install 'flowbuf[chdb]'") from error
        if not _open.acquire(blocking=False):
            raise FlowbufError(
                "a process can open one ClickHouse database at a time; close the other one first"
            )
        try:
            self._session = Session(None if path is None else os.fspath(path))
        except Exception as error:
            _open.release()
            raise FlowbufError(
                f"{path or 'memory'}: the ClickHouse database cannot be opened: {_message(error)}"
            ) from error

    def close(self) -> None:
        """Close the database and stop its background work. A second call does nothing."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            finally:
                _clear_cache(self._cached)
                _open.release()

    def __enter__(self) -> Local:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def create(self, schema: Schema | str = "flow", options: TableOptions | None = None) -> None:
        """Create the tables of a schema. Existing tables stay.

        Args:
            schema: Schema, its name, or path to a TOML file. Default: "flow".
            options: Names, partitions, aggregates and source of the tables. Default: those of
                `TableOptions()`.

        Raises:
            QueryError: The engine rejected a statement.
            SchemaError: The schema cannot be loaded, or cannot become a table of ClickHouse.
        """
        self.run(to_ddl(_loaded(schema), options))

    def insert(
        self,
        data: Any,
        schema: Schema | str | None = None,
        options: TableOptions | None = None,
        *,
        token: str = "",
    ) -> None:
        """Insert flows into the table of their schema.

        Args:
            data: Columns (FlowBatch, FlowStream, or any object that exports an Arrow stream),
                length-delimited messages as bytes, or the path of a file of such messages.
            schema: Schema of the data. May be omitted for a FlowBatch or FlowStream.
            options: Names of the database and the table. Default: those of `TableOptions()`.
            token: Name of this insert. Inserts with the same token are stored once. Default: no token, every
                insert is stored.

        Raises:
            TypeError: schema is missing, and data is not a FlowBatch or FlowStream.
            QueryError: The engine rejected the data.
            FileNotFoundError: data is the path of a file that does not exist.
            FlowbufError: The database is closed.
            Exception: An error while data is read is raised unchanged.
        """
        if schema is None:
            if not isinstance(data, FlowBatch | FlowStream):
                raise TypeError("schema is required unless data is a FlowBatch or FlowStream")
            schema = data.schema
        schema = _loaded(schema)
        with _as_file(data) as (path, format):
            if not os.path.exists(path):  # no flows
                return
            insert = insert_query(schema, options, format, path)
            settings = insert.settings | (
                {"insert_deduplication_token": token} if token else {"insert_deduplicate": "0"}
            )
            self.execute(insert.with_settings(settings))

    def query(self, sql: str) -> pyarrow.Table:
        """Run a SELECT and return its result.

        Args:
            sql: One query. Addresses are 16 bytes; IPv6NumToString converts them to text.

        Returns:
            pyarrow.Table: The rows.

        Raises:
            QueryError: The engine rejected the query.
            FlowbufError: The database is closed.
        """
        import pyarrow

        result = self._run(sql, "ArrowStream")
        if not result:
            return pyarrow.table({})
        with pyarrow.ipc.open_stream(result) as reader:
            return reader.read_all()

    def execute(self, sql: str) -> None:
        """Run one SQL statement without a result. Raise QueryError if the engine rejects it."""
        self._run(sql, "Null")

    def run(self, statements: Iterable[Statement]) -> None:
        """Run statements in order, such as those of `to_ddl` and `migration`.

        Raise QueryError if the engine rejects one.
        """
        for statement in statements:
            if statement.sql:
                self.execute(statement.sql)

    def _run(self, sql: str, format: str) -> bytes:
        if self._session is None:
            raise FlowbufError("the database is closed; open it again")
        try:
            result: bytes = self._session.query(sql, format).bytes()
        except RuntimeError as error:
            raise QueryError(_message(error)) from error
        return result


_CACHE = "__cache__"
"""Folder that the engine creates in the current directory, for schemas inside SQL statements."""


def _list_cache() -> set[str]:
    with suppress(OSError):
        return set(os.listdir(_CACHE))
    return set()


def _clear_cache(before: set[str]) -> None:
    """Remove the files that were added since `before`."""
    with suppress(OSError):
        for name in _list_cache() - before:
            os.unlink(os.path.join(_CACHE, name))
        os.rmdir(_CACHE)


def _loaded(schema: Schema | str) -> Schema:
    return Schema.load(schema) if isinstance(schema, str) else schema


def _message(error: Exception) -> str:
    """Return the error text of the engine without its version and stack trace."""
    return str(error).partition("Stack trace:")[0].strip()


@contextmanager
def _as_file(data: Any) -> Iterator[tuple[str, str]]:
    """Yield the path of a file that the engine can read, and its format.

    The engine cannot read bytes from memory. There is no file for a stream without flows.
    """
    if isinstance(data, str | os.PathLike):
        if not os.path.exists(data):
            raise FileNotFoundError(2, os.strerror(2), os.fspath(data))
        yield os.path.abspath(data), "Protobuf"
        return
    with tempfile.TemporaryDirectory(prefix="flowbuf-") as folder:
        path = os.path.join(folder, "data")
        if isinstance(data, bytes | bytearray | memoryview):
            with open(path, "wb") as file:
                file.write(data)
            yield path, "Protobuf"
        else:
            _write_arrow(data, path)
            yield path, "ArrowStream"


def _write_arrow(data: Any, path: str) -> None:
    import pyarrow

    batches = data if isinstance(data, FlowStream) else [data]
    tables = (pyarrow.table(each) for each in batches)
    first = next(tables, None)
    if first is None:
        return
    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
