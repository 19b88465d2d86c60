"""Outputs for flows from Kafka. Offsets are committed only after the flows are stored."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

from flowbuf.cli.options import UsageProblem, schema_errors
from flowbuf.cli.output.columnar import ColumnSource, enriched_schema, load_pipeline, open_sink
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import COLUMN_FORMATS, is_terminal, open_errors, open_output
from flowbuf.cli.output.writers import FlowWriter, open_file_writer
from flowbuf.clickhouse.sink import ClickHouseSink
from flowbuf.errors import FlowbufError
from flowbuf.io.output_file import OutputFile
from flowbuf.kafka.consumer import KafkaSource, SourceBatch
from flowbuf.schema import Schema
from flowbuf.schema.assemble import list_columns

__all__ = [
    "ClickHouseOutlet",
    "Commit",
    "FolderOutlet",
    "Outlet",
    "SchemaChanged",
    "Selections",
    "StreamOutlet",
]

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


class Selections:
    """The enrichments, the condition and the columns of an output, for each schema of Kafka records.

    Args:
        report: Receiver of the notes of enrichments.
        ip: Form of IP and MAC addresses.
        where: Condition in SQL, or None.
        columns: Names of the columns to write, in this order; empty for all.
        enrich: Enrichments, as in --enrich.

    Attributes:
        cut: True if the limit cut the last batch.
        filtered: Number of flows so far that did not match the condition, or that an enrichment left out.
        columns: Names of the columns to write.
    """

    def __init__(
        self,
        report: Report,
        ip: str,
        where: str | None = None,
        columns: Sequence[str] = (),
        enrich: Sequence[str] = (),
    ) -> None:
        self.cut = False
        self.filtered = 0
        self.columns = columns
        self._report = report
        self._ip = ip
        self._where = where
        self._enrich = enrich
        self._sources: dict[str, ColumnSource] = {}

    def of(self, schema: Schema) -> ColumnSource:
        """Return the selection from Kafka records of a schema.

        Raise UsageProblem if it needs columns that they lack, or SchemaChanged if earlier ones had them.
        """
        if schema.hash not in self._sources:
            try:
                self._sources[schema.hash] = self._new_source(schema)
            except UsageProblem as error:
                if self._sources:  # others had these columns, and their flows stay
                    raise SchemaChanged(f"{error.message}; the flows before them are stored") from None
                raise
        return self._sources[schema.hash]

    def _new_source(self, schema: Schema) -> ColumnSource:
        with schema_errors():
            shown = schema.only(*self.columns) if self.columns else schema
        pipeline = load_pipeline(self._enrich, shown, self._report)
        shown = enriched_schema(shown, pipeline, bool(self.columns))
        source = ColumnSource(shown, self._where, self._ip, pipeline, self.columns)
        there = [column.name for column in schema.enabled]
        for column in source.decoded.enabled:
            if column.name not in there and not (pipeline and column.name in pipeline.provides):
                raise UsageProblem(f"the Kafka records have no column {column.name!r}; {list_columns(there)}")
        return source

    def read(self, batch: SourceBatch, limit: int | None) -> Iterator[Any]:
        """Yield the selected flows of a batch as record batches, with at most `limit` flows in all."""
        source = self.of(batch.schema)
        needed = {column.name for column in source.decoded.enabled}
        names = [column.name for column in batch.schema.enabled if column.name in needed]
        self.cut = False
        selected = source.read(flows.select(*names) for flows in batch.flows)
        for flows, rows in zip(batch.flows, selected, strict=True):
            self.filtered += len(flows) - len(rows)
            if limit is not None:
                self.cut |= len(rows) > limit
                rows = rows[:limit]
                limit -= len(rows)
            if len(rows):
                yield rows


class StreamOutlet:
    """One output for all flows.

    In a stream, flows are stored when written. In a file, they are stored when it is complete.
    """

    def __init__(
        self, form: str, output: str, selections: Selections, commit: Commit, spreadsheet: bool = False
    ) -> None:
        self.count = 0
        self._form = form
        self._output = output
        self._selections = selections
        self._commit = commit
        self._spreadsheet = spreadsheet
        self._at_once = output == "-" and form not in COLUMN_FORMATS
        self._open = ExitStack()
        self._file: OutputFile | None = None
        self._schema: Schema | None = None
        self._writer: FlowWriter | None = None
        # last batch of each partition that is not stored yet
        self._waiting: dict[tuple[str, int], SourceBatch] = {}

    def _start(self, records: Schema) -> None:
        """Open the output for Kafka records of a schema, or switch to it.

        JSON lines may change columns; other formats may not.
        """
        columns = self._selections.of(records)
        schema = columns.schema
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
        self._schema = schema
        to_terminal = self._output == "-" and is_terminal(sys.stdout)
        order = self._selections.columns
        sections = schema.rows == "counters" and not order
        opened = open_file_writer(
            self._form, self._file, schema, to_terminal, sections, columns, self._spreadsheet, order
        )
        self._writer = self._open.enter_context(opened)

    def store(self, batch: SourceBatch, limit: int | None) -> None:
        if len(batch):
            self._start(batch.schema)
            assert self._writer
            for flows in self._selections.read(batch, limit):
                self._writer.write(flows)
                self.count += len(flows)
        if self._selections.cut:
            return  # a batch that is cut is not committed, and is read again
        if self._at_once:
            self._commit(batch)
        else:
            self._waiting[batch.topic, batch.partition] = replace(batch, flows=(), faults=())

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

    def __init__(
        self, form: str, folder: str, selections: Selections, source: KafkaSource, commit: Commit
    ) -> None:
        self.count = 0
        self._form = form
        self._folder = folder
        self._selections = selections
        self._source = source
        self._commit = commit
        self._ranges: dict[tuple[str, int], set[tuple[int, int]]] = {}  # offset ranges of existing files
        self._remembered: dict[str, str] = {}  # identifiers of topics in the folder

    def store(self, batch: SourceBatch, limit: int | None) -> None:
        self._check_topic(batch.topic, batch.topic_id)
        if len(batch):
            self._check(batch)
            self._source.promise(batch)
            self._remember(batch.topic, batch.topic_id)
            self._write(batch, limit)
        if not self._selections.cut:
            self._commit(batch)

    def _write(self, batch: SourceBatch, limit: int | None) -> None:
        name = f"{batch.topic}-{batch.partition}-{batch.first:020d}-{batch.end:020d}.{self._form}"
        path = os.path.join(self._folder, name)
        with (
            OutputFile(path, durable=True) as file,
            open_sink(self._form, file, self._selections.of(batch.schema).type) as sink,
        ):
            before = self.count
            for flows in self._selections.read(batch, limit):
                sink.write(flows)
                self.count += len(flows)
            if self.count == before:
                file.discard()
                with suppress(FileNotFoundError):  # of an earlier run with another condition
                    os.unlink(path)
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
    """A table of ClickHouse. It stores batches of a group with the same token once.

    Groups may store other flows of the same Kafka records.
    """

    def __init__(
        self, sink: ClickHouseSink, selections: Selections, source: KafkaSource, commit: Commit, group: str
    ) -> None:
        self.count = 0
        self._group = group
        self._sink = sink
        self._selections = selections
        self._source = source
        self._commit = commit

    def store(self, batch: SourceBatch, limit: int | None) -> None:
        if len(batch):
            self._source.promise(batch)
            flows = list(self._selections.read(batch, None))
            token = f"{self._group}:{batch.token}"
            self._sink.insert(self._selections.of(batch.schema).schema, flows, token)
            self.count += sum(map(len, flows))
        self._commit(batch)

    def __enter__(self) -> ClickHouseOutlet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sink.close()
