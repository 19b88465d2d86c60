"""`flowbuf encode` and `flowbuf.encode_capture`: files, exit status, and reports of invalid input."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import flowbuf as api
from flowbuf.io.message_stream import MessageStream
from tests.support.command import CUT_SHORT, EXPORTER, GOOD, WITHOUT_TEMPLATE, flowbuf, generated, pcap, write
from tests.support.datagrams import (
    VARIABLE,
    data_set,
    ipfix,
    netflow5,
    netflow9,
    record5,
    template,
    template_set,
    template_set9,
    u16,
    u32,
)

TEMPLATE = ipfix(template_set(template(256, (1, 4))), domain=7)
DATA = ipfix(data_set(256, u32(500)), domain=7)


def read(path: Path) -> list[dict[str, Any]]:
    with MessageStream(path) as stream:
        return [flow for flows in stream for flow in flows]


def flows_of(path: Path) -> list[int]:
    """Return the bytes of each flow."""
    return [flow["bytes"] for flow in read(path)]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "flows.pb"


def leftovers(output: Path) -> list[str]:
    return sorted(path.name for path in output.parent.iterdir())


def test_messages_and_their_proto_are_written(tmp_path: Path, output: Path) -> None:
    result = flowbuf("encode", write(tmp_path / "a.pcap", pcap(GOOD, GOOD)), "-o", output)
    assert (result.exit_code, result.output) == (0, "")
    assert flows_of(output) == [300, 300]
    assert leftovers(output) == ["flows.pb", "flows.pb.proto"]
    assert (output.parent / "flows.pb.proto").read_text() == api.Schema.load("flow").to_proto()


def test_templates_of_one_input_apply_to_the_next(tmp_path: Path, output: Path) -> None:
    first, second = write(tmp_path / "1.pcap", pcap(TEMPLATE)), write(tmp_path / "2.pcap", pcap(DATA))
    assert flowbuf("encode", first, second, "-o", output).exit_code == 0
    assert flows_of(output) == [500]


def test_standard_input_and_output_are_supported(tmp_path: Path) -> None:
    result = flowbuf("encode", "-", "-o", "-", stdin=gzip.compress(pcap(GOOD)))
    assert result.exit_code == 0
    assert flows_of(write(tmp_path / "flows.pb", result.stdout_bytes)) == [300]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_the_suffix_compresses_the_output(tmp_path: Path, output: Path, suffix: str) -> None:
    compressed = output.with_name(output.name + suffix)
    assert flowbuf("encode", write(tmp_path / "a.pcap", pcap(GOOD)), "-o", compressed).exit_code == 0
    assert flows_of(compressed) == [300]
    assert leftovers(output) == [f"flows.pb{suffix}", f"flows.pb{suffix}.proto"]


def test_a_foreign_proto_file_is_not_replaced(tmp_path: Path, output: Path) -> None:
    foreign = write(output.with_name("flows.pb.proto"), b'syntax = "proto3";\n')
    capture = write(tmp_path / "a.pcap", pcap(GOOD))
    result = flowbuf("encode", capture, "-o", output)
    assert result.exit_code == 2
    assert (
        result.stderr == f"Error: {foreign}: was not written by flowbuf; move it, or write to another file\n"
    )
    with pytest.raises(FileExistsError):
        api.encode_capture(capture, output)
    assert leftovers(output) == ["flows.pb.proto"]
    assert foreign.read_bytes() == b'syntax = "proto3";\n'


def test_decoding_options_are_applied(tmp_path: Path, output: Path) -> None:
    capture = write(tmp_path / "a.pcap", pcap(netflow5(record5(octets=1), seconds=1234)))
    options = ["--columns", "sampling_rate,time_received", "--default-sampling", "77", "--time", "export"]
    assert flowbuf("encode", capture, "-o", output, *options).exit_code == 0
    assert read(output) == [{"time_received": 1_234_000, "sampling_rate": 77}]


def test_the_port_option_filters_packets(tmp_path: Path, output: Path) -> None:
    capture = write(tmp_path / "a.pcap", pcap(GOOD))
    assert flowbuf("encode", capture, "-o", output, "--port", "2055").stderr == ""
    result = flowbuf("encode", capture, "-o", output, "--port", "9995", "-v")
    assert (result.exit_code, flows_of(output)) == (0, [])
    assert f"{capture}: 1 other_port: " in result.stderr


# Bad input --------------------------------------------------------------------------------------------------


def test_a_capture_without_flows_is_not_an_error(tmp_path: Path, output: Path) -> None:
    result = flowbuf("encode", write(tmp_path / "a.pcap", pcap(TEMPLATE)), "-o", output)
    assert (result.exit_code, result.stderr) == (0, "flowbuf: no flows\n")
    assert output.read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "form"),
    [("x.parquet", "parquet"), ("x.csv.gz", "csv"), ("x.json", "jsonl"), ("x.arrow", "arrow")],
)
def test_the_ending_of_another_format_is_a_usage_error(tmp_path: Path, name: str, form: str) -> None:
    capture, output = write(tmp_path / "a.pcap", pcap(GOOD)), tmp_path / name
    result = flowbuf("encode", capture, "-o", output)
    reason = f"flowbuf read writes {form}; choose a format with -f: pb, ipfix"
    assert (result.exit_code, result.stderr) == (2, f"Error: {output}: {reason}\n")
    assert not output.exists()
    assert flowbuf("encode", capture, "-o", output, "-f", "pb").exit_code == 0


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "it is empty"), (b"hello, world", "neither pcap, pcapng, IPFIX nor nfcapd")]
)
def test_a_foreign_file_prints_one_line_and_leaves_no_file(
    tmp_path: Path, output: Path, content: bytes, reason: str
) -> None:
    path = write(tmp_path / "a.pcap", content)
    result = flowbuf("encode", path, "-o", output)
    assert (result.exit_code, result.stderr) == (1, f"flowbuf: {path}: not a capture: {reason}\n")
    assert leftovers(output) == []


def test_an_invalid_input_does_not_stop_the_others(tmp_path: Path, output: Path) -> None:
    bad, good = write(tmp_path / "bad.pcap", b"bad"), write(tmp_path / "good.pcap", pcap(GOOD))
    result = flowbuf("encode", bad, good, "-o", output)
    assert result.exit_code == 1
    assert result.stderr == f"flowbuf: {bad}: not a capture: neither pcap, pcapng, IPFIX nor nfcapd\n"
    assert flows_of(output) == [300]


def test_a_truncated_capture_is_counted_and_its_flows_are_kept(tmp_path: Path, output: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, GOOD)[:-5])
    result = flowbuf("encode", path, "-o", output)
    assert result.exit_code == 1
    assert result.stderr == f"flowbuf: {path}: 1 truncated_capture: {api.STATUSES['truncated_capture'][1]}\n"
    assert flows_of(output) == [300]


EMPTY_BLOCKS = b"\0\0\0\xff\xff" * 200  # of deflate; more than flowbuf decompresses at once


@pytest.mark.parametrize(("rest", "fault"), [(b"", "is cut short"), (b"\xff" * 9, "is damaged")])
@pytest.mark.parametrize("command", ["encode", "read", "read messages"])
def test_damaged_gzip_data_is_reported_with_the_flows_before_it(
    tmp_path: Path, output: Path, command: str, rest: bytes, fault: str
) -> None:
    whole, path = write(tmp_path / "a.pcap", pcap(GOOD, GOOD)), tmp_path / "b.pcap.gz"
    if command == "read messages":
        assert flowbuf("encode", whole, "-o", tmp_path / "a.pb").exit_code == 0
        whole, path = tmp_path / "a.pb", tmp_path / "b.pb.gz"
    compressor = zlib.compressobj(wbits=31)
    compressed = compressor.compress(whole.read_bytes()) + compressor.flush(zlib.Z_FULL_FLUSH)
    write(path, compressed + EMPTY_BLOCKS + rest)
    name = output if command == "encode" else output.with_suffix(".csv")
    result = flowbuf(command.split()[0], path, "-o", name)
    expected = f"flowbuf: {path}: gzip data {fault} after 2 flows; the flows before it were written\n"
    assert (result.exit_code, result.stderr) == (1, expected)
    assert name.exists()


def test_strict_rejects_damaged_gzip_data(tmp_path: Path, output: Path) -> None:
    path = write(tmp_path / "a.pcap.gz", gzip.compress(pcap(GOOD))[:-4])
    result = flowbuf("encode", path, "-o", output, "--strict")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"flowbuf: {path}: damaged_compression: the compressed data")
    assert leftovers(output) == []


def test_malformed_datagrams_are_counted_by_exporter(tmp_path: Path, output: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(CUT_SHORT, WITHOUT_TEMPLATE, WITHOUT_TEMPLATE, GOOD))
    result = flowbuf("encode", path, "-o", output)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"flowbuf: {path}: {EXPORTER}: 1 truncated_datagram: {api.STATUSES['truncated_datagram'][1]}",
        f"flowbuf: {path}: {EXPORTER}: 2 template_missing: {api.STATUSES['template_missing'][1]}",
    ]
    assert flows_of(output) == [1, 300]


def test_each_input_has_its_own_counts(tmp_path: Path, output: Path) -> None:
    first = write(tmp_path / "1.pcap", pcap(CUT_SHORT))
    second = write(tmp_path / "2.pcap", pcap(CUT_SHORT, CUT_SHORT))
    third = write(tmp_path / "3.pcap", pcap(GOOD))
    lines = flowbuf("encode", first, second, third, "-o", output).stderr.splitlines()
    assert [line.partition("truncated_datagram")[0] for line in lines] == [
        f"flowbuf: {first}: {EXPORTER}: 1 ",
        f"flowbuf: {second}: {EXPORTER}: 2 ",
    ]


def test_data_waits_for_a_template_in_a_later_input(tmp_path: Path, output: Path) -> None:
    first, second = write(tmp_path / "1.pcap", pcap(DATA, DATA)), write(tmp_path / "2.pcap", pcap(TEMPLATE))
    result = flowbuf("encode", first, second, "-o", output)
    assert (result.exit_code, result.output) == (0, "")
    assert flows_of(output) == [500, 500]
    notes = flowbuf("encode", first, second, "-o", output, "-v").stderr.splitlines()
    assert notes == [f"flowbuf: {first}: {EXPORTER}: 2 early_data: {api.STATUSES['early_data'][1]}"]


def test_data_without_a_template_is_counted_at_the_end(tmp_path: Path, output: Path) -> None:
    first, second = write(tmp_path / "1.pcap", pcap(DATA, DATA)), write(tmp_path / "2.pcap", pcap(GOOD))
    result = flowbuf("encode", first, second, "-o", output)
    assert result.exit_code == 1
    text = api.STATUSES["template_missing"][1]
    assert result.stderr == f"flowbuf: end of input: {EXPORTER}: 2 template_missing: {text}\n"
    assert flows_of(output) == [300]


def test_strict_stops_at_the_first_fault(tmp_path: Path, output: Path) -> None:
    output.write_bytes(b"before")
    path = write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE, CUT_SHORT))
    result = flowbuf("encode", path, "-o", output, "--strict")
    assert result.exit_code == 1
    text = api.STATUSES["truncated_datagram"][1]
    assert result.stderr == f"flowbuf: {path}: {EXPORTER}: byte 72: truncated_datagram: {text}\n"
    assert output.read_bytes() == b"before"
    assert leftovers(output) == ["flows.pb"]


@pytest.mark.parametrize(
    ("field", "value", "column", "name", "element"),
    [
        ((1, 9), bytes(8) + b"\x07", "bytes", "bad_field_size", "ipfix:1 octetDeltaCount, 9 bytes"),
        ((8, 5), b"\xc0\0\2\1\0", "src_addr", "bad_field_size", "ipfix:8 sourceIPv4Address, 5 bytes"),
        ((7, 4), u32(1 << 20), "src_port", "out_of_range", "ipfix:7 sourceTransportPort, 4 bytes"),
        (
            (8, VARIABLE),
            b"\5\xc0\0\2\1\0",
            "src_addr",
            "bad_field_size",
            "ipfix:8 sourceIPv4Address, variable length",
        ),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_reported(
    tmp_path: Path, output: Path, field: tuple[int, int], value: bytes, column: str, name: str, element: str
) -> None:
    datagram = ipfix(template_set(template(256, field)), data_set(256, value, value))
    result = flowbuf("encode", write(tmp_path / "a.pcap", pcap(datagram)), "-o", output, "--columns", column)
    assert result.exit_code == 0
    prefix = f"flowbuf: {tmp_path}/a.pcap"
    assert result.stderr == (
        f"{prefix}: {EXPORTER}: 2 {name}: {api.STATUSES[name][1]}\n"
        f"{prefix}: values left out, by column: {column} 2 ({element})\n"
    )


def test_columns_that_cannot_hold_values_are_listed_for_each_input(tmp_path: Path, output: Path) -> None:
    fields = [(element, 9) for element in (1, 2, 4, 5, 6, 7, 11)]
    template_of_all = template_set(template(256, *fields))
    record = b"".join(bytes(8) + b"\x07" for _ in fields)
    ports = ipfix(template_set(template(256, (7, 4))), data_set(256, u32(1 << 20), u32(80)))
    paths = [
        write(tmp_path / "a.pcap", pcap(ipfix(template_of_all, data_set(256, record)))),
        write(tmp_path / "b.pcap", pcap(ports)),
    ]
    columns = "bytes,packets,proto,ip_tos,tcp_flags,src_port,dst_port"
    result = flowbuf("encode", *paths, "-o", output, "--columns", columns)
    assert result.exit_code == 0, result.stderr
    listed = [line for line in result.stderr.splitlines() if "by column" in line]
    assert len(listed) == 2
    assert listed[0].endswith(", 9 bytes) and 2 more")
    assert listed[1].endswith(
        ": values left out, by column: src_port 1 (ipfix:7 sourceTransportPort, 4 bytes)"
    )


def test_elements_too_large_for_their_column_are_listed(tmp_path: Path, output: Path) -> None:
    """Elements of other templates are listed, too: the counters do not distinguish templates."""
    schema = write(
        tmp_path / "s.toml",
        b"""[schema]
extends = "flow"
[[column]]
name = "small"
number = 1000
type = "uint8"
enabled = true
sources = ["ipfix:2636/137", "ipfix:61", "netflow9:60"]
""",
    )
    templates = template_set(
        template(256, (137, 2, 2636)), template(257, (61, 2), (1, 4)), template(258, (60, 2))
    )
    datagram = ipfix(templates, data_set(256, u16(300)), data_set(257, u16(300) + u32(1)))
    path = write(tmp_path / "a.pcap", pcap(datagram))
    result = flowbuf("encode", path, "-o", output, "--schema", schema)
    listed = result.stderr.splitlines()[-1]
    assert listed.endswith(
        ": small 2 (ipfix:61 flowDirection, 2 bytes or ipfix:2636/137 commonPropertiesId, 2 bytes)"
    )
    version9 = netflow9(template_set9(template(258, (60, 2))), data_set(258, u16(300)))
    result = flowbuf("encode", write(tmp_path / "b.pcap", pcap(version9)), "-o", output, "--schema", schema)
    assert result.stderr.splitlines()[-1].endswith(": small 1 (netflow9:60 ipVersion, 2 bytes)")


def test_strict_ignores_packets_that_are_not_flow_data(tmp_path: Path, output: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, b"hello", GOOD))
    for options in ([], ["--port", "2055"]):
        result = flowbuf("encode", path, "-o", output, "--strict", *options)
        assert (result.exit_code, result.stderr) == (0, "")


def test_padding_is_not_reported(tmp_path: Path, output: Path) -> None:
    padded = ipfix(template_set(template(256, (1, 4))), data_set(256, u32(7)), bytes(20))
    path = write(tmp_path / "a.pcap", pcap(padded, padded))
    for options in ([], ["--strict"]):
        result = flowbuf("encode", path, "-o", output, *options)
        assert (result.exit_code, result.stderr) == (0, "")
        assert output.read_bytes()
        output.unlink()


def test_strict_rejects_data_that_waits_at_the_end(tmp_path: Path, output: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE))
    result = flowbuf("encode", path, "-o", output, "--strict")
    assert result.exit_code == 1
    text = api.STATUSES["template_missing"][1]
    assert result.stderr == f"flowbuf: {path}: {EXPORTER}: template_missing: {text}\n"
    assert leftovers(output) == []


@pytest.mark.parametrize("content", [b"hello, world", pcap(GOOD, GOOD)[:-5]], ids=["no capture", "truncated"])
def test_strict_rejects_invalid_captures(tmp_path: Path, output: Path, content: bytes) -> None:
    result = flowbuf("encode", write(tmp_path / "a.pcap", content), "-o", output, "--strict")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert leftovers(output) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a.pcap", "missing.pcap", "-o", "x.pb"], "missing.pcap: No such file or directory"),
        (["a.pcap", ".", "-o", "x.pb"], ".: is a directory"),
        (["a.pcap", "-o", "a.pcap"], "a.pcap: is an input too"),
        (["-", "-", "-o", "x.pb"], "standard input is given twice; give - once"),
        (["a.pcap", "-o", "missing/x.pb"], "missing/x.pb: No such file or directory"),
        (["a.pcap", "-o", "x.pb", "--schema", "flwo"], "schema 'flwo' does not exist"),
        (["a.pcap", "-o", "x.pb", "--enable", "scr_mac"], "no column 'scr_mac'"),
    ],
)
def test_usage_errors_print_one_line_and_change_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    capture = write(tmp_path / "a.pcap", pcap(GOOD))
    result = flowbuf("encode", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [capture]
    assert capture.read_bytes() == pcap(GOOD)


def test_many_lines_are_abbreviated(tmp_path: Path, output: Path) -> None:
    exporters = [
        write(tmp_path / f"{i}.pcap", pcap(WITHOUT_TEMPLATE, source=f"10.0.0.{i}")) for i in range(1, 31)
    ]
    merged = b"".join([exporters[0].read_bytes()[:24], *(path.read_bytes()[24:] for path in exporters)])
    result = flowbuf("encode", write(tmp_path / "all.pcap", merged), "-o", output)
    lines = result.stderr.splitlines()
    assert len(lines) == 22  # with "no flows"
    assert lines[20].endswith("10 more such lines; flowbuf inspect shows all")


# encode_capture ---------------------------------------------------------------------------------------------


def test_encode_capture_returns_counts(tmp_path: Path, output: Path) -> None:
    result = api.encode_capture(write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE)), output)
    assert (result.flows, result.datagrams) == (1, 2)
    assert result.bytes == output.stat().st_size
    assert result.counters == {"early_data": 1, "template_missing": 1}
    assert leftovers(output) == ["flows.pb", "flows.pb.proto"]


def test_encode_capture_writes_the_same_as_the_command(tmp_path: Path, output: Path) -> None:
    capture = write(tmp_path / "a.pcap", generated("mixed", 3000, exporters=4))
    schema = api.Schema.load("flow").enable("src_mac")
    api.encode_capture(capture, output, schema)
    flowbuf("encode", capture, "-o", tmp_path / "command.pb", "--enable", "src_mac")
    assert output.read_bytes() == (tmp_path / "command.pb").read_bytes()


@pytest.mark.parametrize(
    ("content", "error"), [(b"no capture", api.CaptureError), (pcap(WITHOUT_TEMPLATE), api.DecodeError)]
)
def test_encode_capture_raises_and_leaves_no_file(
    tmp_path: Path, output: Path, content: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        api.encode_capture(write(tmp_path / "a.pcap", content), output, strict=True)
    assert leftovers(output) == []


@pytest.mark.parametrize("form", ["text", "path", "file"])
def test_encode_capture_does_not_replace_its_capture(form: str, tmp_path: Path) -> None:
    capture = write(tmp_path / "a.pcap", pcap(GOOD))
    (tmp_path / "link").symlink_to(capture)
    with capture.open("rb") as file:
        source: Any = {"text": str(capture), "path": capture, "file": file}[form]
        for output in (capture, tmp_path / "link"):
            with pytest.raises(ValueError, match="is the capture itself; write to another file"):
                api.encode_capture(source, output)
    assert capture.read_bytes() == pcap(GOOD)


def test_messages_do_not_overlap_the_progress_bar(tmp_path: Path) -> None:
    """On a terminal, both are written to stderr."""
    path = write(tmp_path / "a.pcap", pcap(GOOD, WITHOUT_TEMPLATE))
    terminal, other_end = os.openpty()
    command = [sys.executable, "-m", "flowbuf", "encode", str(path), "-o", str(tmp_path / "flows.pb")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "300"}
    with subprocess.Popen(command, stderr=other_end, env=environment) as process:
        os.close(other_end)
        seen = b""
        while True:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # on Linux, the other end is closed
                break
            if not part:
                break
            seen += part
    os.close(terminal)
    assert process.returncode == 1
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()))
    assert any(line.startswith(f"flowbuf: {path}: {EXPORTER}: 1 template_missing: ") for line in lines), lines
