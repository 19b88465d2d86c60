"""Files of nfcapd (nfdump 1.7) are read like captures, with blocks in each compression.

`generated-lz4.nfcapd` and `generated-bz2.nfcapd` were written by nfcapd from the first datagrams of
`generated-netflow9.pcap`. ext/tests/capture/test_nfcapd.c has the cases of records.
"""

from __future__ import annotations

import bz2
import gzip
import io
import sys
from pathlib import Path

import lz4.block
import pytest
from click.testing import CliRunner

import flowbuf
from flowbuf.cli.main import main
from flowbuf.errors import CaptureError
from flowbuf.io.capture import CaptureReader
from flowbuf.io.input_stream import Content
from flowbuf.io.nfcapd_blocks import MAX_BLOCK_SIZE
from tests.io.test_capture import compress_zstd

DATA = Path(__file__).parents[1] / "data"
FILES = sorted(DATA.glob("*.nfcapd"))
LZ4, BZ2 = (DATA / f"generated-{name}.nfcapd" for name in ("lz4", "bz2"))
HEADER_SIZE = 40
PLAIN = 1
COMPRESSIONS = {2: bz2.compress, 3: lambda data: lz4.block.compress(data, store_size=False), 4: compress_zstd}


def read_content(source: Path | bytes) -> bytes:
    with Content(io.BytesIO(source) if isinstance(source, bytes) else source) as content:
        return content.peek(1 << 24)


def blocks_of(content: bytes) -> list[tuple[bytes, bytes]]:
    """Return the header and the content of each block."""
    blocks, at = [], HEADER_SIZE
    while at < len(content):
        size = int.from_bytes(content[at + 4 : at + 8], "little")
        blocks.append((content[at : at + 12], content[at + 12 : at + 12 + size]))
        at += 12 + size
    return blocks


def compressed(compression: int, *packed: bytes) -> bytes:
    """Return a file whose blocks have this content."""
    header = read_content(LZ4)[:HEADER_SIZE]
    blocks = [bytes(4) + len(each).to_bytes(4, "little") + b"\3\0\0\0" + each for each in packed]
    return header[:16] + bytes([compression]) + header[17:] + b"".join(blocks)


CONTENT = read_content(LZ4)
RECORDS = blocks_of(CONTENT)[0][1]


def count_flows(content: bytes) -> tuple[int, dict[str, int]]:
    stream = flowbuf.read_capture(io.BytesIO(content))
    return stream.to_arrow().num_rows, dict(stream.counters)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_flows_are_those_of_the_capture(path: Path) -> None:
    columns = ["src_addr", "dst_addr", "src_port", "dst_port", "proto", "bytes", "packets", "in_if", "out_if"]
    columns += [
        "src_as",
        "dst_as",
        "tcp_flags",
        "ip_tos",
        "src_mac",
        "src_vlan",
        "src_addr_nat",
        "bgp_next_hop",
    ]
    columns += ["src_prefix_len", "ingress_vrf_id", "time_flow_start", "time_flow_end"]
    stream = flowbuf.read_capture(path, columns=[*columns, "exporter_address"], ip="text")
    found = stream.to_arrow().to_pylist()
    sent = (
        flowbuf.read_capture(DATA / "generated-netflow9.pcap", columns=columns, ip="text")
        .to_arrow()
        .to_pylist()
    )
    assert {row.pop("exporter_address") for row in found} == {"127.0.0.1"}
    for row in [*found, *sent]:
        if row["proto"] in (1, 58):
            del row["dst_port"]  # nfcapd does not store the type of ICMPv6
    assert found == sent[: len(found)]
    assert len(found) == 140
    assert stream.counters == {}


def test_the_content_has_plain_blocks() -> None:
    assert CONTENT[:4] == b"\x0c\xa5\x02\x00"
    assert all(header[10] & PLAIN for header, _ in blocks_of(CONTENT))
    assert blocks_of(read_content(BZ2))[0][1][32:36] == RECORDS[32:36]
    plain = CONTENT[:16] + b"\0" + CONTENT[17:]
    assert read_content(plain) == plain
    assert count_flows(plain) == (140, {})


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_each_compression_is_read(compression: int) -> None:
    content = compressed(compression, COMPRESSIONS[compression](RECORDS), COMPRESSIONS[compression](RECORDS))
    assert count_flows(content) == (280, {})
    assert count_flows(gzip.compress(content, mtime=0)) == (280, {})


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damaged_blocks_end_the_content(compression: int) -> None:
    packed = COMPRESSIONS[compression](RECORDS)
    damaged = packed[: len(packed) // 2]
    assert count_flows(compressed(compression, packed, damaged)) == (140, {"damaged_compression": 1})
    assert count_flows(compressed(compression, packed, b"")) == (140, {"damaged_compression": 1})
    whole = compressed(compression, packed, packed)
    assert count_flows(whole[:-1]) == (140, {"damaged_compression": 1})
    assert count_flows(whole[: -len(packed) - 5]) == (140, {"truncated_capture": 1})


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_blocks_that_decompress_to_too_much_are_damage(compression: int) -> None:
    bomb = COMPRESSIONS[compression](bytes(MAX_BLOCK_SIZE + 1))
    content = compressed(compression, COMPRESSIONS[compression](RECORDS), bomb)
    assert count_flows(content) == (140, {"damaged_compression": 1})


def test_a_block_of_impossible_size_is_not_read() -> None:
    content = compressed(3, COMPRESSIONS[3](RECORDS)) + bytes(4) + b"\xff\xff\xff\xff\3\0\0\0"
    assert count_flows(content) == (140, {"damaged_compression": 1})


@pytest.mark.parametrize(("compression", "name"), [(1, "LZO"), (9, "compression 9")])
def test_other_compressions_are_refused(tmp_path: Path, compression: int, name: str) -> None:
    path = tmp_path / "nfcapd.202611261935"
    path.write_bytes(compressed(compression, RECORDS))
    result = CliRunner().invoke(main, ["read", str(path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{path}: nfcapd blocks are compressed with {name}, which flowbuf cannot read" in result.stderr
    assert f"nfdump -r {path} -w OUT" in result.stderr


def test_lz4_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4.block", None)
    with CaptureReader(LZ4) as reader, pytest.raises(CaptureError, match=r"pip install 'flowbuf\[nfcapd\]'"):
        list(reader)


def test_files_of_nfdump_1_6_are_refused_with_a_way_to_convert_them(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"\x0c\xa5\x01\x00" + bytes(300))
    result = CliRunner().invoke(main, ["read", str(path)])
    assert result.exit_code == 1
    assert "nfcapd of nfdump 1.6; convert it with nfdump 1.7: nfdump -r FILE -w OUT" in result.stderr


def test_several_files_have_no_notes(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["read", "--verbose", "-f", "jsonl", str(LZ4), str(BZ2)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 280
