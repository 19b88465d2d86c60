"""IPFIX files (RFC 5655) are read like captures.

ext/tests/capture/test_ipfix_file.c has the cases of each length and cut.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from click.testing import CliRunner

import flowbuf
from flowbuf.cli.main import main
from flowbuf.errors import DecodeError
from flowbuf.io.capture import CaptureReader, is_capture
from tests.support.datagrams import data_set, ipfix, template, template_set, u8

DATA = Path(__file__).parents[1] / "data"
MESSAGES = [ipfix(template_set(template(256, (4, 1))), data_set(256, u8(6))), ipfix(data_set(256, u8(17)))]
CONTENT = b"".join(MESSAGES)


def messages_of(capture: Path) -> bytes:
    with CaptureReader(capture) as reader:
        return b"".join(payload for batch in reader for payload, *_ in batch)


def test_messages_are_datagrams_of_an_unspecified_exporter_at_their_export_time() -> None:
    reader = CaptureReader(io.BytesIO(CONTENT), port=2055)
    datagrams = [datagram for batch in reader for datagram in batch]
    exported = int.from_bytes(MESSAGES[0][4:8], "big") * 10**9
    assert datagrams == [(message, ("::", 0), 0, exported) for message in MESSAGES]
    assert (reader.counters, reader.packets, reader.link_types) == ({}, 2, [])


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_has_the_flows_of_the_capture_of_its_messages(tmp_path: Path, compress: type[bytes]) -> None:
    capture = DATA / "softflowd-ipfix.pcap"
    path = tmp_path / "flows"  # the content decides, not the name
    path.write_bytes(compress(messages_of(capture)))
    columns = [
        "src_addr",
        "dst_addr",
        "src_port",
        "bytes",
        "packets",
        "time_flow_start",
        "observation_domain_id",
    ]
    found = flowbuf.read_capture(path, columns=columns).to_arrow()
    assert found == flowbuf.read_capture(capture, columns=columns).to_arrow()
    assert found.num_rows > 100


@pytest.mark.parametrize(
    "command", [["read"], ["inspect"], ["top", "proto"], ["query", "SELECT proto FROM flows"]]
)
def test_commands_read_files(tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "x.ipfix"
    path.write_bytes(CONTENT)
    result = CliRunner().invoke(main, [*command, str(path)])
    assert result.exit_code == 0, result.output
    assert "6" in result.stdout


def test_inspect_names_messages(tmp_path: Path) -> None:
    path = tmp_path / "x.ipfix"
    path.write_bytes(CONTENT)
    result = CliRunner().invoke(main, ["inspect", str(path)])
    assert f"{len(CONTENT)} bytes, 2 messages\n" in result.stdout


def test_a_file_on_standard_input_is_recognized() -> None:
    result = CliRunner().invoke(main, ["read", "-", "--columns", "proto", "-f", "csv"], input=CONTENT)
    assert (result.exit_code, result.stdout) == (0, "proto\n6\n17\n")


def test_messages_before_a_cut_are_read_and_the_cut_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.ipfix"
    path.write_bytes(CONTENT[:-1])
    result = CliRunner().invoke(main, ["read", str(path), "--columns", "proto", "-f", "csv"])
    assert (result.exit_code, result.stdout) == (1, "proto\n6\n")
    assert f"{path}: 1 truncated_capture" in result.stderr
    with pytest.raises(DecodeError, match="truncated_capture"):
        flowbuf.read_capture(path, strict=True).to_arrow()


def test_a_message_stream_that_begins_like_an_ipfix_file_keeps_its_name() -> None:
    # an empty message, and one of 10 bytes
    start = bytes([0, 10, 0, 40]) + bytes(12) + bytes([1, 0, 0, 24]) + bytes(4)
    assert is_capture(start)
    assert is_capture(start, "x.ipfix")
    assert not is_capture(start, "x.pb")
    assert not is_capture(start, "x.pb.gz")
    assert not is_capture(start[:-1])
