"""Captures as lazy tables of polars and duckdb, which decode only what a query uses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from flowbuf.arrow.batch import FlowStream
from flowbuf.errors import optional_import
from flowbuf.io.columns import CaptureSource, read_capture
from flowbuf.io.statuses import Counters, describe_losses
from flowbuf.schema import Schema

if TYPE_CHECKING:
    import duckdb
    import polars

__all__ = ["scan"]

ENGINES = ("polars", "duckdb")


@overload
def scan(
    source: CaptureSource | Sequence[CaptureSource],
    schema: Schema | str = "flow",
    *,
    into: Literal["polars"] = "polars",
    **arguments: Any,
) -> polars.LazyFrame: ...


@overload
def scan(
    source: CaptureSource | Sequence[CaptureSource],
    schema: Schema | str = "flow",
    *,
    into: Literal["duckdb"],
    connection: duckdb.DuckDBPyConnection | None = None,
    **arguments: Any,
) -> duckdb.DuckDBPyRelation: ...


def scan(
    source: CaptureSource | Sequence[CaptureSource],
    schema: Schema | str = "flow",
    *,
    into: str = "polars",
    connection: Any = None,
    **arguments: Any,
) -> Any:
    """Return the flows of captures as a lazy table, which is read when a query needs its rows.

    The query determines what is decoded. Columns that it does not use are not decoded. Rows that its filter
    excludes leave memory after each batch. Reading ends at its limit. Each query reads the captures again.
    Addresses are text.

    Args:
        source: Captures, as in `read_capture`.
        schema: Schema, name of a built-in schema, or path to a TOML file. Default: "flow".
        into: "polars" returns a `polars.LazyFrame`, "duckdb" a `duckdb.DuckDBPyRelation`. Default: "polars".
        connection: Connection of duckdb to which the relation belongs. Default: duckdb's default connection.
        **arguments: Other arguments of `read_capture`, such as `columns` or `scale`, except `ip`.

    Raises:
        ValueError: into is neither "polars" nor "duckdb", connection is given for polars, columns is empty,
            or an option is invalid.
        ImportError: polars is not installed (`flowbuf[polars]`), or duckdb or pyarrow (`flowbuf[sql]`).
        SchemaError: The schema cannot be loaded, or has no column of a name in columns.

    While a query runs, polars and duckdb raise their own exceptions. The text names the capture and the
    problem. A query that met faults or losses (`flowbuf.STATUSES`) ends with a RuntimeWarning, which counts
    them; with `strict=True`, the first one is an error.

    Example:
        flows = flowbuf.scan("captures/*.pcap.gz")
        flows.filter(polars.col("dst_port") == 53).select("src_addr", "bytes").head(10).collect()

        flows = flowbuf.scan("capture.pcap", into="duckdb")
        flows.filter("dst_port = 53").aggregate("src_addr, sum(bytes)").show()
    """
    if into not in ENGINES:
        raise ValueError(f"into is {into!r}; it may be {' or '.join(ENGINES)}")
    if "ip" in arguments:
        raise TypeError("scan takes no ip, because addresses are text; leave it out")
    stream = read_capture(source, schema, ip="text", **arguments)
    if not stream.columns:
        raise ValueError(f"columns is empty, and {into} has no tables without columns; leave it out")
    if into == "duckdb":
        return _scan_duckdb(stream, connection)
    if connection is not None:
        raise ValueError('connection applies only to into="duckdb"; leave it out')
    return _scan_polars(stream)


def _scan_polars(stream: FlowStream) -> polars.LazyFrame:
    with optional_import("scan needs polars", "flowbuf[polars]"):
        import polars
        from polars.io.plugins import register_io_source

    def read(
        with_columns: list[str] | None,
        predicate: polars.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        names = list(stream.columns) if with_columns is None else with_columns
        used = [] if predicate is None else predicate.meta.root_names()
        chosen = stream.select(*names, *used)
        # polars applies the number of rows before the predicate
        chosen = chosen if n_rows is None else chosen[:n_rows]
        for batch in chosen:
            frame = polars.DataFrame(batch)
            yield (frame if predicate is None else frame.filter(predicate)).select(names)
        _warn_of_losses(chosen.counters)

    empty = polars.DataFrame(stream[:0])
    return register_io_source(read, schema=empty.schema)


def _scan_duckdb(stream: FlowStream, connection: Any) -> Any:
    with optional_import("scan into duckdb needs duckdb and pyarrow", "flowbuf[sql]"):
        import duckdb

        from flowbuf.arrow.dataset import FlowDataset
    return (connection or duckdb).from_arrow(FlowDataset(stream, _warn_of_losses))


def _warn_of_losses(counters: Counters) -> None:
    """Warn of faults and losses, because the user of a lazy table has no counters."""
    losses = describe_losses(counters)
    if losses:
        text = f"rows may be missing ({losses}); strict=True makes this an error"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
