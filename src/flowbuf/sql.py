"""SQL over flows, by duckdb. Addresses are text in SQL, and `in_net(src_addr, '10.0.0.0/8')` tells networks.

A network of IPv4 holds IPv4 addresses alone, one of IPv6 those of IPv6 alone; IPv4-mapped ones count as IPv4.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from flowbuf.errors import QueryError
from flowbuf.schema import Schema
from flowbuf.schema.source import did_you_mean

if TYPE_CHECKING:
    import pyarrow

__all__ = ["RowFilter", "columns_named", "connect", "query_errors"]

_IPV4 = 2**32 - 1
_WORD = re.compile(r"\w+")
SHOWN_COLUMNS = 30
"""So many names of columns an error lists."""


def columns_named(sql: str, schema: Schema) -> tuple[str, ...]:
    """The columns of a schema, enabled or not, whose names occur in some SQL, which does not distinguish cases."""
    words = {word.lower() for word in _WORD.findall(sql)}
    return tuple(column.name for column in schema if column.name.lower() in words)


def connect() -> Any:
    """A database in memory that knows what `flowbuf` adds to SQL; times are in UTC, and names are never those of Python
    variables. Raises ImportError without duckdb and pyarrow (`flowbuf[sql]`)."""
    import duckdb
    import pyarrow  # noqa: F401

    connection: Any = duckdb.connect(config={"python_enable_replacements": False})
    connection.execute("SET TimeZone = 'UTC'")
    connection.create_function("in_net", _in_net, ["VARCHAR", "VARCHAR"], "BOOLEAN", type="arrow")
    return connection


@contextlib.contextmanager
def query_errors(columns: Iterable[str]) -> Iterator[None]:
    """What duckdb raises inside becomes a QueryError. Where it is about names, it lists these columns."""
    import duckdb

    try:
        yield
    except duckdb.BinderException as error:
        raise QueryError(f"{_message(error)}\n{_advise(str(error), list(columns))}") from error
    except duckdb.Error as error:
        raise QueryError(_message(error)) from error


def _message(error: Exception) -> str:
    """What duckdb says, without the way through Python that an error in a function has come."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip() and "row_number_of_flow" not in line]
    text = "\n".join(lines)
    return text.partition("ValueError: ")[2] or text


def _advise(message: str, columns: list[str]) -> str:
    """Which column is meant, or which there are."""
    missing = re.search(r'Referenced column "(\w+)"', message)
    if missing and (advice := did_you_mean(missing[1], columns)):
        return advice
    rest = len(columns) - SHOWN_COLUMNS
    more = f" and {rest} more: flowbuf schema show --all" if rest > 0 else ""
    return f"columns are {', '.join(columns[:SHOWN_COLUMNS])}{more}"


class RowFilter:
    """Tells which rows of batches fulfil a condition in SQL, one batch at a time. `columns` are those that it names."""

    def __init__(self, condition: str, schema: Schema) -> None:
        self.columns = columns_named(condition, schema)
        self._known = [column.name for column in schema]
        self._sql = f"SELECT row_number_of_flow FROM flows WHERE (\n{condition}\n)"
        self._connection = connect()

    def rows(self, batch: pyarrow.RecordBatch) -> Any:
        """The numbers of the rows that fulfil it, as an Arrow array. `batch` has the columns that the condition names,
        addresses as text. Raises QueryError."""
        import pyarrow

        numbers = pyarrow.array(range(batch.num_rows), pyarrow.int64())
        arrays = [batch[name] for name in self.columns]
        table = pyarrow.table([numbers, *arrays], ["row_number_of_flow", *self.columns])
        with query_errors(self._known):
            if len(self._connection.extract_statements(self._sql)) != 1:
                raise QueryError("one condition is wanted, not several statements")
            self._connection.register("flows", table)
            found = self._connection.sql(self._sql).to_arrow_table()["row_number_of_flow"]
        return found.combine_chunks()


# Networks -------------------------------------------------------------------------------------------------------------


def _in_net(addresses: Any, networks: Any) -> Any:
    """For Arrow arrays of text: which address is in which network. Nulls never come here."""
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
    """The version of a network, its first and its last address. Raises ValueError."""
    try:
        parsed = ipaddress.ip_network(network, strict=False)
    except ValueError:
        raise ValueError(f"in_net: {network!r} is no network; write it as '192.0.2.0/24' or '2001:db8::/32'") from None
    first, last = parsed.network_address, parsed.broadcast_address
    if isinstance(first, ipaddress.IPv6Address) and first.ipv4_mapped and parsed.prefixlen >= 96:
        return 4, int(first) & _IPV4, int(last) & _IPV4
    return parsed.version, int(first), int(last)
