"""FlowStream and FlowBatch: slices, select, filter, previews, and the same as arguments of read_capture.

Results are compared with those of pyarrow and duckdb for all flows.
"""

from __future__ import annotations

import copy
import errno
import os
import pickle
import random
import shutil
import sys
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import flowbuf
from flowbuf import FlowBatch, FlowStream, QueryError, SamplingRule, SchemaError, read_capture, read_messages
from flowbuf.io.columns import _CaptureTables
from flowbuf.schema import Schema
from tests.support.command import GOOD, WITHOUT_TEMPLATE, pcap, write

SHIPPED = Path(__file__).parents[1] / "data"
NETFLOW9 = SHIPPED / "generated-netflow9.pcap"
SFLOW = SHIPPED / "generated-sflow.pcap"
FLOW = Schema.load("flow")
EVERYTHING = FLOW.enable(*(column.name for column in FLOW))
CONDITION = "dst_port < 1000 and src_addr like '10.%'"


def whole(path: Path = NETFLOW9, schema: Schema = FLOW, **options: Any) -> pa.Table:
    return read_capture(path, schema, **options).to_arrow()


def matching(table: pa.Table, condition: str = CONDITION) -> pa.Table:
    """Return the rows that match, by duckdb without flowbuf's filter."""
    numbered = table.append_column("row", pa.array(range(len(table))))
    found = duckdb.connect().from_arrow(numbered).filter(condition).order("row").project("row").fetchall()
    return table.take([row for (row,) in found])


def only_batch(schema: Schema = FLOW, path: Path = NETFLOW9, **options: Any) -> FlowBatch:
    (batch,) = read_capture(path, schema, batch_rows=1 << 20, **options)
    return batch


# Slices -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        *(slice(10), slice(5, 20), slice(-3, None), slice(None, None, -1), slice(100, 10, -7)),
        *(slice(7, 7), slice(10**9, None), slice(299, 10**9), slice(None)),
    ],
)
def test_a_slice_of_a_batch_has_these_rows(rows: slice) -> None:
    batch = only_batch(EVERYTHING, SFLOW)
    wanted = batch.to_arrow().take(pa.array(range(len(batch))[rows], pa.int64()))
    assert len(batch[rows]) == wanted.num_rows
    assert batch[rows].to_arrow().equals(wanted)
    assert batch.text()[rows].to_arrow().equals(batch[rows].text().to_arrow())


def test_rows_in_any_order_are_copied_with_every_column() -> None:
    batch = only_batch(EVERYTHING, SFLOW)
    numbers = random.Random(1).choices(range(len(batch)), k=2000)
    taken = FlowBatch(EVERYTHING, batch._table.take(array("Q", numbers)))
    assert taken.to_arrow().equals(batch.to_arrow().take(numbers))


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (array("Q", [300]), IndexError),
        (array("q", [-1]), IndexError),
        (array("Q", [0, 2**64 - 1]), IndexError),
        (b"1234567", ValueError),
        ("text", TypeError),
        (None, TypeError),
        (memoryview(bytes(64))[::2], (BufferError, ValueError)),
    ],
)
def test_numbers_of_rows_are_checked(rows: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        only_batch()._table.take(rows)


def test_a_slice_does_not_keep_the_batch() -> None:
    batch = only_batch()
    assert batch[:3].nbytes < batch.nbytes / 3
    assert batch[:] is batch


@pytest.mark.parametrize(
    ("begin", "end"), [(None, 5), (7, None), (250, 1000), (3, 3), (16, 32), (5, 2), (0, 0)]
)
@pytest.mark.parametrize("batch_rows", [2, 16, 1 << 14])
def test_a_slice_of_a_stream_has_these_rows(begin: int | None, end: int | None, batch_rows: int) -> None:
    stream = read_capture(NETFLOW9, batch_rows=batch_rows)[begin:end]
    table = stream.to_arrow()
    assert table.combine_chunks().equals(whole()[begin:end].combine_chunks())
    assert sum(map(len, stream)) == table.num_rows


def test_slices_of_a_stream_combine() -> None:
    stream = read_capture(NETFLOW9, batch_rows=32)
    assert stream[10:100][5:20].to_arrow().equals(whole()[15:30])
    assert stream[10:20][5:100].to_arrow().num_rows == 5


def test_reading_ends_with_the_last_flow_of_a_slice(tmp_path: Path) -> None:
    """The second capture does not exist, and is not needed."""
    stream = read_capture([NETFLOW9, tmp_path / "none.pcap"])
    assert stream[:300].to_arrow().num_rows == 300
    with pytest.raises(FileNotFoundError):
        stream[:301].to_arrow()


def test_a_slice_closes_its_capture_and_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(WITHOUT_TEMPLATE, GOOD, GOOD))
    stream = read_capture(path, batch_rows=2)[:1]
    assert stream.to_arrow().num_rows == 1
    assert stream.counters["early_data"] == 1


def test_streams_have_counters_of_their_own(tmp_path: Path) -> None:
    good, cut = (write(tmp_path / f"{i}.pcap", pcap(GOOD) + b"cut" * i) for i in range(2))
    stream = read_capture([good, cut])
    begin = stream[:1]
    assert begin.to_polars().height == 1
    assert stream._repr_html_().count("<tr>") == 2
    assert begin.counters == stream.counters == {}  # the cut was not reached
    for read in (stream.to_polars, stream.to_pandas, stream.to_arrow, lambda: list(stream)):
        list(begin)
        stream._counters = {}
        read()
        begin._repr_html_()
        assert stream.counters == {"truncated_capture": 1}
        assert begin.counters == {}


def test_a_condition_may_name_other_columns_in_text() -> None:
    batch = next(iter(read_capture(NETFLOW9, columns=["bytes", "src_addr"])))
    found = batch.filter("bytes > 1 and src_addr not like 'dst_addr' -- not packets")
    assert len(found) == len(batch)
    with pytest.raises(SchemaError, match="'packets' was not read"):
        batch.filter("packets > 1")


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (slice(-1, None), ValueError, "no negative limits"),
        (slice(None, -1), ValueError, "no negative limits"),
        (slice(None, None, 2), ValueError, "no step"),
        (0, TypeError, r"stream\[:10\]"),
    ],
)
def test_a_stream_refuses_other_slices(index: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        read_capture(NETFLOW9)[index]


def test_a_batch_refuses_other_indexes() -> None:
    with pytest.raises(TypeError, match=r"batch\[:10\], not with int"):
        only_batch()[0]  # type: ignore[index]


# Columns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [False, True])
def test_select_keeps_its_order(text: bool) -> None:
    names = ("bytes", "src_addr", "flow_type", "time_received")
    batch, stream = only_batch(), read_capture(NETFLOW9)
    if text:
        batch, stream = batch.text(), stream.text()
    wanted = whole(ip="text" if text else "binary").select(names)
    assert pa.table(batch.select(*names)).equals(wanted)
    assert stream.select(*names).to_arrow().equals(wanted)
    assert batch.select(*names).columns == stream.select(*names).columns == names
    assert batch.select(*names, *names).columns == names
    assert batch.select("bytes").select().columns == ()


@pytest.mark.parametrize("text", [False, True])
def test_the_schema_has_exactly_the_columns(text: bool) -> None:
    """So it describes the batch to a database, and does not add columns of zeros."""
    names = ("dst_addr", "icmp_type", "bytes")  # one of them is disabled
    stream = read_capture(SFLOW, columns=names)
    if text:
        stream = stream.text()
    batch = next(iter(stream))
    for part in (stream, batch, stream[:5], batch[:5], stream.filter("proto = 1"), batch.filter("bytes > 0")):
        assert {column.name for column in part.schema.enabled} == set(names)
    assert {column.name for column in batch.select("bytes").schema.enabled} == {"bytes"}
    assert read_capture(SFLOW, FLOW).schema is FLOW
    assert next(iter(read_capture(SFLOW, FLOW))).schema is FLOW


def test_a_schema_without_a_dependency_is_an_error() -> None:
    schema = FLOW.add("extra", 1000, "uint8", ["ipfix:4"], depends=["bytes"])
    batch = next(iter(read_capture(NETFLOW9, schema, columns=["extra", "proto"])))
    with pytest.raises(SchemaError, match="depends on bytes, which is disabled"):
        _ = batch.schema
    assert batch.to_arrow().num_rows == 300
    assert "<th>extra</th>" in batch._repr_html_()


@pytest.mark.parametrize(
    ("select", "name", "text"),
    [
        (only_batch, "src_adr", "did you mean src_addr"),
        (
            only_batch,
            "tunnel_id",
            "was not read; read it with columns=.*; columns are time_received, ",
        ),
        (lambda: read_capture(NETFLOW9), "tunnel_id", "was not read"),
        (lambda: read_capture(NETFLOW9).select("bytes"), "packets", "was not read; .*; columns are bytes"),
    ],
)
def test_select_refuses_columns_that_are_not_there(
    select: Callable[[], FlowBatch | FlowStream], name: str, text: str
) -> None:
    with pytest.raises(SchemaError, match=text):
        select().select(name)


@pytest.mark.parametrize("name", [["bytes"], 3, None])
def test_select_refuses_what_is_not_a_name(name: Any) -> None:
    stream = read_capture(NETFLOW9)
    codec = flowbuf.Codec.load("record")
    for columns in (stream, next(iter(stream)), codec.read_columns(codec.encode_many(codec.examples(1)))):
        with pytest.raises(TypeError, match=rf"takes names, not {type(name).__name__}; write select"):
            columns.select(name)


def test_columns_are_decoded_in_this_order() -> None:
    names = ("dst_as_path", "bytes", "src_mac")  # two of them are disabled
    table = whole(SFLOW, columns=names)
    assert table.column_names == list(names)
    assert table.equals(whole(SFLOW, EVERYTHING).select(names))


def test_a_group_stands_for_its_columns() -> None:
    group = [column.name for column in FLOW if column.group == "l2"]
    assert len(group) > 1
    assert read_capture(SFLOW, columns=["bytes", "group:l2"]).columns == ("bytes", *group)


def test_only_columns_in_use_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[set[str]] = []
    read = _CaptureTables._read

    def record(self: Any, decoder: Any, *arguments: Any) -> Any:
        decoded.append({column.name for column in decoder.schema.enabled})
        return read(self, decoder, *arguments)

    monkeypatch.setattr(_CaptureTables, "_read", record)
    read_capture(NETFLOW9, columns=["bytes"]).to_arrow()
    read_capture(NETFLOW9, where="tunnel_id = 0").select("packets").to_arrow()
    read_capture(NETFLOW9, columns=["bytes"], scale=True).to_arrow()
    assert decoded == [{"bytes"}, {"packets", "tunnel_id"}, {"bytes", "sampling_rate"}]


def test_options_apply_without_their_columns() -> None:
    """Scaling needs the sampling rate, and an override its column, whether they are shown or not."""
    scaled = whole(scale=True)
    assert whole(columns=["bytes"], scale=True).equals(scaled.select(["bytes"]))
    for names in (["src_addr", "sampling_rate"], ["proto"], []):  # without totals
        for options in ({}, {"sampling": [SamplingRule("0.0.0.0/0", 9, override=True)]}):
            unscaled = whole(columns=names, scale=True, **options)
            assert unscaled.equals(whole(scale=True, **options).select(names))
            assert unscaled.num_rows == scaled.num_rows
    overridden = whole(columns=["bytes"], scale=True, override={"sampling_rate": 7})
    assert overridden["bytes"].to_pylist() == [7 * value for value in whole()["bytes"].to_pylist()]


def test_messages_are_read_with_columns_in_this_order(tmp_path: Path) -> None:
    flowbuf.encode_capture(NETFLOW9, tmp_path / "flows.pb")
    stream = read_messages(tmp_path / "flows.pb", columns=["packets", "src_addr"])
    assert stream.to_arrow().equals(whole().select(["packets", "src_addr"]))
    assert stream.filter("dst_port < 1000")[:4].to_arrow().num_rows == 4


# Conditions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", [16, 1 << 14])
@pytest.mark.parametrize("path", [NETFLOW9, SFLOW])
def test_a_condition_selects_rows(path: Path, batch_rows: int) -> None:
    wanted = matching(whole(path, ip="text"))
    assert 0 < len(wanted) < len(whole(path))
    stream = read_capture(path, where=CONDITION, ip="text", batch_rows=batch_rows)
    assert stream.to_arrow().combine_chunks().equals(wanted.combine_chunks())
    filtered = read_capture(path, batch_rows=batch_rows).filter(CONDITION).text()
    assert filtered.to_arrow().combine_chunks().equals(wanted.combine_chunks())
    assert pa.table(only_batch(path=path).filter(CONDITION).text()).equals(wanted.combine_chunks())


def test_a_condition_with_every_column() -> None:
    batch = only_batch(EVERYTHING, SFLOW)
    assert pa.table(batch.filter("bytes > 500").text()).equals(
        matching(pa.table(batch.text()), "bytes > 500")
    )


@pytest.mark.parametrize(("condition", "rows"), [("true", 300), ("false", 0), ("bytes >= 0", 300)])
def test_a_condition_for_all_or_no_rows(condition: str, rows: int) -> None:
    batch = only_batch()
    assert len(batch.filter(condition)) == rows
    assert whole(where=condition).num_rows == rows


def test_conditions_and_slices_apply_in_their_order() -> None:
    table, stream = whole(ip="text"), read_capture(NETFLOW9, ip="text", batch_rows=32)
    assert stream.filter(CONDITION)[2:6].to_arrow().equals(matching(table)[2:6])
    assert stream[:50].filter(CONDITION).to_arrow().equals(matching(table[:50]))
    assert whole(where=CONDITION, limit=3, ip="text").equals(matching(table)[:3])


@pytest.mark.parametrize(
    ("condition", "error", "text"),
    [
        ("nope = 1", QueryError, "nope"),
        ("bytes >", QueryError, "syntax"),
        ("", QueryError, "not one SQL expression"),
    ],
)
def test_a_wrong_condition_is_an_error_before_reading(
    condition: str, error: type[Exception], text: str
) -> None:
    for filter in (
        lambda: read_capture("none.pcap", where=condition),
        lambda: read_capture("none.pcap").filter(condition),
        lambda: only_batch().filter(condition),
    ):
        with pytest.raises(error, match=text):
            filter()


def test_a_condition_that_fails_for_a_value_is_an_error() -> None:
    for filter in (only_batch().filter, lambda condition: whole(where=condition)):
        with pytest.raises(QueryError, match="Could not convert string"):
            filter("src_addr::integer = 1")


def test_a_batch_is_filtered_only_by_its_columns() -> None:
    with pytest.raises(SchemaError, match="column 'packets' was not read"):
        only_batch().select("bytes").filter("packets > 1")


def test_a_filtered_stream_is_read_by_several_threads() -> None:
    stream = read_capture(NETFLOW9, batch_rows=4).filter("bytes % 3 = 0").select("bytes")
    wanted = [value for value in whole()["bytes"].to_pylist() if value % 3 == 0]
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: stream.to_arrow(), range(8)))
    assert all(table["bytes"].to_pylist() == wanted for table in tables)


def test_a_filtered_stream_can_be_pickled_and_copied() -> None:
    stream = read_capture(NETFLOW9, where=CONDITION, columns=["bytes"])[1:5]
    for other in (pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream), copy.copy(stream)):
        assert other.to_arrow().equals(stream.to_arrow())
        assert len(other.to_arrow())


def test_a_condition_names_its_requirement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"pip install 'flowbuf\[sql\]'"):
        read_capture(NETFLOW9, where="bytes > 1")


# Sources ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.pcap", "a.pcap", ".hidden", "_success"):
        shutil.copy(NETFLOW9 if name == "a.pcap" else SFLOW, tmp_path / name)
    (tmp_path / "inner").mkdir()
    shutil.copy(NETFLOW9, tmp_path / "inner" / "c.pcap")
    return tmp_path


def test_a_list_a_folder_and_a_pattern_are_read_in_order(folder: Path) -> None:
    both = pa.concat_tables([whole(), whole(SFLOW)]).combine_chunks()
    for source in ([NETFLOW9, SFLOW], folder, str(folder / "*"), f"{folder}/[ab].pcap", [str(folder)]):
        stream = read_capture(source)  # type: ignore[arg-type]
        assert stream.to_arrow().combine_chunks().equals(both)
        assert sum(map(len, stream)) == len(both)  # again
    assert read_capture(f"{folder}/**").to_arrow().num_rows == len(both) + 300
    assert read_capture(folder / ".hidden").to_arrow().num_rows == 300


def test_only_regular_files_of_a_folder_are_read(tmp_path: Path) -> None:
    """A pipe would block, and a link may lead nowhere."""
    shutil.copy(NETFLOW9, tmp_path / "a.pcap")
    os.mkfifo(tmp_path / "b.pcap")
    (tmp_path / "c.pcap").symlink_to("nowhere")
    (tmp_path / "d.pcap").symlink_to("a.pcap")
    assert read_capture(tmp_path).to_arrow().num_rows == 600


def test_captures_of_a_list_share_a_decoder(tmp_path: Path) -> None:
    """A template of one capture applies to the next. Counters are those of all captures."""
    write(tmp_path / "1.pcap", pcap(WITHOUT_TEMPLATE))
    write(tmp_path / "2.pcap", pcap(GOOD) + b"cut")
    stream = read_capture(tmp_path)
    assert stream.to_arrow().num_rows == 1
    assert stream.counters["early_data"] == 1
    assert stream.counters["template_missing"] == 1
    assert stream.counters["truncated_capture"] == 1


def test_a_name_with_brackets_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "flows[1].pcap"
    shutil.copy(NETFLOW9, path)
    assert read_capture(path).to_arrow().num_rows == 300


def test_sources_without_files_are_errors(tmp_path: Path) -> None:
    texts = {"": "no files", "*.pcap": "no file matches", "none.pcap": "No such file"}
    for name, text in texts.items():
        source = tmp_path / name
        with pytest.raises(FileNotFoundError, match=text) as found:
            read_capture(source).to_arrow()
        assert (found.value.errno, found.value.filename) == (errno.ENOENT, str(source))
    with pytest.raises(ValueError, match="empty list"):
        read_capture([])


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("os.listdir", refuse)  # root may read any folder
    with pytest.raises(PermissionError, match="Permission denied"):
        read_capture(tmp_path).to_arrow()


def test_a_capture_that_is_none_is_named_after_the_flows_before_it(folder: Path) -> None:
    (folder / "b.pcap").write_bytes(b"no capture")
    batches = iter(read_capture(folder))
    assert len(next(batches)) == 300
    with pytest.raises(flowbuf.CaptureError, match=r"b\.pcap: not a capture"):
        next(batches)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"columns": "bytes"}, TypeError, "columns is 'bytes'; pass a list of names"),
        ({"columns": 5}, TypeError, "columns is 5; pass a list of names"),
        ({"columns": ["bytes", 1]}, TypeError, "columns has 1; write names"),
        ({"where": 1}, TypeError, "a condition is SQL, not int"),
        ({"columns": ["byte"]}, SchemaError, "no column 'byte'"),
        ({"columns": ["group:none"]}, SchemaError, "no group"),
        ({"limit": -1}, ValueError, "limit is -1; it may be 0 or more"),
        *(
            ({name: value}, TypeError, f"{name} is {value!r}; it must be a whole number")
            for name in ("limit", "batch_rows", "port")
            for value in ("a", float("nan"), 2055.9)
        ),
        ({"batch_rows": 1}, ValueError, "batch_rows is 1; it may be 2 to 67,108,864"),
        ({"port": 70000}, ValueError, "port is 70000; it may be 1 to 65,535"),
        ({"scale": "no"}, TypeError, "scale is 'no'; it must be True or False"),
        ({"options": {}}, TypeError, "options is {}; pass DecodeOptions"),
        ({"schema": 5}, TypeError, "schema is 5; it must be a Schema"),
        ({"override": {"nope": 1}}, SchemaError, "no column 'nope'"),
    ],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        read_capture(NETFLOW9, **arguments).to_arrow()


# Descriptions -----------------------------------------------------------------------------------------------


def test_reprs_name_the_source_and_the_columns() -> None:
    stream = read_capture(NETFLOW9, columns=["bytes", "packets"], where="bytes > 5", limit=9)
    assert repr(stream) == f"<FlowStream: {NETFLOW9} where bytes > 5 [:9], 2 columns: bytes, packets>"
    assert repr(next(iter(stream))) == "<FlowBatch: 9 flows, 2 columns: bytes, packets>"
    columns = "21 columns: time_received, exporter_address, sampling_rate, bytes, packets, src_addr, …"
    assert repr(only_batch()) == f"<FlowBatch: 300 flows, {columns}>"
    assert repr(read_capture([NETFLOW9, SFLOW, "x"])).startswith(f"<FlowStream: {NETFLOW9} and 2 more, ")
    assert repr(read_capture("-")).startswith("<FlowStream: <stdin>, ")


def test_notebooks_show_the_first_flows() -> None:
    names = ["src_addr", "bytes", "flow_direction", "dst_as_path"]
    stream = read_capture(SFLOW, columns=names)
    shown = stream._repr_html_()
    first = stream[:10].text().to_arrow().to_pylist()
    assert shown.count("<tr>") == 11
    assert "<th>src_addr</th><th>bytes</th><th>flow_direction</th><th>dst_as_path</th>" in shown
    for row in first:
        assert f'<td>{row["src_addr"]}</td><td style="text-align: right">{row["bytes"]}</td>' in shown
    (batch,) = stream
    assert batch._repr_html_().partition("<table>")[2] == shown.partition("<table>")[2]


def test_a_preview_does_not_consume_a_file_and_escapes_text() -> None:
    with NETFLOW9.open("rb") as file:
        stream = read_capture(file)
        assert (
            stream._repr_html_()
            == f"<p><code>{repr(stream).replace('<', '&lt;').replace('>', '&gt;')}</code></p>"
        )
        assert stream.to_arrow().num_rows == 300


def test_a_preview_without_pyarrow_is_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "<table>" not in read_capture(NETFLOW9)._repr_html_()
