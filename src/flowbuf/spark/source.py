"""The Spark data source, and its reader of captures.

Each file is one partition with its own decoder, so templates and sampling rates of one file do not apply to
another. Columns left out of `.schema("src_addr string, proto smallint")` are not decoded.

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

try:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType
except ImportError as error:
    raise ImportError(
        f"flowbuf.spark needs pyarrow and pyspark 4 or newer; run pip install 'flowbuf[spark]' ({error})"
    ) from error

from flowbuf._core import STATUSES
from flowbuf.arrow.batch import FlowStream
from flowbuf.io.columns import read_capture
from flowbuf.io.find_files import find_files
from flowbuf.schema import Schema
from flowbuf.spark.columns import LOG, arrow_schema, cast
from flowbuf.spark.kafka import KAFKA, KafkaSettings, TopicReader, TopicStream
from flowbuf.spark.options import flag, names, number, read_options
from flowbuf.targets.spark import spark_type, to_ddl

__all__ = ["CapturePartition", "FlowbufDataSource", "FlowbufReader"]


class FlowbufDataSource(DataSource):
    """The Spark data source "flowbuf".

    Options for captures: `path`, `schema`, `columns`, `enable`, `disable`, `time`, `port`, `decapsulate`,
    `strict`, `scale`, `default_sampling`, `override_sampling`, `template_expiry` (seconds) and
    `obey_withdrawals`.

    Options for Kafka: `kafka` (brokers), `topic`, `schema`, `columns`, `framing`, `schema_registry`,
    `schema_topic`, `starting_offsets`, `max_records`, `strict`, and settings of librdkafka as `kafka.NAME`.

    Raises:
        ValueError: an option is unknown or its value is invalid.
        SchemaError: the schema is invalid, or lacks a requested column.
        FileNotFoundError: a path matches no file.
        KafkaError: no broker answers, or the topic or its schema cannot be found.
    """

    @classmethod
    def name(cls) -> str:
        return "flowbuf"

    def schema(self) -> str:
        if KAFKA in self.options:
            return to_ddl(KafkaSettings.of(self.options).find_schema())
        settings = _Settings.of(self.options)
        settings.open(os.devnull)  # reports invalid options before any file is read
        _find_files(self.options)
        return to_ddl(settings.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        if KAFKA in self.options:
            return TopicReader(KafkaSettings.of(self.options), schema)
        return FlowbufReader(_find_files(self.options), _Settings.of(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if KAFKA not in self.options:
            raise ValueError('flowbuf streams only Kafka topics; set the options "kafka" and "topic"')
        return TopicStream(KafkaSettings.of(self.options), schema)


class CapturePartition(InputPartition):
    """One capture file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class FlowbufReader(DataSourceReader):
    """Reads capture files with exactly the columns and types of `wanted`."""

    def __init__(self, paths: list[str], settings: _Settings, wanted: StructType) -> None:
        self._paths = paths
        self._wanted = wanted
        self._settings = settings.only({field.name: field.dataType.simpleString() for field in wanted})
        self._settings.open(os.devnull)

    def partitions(self) -> list[InputPartition]:
        return [CapturePartition(path) for path in self._paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CapturePartition)
        shown = arrow_schema(self._wanted)
        flows = self._settings.open(partition.path)
        try:
            for batch in flows:
                yield cast(batch.to_arrow(), shown)
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
        values = read_options(options, _OPTIONS)
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


_PATHS = ("path", "paths")
_ARGUMENTS = {"default_sampling": "default_sampling_rate"}  # options that read_capture gives another name
_OPTIONS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("schema", "time", *_PATHS), str),
    **dict.fromkeys(("columns", "enable", "disable", "decapsulate"), names),
    **dict.fromkeys(("strict", "scale", "obey_withdrawals"), flag),
    **dict.fromkeys(("default_sampling", "override_sampling"), functools.partial(number, 2**64 - 1)),
    "template_expiry": functools.partial(number, 10**9),
    "port": functools.partial(number, 65535),
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


def _log_counters(path: str, counters: Mapping[str, int]) -> None:
    """Log the counters of a file: notes as information, all others as warnings."""
    for status, count in counters.items():
        kind, text = STATUSES[status]
        LOG.log(
            logging.INFO if kind == "note" else logging.WARNING, "%s: %d %s: %s", path, count, status, text
        )
