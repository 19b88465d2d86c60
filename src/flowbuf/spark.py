"""Read captures as Spark DataFrames. Requires pyspark 4 or newer.

Example:

    spark.dataSource.register(flowbuf.spark.FlowbufDataSource)
    flows = spark.read.format("flowbuf").option("enable", "src_mac,dst_mac").load("captures/*.pcap.gz")

Each file is one partition with its own decoder, so templates and sampling rates of one file do not apply to
another. Flows reach Spark as Arrow columns, never as Python rows. `flowbuf.targets.spark` defines their
types.

The options are those of the command line, with _ in place of -; docs/how-to/spark.md lists them. Columns left
out of `.schema("src_addr string, proto smallint")` are not decoded.

Malformed, lost and undecoded data is counted. The worker that reads the file logs the counters as warnings of
the logger `flowbuf.spark`, so they appear in the log of its executor. With the option `strict`, such data
raises DecodeError instead.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.types import StructType
except ImportError as error:
    raise ImportError(
        f"flowbuf.spark needs pyspark 4 or newer; run pip install 'flowbuf[spark]' ({error})"
    ) from error

from flowbuf._core import STATUSES
from flowbuf.arrow.batch import FlowStream
from flowbuf.io.columns import read_capture
from flowbuf.io.find_files import find_files
from flowbuf.schema import Schema
from flowbuf.schema.source import did_you_mean
from flowbuf.targets.spark import spark_type, to_ddl

__all__ = ["CapturePartition", "FlowbufDataSource", "FlowbufReader"]

_log = logging.getLogger("flowbuf.spark")


class FlowbufDataSource(DataSource):
    """The Spark data source "flowbuf".

    Options: `path`, `schema`, `columns`, `enable`, `disable`, `time`, `port`, `decapsulate`, `strict`,
    `scale`, `default_sampling`, `override_sampling`, `template_expiry` (seconds) and `obey_withdrawals`.

    Raises:
        ValueError: an option is unknown or its value is invalid.
        SchemaError: the schema is invalid, or lacks a requested column.
        FileNotFoundError: a path matches no file.
    """

    @classmethod
    def name(cls) -> str:
        return "flowbuf"

    def schema(self) -> str:
        settings = _Settings.of(self.options)
        settings.open(os.devnull)  # reports invalid options before any file is read
        _find_files(self.options)
        return to_ddl(settings.schema)

    def reader(self, schema: StructType) -> FlowbufReader:
        return FlowbufReader(_find_files(self.options), _Settings.of(self.options), schema)


class CapturePartition(InputPartition):
    """One capture file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class FlowbufReader(DataSourceReader):
    """Reads capture files with exactly the columns and types of `wanted`."""

    def __init__(self, paths: list[str], settings: _Settings, wanted: StructType) -> None:
        self._paths = paths
        self._fields = [(field, field.dataType.simpleString()) for field in wanted]
        self._settings = settings.only({field.name: type for field, type in self._fields})
        self._settings.open(os.devnull)

    def partitions(self) -> list[InputPartition]:
        return [CapturePartition(path) for path in self._paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CapturePartition)
        schema = pa.schema(
            [pa.field(field.name, _arrow_type(type), field.nullable) for field, type in self._fields]
        )
        flows = self._settings.open(partition.path)
        try:
            for batch in flows:
                yield _cast(batch.to_arrow(), schema)
        finally:
            _log_counters(partition.path, flows.counters)


# Options ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Settings:
    """The options: a schema, and arguments of `read_capture`."""

    schema: Schema
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Settings:
        """Return the settings of the options. Raises ValueError for an unknown option or an invalid value."""
        values = {name.lower(): _read_option(name.lower(), text) for name, text in options.items()}
        if "override_sampling" in values and "default_sampling" in values:
            raise ValueError("override_sampling replaces every rate; leave out default_sampling")
        schema = Schema.load(values.pop("schema", "flow")).switch(
            only=values.pop("columns", None),
            enable=values.pop("enable", ()),
            disable=values.pop("disable", ()),
        )
        return cls(
            schema,
            {_ARGUMENTS.get(name, name): value for name, value in values.items() if name not in _PATHS},
        )

    def only(self, types: Mapping[str, str]) -> _Settings:
        """Return the settings with exactly these columns.

        Raises SchemaError for an unknown column or a wrong type.
        """
        for name, type in types.items():
            own = spark_type(self.schema[name])
            if type != own:
                raise self.schema.error(
                    name, f"cannot be read as {type}", f"read it as {own}, and cast it then"
                )
        return replace(self, schema=self.schema.only(*types))

    def open(self, path: str) -> FlowStream:
        """Return the flows of a file, without reading it yet.

        Raises ValueError if options contradict the schema.
        """
        arguments = dict(self.arguments)
        rate = arguments.pop("override_sampling", None)
        if rate is not None:
            arguments["override"] = {self._rate_column(): rate}
        return read_capture(path, self.schema, ip="text", **arguments)

    def _rate_column(self) -> str:
        if self.schema.rate is None:
            raise ValueError(
                f"override_sampling: schema {self.schema.name} has no sampling rate enabled; enable it"
            )
        return self.schema.rate.name


def _read_option(name: str, text: str) -> Any:
    if name not in _OPTIONS:
        fix = did_you_mean(name, _OPTIONS) or f"options are {', '.join(_OPTIONS)}"
        raise ValueError(f"flowbuf has no option {name!r}; {fix}")
    try:
        return _OPTIONS[name](text)
    except ValueError as error:
        raise ValueError(f"option {name} is {text!r}; {error}") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def _number(highest: int, text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= highest:
        raise ValueError(f"write a whole number, 1 to {highest:,}")
    return int(text)


_PATHS = ("path", "paths")
_ARGUMENTS = {"default_sampling": "default_sampling_rate"}  # options that read_capture gives another name
_OPTIONS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("schema", "time", *_PATHS), str),
    **dict.fromkeys(("columns", "enable", "disable", "decapsulate"), _names),
    **dict.fromkeys(("strict", "scale", "obey_withdrawals"), _flag),
    **dict.fromkeys(("default_sampling", "override_sampling"), functools.partial(_number, 2**64 - 1)),
    "template_expiry": functools.partial(_number, 10**9),
    "port": functools.partial(_number, 65535),
}


# Files ------------------------------------------------------------------------------------------------------


def _find_files(options: Mapping[str, str]) -> list[str]:
    """Return the files of all paths, each once. Raises FileNotFoundError."""
    paths = [options["path"]] if "path" in options else json.loads(options.get("paths", "[]"))
    if not any(paths):
        raise ValueError('path is missing; name the captures, for example .load("captures/*.pcap")')
    return list(dict.fromkeys(file for path in paths for file in _expand(path)))


def _expand(path: str) -> list[str]:
    local = os.path.abspath(path.removeprefix("file://").removeprefix("file:"))
    if "://" in path and not path.startswith("file:"):
        raise FileNotFoundError(
            f"{path}: is a URL, not a path; mount the files at a path that all workers can read"
        )
    try:
        return find_files(local)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: no file has this name or matches this pattern; flowbuf searched for {local}"
        ) from None


# Conversion to the Arrow types of Spark ---------------------------------------------------------------------


def _arrow_type(type: str) -> pa.DataType:
    """Return the Arrow type in which Spark accepts values of a Spark type."""
    if type.startswith("array<"):
        return pa.list_(pa.field("element", _arrow_type(type.removeprefix("array<")[:-1])))
    return _ARROW_TYPES[type]


_ARROW_TYPES = {
    **{
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "decimal(20,0)": pa.decimal128(20, 0),
    },
    **{"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "string": pa.string()},
    **{
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"),
        "interval day to second": pa.duration("us"),
    },
}


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema` in its types. Nanoseconds are truncated to microseconds."""
    options = [pc.CastOptions(type, allow_time_truncate=True) for type in schema.types]
    columns = [
        batch.column(name).cast(options=each) for name, each in zip(schema.names, options, strict=True)
    ]
    return pa.record_batch(columns, schema)


def _log_counters(path: str, counters: Mapping[str, int]) -> None:
    """Log the counters of a file: notes as information, all others as warnings."""
    for status, count in counters.items():
        kind, text = STATUSES[status]
        _log.log(
            logging.INFO if kind == "note" else logging.WARNING, "%s: %d %s: %s", path, count, status, text
        )
