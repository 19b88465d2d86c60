"""Outputs of `flowbuf collect`, by their destination."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from flowbuf.arrow.row_text import RowText
from flowbuf.cli.output.columnar import need
from flowbuf.collect.config import DESTINATIONS, OutputConfig, output_name
from flowbuf.collect.outputs.null import NullOutput
from flowbuf.collect.outputs.output import WAIT_SECONDS, Output
from flowbuf.collect.places import describe
from flowbuf.errors import ConfigError, KafkaError
from flowbuf.kafka.client import read_settings
from flowbuf.kafka.schema_topic import parse_schema_topic
from flowbuf.selection import FlowSelection

__all__ = ["new_output"]

logger = logging.getLogger("flowbuf.collect")


def new_output(config: OutputConfig, selection: FlowSelection, spool: str) -> Output:
    """Return the output of a destination.

    Args:
        config: Settings of the output.
        selection: Selection whose record batches it gets.
        spool: Identity of its spool, or "" if it has none.

    Raises:
        ConfigError: the destination is not known, or an option is invalid.
        OSError: files cannot be written there.
    """
    if config.to == "null:":
        return NullOutput()
    if config.to == "-":
        return StdoutOutput(selection, _notes(config))
    if config.to.startswith("kafka://"):
        return _new_kafka_output(config, selection)
    if config.to.startswith(("http://", "https://")):
        return _new_clickhouse_output(config, selection, spool)
    if config.to.startswith(("pb:", "s3://")) or config.to.endswith("/"):
        return _new_file_output(config, selection, spool)
    raise ConfigError(f"{describe(config.to)!r} is not a destination; write {DESTINATIONS}")


def _new_file_output(config: OutputConfig, selection: FlowSelection, spool: str) -> Output:
    from flowbuf.collect.outputs.files.file_formats import FileFormat, MessageFormat, ParquetFormat
    from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput

    as_messages = config.to.startswith("pb:")
    try:
        form: FileFormat = ParquetFormat()
        if as_messages:
            form = MessageFormat(selection.schema, scaled=config.scaled)
        options = FileOptions(
            prefix=selection.schema.rows,
            rotate_seconds=int(config.rotate),
            rotate_bytes=config.rotate_bytes,
            keep_seconds=config.keep or None,
            keep_bytes=config.keep_bytes or None,
            spool=spool,
        )
        return FileOutput(config.to.removeprefix("pb:"), form, options, on_problem=_notes(config))
    except ValueError as error:
        raise ConfigError(f"{describe(config.to)}: {error}") from error


def _new_kafka_output(config: OutputConfig, selection: FlowSelection) -> Output:
    need("confluent_kafka", "kafka", "-o kafka://")
    from flowbuf.collect.outputs.kafka import KafkaOutput, KafkaPlace

    try:
        settings = read_settings(config.kafka_config) if config.kafka_config else {}
    except OSError as error:
        problem = f"kafka_config: {config.kafka_config} cannot be read: {error.strerror}"
        raise ConfigError(f"{problem}; correct the name of the file") from error
    except (KafkaError, ValueError) as error:
        raise ConfigError(f"kafka_config: {error}") from error
    try:
        place = KafkaPlace.parse(
            config.to,
            format=config.format,
            key=config.key,
            compression=config.compression,
            partitions=config.partitions or None,
            schema_topic=parse_schema_topic(config.schema_topic),
            settings=settings,
            expiring=config.on_overflow == "drop",
            ordered=config.on_overflow == "spool",
        )
    except (KafkaError, ValueError) as error:
        raise ConfigError(f"output {output_name(config)!r}: {error}") from error
    return KafkaOutput(place, selection.schema, _notes(config))


def _new_clickhouse_output(config: OutputConfig, selection: FlowSelection, spool: str) -> Output:
    need("clickhouse_connect", "clickhouse", "-o http://")
    from flowbuf.collect.outputs.clickhouse import ClickHouseOutput

    try:
        return ClickHouseOutput(config.to, selection.schema, config.table, _notes(config), spool)
    except ValueError as error:
        raise ConfigError(f"output {output_name(config)!r}: {error}") from error


def _notes(config: OutputConfig) -> Callable[[str], None]:
    """Return a function that logs problems of an output."""
    return logging.LoggerAdapter(logger, {"output": output_name(config)}).warning


class StdoutOutput:
    """JSON lines on standard output. Implements `Output`.

    Bytes that the system does not take, for example on a full disk, are written later, and only once.

    Raises:
        ConfigError: standard output is closed.
    """

    def __init__(
        self, selection: FlowSelection, on_problem: Callable[[str], None] = lambda text: None
    ) -> None:
        self._on_problem = on_problem
        self.stored = 0
        self.pending = 0
        self.lost: Mapping[str, int] = {}
        self._rows = RowText(selection.schema)
        if sys.stdout is None:
            raise ConfigError("standard output is closed; name another destination, or leave it open")
        self._stream = _stream_of(getattr(sys.stdout.buffer, "raw", sys.stdout.buffer))

    def write(self, batch: Any, number: int | None = None) -> None:
        """Write the flows of a record batch. Those that the system does not take at once are pending."""
        with self._stream.lock:
            self._stream.flush()
            self._settle()
            self._stream.begin(self, self._rows.lines(batch))
            self.pending = batch.num_rows
            try:
                self._stream.flush()
                self._settle()
            except BrokenPipeError:
                self.pending = 0
                raise
            except BlockingIOError:
                pass  # the next call reports it if the reader is still too slow
            except OSError as error:
                self._on_problem(f"standard output: {error.strerror}; trying again")

    def _settle(self) -> None:
        """Count the last batch as stored."""
        self.stored += self.pending
        self.pending = 0

    def tick(self) -> None:
        """Write the rest of the last batch."""
        with self._stream.lock:
            if self._stream.owner is self:  # another output begins only behind the rest
                self._stream.flush()
            self._settle()

    def close(self) -> None:
        """Write the rest of the last batch."""
        self.tick()


class _Stream:
    """Standard output. After a reload, an output and its successor share it, so that lines stay whole.

    Attributes:
        lock: The caller of a method holds it.
        owner: Output that wrote last.

    Args:
        file: Raw file.
    """

    def __init__(self, file: Any) -> None:
        self.lock = threading.Lock()
        self.owner: StdoutOutput | None = None
        self._file = file
        self._room = _Room(file)
        self._rest = memoryview(b"")  # bytes that the system did not take yet

    def begin(self, owner: StdoutOutput, lines: memoryview) -> None:
        """Write these lines next. REQUIRES: `flush` has succeeded."""
        self.owner = owner
        self._rest = lines

    def flush(self) -> None:
        """Write all bytes. Raise OSError if the system does not take them in WAIT_SECONDS."""
        end = time.monotonic() + WAIT_SECONDS
        while len(self._rest):
            room = self._room.wait(end - time.monotonic())
            written = self._file.write(self._rest[:room]) if room else 0
            if not written:
                raise BlockingIOError(errno.EAGAIN, "the reader of standard output is too slow")
            self._rest = self._rest[written:]


@functools.lru_cache(maxsize=1)
def _stream_of(file: Any) -> _Stream:
    """Return the stream of a raw file, which is the same at each call."""
    return _Stream(file)


class _Room:
    """Number of bytes that a file takes without blocking.

    Args:
        file: Raw file. It may be one of a test, without a descriptor.
    """

    def __init__(self, file: Any) -> None:
        self._poll: Any = None
        with contextlib.suppress(OSError, AttributeError):
            descriptor = file.fileno()
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                self._poll = select.poll()
                self._poll.register(descriptor, select.POLLOUT)

    def wait(self, seconds: float) -> int:
        """Wait for room. Return 0 if there is none after this time."""
        if self._poll is None:
            return sys.maxsize
        return select.PIPE_BUF if seconds > 0 and self._poll.poll(seconds * 1000) else 0
