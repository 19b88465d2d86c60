"""read_capture and Decoder return columns that pandas, polars, DuckDB and pyarrow read.

The columns hold the same flows as the messages of the same capture.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import pickle
import threading
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import flowbuf
from flowbuf import (
    CaptureError,
    DecodeError,
    Decoder,
    FlowBatch,
    SchemaError,
    encode_capture,
    read_capture,
    read_messages,
)
from flowbuf.schema import Schema
from tests.support.cases import slow
from tests.support.columnar import rows_expected, rows_of, table_of
from tests.support.command import CUT_SHORT, GOOD, pcap, write
from tests.support.command import flowbuf as run
from tests.support.datagrams import data_set, ipfix, template, template_set
from tests.support.decoding import RECEIVED, SOURCE

FLOW = Schema.load("flow")
EVERYTHING = FLOW.enable(*(column.name for column in FLOW))
SCHEMAS = {
    "default": FLOW,
    "every-column": EVERYTHING,
    **{n: Schema.load(n) for n in ("goflow2", "sflow_counters")},
}
# The tests of messages take twice as long with every column, and other tests cover them.
each_schema = pytest.mark.parametrize("name", ["default", "sflow_counters", *slow("every-column", "goflow2")])
SHIPPED = Path(__file__).parents[1] / "data"
NETFLOW9 = SHIPPED / "generated-netflow9.pcap"
SFLOW = SHIPPED / "generated-sflow.pcap"


@pytest.fixture(params=["shipped", "corpus"])
def captures(request: pytest.FixtureRequest) -> list[Path]:
    folder = SHIPPED if request.param == "shipped" else request.getfixturevalue("corpus")
    return sorted(folder.glob("*.pcap"))


# The same flows ---------------------------------------------------------------------------------------------


@each_schema
def test_columns_hold_the_same_values_as_messages(name: str, captures: list[Path], tmp_path: Path) -> None:
    assert len(captures) >= 7
    schema = SCHEMAS[name]
    flows = 0
    for capture in captures:
        result = encode_capture(capture, tmp_path / "flows.pb", schema)
        stream = read_capture(capture, schema)
        rows = rows_of(stream)
        assert rows == rows_expected((tmp_path / "flows.pb").read_bytes(), schema), capture
        assert stream.counters == result.counters, capture
        flows += len(rows)
    counters_sent = 0 if captures[0].parent != SHIPPED else 3
    assert flows >= (20 if schema.rows == "flows" else counters_sent)


def test_columns_hold_the_same_values_as_the_read_command_prints(tmp_path: Path) -> None:
    """`flowbuf read -f jsonl` omits absent values."""
    for capture in (NETFLOW9, SFLOW):
        lines = [json.loads(line) for line in run("read", capture, "-f", "jsonl").output.splitlines()]
        rows = read_capture(capture, ip="text").to_arrow().drop_columns("time_received").to_pylist()
        for line, row in zip(lines, rows, strict=True):
            del line["time_received"]
            assert {name: value for name, value in row.items() if value} == line


@pytest.mark.parametrize("batch_rows", [2, 3, 100, 1 << 20])
def test_batches_of_any_size_hold_the_same_flows(batch_rows: int) -> None:
    batches = list(read_capture(SFLOW, EVERYTHING, batch_rows=batch_rows))
    assert all(len(batch) <= batch_rows for batch in batches)
    assert all(len(batch) >= batch_rows - 1 for batch in batches[:-1])
    assert [row for batch in batches for row in rows_of(batch)] == rows_of(read_capture(SFLOW, EVERYTHING))


def test_read_capture_takes_the_options_of_encode_capture() -> None:
    rows = read_capture(
        NETFLOW9, override={"sampling_rate": 7, "src_as": 65001}, scale=True, time="export", ip="text"
    ).to_arrow()
    plain = read_capture(NETFLOW9).to_arrow()
    assert set(rows["sampling_rate"].to_pylist()) == {7}
    assert set(rows["src_as"].to_pylist()) == {65001}
    assert rows["bytes"].to_pylist() == [7 * value for value in plain["bytes"].to_pylist()]


# One datagram -----------------------------------------------------------------------------------------------

FIELDS = [(8, 4), (12, 4), (1, 8), (4, 1)]
TEMPLATE = ipfix(template_set(template(256, *FIELDS)))
RECORDS = b"".join(bytes([192, 0, 2, i, 0, 0, 0, 0, *bytes(7), i, 6]) for i in range(3))
DATA = ipfix(data_set(256, RECORDS))


def test_decoders_return_the_columns_of_a_datagram() -> None:
    decoder = Decoder()
    assert len(decoder.columns(TEMPLATE, SOURCE, RECEIVED)) == 0
    batch = decoder.columns(DATA, SOURCE, RECEIVED)
    assert repr(batch).startswith("<FlowBatch: 3 flows, 21 columns: time_received, ")
    assert rows_of(batch) == rows_expected(decoder.encode(DATA, SOURCE, RECEIVED), FLOW)
    assert batch.to_arrow()["bytes"].to_pylist() == [0, 1, 2]
    assert batch.to_arrow()["dst_addr"].null_count == 3
    assert decoder.flows == 6
    assert decoder.counters == {}


def test_decoders_return_the_columns_of_many_datagrams() -> None:
    decoder = Decoder()
    batch = decoder.columns_many(
        [TEMPLATE, *[DATA] * 1000], SOURCE, RECEIVED, override={"src_as": 1}, ip="text"
    )
    assert len(batch) == 3000
    assert batch.to_arrow()["src_addr"].to_pylist()[:3] == ["192.0.2.0", "192.0.2.1", "192.0.2.2"]
    assert set(batch.to_arrow()["src_as"].to_pylist()) == {1}
    assert batch.nbytes > 3000 * 80
    assert set(decoder.columns(DATA, SOURCE, RECEIVED).to_arrow()["src_as"].to_pylist()) == {0}


def test_strict_decoders_raise_from_columns() -> None:
    decoder = Decoder(strict=True)
    with pytest.raises(DecodeError, match=r"192\.0\.2\.1"):
        decoder.columns(DATA[:-1], SOURCE, RECEIVED)
    with pytest.raises(DecodeError):
        list(read_capture(SHIPPED / "ipfix-variable.pcap", strict=True, port=1)) or decoder.columns(
            b"\0\x0a", SOURCE
        )


def test_decoders_refuse_invalid_options() -> None:
    decoder = Decoder()
    with pytest.raises(ValueError, match="ip is 'hex'"):
        decoder.columns(DATA, SOURCE, ip="hex")
    with pytest.raises(KeyError):
        decoder.columns(DATA, SOURCE, override={"nothing": 1})
    assert len(decoder.columns(TEMPLATE, SOURCE)) == 0  # the decoder stays usable


def test_batches_outlive_their_decoder() -> None:
    decoder = Decoder()
    decoder.columns(TEMPLATE, SOURCE, RECEIVED)
    batch = decoder.columns(DATA, SOURCE, RECEIVED)
    expected = rows_of(batch)
    array, text = batch.to_arrow(), batch.text()
    del batch, decoder
    gc.collect()
    assert array["bytes"].to_pylist() == [0, 1, 2]
    assert rows_of(text) == expected


def test_only_the_arrow_form_of_batches_can_be_pickled() -> None:
    (batch,) = read_capture(NETFLOW9)
    with pytest.raises(TypeError, match=r"cannot be pickled; pickle the result of its to_arrow\(\)"):
        pickle.dumps(batch)
    assert pickle.loads(pickle.dumps(batch.to_arrow())).equals(batch.to_arrow())


def test_threads_may_share_a_batch() -> None:
    decoder = Decoder()
    batch = decoder.columns_many([TEMPLATE, *[DATA] * 300], SOURCE, RECEIVED)
    found: list[int] = []

    def add() -> None:
        for _ in range(20):
            found.append(sum(pa.record_batch(batch.text())["bytes"].to_pylist()))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [900] * 80


# Types and nulls --------------------------------------------------------------------------------------------


def test_arrow_types_follow_the_schema() -> None:
    types = {field.name: str(field.type) for field in table_of(read_capture(SFLOW, EVERYTHING)).schema}
    assert types["time_received"] == "timestamp[ms, tz=UTC]"
    assert types["bytes"] == "uint64"
    assert types["proto"] == "uint8"
    assert types["flow_type"] == "dictionary<values=string, indices=int32, ordered=0>"
    assert types["mpls_labels"] == "list<item: uint32 not null>"
    assert types["ipv6_routing_header_addresses"].startswith("list<item: extension<flowbuf.ip")
    assert types["flow_duration"] == "duration[ms]"
    assert types["application_id"] == "binary"
    assert types["src_mac"].startswith("extension<flowbuf.mac")


def test_addresses_are_nullable_and_numbers_are_not() -> None:
    schema = read_capture(NETFLOW9).to_arrow().schema
    nullable = {field.name for field in schema if field.nullable}
    assert nullable == {
        "time_received",
        "exporter_address",
        "src_addr",
        "dst_addr",
        "flow_direction",
        "flow_type",
    }


def test_absent_values_of_explicit_columns_are_null() -> None:
    schema = FLOW.alter("bytes", explicit=True).only("bytes", "proto")
    decoder = Decoder(schema)
    decoder.columns(ipfix(template_set(template(256, (4, 1)), template(257, (1, 1), (4, 1)))), SOURCE)
    batch = decoder.columns(ipfix(data_set(256, b"\x06"), data_set(257, b"\0\x06\x05\x06")), SOURCE)
    assert batch.to_arrow()["bytes"].to_pylist() == [None, 0, 5]
    frame = batch.to_pandas()
    assert str(frame.dtypes["bytes"]) == "uint64[pyarrow]"
    assert frame.bytes.isna().tolist() == [True, False, False]


def test_addresses_print_as_text() -> None:
    column = read_capture(NETFLOW9).to_arrow()["src_addr"]
    assert column[0].as_py() == read_capture(NETFLOW9, ip="text").to_arrow()["src_addr"][0].as_py()
    assert len(column[0].value.as_py()) == 16


# Other libraries --------------------------------------------------------------------------------------------


def test_pandas_reads_flows() -> None:
    frame = read_capture(NETFLOW9).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    dtypes = {name: str(dtype) for name, dtype in frame.dtypes.items()}
    assert dtypes["bytes"] == "uint64"
    assert dtypes["time_received"] == "datetime64[ms, UTC]"
    assert dtypes["src_addr"] == dtypes["flow_type"] == "string[pyarrow]"
    top = frame.groupby("src_addr").bytes.sum().sort_values(ascending=False)
    assert top.sum() == frame.bytes.sum() > 0
    assert (frame.flow_type == "NETFLOW_V9").all()
    assert list(frame.columns) == read_capture(NETFLOW9).to_arrow().column_names
    first = next(iter(read_capture(NETFLOW9))).to_pandas()
    pd.testing.assert_frame_equal(first, frame)


def test_data_frames_are_writable() -> None:
    batch = next(iter(read_capture(NETFLOW9)))
    before = batch.to_arrow()
    frame = batch.to_pandas()
    for name in frame.columns:
        frame.loc[0, name] = frame.loc[1, name]
    frame.loc[frame.proto == 6, "bytes"] = 7
    assert (frame[frame.proto == 6].bytes == 7).all()
    assert frame.iloc[0, 1:3].to_list() == frame.iloc[1, 1:3].to_list()
    assert batch.to_arrow().equals(before)


def test_pandas_keeps_lists() -> None:
    schema = FLOW.only("bytes", "mpls_labels", "src_mac", "flow_duration", "application_id")
    frame = read_capture(SFLOW, schema).to_pandas()
    assert str(frame.dtypes["mpls_labels"]).startswith("list<")
    assert [type(labels) for labels in frame.mpls_labels[:1].to_list()] == [list]


def test_polars_reads_flows() -> None:
    frame = read_capture(NETFLOW9).to_polars()
    assert frame.schema["src_addr"] == pl.String
    assert frame["bytes"].sum() == sum(row["bytes"] for row in rows_of(read_capture(NETFLOW9)))
    assert pl.DataFrame(read_capture(NETFLOW9, ip="text")).equals(frame)
    assert next(iter(read_capture(NETFLOW9))).to_polars().equals(frame)


def test_polars_exports_the_values_of_extension_types() -> None:
    """Polars keeps the name of an extension type but changes its storage type."""
    schema = FLOW.only("src_addr", "src_mac", "bytes")
    expected = read_capture(SFLOW, schema).to_arrow()
    frame = pl.DataFrame(read_capture(SFLOW, schema))
    for table in (frame.to_arrow(), pa.table(frame)):
        for name in ("src_addr", "src_mac"):
            assert [value.as_py() for value in table[name]] == [value.as_py() for value in expected[name]]
        column = table["src_addr"].combine_chunks()
        assert pickle.loads(pickle.dumps(column.type)) == column.type != expected["src_addr"].type


def test_duckdb_reads_flows() -> None:
    stream = read_capture(NETFLOW9, ip="text")
    ((count, total),) = duckdb.sql("select count(*), sum(bytes) from stream").fetchall()
    rows = rows_of(read_capture(NETFLOW9))
    assert (count, total) == (len(rows), sum(row["bytes"] for row in rows))
    batch = next(iter(stream))
    assert len(batch) == count
    assert duckdb.sql("select count(*) from batch").fetchall() == [(count,)]


def test_streams_yield_batches() -> None:
    stream = read_capture(NETFLOW9)
    (batch,) = stream
    assert isinstance(batch, FlowBatch)
    assert pa.table(batch).equals(stream.to_arrow())
    assert pa.schema(batch).equals(pa.schema(stream))


# Reading ----------------------------------------------------------------------------------------------------


def test_paths_can_be_read_again_and_file_objects_only_once() -> None:
    stream = read_capture(NETFLOW9)
    assert rows_of(stream) == rows_of(stream) != []
    with NETFLOW9.open("rb") as file:
        once = read_capture(file)
        assert rows_of(once) == rows_of(stream)
        with pytest.raises(ValueError, match="read already"):
            next(iter(once))


def test_the_arrow_schema_is_known_before_reading() -> None:
    with NETFLOW9.open("rb") as file:
        stream = read_capture(file)
        assert len(pa.schema(stream)) == 21
        assert len(rows_of(stream)) > 0


def test_invalid_arguments_are_refused_before_reading() -> None:
    with pytest.raises(ValueError, match="ip is 'hex'; it may be binary or text"):
        read_capture(NETFLOW9, ip="hex")
    with pytest.raises(ValueError, match="rows is 1"):
        read_capture(NETFLOW9, batch_rows=1)
    with pytest.raises(SchemaError):
        read_capture(NETFLOW9, "no-such-schema")
    reads = (read_capture, read_messages)
    for source, each in (
        ([NETFLOW9], reads[1:]),
        (3, reads),
        (None, reads),
        (NETFLOW9.read_bytes(), reads[:1]),
    ):
        for read in each:
            with pytest.raises(TypeError, match=f"source is {type(source).__name__}; it may be a path"):
                read(source)  # type: ignore[operator]
    for read in reads:
        with pytest.raises(TypeError, match="the file is open as text; open it with the mode"):
            read(io.StringIO("text"))  # type: ignore[operator]


def test_errors_of_file_objects_keep_their_text(tmp_path: Path) -> None:
    with (
        gzip.open(write(tmp_path / "not.gz", b"no gzip")) as file,
        pytest.raises(gzip.BadGzipFile, match="Not a gzipped file"),
    ):
        read_capture(file).to_arrow()


def test_files_that_are_not_captures_raise(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(b"nothing like it")
    stream = read_capture(tmp_path / "x.pcap")
    with pytest.raises(CaptureError, match="not a capture"):
        list(stream)
    with pytest.raises(Exception, match="not a capture"):
        pa.table(stream)
    with pytest.raises(FileNotFoundError):
        list(read_capture(tmp_path / "missing.pcap"))


@pytest.mark.parametrize("method", ["to_arrow", "to_pandas", "to_polars"])
def test_errors_of_reading_keep_their_type(tmp_path: Path, method: str) -> None:
    (tmp_path / "x.pcap").write_bytes(b"nothing like it")
    cut = write(tmp_path / "cut.pcap", pcap(GOOD, CUT_SHORT))
    for stream, error in (
        (read_capture(tmp_path / "missing.pcap"), FileNotFoundError),
        (read_capture(tmp_path / "x.pcap"), CaptureError),
        (read_capture(cut, strict=True), DecodeError),
        (read_messages(io.BytesIO(b"\x05abc"), strict=True), DecodeError),
    ):
        with pytest.raises(error) as caught:
            getattr(stream, method)()
        assert caught.type is error


def test_truncation_is_counted_and_the_flows_before_it_are_kept(tmp_path: Path) -> None:
    whole = NETFLOW9.read_bytes()
    (tmp_path / "cut.pcap").write_bytes(whole[: len(whole) // 2])
    stream = read_capture(tmp_path / "cut.pcap")
    rows = rows_of(stream)
    assert rows == rows_of(read_capture(NETFLOW9))[: len(rows)]
    assert stream.counters["truncated_capture"] == 1


def test_strict_reading_raises_at_truncation(tmp_path: Path) -> None:
    """The flows before the truncation are returned first."""
    whole = NETFLOW9.read_bytes()
    (tmp_path / "cut.pcap").write_bytes(whole[: len(whole) // 2])
    flows = rows_of(read_capture(tmp_path / "cut.pcap"))
    strict = iter(read_capture(tmp_path / "cut.pcap", strict=True))
    assert len(next(strict)) == len(flows)
    with pytest.raises(DecodeError, match="truncated_capture: the capture ends") as caught:
        next(strict)
    assert caught.value.status == "truncated_capture"
    with pytest.raises(DecodeError, match="truncated_capture"):
        encode_capture(tmp_path / "cut.pcap", tmp_path / "x.pb", strict=True)
    assert not (tmp_path / "x.pb").exists()


def test_flows_are_returned_before_an_error_is_raised(tmp_path: Path) -> None:
    path = write(tmp_path / "x.pcap", pcap(GOOD, GOOD, CUT_SHORT))
    flows = iter(read_capture(path, strict=True))
    assert len(next(flows)) == 3  # the third flow is in the truncated datagram
    with pytest.raises(DecodeError):
        next(flows)


def test_full_batches_are_returned_before_an_error_is_raised(tmp_path: Path) -> None:
    path = write(tmp_path / "x.pcap", pcap(*[GOOD] * 5, CUT_SHORT))
    sizes: list[int] = []
    with pytest.raises(DecodeError):
        sizes.extend(map(len, read_capture(path, strict=True, batch_rows=2)))
    assert sizes == [2, 2, 2]


def test_counters_describe_the_last_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.pcap", pcap(CUT_SHORT))
    stream = read_capture(path)
    assert rows_of(stream)
    assert stream.counters
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(stream)
    assert stream.counters == {}


def test_abandoned_streams_have_counters() -> None:
    stream = read_capture(SFLOW, batch_rows=2)
    flows = iter(stream)
    next(flows)
    del flows
    gc.collect()
    assert isinstance(stream.counters, dict)


def test_batches_of_a_long_stream_stay_small(tmp_path: Path) -> None:
    """Each of 20 batches of 10,000 flows takes less than 400 bytes per flow."""
    assert (
        run("generate", "--protocol", "netflow5", "--flows", 200_000, "-o", tmp_path / "x.pcap").exit_code
        == 0
    )
    sizes = [batch.nbytes for batch in read_capture(tmp_path / "x.pcap", batch_rows=10_000)]
    assert len(sizes) == 20
    assert max(sizes) < 10_000 * 400


def test_the_names_are_public() -> None:
    assert {"FlowBatch", "FlowStream", "read_capture"} <= set(flowbuf.__all__)
