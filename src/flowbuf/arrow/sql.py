"""SQL over flows, with duckdb.

In SQL, addresses are text, and durations are numbers in the unit of their column.
`in_net(src_addr, '10.0.0.0/8')` tests whether an address is in a network.

An IPv4 network contains only IPv4 addresses, an IPv6 network only IPv6 addresses. IPv4-mapped addresses count
as IPv4.
"""

from __future__ import annotations

import functools
import glob
import ipaddress
import json
import re
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flowbuf.arrow.rows import render_addresses
from flowbuf.arrow.sql_errors import check_literals, errors_across_flows, errors_across_kinds, query_errors
from flowbuf.arrow.sql_tokens import columns_named, ends_of_scaled
from flowbuf.errors import QueryError
from flowbuf.schema import Schema

if TYPE_CHECKING:
    import pyarrow

__all__ = ["FlowQuery", "RowFilter", "connect", "plain", "quoted"]

_IPV4 = 2**32 - 1
_WORD = re.compile(r"\w+")
LARGEST_RATE = 2**32
"""Larger sampling rates count as this, so that sums do not overflow."""
RESULT_ROWS = 1 << 14
"""Rows per batch of results."""

Columns = tuple[tuple[str, str], ...]
"""The columns of a file: their names and duckdb types."""

_RENDERERS = {
    **{("ip", "BLOB"): "text_of_ip", ("ip", "BLOB[]"): "text_of_ips"},
    **{("mac", "UBIGINT"): "text_of_mac", ("mac", "UBIGINT[]"): "text_of_macs"},
}
"""The SQL function that formats an address, by its type in the schema and its duckdb type in a file."""


def connect() -> Any:
    """Open a duckdb database in memory with the functions of flowbuf.

    Times are in UTC. Names never refer to Python variables. No extension is downloaded.

    Raises:
        ImportError: duckdb or pyarrow is not installed (`flowbuf[sql]`).
    """
    import duckdb
    import pyarrow  # noqa: F401

    config: dict[str, Any] = {
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "temp_directory": tempfile.gettempdir(),  # a parameter of SET would import pandas in some versions
    }
    connection: Any = duckdb.connect(config=config)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        "CREATE MACRO scaled(value, rate) AS "
        f"value * greatest(least(coalesce(rate, 0), {LARGEST_RATE}), 1)::HUGEINT"
    )
    connection.create_function("in_net", _in_net, ["VARCHAR", "VARCHAR"], "BOOLEAN", type="arrow")
    connection.create_function("text_of_ip", _text_of_ip, ["BLOB"], "VARCHAR", type="arrow")
    connection.create_function("text_of_mac", _text_of_mac, ["UBIGINT"], "VARCHAR", type="arrow")
    connection.create_function("text_of_ips", _text_of_ip, ["BLOB[]"], "VARCHAR[]", type="arrow")
    connection.create_function("text_of_macs", _text_of_mac, ["UBIGINT[]"], "VARCHAR[]", type="arrow")
    return connection


def plain(table: Any) -> Any:
    """Return a batch or table with durations as numbers, and lists of enums as lists of text.

    Some versions of duckdb cannot read lists of enums that are all empty.
    """
    import pyarrow

    for place, field in enumerate(table.schema):
        if pyarrow.types.is_duration(field.type):
            type = pyarrow.int64()
        elif pyarrow.types.is_list(field.type) and pyarrow.types.is_dictionary(field.type.value_type):
            type = pyarrow.list_(pyarrow.string())
        else:
            continue
        column = pyarrow.field(field.name, type, field.nullable)
        table = table.set_column(place, column, table.column(place).cast(type))
    return table


class RowFilter:
    """A condition in SQL that selects rows of batches, one batch at a time.

    `columns` are the columns that the condition names.

    Raises:
        QueryError: the text is not one condition.
    """

    def __init__(self, condition: str, schema: Schema) -> None:
        self.columns = columns_named(condition, schema)
        self._schema = schema
        self._known = [column.name for column in schema]
        # `flows` is only an alias. With a table of this name, a subquery would see a single batch of flows.
        self._sql = f"SELECT row_number_of_flow FROM batch_of_flows AS flows WHERE (\n{condition}\n)"
        self._connection = connect()
        self._condition = condition
        self._check(condition)
        check_literals(condition, schema)

    def _check(self, condition: str) -> None:
        """Raise QueryError unless the condition is one expression, with and without brackets around it."""
        import duckdb

        wanted = QueryError(
            "the condition is not one SQL expression; write for example dst_port = 53 AND bytes > 512"
        )
        if not re.sub("--.*", "", condition).strip():
            raise wanted
        if any(ends_of_scaled(condition)):
            raise QueryError(
                "scaled works only in flowbuf query; to compare multiplied values, read with --scale "
                "(scale=True in Python)"
            )
        with query_errors(self._known, condition):
            if len(self._connection.extract_statements(self._sql)) != 1:
                raise QueryError("the condition has several statements; write one expression")
        try:
            self._connection.extract_statements(f"SELECT CASE WHEN\n{condition}\nTHEN true END")
        except duckdb.Error as error:
            raise wanted from error

    def check(self, type: Any, others: Sequence[Schema] = ()) -> None:
        """Evaluate the condition on no rows of a `pyarrow.Schema`, to find its errors before any work.

        `others` are the schemas of other kinds of rows that the condition applies to.
        """
        import pyarrow

        columns = [pyarrow.nulls(0, field.type) for field in type]  # pyarrow.array would import pandas
        with errors_across_kinds(self._condition, self._schema, others):
            self.rows(pyarrow.RecordBatch.from_arrays(columns, schema=type))

    def rows(self, batch: pyarrow.RecordBatch) -> Any:
        """Return the numbers of the matching rows as an Arrow array.

        Args:
            batch: Batch with the columns that the condition names, with addresses as text.

        Raises:
            QueryError: duckdb cannot evaluate the condition.
        """
        import pyarrow

        # Without `pyarrow.array`, `pyarrow.table` and an empty `combine_chunks`, pandas is not imported.
        data = pyarrow.py_buffer(array("q", range(batch.num_rows)))
        numbers = pyarrow.Array.from_buffers(pyarrow.int64(), batch.num_rows, [None, data])
        arrays = [batch[name] for name in self.columns]
        names = ["row_number_of_flow", *self.columns]
        table = plain(pyarrow.Table.from_arrays([numbers, *arrays], names))
        with query_errors(self._known, self._condition), errors_across_flows():
            self._connection.register("batch_of_flows", table)
            found = self._connection.sql(self._sql).to_arrow_table()["row_number_of_flow"]
        rows = pyarrow.concat_arrays(found.chunks) if found.num_chunks else numbers.slice(0, 0)
        return rows.sort()  # OR does not keep the order in some versions of duckdb


class FlowQuery:
    """A query over `flows`: the batches of a stream, Parquet files, or both.

    Args:
        sql: One SELECT statement.
        schema: Schema that tells which columns of the files are addresses.
        type: pyarrow.Schema of the flows, as `plain` returns it. It is that of the stream, if there is one.
        streams: True if there is a stream.
        files: Paths of Parquet files.
        on_problem: Called with a message for each file that cannot be read.

    Attributes:
        named: Columns that the SQL names.
        columns: Columns of the stream that the query uses; all columns if that is unknown.
        files: Files that can be read.
        reads: True if the query uses the stream.

    Raises:
        QueryError: the query is invalid. Raised before any flow is read.
    """

    def __init__(
        self,
        sql: str,
        schema: Schema,
        type: Any,
        streams: bool,
        files: Sequence[str],
        on_problem: Callable[[str], None],
    ) -> None:
        self._sql = sql
        self._schema = schema
        self._type = type
        self._known = list(dict.fromkeys([*type.names, *(column.name for column in schema)]))
        self._names = list(type.names) if streams else []
        self._connection = connect()
        self._tables = self._group(files, on_problem)
        self.files = [name for names in self._tables.values() for name in names]
        self._absent: list[str] = [] if streams or self.files else list(type.names)
        with query_errors(self._known):
            self._check_kind()
            scans, repeats = self._prepare(_no_batches(type) if streams else None)
        self.reads = bool(scans)
        self._streams = streams
        self._keeps = len(scans) > 1 or repeats
        self.named = columns_named(sql, schema)
        used = set(self.named).union(*scans)
        self.columns = [name for name in self._names if name in used or not scans]

    def _group(self, files: Sequence[str], on_problem: Callable[[str], None]) -> dict[Columns, list[str]]:
        """Group files by their columns. Files with the same columns are read together."""
        import duckdb

        tables: dict[Columns, list[str]] = {}
        for name in files:
            try:
                described = self._connection.execute(f"DESCRIBE FROM {_read_parquet([name])}").fetchall()
            except duckdb.Error as error:
                on_problem(f"{name}: not a complete Parquet file: {_reason(error)}")
                continue
            tables.setdefault(tuple((column, type) for column, type, *_ in described), []).append(name)
        return tables

    def _check_kind(self) -> None:
        import duckdb

        statements = self._connection.extract_statements(self._sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError("the SQL is not one query; write SELECT … FROM flows")

    def _prepare(self, stream: Any) -> tuple[list[set[str]], bool]:
        """Define `flows` and plan the query. Return the result of `_plan`.

        A query that fails for a missing column is planned again with the missing columns of the schema, as
        nulls. Other queries do not get these columns: they could collide with names of the query, or add
        columns to SELECT *.
        """
        import duckdb

        try:
            self._define(stream)
            return self._plan()
        except duckdb.BinderException:
            there = {*self._names, *self._absent, *(name for columns in self._tables for name, _ in columns)}
            self._absent += [name for name in columns_named(self._sql, self._schema) if name not in there]
            if not self._absent:
                raise
        self._define(stream)
        return self._plan()

    def _define(self, stream: Any, keep: bool = False) -> None:
        """Create the view `flows`.

        With `keep`, a stream that is read several times is stored in a temporary table.
        """
        parts = []
        if stream is not None:
            self._connection.register("flow_stream", stream)
            if keep:
                self._connection.execute("CREATE TEMP TABLE kept_flows AS FROM flow_stream")
            parts.append(self._select_stream("kept_flows" if keep else "flow_stream", stream.schema.names))
        parts += [self._select_files(columns, names) for columns, names in self._tables.items()]
        if self._absent:
            self._define_absent()
            parts.append("FROM absent_columns")
        self._connection.execute("CREATE OR REPLACE TEMP VIEW flows AS " + " UNION ALL BY NAME ".join(parts))

    def _select_stream(self, source: str, names: Sequence[str]) -> str:
        """Return SQL that selects all columns of a stream, with NULL for those that the stream lacks."""
        columns = ", ".join(f"{'' if name in names else 'NULL AS '}{quoted(name)}" for name in self._names)
        return f"SELECT {columns} FROM {source}"

    def _select_files(self, columns: Columns, names: Sequence[str]) -> str:
        """Return SQL that selects the columns of files, with addresses as text."""
        selected = ", ".join(self._select_column(name, type) for name, type in columns)
        return f"SELECT {selected} FROM {_read_parquet(names)}"

    def _select_column(self, name: str, type: str) -> str:
        column = quoted(name)
        kind = self._schema[name].type if name in self._schema else ""
        render = _RENDERERS.get((kind, type))
        return f"{render}({column}) AS {column}" if render else column

    def _define_absent(self) -> None:
        """Create a table without rows, which defines the types of columns that no source has."""
        import pyarrow

        type = pyarrow.schema([self._type.field(name) for name in self._absent])
        self._connection.register("no_flows", _no_batches(type))
        self._connection.execute("CREATE OR REPLACE TEMP TABLE absent_columns AS FROM no_flows")

    def _plan(self) -> tuple[list[set[str]], bool]:
        """Return the columns that each scan of the stream uses, and whether scans are repeated."""
        rows = self._connection.execute(f"EXPLAIN (FORMAT JSON)\n{self._sql}").fetchall()
        scans: list[set[str]] = []
        repeats = False
        waiting = list(json.loads(rows[0][1]))
        while waiting:
            node = waiting.pop()
            waiting += node["children"]
            name = node["name"].strip()
            repeats = repeats or "REC" in name  # a recursive CTE
            if name.endswith("ARROW_SCAN"):
                shown = node["extra_info"]
                projected = shown.get("Projections", [])
                scans.append({projected} if isinstance(projected, str) else set(projected))
                scans[-1].update(_WORD.findall(str(shown.get("Filters", ""))))
        return scans, repeats

    def run(self, stream: Any = None) -> tuple[Any, Iterator[Any]]:
        """Run the query. Return the pyarrow.Schema of the result and an iterator over its record batches.

        Args:
            stream: pyarrow.RecordBatchReader with the columns of `columns`. Other threads may read it.

        Raises:
            QueryError: duckdb cannot run the query. Iterating over the batches can raise it too.
        """
        with query_errors(self._known):
            self._define(stream if self._streams else None, self._keeps)
            relation = self._connection.sql(self._sql)
            # the name of the method depends on the version of duckdb
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            reader = read(RESULT_ROWS)
        return reader.schema, self._read(reader)

    def interrupt(self) -> None:
        """Interrupt the query that runs in another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the database and free its memory."""
        self._connection.close()

    def _read(self, reader: Any) -> Iterator[Any]:
        while True:
            with query_errors(self._known):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch


def _reason(error: Exception) -> str:
    """Return the first line of an error of duckdb, without the kind of error."""
    return str(error).partition("\n")[0].partition("Error: ")[2] or str(error)


def _read_parquet(names: Sequence[str]) -> str:
    """Return SQL that reads these files. Their names are not treated as patterns."""
    literals = ", ".join("'" + glob.escape(name).replace("'", "''") + "'" for name in names)
    return f"read_parquet([{literals}])"


def quoted(name: str) -> str:
    """Return the name of a column as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _no_batches(type: Any) -> Any:
    import pyarrow

    return pyarrow.RecordBatchReader.from_batches(type, [])


# Functions of SQL -------------------------------------------------------------------------------------------


def _text_of_ip(addresses: Any) -> Any:
    return render_addresses(addresses, "ip")


def _text_of_mac(addresses: Any) -> Any:
    return render_addresses(addresses, "mac")


def _in_net(addresses: Any, networks: Any) -> Any:
    """Return True for each address that is in its network. Both arrays are text without nulls."""
    import pyarrow

    pairs = zip(addresses.to_pylist(), networks.to_pylist(), strict=True)
    return pyarrow.array([_is_inside(*pair) for pair in pairs], pyarrow.bool_())


@functools.lru_cache(maxsize=1 << 16)
def _is_inside(address: str, network: str) -> bool:
    try:
        version, number = _parse(address)
    except ValueError:
        return False
    net_version, first, last = _range(network)
    return version == net_version and first <= number <= last


def _parse(address: str) -> tuple[int, int]:
    parsed = ipaddress.ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    parsed = mapped or parsed
    return parsed.version, int(parsed)


@functools.lru_cache(maxsize=1 << 12)
def _range(network: str) -> tuple[int, int, int]:
    """Return the IP version and the first and last address of a network. Raises ValueError."""
    try:
        parsed = ipaddress.ip_network(network, strict=False)
    except ValueError:
        raise ValueError(
            f"in_net: {network!r} is not a network; write it as '192.0.2.0/24' or '2001:db8::/32'"
        ) from None
    first, last = parsed.network_address, parsed.broadcast_address
    if isinstance(first, ipaddress.IPv6Address) and first.ipv4_mapped and parsed.prefixlen >= 96:
        return 4, int(first) & _IPV4, int(last) & _IPV4
    return parsed.version, int(first), int(last)
