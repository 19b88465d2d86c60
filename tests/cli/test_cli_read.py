"""`flowbuf read`: formats, inputs of both kinds, limits, and reports of invalid input."""

from __future__ import annotations

import csv
import gzip
import io
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from flowbuf import _core, encode_columns
from flowbuf.schema import Schema
from tests.support.command import GOOD, WITHOUT_TEMPLATE, flowbuf, generated, json_lines, pcap, write

SFLOW = Path(__file__).parents[1] / "data" / "generated-sflow.pcap"

FLOW = Schema.load("flow")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "a.pcap", pcap(GOOD))


@pytest.fixture
def messages(tmp_path: Path, capture: Path) -> Path:
    path = tmp_path / "flows.pb"
    assert (
        flowbuf("encode", capture, "-o", path, "--enable", "time_flow_start,observation_domain_id").exit_code
        == 0
    )
    return path


def test_json_lines_are_the_default_in_a_pipe(capture: Path) -> None:
    result = flowbuf("read", capture)
    assert (result.exit_code, result.stderr) == (0, "")
    assert json_lines(result) == [
        {
            "time_received": "2023-11-14T22:13:20.500Z",
            "exporter_address": "192.0.2.1",
            "bytes": 300,
            "packets": 2,
            "src_addr": "198.51.100.1",
            "dst_addr": "203.0.113.2",
            "etype": 2048,
            "proto": 17,
            "src_port": 53,
            "dst_port": 4000,
            "flow_type": "NETFLOW_V5",
        }
    ]
    assert list(json_lines(result)[0]) == [
        column.name for column in FLOW.enabled if column.name in result.stdout
    ]


def test_csv_has_every_enabled_column(capture: Path) -> None:
    result = flowbuf("read", capture, "-f", "csv", "--enable", "src_mac")
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == [column.name for column in FLOW.enable("src_mac").enabled]
    row = dict(zip(rows[0], rows[1], strict=True))
    assert (row["bytes"], row["dst_addr"], row["src_mac"]) == ("300", "203.0.113.2", "")
    assert len(rows) == 2


def test_csv_without_flows_is_a_header(tmp_path: Path) -> None:
    result = flowbuf("read", write(tmp_path / "a.pcap", pcap()), "-f", "csv", "--columns", "bytes,proto")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "bytes,proto\n", "flowbuf: no flows\n")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        *(("x.csv", "time_received,"), ("x.csv.gz", "time_received,"), ("X.CSV", "time_received,")),
        *(("x.jsonl", "{"), ("x.json", "{"), ("x.ndjson.gz", "{")),
    ],
)
def test_the_suffix_of_the_output_selects_its_format(
    capture: Path, tmp_path: Path, name: str, begins: str
) -> None:
    result = flowbuf("read", capture, "-o", tmp_path / name)
    assert (result.exit_code, result.output) == (0, "")
    content = (tmp_path / name).read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content).decode().startswith(begins)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "x.pb",
            "flowbuf encode writes messages; choose a format with -f: table, jsonl, csv, parquet, arrow",
        ),
        ("x.pb.gz", "flowbuf encode writes messages"),
        (
            "x.xlsx",
            ".xlsx is not the ending of a format; the known ones are .jsonl, .csv, .parquet and .arrow",
        ),
        ("x.txt", ".txt is not the ending of a format; the known"),
        (
            "x.gz",
            "has no ending; the known ones are .jsonl, .csv, .parquet and .arrow; choose a format with -f",
        ),
        ("captures", "has no ending; the known ones are .jsonl, .csv, .parquet and .arrow; choose"),
    ],
)
def test_an_unknown_suffix_is_a_usage_error(capture: Path, tmp_path: Path, name: str, message: str) -> None:
    result = flowbuf("read", capture, "-o", tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {tmp_path / name}: {message}")
    assert not (tmp_path / name).exists()
    assert flowbuf("read", capture, "-o", tmp_path / name, "-f", "csv").exit_code == 0


def test_a_name_without_an_ending_may_be_a_folder_or_a_device(capture: Path, tmp_path: Path) -> None:
    said = flowbuf("read", capture, "-o", tmp_path / "captures").stderr
    assert said.endswith(f"parquet, arrow; for a folder, write -o {tmp_path}/captures/\n")
    assert flowbuf("read", capture, "-o", "/dev/null").exit_code == 0


def test_a_table_in_a_pipe_has_every_column_with_values(capture: Path) -> None:
    lines = flowbuf("read", capture, "-f", "table").stdout.splitlines()
    assert lines[0] == "2023-11-14 · exporter 192.0.2.1 · NETFLOW_V5"
    assert lines[1].split() == ["time", "source", "destination", "proto", "packets", "bytes"]
    assert lines[2].split() == ["22:13:20.500", "198.51.100.1:53", "203.0.113.2:4000", "UDP", "2", "300"]
    assert len(lines) == 3


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
@pytest.mark.parametrize("form", ["jsonl", "csv", "table"])
def test_a_limit_ends_the_output(tmp_path: Path, limit: int, form: str) -> None:
    one, other = (write(tmp_path / f"{seed}.pcap", generated(flows=60, seed=seed)) for seed in (1, 2))
    result = flowbuf("read", one, other, "-n", limit, "-f", form, "--columns", "bytes,packets")
    headings = {"jsonl": 0, "csv": 1, "table": 1}[form]
    assert len(result.stdout.splitlines()) == headings + min(limit, 120)
    assert result.exit_code == 0


def test_a_limit_stops_reading_inputs(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good.pcap", pcap(GOOD)), write(tmp_path / "bad.pcap", b"bad")
    assert flowbuf("read", good, bad, "-n", 1).exit_code == 0
    assert flowbuf("read", good, bad, "-n", 2).exit_code == 1


# Message streams --------------------------------------------------------------------------------------------


def test_a_stream_shows_the_same_as_its_capture(capture: Path, messages: Path) -> None:
    columns = ("--enable", "time_flow_start,observation_domain_id")
    assert flowbuf("read", messages).stdout == flowbuf("read", capture, *columns).stdout


def test_the_proto_file_of_a_stream_selects_its_columns(messages: Path) -> None:
    header = flowbuf("read", messages, "-f", "csv").stdout.splitlines()[0]
    assert header.endswith(",flow_type,time_flow_start,observation_domain_id")


def test_only_selected_columns_are_shown(messages: Path) -> None:
    assert json_lines(flowbuf("read", messages, "--columns", "bytes,proto")) == [{"bytes": 300, "proto": 17}]


def test_a_capture_and_a_stream_are_read_together(capture: Path, messages: Path) -> None:
    rows = list(csv.reader(io.StringIO(flowbuf("read", capture, messages, "-f", "csv").stdout)))
    assert len(rows) == 3
    assert rows[0][-1] == "observation_domain_id"
    assert len(rows[0]) == len(rows[1]) == len(rows[2]) == 23


def test_streams_are_read_from_standard_input(messages: Path, capture: Path) -> None:
    assert flowbuf("read", "-", stdin=messages.read_bytes()).stdout == flowbuf("read", capture).stdout
    assert (
        flowbuf("read", "-", stdin=gzip.compress(messages.read_bytes())).stdout
        == flowbuf("read", capture).stdout
    )
    assert flowbuf("read", "-", stdin=capture.read_bytes()).stdout == flowbuf("read", capture).stdout


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("magic", "extra"), [(0xA1B2C3D4, 0), (0xA1B23C4D, 0), (0xA1B2CD34, 8)])
def test_captures_of_every_magic_number_are_read_from_standard_input(
    order: str, magic: int, extra: int
) -> None:
    packet = pcap(GOOD)[40:]
    header = struct.pack(f"{order}IHHIIII", magic, 2, 4, 0, 0, 262144, 101)
    record = struct.pack(f"{order}IIII", 1_700_000_000, 0, len(packet), len(packet)) + bytes(extra)
    result = flowbuf(
        "read", "-", "-f", "csv", "--columns", "time_received,bytes", stdin=header + record + packet
    )
    assert result.stdout.splitlines()[1:] == ["2023-11-14T22:13:20.000Z,300"]


def test_the_content_decides_the_kind_of_input(capture: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "other.pb", gzip.compress(capture.read_bytes()))
    assert flowbuf("read", path).stdout == flowbuf("read", capture).stdout


def test_a_stream_of_another_schema_is_a_usage_error(messages: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[schema]\nextends = "flow"\nretire = ["observation_domain_id"]\n')
    result = flowbuf("read", messages, "--schema", other)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        f"Error: {messages}.proto: schema 'flow' has no column for 'uint32 observation_domain_id = 47'"
    )


def test_a_truncated_stream_shows_its_complete_messages(messages: Path) -> None:
    one = messages.read_bytes()
    messages.write_bytes(one + one[:-1])
    result = flowbuf("read", messages)
    assert result.exit_code == 1
    assert len(json_lines(result)) == 1
    assert (
        result.stderr
        == f"flowbuf: {messages}: byte {len(one)}: the message is cut short (flows before it: 1)\n"
    )


def test_fields_absent_from_the_schema_are_reported(tmp_path: Path, capture: Path) -> None:
    mine, path = tmp_path / "mine.toml", tmp_path / "mine.pb"
    mine.write_text(
        '[schema]\nextends = "flow"\nonly = ["more"]\n'
        '[[column]]\nname = "more"\nnumber = 1001\ntype = "uint32"\nsources = ["netflow5:dPkts"]\n'
    )
    assert flowbuf("encode", capture, "-o", path, "--schema", mine).exit_code == 0
    assert json_lines(flowbuf("read", path, "--schema", mine)) == [{"more": 2}]
    (tmp_path / "mine.pb.proto").unlink()
    result = flowbuf("read", path)
    assert (result.exit_code, json_lines(result)) == (1, [{}])
    assert f"{path}: fields that are not in the schema: 1;" in result.stderr


def test_fields_absent_from_the_proto_file_are_reported(
    tmp_path: Path, capture: Path, messages: Path
) -> None:
    other = tmp_path / "other.pb"
    assert flowbuf("encode", capture, "-o", other, "--columns", "bytes,proto").exit_code == 0
    proto = Path(f"{messages}.proto")
    proto.write_bytes((tmp_path / "other.pb.proto").read_bytes())
    result = flowbuf("read", messages)
    assert (result.exit_code, json_lines(result)) == (1, [{"bytes": 300, "proto": 17}])
    assert result.stderr.startswith(f"flowbuf: {messages}: fields that are not in {proto}: ")


def test_vendor_columns_of_the_proto_file_are_known(tmp_path: Path) -> None:
    schema = Schema.load("flow").with_vendors(["asa_fw_ext_event"]).only("bytes", "asa_fw_ext_event")
    table = pa.table({"bytes": pa.array([300], pa.uint64()), "asa_fw_ext_event": pa.array([5], pa.uint16())})
    path = write(tmp_path / "v.pb", encode_columns(table, schema))
    write(Path(f"{path}.proto"), schema.to_proto().encode())
    for options in ((), ("--columns", "bytes"), ("--disable", "asa_fw_ext_event")):
        result = flowbuf("read", path, *options)
        assert (result.exit_code, result.stderr, json_lines(result)[0]["bytes"]) == (0, "", 300)


def test_a_value_that_does_not_fit_ends_a_stream_with_an_error(tmp_path: Path) -> None:
    messages = [
        number + _core.varint(value)
        for number, value in ((_core.tag(4, 0), 5), (_core.tag(10, 0), 70_000), (_core.tag(4, 0), 7))
    ]
    path = write(tmp_path / "x.pb", b"".join(bytes([len(each)]) + each for each in messages))
    for form in ("jsonl", "csv", "parquet"):
        result = flowbuf("read", path, "-f", form, "-o", tmp_path / "out")
        assert result.exit_code == 1
        problem = f"byte {len(messages[0]) + 2}: column 'src_port': a number that its column cannot hold"
        assert result.stderr == f"flowbuf: {path}: {problem} (flows before it: 1)\n"


def test_a_compressed_stream_has_its_own_proto_file(tmp_path: Path, capture: Path, messages: Path) -> None:
    before = flowbuf("read", messages).stdout
    compressed = f"{messages}.gz"
    assert flowbuf("encode", capture, "-o", compressed, "--columns", "bytes").exit_code == 0
    assert flowbuf("read", messages).stdout == before
    assert json_lines(flowbuf("read", compressed)) == [{"bytes": 300}]


@pytest.mark.parametrize("name", ["none.pb", "none.pb.gz", "none.pb.zst", "none"])
def test_an_empty_stream_has_no_flows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert flowbuf("encode", write(tmp_path / "a.pcap", pcap()), "-o", path).exit_code == 0
    result = flowbuf("read", path)
    assert (result.exit_code, result.output) == (0, "flowbuf: no flows\n")


# Invalid input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"hello, world", "neither pcap, pcapng, IPFIX nor nfcapd"),
        (
            b"PAR1, octets, PAR1",
            "neither pcap, pcapng, IPFIX nor nfcapd, but Parquet; read it with flowbuf query",
        ),
        (
            b"ARROW1, octets, ARROW1",
            "neither pcap, pcapng, IPFIX nor nfcapd, but Arrow; read it with pyarrow or polars",
        ),
    ],
)
def test_a_foreign_file_prints_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = write(tmp_path / "a.pcap", content)
    result = flowbuf("read", path)
    assert (result.exit_code, result.output) == (1, f"flowbuf: {path}: not a capture: {reason}\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "not a capture: it is empty"), (b"hello, world", "is neither a capture nor a stream of messages")],
)
def test_unknown_data_on_standard_input_is_an_error(content: bytes, reason: str) -> None:
    result = flowbuf("read", "-", stdin=content)
    assert (result.exit_code, result.output) == (1, f"flowbuf: <stdin>: {reason}\n")


def test_an_invalid_input_leaves_no_output(tmp_path: Path) -> None:
    assert flowbuf("read", write(tmp_path / "a.pcap", b"bad"), "-o", tmp_path / "x.csv").exit_code == 1
    assert not (tmp_path / "x.csv").exists()


def test_waiting_data_is_not_a_loss_if_a_limit_stops_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(WITHOUT_TEMPLATE, GOOD, GOOD))
    assert flowbuf("read", path).exit_code == 1
    assert flowbuf("read", path, "-n", "1").exit_code == 0


def test_strict_prints_one_line_and_leaves_no_output(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE))
    result = flowbuf("read", path, "--strict", "-o", tmp_path / "x.csv")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"flowbuf: {path}: 192.0.2.1: template_missing: ")
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize(
    "option", [["--time", "never"], ["-n", "0"], ["-f", "xml"], ["--port", "70000"], ["--nope"]]
)
def test_an_invalid_option_is_a_usage_error(capture: Path, option: list[str]) -> None:
    result = flowbuf("read", capture, *option)
    assert (result.exit_code, result.stdout) == (2, "")
    assert option[0].lstrip("-") in result.stderr


def test_tables_keep_the_order_of_columns() -> None:
    options = ("-n", "5", "--where", "dst_port > 0", "--columns")
    shown = flowbuf("read", SFLOW, "-f", "table", *options, "dst_port,bytes,tunnel_id,src_addr")
    rows = json_lines(flowbuf("read", SFLOW, *options, "dst_port,bytes,src_addr"))
    upper, title, *lines = shown.stdout.splitlines()
    assert (upper.split(), title.split()) == (["tunnel_"], ["dst_port", "bytes", "id", "src_addr"])
    assert [line.split() for line in lines] == [
        [str(row["dst_port"]), f"{row['bytes']:,}", row["src_addr"]] for row in rows
    ]


@pytest.mark.parametrize("options", [(), ("--where", "dst_port > 0")])
def test_lines_keep_the_order_of_columns(options: tuple[str, ...]) -> None:
    """Columns of --enable follow those of --columns, in number order."""
    options = (
        "-n",
        "5",
        "--columns",
        "dst_port,group:tunnel,src_addr",
        "--enable",
        "packets,bytes",
        *options,
    )
    order = ["dst_port", "tunnel_src_addr", "tunnel_dst_addr", "tunnel_id", "src_addr", "bytes", "packets"]
    lines = flowbuf("read", SFLOW, "-f", "csv", *options)
    first, *rows = csv.reader(io.StringIO(lines.stdout))
    assert first == order
    objects = json_lines(flowbuf("read", SFLOW, *options))
    assert [list(each) for each in objects] == [
        [name for name, cell in zip(order, row, strict=True) if cell] for row in rows
    ]
    assert [list(map(str, each.values())) for each in objects] == [
        [cell for cell in row if cell] for row in rows
    ]


@pytest.mark.parametrize("options", [(), ("--where", "proto = 1")])
def test_tables_name_icmp_messages(options: tuple[str, ...]) -> None:
    """Their columns are disabled, and are not shown themselves."""
    shown = flowbuf("read", SFLOW, "-f", "table", *options).stdout
    wanted = flowbuf("read", SFLOW, "--columns", "proto,icmp_type", "--where", "proto = 1 and icmp_type = 8")
    assert shown.count(" echo-request ") >= len(json_lines(wanted)) > 0
    assert "icmp" not in shown.replace("ICMP", "")


@pytest.mark.parametrize(
    "column",
    [
        'name = "icmp_type"\ntype = "bytes"',
        'name = "icmp_type"\ntype = "uint8"\nrepeated = true\nenabled = true',
        'name = "icmp_code"\ntype = "uint8"\ndepends = ["other"]',
        'name = "proto"\ntype = "bytes"\nenabled = true',
        'name = "proto"\ntype = "uint8"\nrepeated = true\nenabled = true',
    ],
)
def test_tables_do_not_rely_on_the_types_of_named_columns(column: str, tmp_path: Path) -> None:
    """A schema of the user may give these names to other columns."""
    columns = ['name = "dst_addr"\ntype = "ip"\nsources = ["ipfix:destinationIPv4Address"]\nenabled = true']
    columns += [
        'name = "dst_port"\ntype = "uint16"\nsources = ["ipfix:destinationTransportPort"]\nenabled = true'
    ]
    columns += [f'{column}\nsources = ["ipfix:protocolIdentifier"]', 'name = "other"\ntype = "uint8"']
    text = "".join(f"[[column]]\nnumber = {i}\n{each}\n" for i, each in enumerate(columns, 1))
    schema = write(tmp_path / "own.toml", f'[schema]\nname = "own"\n{text}'.encode())
    shown = flowbuf("read", SFLOW.with_name("generated-netflow9.pcap"), "--schema", schema, "-f", "table")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "10.1.128.12:443" in shown.stdout
