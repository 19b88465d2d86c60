"""Outputs for flows from Kafka. Offsets are committed only after the flows are stored."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

from flowbuf.cli.output.columnar import ColumnSource, open_sink
from flowbuf.cli.output.report import Failure
from flowbuf.cli.output.streams import COLUMN_FORMATS, is_terminal, open_errors, open_output
from flowbuf.cli.output.writers import FlowWriter, open_file_writer
from flowbuf.clickhouse.sink import ClickHouseSink
from flowbuf.errors import FlowbufError
from flowbuf.io.output_file import OutputFile
from flowbuf.kafka.consumer import KafkaSource, SourceBatch
from flowbuf.schema import Schema

__all__ = ["ClickHouseOutlet", "Commit", "FolderOutlet", "Outlet", "SchemaChanged", "StreamOutlet"]

Commit = Callable[[SourceBatch], None]


class SchemaChanged(FlowbufError):
    """Records of another schema have arrived, and the output cannot hold their columns."""


class Outlet(Protocol):
    """Store batches, as a context manager. `count` is the number of flows so far.

    `store` commits batches that are stored. Other batches are committed when the block ends without an error.
    """

    count: int

    def store(self, batch: SourceBatch, limit: int | None) -> None:
        """Store the flows of a batch, or at most `limit` of them.

        Raise SchemaChanged, or any error of the output.
        """
        ...

    def __enter__(self) -> Outlet: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class StreamOutlet:
    """One output for all flows.

    In a stream, flows are stored when written. In a file, they are stored when it is complete.
    """

    def __init__(self, form: str, output: str, ip: str, commit: Commit, spreadsheet: bool = False) -> None:
        self.count = 0
        self._form = form
        self._output = output
        self._ip = ip
        self._commit = commit
        self._spreadsheet = spreadsheet
        self._at_once = output == "-" and form not in COLUMN_FORMATS
        self._open = ExitStack()
        self._file: OutputFile | None = None
        self._schema: Schema | None = None
        self._columns: ColumnSource | None = None
        self._writer: FlowWriter | None = None
        # last batch of each partition that is not stored yet
        self._waiting: dict[tuple[str, int], SourceBatch] = {}

    def _start(self, schema: Schema) -> None:
        """Open the output, or switch to another schema.

        JSON lines may change columns; other formats may not.
        """
        if self._schema is not None and schema.hash == self._schema.hash:
            return
        if self._schema is not None and self._form != "jsonl":
            raise SchemaChanged(
                f"the schema of the Kafka records changed from {self._schema.hash} to {schema.hash}, and the "
                "output cannot hold its columns; the flows before it are stored; continue with another file, "
                "or a folder (-o OUT/)"
            )
        if self._file is None:
            self._file = self._open.enter_context(open_output(self._output, durable=True))
        self._schema, self._columns = schema, ColumnSource(schema, ip=self._ip)
        to_terminal = self._output == "-" and is_terminal(sys.stdout)
        counters = schema.rows == "counters"
        opened = open_file_writer(
            self._form, self._file, schema, to_terminal, counters, self._columns, self._spreadsheet
        )
        self._writer = self._open.enter_context(opened)

    def store(self, batch: SourceBatch, limit: int | None) -> None:
        written = self._write(batch, limit) if len(batch) else 0
        if written < len(batch):
            return  # a partial batch is not committed and is read again
        if self._at_once:
            self._commit(batch)
        else:
            self._waiting[batch.topic, batch.partition] = replace(batch, flows=(), faults=())

    def _write(self, batch: SourceBatch, limit: int | None) -> int:
        """Write a batch. Return the number of flows written."""
        self._start(batch.schema)
        assert self._columns
        assert self._writer
        written = 0
        for flows in first_rows(self._columns.read(iter(batch.flows)), limit):
            self._writer.write(flows)
            written += len(flows)
            self.count += len(flows)
        return written

    def __enter__(self) -> StreamOutlet:
        self._open.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._writer:
                self._writer.finish()
        except BaseException:
            self._open.__exit__(*sys.exc_info())
            raise
        self._open.__exit__(kind, error, traceback)
        if kind is None:
            for batch in self._waiting.values():
                self._commit(batch)


class FolderOutlet:
    """A folder with one file per batch, named after its topic, partition and offsets.

    A repeated batch replaces its file. A batch that overlaps another file is refused, because its flows would
    be there twice.

    The folder stores Kafka's identifier of each topic in the name of an empty hidden file,
    `.TOPIC.IDENTIFIER.topic`, which readers of Parquet folders skip. A topic that was deleted and created
    again has other records at the same offsets. It is refused, because its files would replace those of the
    old topic. A topic without an identifier is accepted.
    """

    def __init__(self, form: str, folder: str, ip: str, source: KafkaSource, commit: Commit) -> None:
        self.count = 0
        self._form = form
        self._folder = folder
        self._ip = ip
        self._source = source
        self._commit = commit
        self._columns: dict[str, ColumnSource] = {}
        self._ranges: dict[tuple[str, int], set[tuple[int, int]]] = {}  # offset ranges of existing files
        self._remembered: dict[str, str] = {}  # identifiers of topics in the folder

    def store(self, batch: SourceBatch, limit: int | None) -> None:
        self._check_topic(batch.topic, batch.topic_id)
        if len(batch):
            self._check(batch)
            self._source.promise(batch)
            self._remember(batch.topic, batch.topic_id)
            self._write(batch, limit)
        if limit is None or len(batch) <= limit:
            self._commit(batch)

    def _write(self, batch: SourceBatch, limit: int | None) -> None:
        columns = self._columns.get(batch.schema.hash)
        if columns is None:
            columns = self._columns[batch.schema.hash] = ColumnSource(batch.schema, ip=self._ip)
        name = f"{batch.topic}-{batch.partition}-{batch.first:020d}-{batch.end:020d}.{self._form}"
        with (
            OutputFile(os.path.join(self._folder, name), durable=True) as file,
            open_sink(self._form, file, columns.type) as sink,
        ):
            for flows in first_rows(columns.read(iter(batch.flows)), limit):
                sink.write(flows)
                self.count += len(flows)
        self._ranges[batch.topic, batch.partition].add((batch.first, batch.end))

    def _check(self, batch: SourceBatch) -> None:
        """Raise Failure if an existing file overlaps the offsets of a batch."""
        place = batch.topic, batch.partition
        if place not in self._ranges:
            self._ranges[place] = set(self._find_ranges(*place))
        for first, end in sorted(self._ranges[place] - {(batch.first, batch.end)}):
            if first < batch.end and batch.first < end:
                raise Failure(
                    f"{self._folder}: offsets {batch.first} to {batch.end} of {batch.topic}, partition "
                    f"{batch.partition}, overlap those of a file, {first} to {end}; "
                    "empty the folder, or name another"
                )

    def _find_ranges(self, topic: str, partition: int) -> Iterator[tuple[int, int]]:
        for found in self._match_names(
            rf"{re.escape(topic)}-{partition}-(\d{{20}})-(\d{{20}})\.{self._form}"
        ):
            yield int(found[1]), int(found[2])

    def _match_names(self, pattern: str) -> Iterator[re.Match[str]]:
        return filter(None, map(re.compile(pattern).fullmatch, os.listdir(self._folder)))

    def _check_topic(self, topic: str, identifier: str) -> None:
        """Raise Failure if the folder has files of a topic with the same name and another identifier."""
        if not identifier or self._remembered.get(topic) == identifier:
            return
        if self._find_identifiers(topic) - {identifier} and self._has_files(topic):
            raise Failure(
                f"{self._folder}: has files of another topic {topic!r}, perhaps from before it was deleted "
                "and created again; use another folder"
            )

    def _find_identifiers(self, topic: str) -> set[str]:
        """Return the identifiers of a topic in the folder: one or none."""
        return {found[1] for found in self._match_names(rf"\.{re.escape(topic)}\.([0-9a-f]{{32}})\.topic")}

    def _has_files(self, topic: str) -> bool:
        """Return True if the folder has files of the topic, in any format."""
        forms = "|".join(COLUMN_FORMATS)
        return any(self._match_names(rf"{re.escape(topic)}-\d+-\d{{20}}-\d{{20}}\.({forms})"))

    def _remember(self, topic: str, identifier: str) -> None:
        """Write the identifier of a topic before its first file. An identifier without files is replaced."""
        if not identifier or self._remembered.get(topic) == identifier:
            return
        known = self._find_identifiers(topic)
        for other in known - {identifier}:
            with suppress(FileNotFoundError):  # another member of the group has removed it
                os.unlink(self._mark(topic, other))
        if identifier not in known:
            with OutputFile(self._mark(topic, identifier), durable=True):
                pass
        self._remembered[topic] = identifier

    def _mark(self, topic: str, identifier: str) -> str:
        """Return the path of the file whose name has the identifier. Polars skips it because it is empty."""
        return os.path.join(self._folder, f".{topic}.{identifier}.topic")

    def __enter__(self) -> FolderOutlet:
        with open_errors():
            os.makedirs(self._folder, exist_ok=True)
            for topic, identifier in self._source.topic_ids.items():
                self._check_topic(topic, identifier)
            for topic, identifier in self._source.topic_ids.items():
                if self._has_files(topic):  # maybe of an older flowbuf that did not store identifiers
                    self._remember(topic, identifier)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


class ClickHouseOutlet:
    """A table of ClickHouse. It stores batches with the same token once."""

    def __init__(self, sink: ClickHouseSink, source: KafkaSource, commit: Commit) -> None:
        self.count = 0
        self._sink = sink
        self._source = source
        self._commit = commit

    def store(self, batch: SourceBatch, limit: int | None) -> None:
        if len(batch):
            self._source.promise(batch)
            self._sink.insert(batch.schema, batch.flows, batch.token)
            self.count += len(batch)
        self._commit(batch)

    def __enter__(self) -> ClickHouseOutlet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sink.close()


def first_rows(batches: Iterable[Any], limit: int | None) -> Iterator[Any]:
    """Yield batches with at most `limit` rows in total, or all batches."""
    for batch in batches:
        if limit is not None:
            batch = batch[:limit]
            limit -= len(batch)
        if len(batch):
            yield batch
