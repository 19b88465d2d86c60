"""ClickHouse without a server: its engine in this process, by chdb, for tests, demonstrations and analysis.

    import flowbuf
    from flowbuf.clickhouse import Local

    with Local() as database:
        flows = flowbuf.read_capture("capture.pcap")
        database.create(flows.schema)
        database.insert(flows)
        print(database.query("SELECT src_addr, sum(bytes) FROM flows GROUP BY src_addr"))

Tables are those of `flowbuf schema clickhouse`, and so is what stands in them.
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

__all__ = ["KafkaOptions", "Local", "TableOptions", "drop_ddl", "insert_query", "migration", "to_ddl", "to_text"]

_open = threading.Lock()
"""Held by the one that is open: the engine has one folder a process, and all of its sessions see the same tables."""


class Local:
    """A database in a folder, or in memory where `path` is None. It is closed by `close`, or at the end of `with`; a
    process has one at a time, which any thread may use.

    Raises FlowbufError without chdb and pyarrow (`flowbuf[chdb]`), where another is open, and where the folder cannot
    be used.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._session: Any = None
        self._cached = _list_cache()
        try:
            import pyarrow  # noqa: F401
            from chdb.session import Session
        except ImportError as error:
            raise FlowbufError(f"{error.name} is missing: pip install 'flowbuf[chdb]'") from error
        if not _open.acquire(blocking=False):
            raise FlowbufError("a process has one database of ClickHouse open at a time: close the other first")
        try:
            self._session = Session(None if path is None else os.fspath(path))
        except Exception as error:
            _open.release()
            raise FlowbufError(f"{path or 'memory'}: no database of ClickHouse: {_message(error)}") from error

    def close(self) -> None:
        """Ends what runs in the background, too. Twice does no harm."""
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
        """The tables of a schema; those that are there stay. Raises QueryError, SchemaError."""
        self.run(to_ddl(_loaded(schema), options))

    def insert(
        self,
        data: Any,
        schema: Schema | str | None = None,
        options: TableOptions | None = None,
        *,
        token: str = "",
    ) -> None:
        """Adds flows to the table of their schema.

        `data` are columns (a FlowBatch or FlowStream, or anything else that gives an Arrow stream with the columns of
        the schema), or messages of the schema, each behind its length: bytes, or the path of a file. `schema` may be
        left out for a FlowBatch or FlowStream. What is inserted again with the same `token` is there once; without one
        everything is added.

        Raises QueryError where the engine does not take it, and whatever reading `data` raises.
        """
        if schema is None:
            if not isinstance(data, FlowBatch | FlowStream):
                raise TypeError("which columns messages and foreign batches have is said by a schema: give one")
            schema = data.schema
        schema = _loaded(schema)
        with _as_file(data) as (path, format):
            insert = insert_query(schema, options, format, path)
            settings = insert.settings | (
                {"insert_deduplication_token": token} if token else {"insert_deduplicate": "0"}
            )
            self.execute(insert.with_settings(settings))

    def query(self, sql: str) -> pyarrow.Table:
        """The result of a SELECT. Addresses are 16 octets; IPv6NumToString makes text of them. Raises QueryError."""
        import pyarrow

        result = self._run(sql, "ArrowStream")
        if not result:
            return pyarrow.table({})
        with pyarrow.ipc.open_stream(result) as reader:
            return reader.read_all()

    def execute(self, sql: str) -> None:
        """Runs one statement. Raises QueryError."""
        self._run(sql, "Null")

    def run(self, statements: Iterable[Statement]) -> None:
        """Runs one after the other, such as those of `to_ddl` and `migration`. Raises QueryError."""
        for statement in statements:
            if statement.sql:
                self.execute(statement.sql)

    def _run(self, sql: str, format: str) -> bytes:
        if self._session is None:
            raise FlowbufError("this database is closed")
        try:
            result: bytes = self._session.query(sql, format).bytes()
        except RuntimeError as error:
            raise QueryError(_message(error)) from error
        return result


_CACHE = "__cache__"
"""A folder that the engine makes wherever the process is, for schemas that stand in SQL."""


def _list_cache() -> set[str]:
    with suppress(OSError):
        return set(os.listdir(_CACHE))
    return set()


def _clear_cache(before: set[str]) -> None:
    """Removes what has come since."""
    with suppress(OSError):
        for name in _list_cache() - before:
            os.unlink(os.path.join(_CACHE, name))
        os.rmdir(_CACHE)


def _loaded(schema: Schema | str) -> Schema:
    return Schema.load(schema) if isinstance(schema, str) else schema


def _message(error: Exception) -> str:
    """What the engine says, without its own version and trace."""
    return str(error).partition("Stack trace:")[0].strip()


@contextmanager
def _as_file(data: Any) -> Iterator[tuple[str, str]]:
    """A file that the engine can read, and its format. It cannot be handed octets otherwise."""
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
        first = data.to_arrow()
    with pyarrow.OSFile(path, "wb") as file, pyarrow.ipc.new_stream(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
