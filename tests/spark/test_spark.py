"""Spark reads captures as DataFrames with the same flows as read_capture, in the types of Spark."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowbuf import DecodeError, Schema, SchemaError, encode_columns, read_capture
from flowbuf.schema import TYPES
from flowbuf.targets.spark import spark_type, to_ddl
from tests.support.command import CUT_SHORT, GOOD, WITHOUT_TEMPLATE, pcap, write
from tests.support.datagrams import (
    data_set,
    flow_sample,
    ipfix,
    ipv4,
    netflow5,
    record5,
    sampled_header,
    sflow,
    template,
    template_set,
    udp,
    uint,
)
from tests.support.tunnels import gre

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install --group spark")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructType, TimestampType

from flowbuf.spark import FlowbufDataSource, kafka
from tests.support.spark import MARKS, open_session, rows_expected, rows_of

SHIPPED = Path(__file__).parents[1] / "data"
NETFLOW9 = SHIPPED / "generated-netflow9.pcap"
FLOW = Schema.load("flow")
EVERYTHING = [column.name for column in FLOW]

pytestmark = MARKS

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with open_session() as session:
        yield session


def load(spark: SparkSession, paths: Path | str | list[str], **options: object) -> DataFrame:
    return (
        spark.read.format("flowbuf").options(**options).load(paths if isinstance(paths, list) else str(paths))
    )


# With Spark -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, EVERYTHING], ids=["default", "every-column"])
def test_rows_equal_those_of_read_capture_and_files_are_partitions(
    spark: SparkSession, columns: list[str] | None
) -> None:
    captures = sorted(SHIPPED.glob("*.pcap"))
    options = {"columns": ",".join(columns)} if columns else {}
    frame = load(spark, SHIPPED / "*.pcap", **options)
    assert frame.rdd.getNumPartitions() == len(captures) >= 7
    rows = rows_of(frame)
    assert rows == rows_expected(*captures, schema=FLOW.only(*columns) if columns else FLOW)
    assert len(rows) > 1000


def test_sflow_counters_are_rows(spark: SparkSession) -> None:
    capture = SHIPPED / "generated-sflow.pcap"
    rows = rows_of(load(spark, capture, schema="sflow_counters"))
    assert rows == rows_expected(capture, schema=Schema.load("sflow_counters")) != []


def test_flows_are_aggregated(spark: SparkSession) -> None:
    load(spark, NETFLOW9).createOrReplaceTempView("flows")
    query = (
        "select src_addr, sum(bytes * sampling_rate) total from flows "
        "group by src_addr order by total desc, src_addr"
    )
    totals: dict[str, int] = {}
    for row in rows_expected(NETFLOW9):
        totals[row["src_addr"]] = totals.get(row["src_addr"], 0) + row["bytes"] * row["sampling_rate"]
    assert [tuple(row) for row in spark.sql(query).collect()] == sorted(
        totals.items(), key=lambda p: (-p[1], p[0])
    )


def test_types_and_comments_follow_the_schema(spark: SparkSession) -> None:
    frame = load(spark, NETFLOW9, enable="mpls_labels,src_mac,flow_duration")
    types = dict(frame.dtypes)
    assert types == {name: spark_type(FLOW[name]) for name in types}
    assert types["bytes"] == "decimal(20,0)"
    assert types["mpls_labels"] == "array<bigint>"
    assert types["flow_duration"] == "interval day to second"
    assert {field.name: field.metadata["comment"] for field in frame.schema} == {
        name: FLOW[name].doc for name in types
    }


def test_spark_accepts_every_type(spark: SparkSession, tmp_path: Path) -> None:
    """The schema has a single column and a repeated column of every type."""
    keys = {"enum": "values = { NONE = 0 }", "timestamp": 'unit = "us"', "duration": 'unit = "s"'}
    text = '[schema]\nname = "types"\n'
    for number, (type, form) in enumerate(itertools.product(TYPES, ("one", "list")), start=1):
        text += f'[[column]]\nname = "{type}_{form}"\nnumber = {number}\ntype = "{type}"\nenabled = true\n'
        text += f"repeated = {str(form == 'list').lower()}\n{keys.get(type, '')}\n"
    path = write(tmp_path / "types.toml", text.encode())
    frame = load(spark, NETFLOW9, schema=path)
    schema = Schema.load(path)
    assert frame.dtypes == [(column.name, spark_type(column)) for column in schema]
    assert rows_of(frame) == rows_expected(NETFLOW9, schema=schema)


def test_only_requested_columns_are_read(spark: SparkSession) -> None:
    frame = spark.read.format("flowbuf").schema("src_addr string, proto smallint").load(str(NETFLOW9))
    assert frame.dtypes == [("src_addr", "string"), ("proto", "smallint")]
    expected = [{"src_addr": row["src_addr"], "proto": row["proto"]} for row in rows_expected(NETFLOW9)]
    assert rows_of(frame) == expected


def test_tables_of_spark_can_be_encoded(spark: SparkSession) -> None:
    """Spark stores uint64 as decimals."""
    schema = FLOW.only("src_addr", "bytes", "packets")
    table = load(spark, NETFLOW9).select("src_addr", "bytes", "packets").toArrow()
    assert str(table.schema.field("bytes").type) == "decimal128(20, 0)"
    assert encode_columns(table, schema) == encode_columns(read_capture(NETFLOW9, schema), schema)


def test_strict_sources_fail_on_damaged_data(spark: SparkSession, tmp_path: Path) -> None:
    capture = write(tmp_path / "x.pcap", pcap(GOOD, CUT_SHORT))
    assert load(spark, capture).count() == 2
    with pytest.raises(Exception, match=r"DecodeError.*192\.0\.2\.1"):
        load(spark, capture, strict=True).count()
    damaged = write(tmp_path / "cut.pcap", pcap(GOOD, GOOD)[:-1])
    assert load(spark, damaged).count() == 1
    with pytest.raises(Exception, match=r"DecodeError.*truncated_capture"):
        load(spark, damaged, strict=True).count()


def test_spark_reports_errors(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        Exception, match=r"FileNotFoundError: .*none\*\.pcap: no file has this name or matches this pattern"
    ):
        load(spark, tmp_path / "none*.pcap")
    with pytest.raises(Exception, match="flowbuf has no option 'colums'; did you mean columns"):
        load(spark, NETFLOW9, colums="bytes")
    with pytest.raises(Exception, match="not a capture: it is empty"):
        load(spark, write(tmp_path / "empty.pcap", b"")).count()


# Without Spark: direct calls of the data source -------------------------------------------------------------


def struct(**types: Any) -> StructType:
    fields = StructType()
    for name, type in types.items():
        fields.add(name, type)
    return fields


def read(capture: Path, requested: StructType, **options: str) -> Rows:
    reader = FlowbufDataSource({"path": str(capture), **options}).reader(requested)
    (partition,) = reader.partitions()
    return [row for batch in reader.read(partition) for row in batch.to_pylist()]


TOTALS = struct(sampling_rate=DecimalType(20, 0), bytes=DecimalType(20, 0))
SAMPLED = netflow5(record5(octets=400), sampling=100)
UNSAMPLED = netflow5(record5(octets=400))


@pytest.mark.parametrize(
    ("options", "totals"),
    [
        ({}, [(100, 400), (0, 400)]),
        ({"default_sampling": "7"}, [(100, 400), (7, 400)]),
        ({"Default_Sampling": "7", "scale": "TRUE"}, [(100, 40000), (7, 2800)]),
        ({"override_sampling": "9", "scale": "true"}, [(9, 3600), (9, 3600)]),
        (
            {"port": "2055", "strict": "false", "obey_withdrawals": "true", "template_expiry": "60"},
            [(100, 400), (0, 400)],
        ),
        ({"port": "2056"}, []),
    ],
)
def test_options_match_those_of_the_command_line(
    tmp_path: Path, options: dict[str, str], totals: list[tuple[int, int]]
) -> None:
    rows = read(write(tmp_path / "x.pcap", pcap(SAMPLED, UNSAMPLED)), TOTALS, **options)
    assert [(row["sampling_rate"], row["bytes"]) for row in rows] == totals


def test_the_time_column_can_be_chosen() -> None:
    capture = SHIPPED / "softflowd-ipfix.pcap"
    schema = FLOW.only("time_received")
    for time in ("received", "export", "flow-start"):
        expected = rows_expected(capture, schema=schema, time=time)
        assert read(capture, struct(time_received=TimestampType()), time=time) == expected


def test_tunnels_are_decapsulated(tmp_path: Path) -> None:
    inner = ipv4(udp(1, 2), src="10.0.0.1", proto=17)
    outer = ipv4(gre(inner), src="192.0.2.9", proto=47)
    capture = write(tmp_path / "x.pcap", pcap(sflow(flow_sample(sampled_header(outer, 11)))))
    source = struct(src_addr=StringType())
    assert read(capture, source) == [{"src_addr": "192.0.2.9"}]
    assert read(capture, source, decapsulate="vxlan, gre") == [{"src_addr": "10.0.0.1"}]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"columns": "bites"}, "no column 'bites'; did you mean bytes"),
        ({"columns": ""}, "option columns is ''; name at least one"),
        ({"schema": "flo"}, "schema 'flo' does not exist; did you mean flow"),
        ({"strict": "yes"}, "option strict is 'yes'; write true or false"),
        ({"port": "0"}, "option port is '0'; write a whole number, 1 to 65,535"),
        ({"default_sampling": "1.5"}, "option default_sampling is '1.5'; write a whole number, 1 to"),
        ({"decapsulate": "grue"}, "tunnel 'grue' is unknown; choose from vxlan"),
        ({"time": "now"}, "time is 'now'"),
        (
            {"recursiveFileLookup": "true"},
            "flowbuf has no option 'recursivefilelookup'; options are schema, ",
        ),
        (
            {"override_sampling": "5", "disable": "sampling_rate"},
            "override_sampling: schema flow has no sampling rate",
        ),
        (
            {"override_sampling": "5", "default_sampling": "5"},
            "override_sampling replaces every rate; leave out",
        ),
        ({"path": "s3://flows/x.pcap"}, "s3://flows/x.pcap: is a URL, not a path; mount the files"),
        ({"path": ""}, "path is missing"),
    ],
)
def test_invalid_options_are_refused_before_reading(options: dict[str, str], error: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        FlowbufDataSource({"path": str(NETFLOW9), **options}).schema()
    assert error in str(caught.value)


def test_invalid_columns_are_refused_before_reading() -> None:
    for requested, error in (
        (struct(byts=LongType()), "no column 'byts'; did you mean bytes"),
        (struct(src_addr=LongType()), "column 'src_addr': cannot be read as bigint; read it as string"),
        (struct(bytes=LongType()), r"cannot be read as bigint; read it as decimal\(20,0\), and cast it then"),
    ):
        with pytest.raises(SchemaError, match=error):
            FlowbufDataSource({"path": str(NETFLOW9)}).reader(requested)


def test_paths_are_files_folders_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "folder[x]").mkdir()
    for name in ("b.pcap", "a.pcap", ".hidden", "_SUCCESS", "c[1].pcap", "folder[x]/d.pcap"):
        write(tmp_path / name, pcap(GOOD))

    def found(*paths: str) -> list[str]:
        options = {"paths": str(list(paths)).replace("'", '"')} if len(paths) > 1 else {"path": paths[0]}
        partitions = FlowbufDataSource(options).reader(TOTALS).partitions()
        return [Path(partition.path).name for partition in partitions]

    assert found(str(tmp_path)) == ["a.pcap", "b.pcap", "c[1].pcap"]
    assert found(f"{tmp_path}/*.pcap") == ["a.pcap", "b.pcap", "c[1].pcap"]
    assert found(f"file://{tmp_path}/c[1].pcap") == ["c[1].pcap"]
    assert found(f"{tmp_path}/b.pcap", f"file:{tmp_path}/[ab].pcap") == ["b.pcap", "a.pcap"]
    assert found(f"{tmp_path}/folder[x]") == ["d.pcap"]
    assert found(f"{tmp_path}/**/[ad].pcap") == ["a.pcap", "d.pcap"]
    with pytest.raises(FileNotFoundError, match="no file has this name or matches this pattern"):
        found(f"{tmp_path}/folder")


def test_skipped_data_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    capture = write(tmp_path / "x.pcap", pcap(GOOD, WITHOUT_TEMPLATE, CUT_SHORT))
    assert len(read(capture, TOTALS)) == 2
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert any(warning.startswith(f"{capture}: 1 template_missing: ") for warning in warnings)
    assert any(warning.startswith(f"{capture}: 1 truncated") for warning in warnings), warnings
    with pytest.raises(DecodeError):
        read(capture, TOTALS, strict="true")


def test_numbers_of_64_bits_keep_all_bits(tmp_path: Path) -> None:
    value = uint(2**64 - 1, 8)
    capture = write(
        tmp_path / "x.pcap", pcap(ipfix(template_set(template(256, (1, 8))), data_set(256, value)))
    )
    assert read(capture, struct(bytes=DecimalType(20, 0))) == [{"bytes": 2**64 - 1}]


def test_ddl_escapes_quotes_and_backslashes() -> None:
    schema = Schema.load("flow").alter("bytes", doc="a\\b's").only("bytes")
    assert to_ddl(schema) == "`bytes` decimal(20,0) COMMENT 'a\\\\b\\'s'"


def test_the_page_has_every_option_and_type() -> None:
    pages = ("docs/how-to/spark.md", "docs/reference/types.md")
    page = "".join((SHIPPED.parent.parent / name).read_text() for name in pages)
    words = set(re.findall(r"`([a-z0-9_]+)`", page))
    with pytest.raises(ValueError, match="no option") as caught:
        FlowbufDataSource({"": ""}).schema()
    options = str(caught.value).partition("options are ")[2].split(", ")
    assert len(options) > 12
    assert set(options) - {"path", "paths"} <= words
    assert {*kafka._OPTIONS} - {"topic"} <= words
    assert set(TYPES) <= words
