"""SQL over flows, with duckdb.

In SQL, addresses are text, and durations are numbers in the unit of their column.
`in_net(src_addr, '10.0.0.0/8')` tests whether an address is in a network.

An IPv4 network contains only IPv4 addresses, an IPv6 network only IPv6 addresses. IPv4-mapped addresses count
as IPv4.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import ipaddress
import itertools
import json
import re
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flowbuf.arrow.rows import render_addresses
from flowbuf.errors import QueryError
from flowbuf.schema import Schema
from flowbuf.schema.assemble import list_columns, suggest_fix

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    *("FlowQuery", "RowFilter", "columns_named", "connect", "plain", "query_errors", "quoted"),
    "with_rates",
]

_IPV4 = 2**32 - 1
_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_ACROSS_FLOWS = re.compile(
    r".*(Table with name .* does not exist|cannot contain (aggregates|window functions))"
)
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


class _Token(NamedTuple):
    """A part of SQL: a sign, or words in lower case without quotes. A literal has "" and no words.

    duckdb returns several words as one token if spaces that are not ASCII separate them.
    """

    offset: int  # in bytes
    text: str
    words: Sequence[str] = ()


def _tokens_of(sql: str) -> list[_Token]:
    """Return the tokens of SQL without comments. Raise QueryError for text that is not UTF-8."""
    import duckdb

    try:
        content = sql.encode()  # duckdb counts bytes
    except UnicodeEncodeError:
        raise QueryError("the SQL is not UTF-8") from None
    found = [(offset, str(kind).rpartition(".")[2]) for offset, kind in duckdb.tokenize(sql)]
    tokens = []
    for (offset, kind), (end, _) in itertools.pairwise([*found, (len(content), "")]):
        text = content[offset:end].decode().lower()  # and what follows: spaces, in some versions comments
        if kind == "operator":
            tokens.append(_Token(offset, text[:1]))
        elif kind in ("identifier", "keyword"):
            words = _WORD.findall(_COMMENT.sub(" ", text))
            words = words[:1] if text.startswith('"') else words
            tokens.append(_Token(offset, words[0] if words else "", words))
        elif kind != "comment":
            tokens.append(_Token(offset, ""))
    return tokens


def columns_named(sql: str, schema: Schema) -> tuple[str, ...]:
    """Return the columns of a schema, enabled or not, whose names occur in SQL.

    Upper and lower case are equal. Raise QueryError for text that is not UTF-8.
    """
    words = {word for token in _tokens_of(sql) for word in token.words}
    if "columns" in words:  # COLUMNS('bytes') selects columns by a regular expression
        words = set(_WORD.findall(sql.lower()))
    return tuple(column.name for column in schema if column.name.lower() in words)


def with_rates(sql: str, rate: str | None) -> str:
    """Return SQL with a second argument in each `scaled(value)`: the sampling rate.

    Args:
        sql: SQL of a query.
        rate: SQL of the rate, such as the name of its column. None: the flows have none.

    Raises:
        QueryError: `scaled(value)` occurs, and there is no rate. Or it has no value, or the text is not
            UTF-8.
    """
    ends = sorted(_ends_of_scaled(sql), reverse=True)
    text = sql.encode()
    for end in ends:
        if rate is None:
            raise QueryError("scaled needs a sampling rate, and the schema has no column for it")
        text = text[:end] + f", {rate}".encode() + text[end:]
    return text.decode()


def _ends_of_scaled(sql: str) -> Iterator[int]:
    """Yield the offset of the bracket that ends each call of `scaled` with one argument."""
    tokens = _tokens_of(sql)
    for i in range(len(tokens) - 2):
        if tokens[i].text != "scaled" or tokens[i + 1].text != "(":
            continue
        if tokens[i + 2].text == ")":
            raise QueryError("scaled needs a value; write for example sum(scaled(bytes))")
        end = _find_end(tokens[i + 1 :])
        if end is not None:
            yield end


def _find_end(tokens: Iterable[_Token]) -> int | None:
    """Return the offset of the bracket that ends a call with one argument; None for another number."""
    depth = 0
    for offset, sign, _ in tokens:
        depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))
        if depth == 0:
            return offset
        if depth == 1 and sign == ",":
            return None
    return None


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


@contextlib.contextmanager
def query_errors(columns: Iterable[str]) -> Iterator[None]:
    """Turn exceptions of duckdb into QueryError. An error about an unknown name lists these columns."""
    import duckdb
    import pyarrow

    try:
        yield
    except duckdb.BinderException as error:
        raise QueryError(
            "\n".join(filter(None, (_message(error), _advise(str(error), list(columns)))))
        ) from error
    except (duckdb.Error, pyarrow.ArrowException) as error:
        raise QueryError(_message(error)) from error


def _message(error: Exception) -> str:
    """Return the message of duckdb, without the Python traceback of an error inside a function."""
    if extension := re.search(r"required extension '(\w+)", str(error)):
        fix = f"python -c \"import duckdb; duckdb.install_extension('{extension[1]}')\""
        return (
            f"duckdb's extension {extension[1]} is not installed, and flowbuf does not download it; run {fix}"
        )
    lines = [
        line.rstrip() for line in str(error).splitlines() if line.strip() and "row_number_of_flow" not in line
    ]
    text = "\n".join(lines)
    return text.partition("ValueError: ")[2].partition("\nAt:")[0] or text


def _advise(message: str, columns: list[str]) -> str:
    """Return a suggestion for the missing column of an error, or the list of columns.

    Returns "" if no column is missing.
    """
    missing = re.search(r'[Cc]olumn (?:named )?"(.*?)"', message)
    if not missing or missing[1] in columns:
        return ""
    return suggest_fix(missing[1], columns) or list_columns(columns)


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
        self._known = [column.name for column in schema]
        # `flows` is only an alias. With a table of this name, a subquery would see a single batch of flows.
        self._sql = f"SELECT row_number_of_flow FROM batch_of_flows AS flows WHERE (\n{condition}\n)"
        self._connection = connect()
        self._check(condition)

    def _check(self, condition: str) -> None:
        """Raise QueryError unless the condition is one expression, with and without brackets around it."""
        import duckdb

        wanted = QueryError(
            "the condition is not one SQL expression; write for example dst_port = 53 AND bytes > 512"
        )
        if not re.sub("--.*", "", condition).strip():
            raise wanted
        if any(_ends_of_scaled(condition)):
            raise QueryError(
                "scaled works only in flowbuf query; to compare multiplied values, read with --scale "
                "(scale=True in Python)"
            )
        with query_errors(self._known):
            if len(self._connection.extract_statements(self._sql)) != 1:
                raise QueryError("the condition has several statements; write one expression")
        try:
            self._connection.extract_statements(f"SELECT CASE WHEN\n{condition}\nTHEN true END")
        except duckdb.Error as error:
            raise wanted from error

    def check(self, type: Any) -> None:
        """Evaluate the condition on no rows of a `pyarrow.Schema`, to find its errors before any work."""
        import pyarrow

        columns = [pyarrow.nulls(0, field.type) for field in type]  # pyarrow.array would import pandas
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
        with query_errors(self._known), _errors_across_flows():
            self._connection.register("batch_of_flows", table)
            found = self._connection.sql(self._sql).to_arrow_table()["row_number_of_flow"]
        rows = pyarrow.concat_arrays(found.chunks) if found.num_chunks else numbers.slice(0, 0)
        return rows.sort()  # OR does not keep the order in some versions of duckdb


@contextlib.contextmanager
def _errors_across_flows() -> Iterator[None]:
    """Raise QueryError with advice if a condition uses more than one flow."""
    import duckdb

    try:
        yield
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        said = _ACROSS_FLOWS.search(str(error))
        if not said:
            raise
        raise QueryError(
            f"{said[0]}\na condition sees one flow at a time; use flowbuf query for a query over all flows"
        ) from error


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
