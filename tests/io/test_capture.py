"""Read captures: paths, pipes and file objects; compressed, truncated, damaged or foreign files.

ext/tests/capture/test_capture.c and its neighbours test the contents of captures.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import pickle
import random
import struct
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from flowbuf.errors import CaptureError
from flowbuf.io.capture import WINDOW_SIZE, CaptureReader
from flowbuf.io.input_stream import Content

if sys.version_info >= (3, 14):
    from compression import zstd

    compress_zstd = zstd.compress
else:
    import zstandard

    compress_zstd = zstandard.compress

from tests.support.cases import slow, slow_after

Datagram = tuple[bytes, tuple[str, int], int, int]


def udp_packet(payload: bytes, source_port: int = 2000, destination_port: int = 2055) -> bytes:
    """Return a raw IPv4 packet from 192.0.2.1 to 192.0.2.2."""
    udp = struct.pack(">HHHH", source_port, destination_port, 8 + len(payload), 0) + payload
    addresses = bytes([192, 0, 2, 1, 192, 0, 2, 2])
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + addresses + udp


def pcap(*packets: bytes) -> bytes:
    """Return a little-endian pcap file of raw IP packets, one packet per second."""
    header = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101)
    return header + b"".join(
        struct.pack("<IIII", 1700000000 + second, 500000, len(packet), len(packet)) + packet
        for second, packet in enumerate(packets)
    )


def read(reader: CaptureReader) -> list[Datagram]:
    return [datagram for batch in reader for datagram in batch]


def read_payloads(reader: CaptureReader) -> list[bytes]:
    return [payload for payload, _, _, _ in read(reader)]


PAYLOADS = [f"payload {i}".encode() * (i + 1) for i in range(40)]
CAPTURE = pcap(*map(udp_packet, PAYLOADS))

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": compress_zstd,
}
each_compression = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
each_real_compression = pytest.mark.parametrize(
    "compress", [gzip.compress, compress_zstd], ids=["gzip", "zstd"]
)


# Sources of captures ----------------------------------------------------------------------------------------


@each_compression
def test_captures_are_read_from_paths(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "capture"  # the content decides, not the name
    path.write_bytes(compress(CAPTURE))
    for source in (path, str(path)):
        with CaptureReader(source) as reader:
            datagrams = read(reader)
        assert [payload for payload, _, _, _ in datagrams] == PAYLOADS
        assert datagrams[3][1:] == (("192.0.2.1", 2000), 2055, 1700000003_500000000)
        assert reader.counters == {}
        assert reader.packets == len(PAYLOADS)
        assert reader.name == str(path)


@each_compression
def test_a_file_object_is_read_from_its_position_and_left_open(compress: Callable[[bytes], bytes]) -> None:
    file = io.BytesIO(b"in front" + compress(CAPTURE))
    file.seek(8)
    with CaptureReader(file) as reader:
        assert read_payloads(reader) == PAYLOADS
    assert not file.closed


@each_compression
def test_captures_are_read_from_pipes(compress: Callable[[bytes], bytes]) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as file:
            file.write(compress(CAPTURE))

    writer = threading.Thread(target=write)
    writer.start()
    with open(reading, "rb") as file:
        reader = CaptureReader(file)
        assert read_payloads(reader) == PAYLOADS
    writer.join()
    assert reader.size is None


def test_available_data_of_a_pipe_is_read_at_once() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as file, open(writing, "wb", buffering=0) as pipe:
        pipe.write(CAPTURE[:-1])
        first_batch = next(iter(CaptureReader(file)))
        assert [payload for payload, _, _, _ in first_batch] == PAYLOADS[:-1]


def test_captures_are_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CAPTURE)))
    reader = CaptureReader("-")
    assert read_payloads(reader) == PAYLOADS
    assert reader.name == "<stdin>"


@each_compression
def test_sources_may_return_short_reads(compress: Callable[[bytes], bytes]) -> None:
    class Trickle:
        def __init__(self, content: bytes) -> None:
            self._content = io.BytesIO(content)

        def read(self, size: int) -> bytes:
            return self._content.read(min(size, 3))

    assert read_payloads(CaptureReader(Trickle(compress(CAPTURE)))) == PAYLOADS  # type: ignore[arg-type]


@each_compression
def test_captures_larger_than_the_window_are_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    random_source = random.Random(1)
    payloads = [random_source.randbytes(random_source.randrange(9000)) for _ in range(800)]
    content = pcap(*map(udp_packet, payloads))
    assert len(content) > 3 * WINDOW_SIZE
    path = tmp_path / "large"
    path.write_bytes(compress(content))
    with CaptureReader(path) as reader:
        assert read_payloads(reader) == payloads


def test_the_position_advances_to_the_size(tmp_path: Path) -> None:
    for compress in COMPRESSIONS.values():
        path = tmp_path / "capture"
        path.write_bytes(compress(pcap(*[udp_packet(random.Random(1).randbytes(60000))] * 40)))
        with CaptureReader(path) as reader:
            assert reader.size == path.stat().st_size
            assert reader.position == 0
            positions = [reader.position for _ in reader]
            assert positions == sorted(positions)
            assert reader.position == reader.size


def test_a_port_filter_keeps_only_its_packets() -> None:
    content = pcap(udp_packet(b"one", destination_port=2055), udp_packet(b"two", destination_port=6343))
    reader = CaptureReader(io.BytesIO(content), port=6343)
    assert read_payloads(reader) == [b"two"]
    assert reader.counters == {"other_port": 1}
    assert reader.packets == 2


def test_closing_a_reader_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(CAPTURE)
    with CaptureReader(path) as reader:
        pass
    with pytest.raises(ValueError, match="closed"):
        list(reader)


# Compression ------------------------------------------------------------------------------------------------


@each_real_compression
def test_concatenated_members_are_read(compress: Callable[[bytes], bytes]) -> None:
    halves = compress(CAPTURE[:1000]) + compress(b"") + compress(CAPTURE[1000:])
    reader = CaptureReader(io.BytesIO(halves))
    assert read_payloads(reader) == PAYLOADS
    assert reader.counters == {}


@each_real_compression
def test_zeros_after_a_member_are_padding(compress: Callable[[bytes], bytes]) -> None:
    reader = CaptureReader(
        io.BytesIO(compress(CAPTURE[:1000]) + bytes(512) + compress(CAPTURE[1000:]) + bytes(9000))
    )
    assert read_payloads(reader) == PAYLOADS
    assert reader.counters == {}


def test_skippable_zstd_frames_are_skipped() -> None:
    for low in (0, 15):
        skippable = struct.pack("<II", 0x184D2A50 + low, 5) + b"12345"
        reader = CaptureReader(io.BytesIO(skippable + compress_zstd(CAPTURE) + skippable))
        assert read_payloads(reader) == PAYLOADS
        assert reader.counters == {}


@each_real_compression
def test_foreign_data_after_a_member_is_damage(compress: Callable[[bytes], bytes]) -> None:
    reader = CaptureReader(io.BytesIO(compress(CAPTURE) + b"something else"))
    assert read_payloads(reader) == PAYLOADS
    assert reader.counters == {"damaged_compression": 1}


@each_real_compression
def test_truncation_keeps_the_packets_before_it(compress: Callable[[bytes], bytes]) -> None:
    whole = [bytes([i]) * 60000 for i in range(8)]  # several blocks of zstd
    content = compress(pcap(*map(udp_packet, whole)))
    most = 0
    for size in range(5, len(content)):
        reader = CaptureReader(io.BytesIO(content[:size]))
        try:
            payloads = read_payloads(reader)
        except CaptureError:  # not even a file header
            assert most == 0
            continue
        assert payloads == whole[: len(payloads)]
        assert len(payloads) >= most
        assert reader.counters == {"damaged_compression": 1}
        most = len(payloads)
    assert most >= 6


@each_real_compression
def test_damage_keeps_the_packets_before_it(compress: Callable[[bytes], bytes]) -> None:
    payloads = [random.Random(i).randbytes(500).hex().encode() for i in range(2000)]
    content = bytearray(compress(pcap(*map(udp_packet, payloads))))
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    reader = CaptureReader(io.BytesIO(bytes(content)))
    seen = read_payloads(reader)
    assert 800 < len(seen) < 1100
    assert seen[:800] == payloads[:800]
    # The decompressor continues for some bytes before it fails. An invalid record in them is not reported.
    assert reader.counters == {"damaged_compression": 1}


@pytest.mark.parametrize("size", [1, 50_000])
def test_an_invalid_record_in_damaged_gzip_data_is_damaged_compression(size: int) -> None:
    """The data can be decompressed, but the checksum at its end does not match."""
    payloads = [bytes([i]) * size for i in range(100)]
    content = bytearray(gzip.compress(pcap(*map(udp_packet, payloads)), compresslevel=0))
    place = content.index(udp_packet(payloads[1])[:30]) - 8
    content[place : place + 4] = b"\xff" * 4
    reader = CaptureReader(io.BytesIO(bytes(content)))
    assert read_payloads(reader) == payloads[:1]
    assert reader.counters == {"damaged_compression": 1}


@each_compression
def test_an_invalid_record_in_intact_data_is_counted(compress: Callable[[bytes], bytes]) -> None:
    content = bytearray(CAPTURE)
    place = content.index(udp_packet(PAYLOADS[1])) - 8
    content[place : place + 4] = b"\xff" * 4
    reader = CaptureReader(io.BytesIO(compress(bytes(content))))
    assert read_payloads(reader) == PAYLOADS[:1]
    assert reader.counters == {"damaged_capture": 1}


@each_real_compression
def test_a_decompression_bomb_needs_little_memory(compress: Callable[[bytes], bytes]) -> None:
    bomb = compress(pcap() + bytes(64 << 20))  # 4 million packet records without a packet
    tracemalloc.start()
    try:
        reader = CaptureReader(io.BytesIO(bomb))
        assert read(reader) == []
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert reader.packets == 4 << 20


# Foreign and truncated files --------------------------------------------------------------------------------


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.pcap"):
        CaptureReader("missing.pcap")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\xd4\xc3", "neither pcap, pcapng, IPFIX nor nfcapd"),
        (b"a text file, of some length\n" * 9, "neither pcap, pcapng, IPFIX nor nfcapd"),
        (gzip.compress(b"", mtime=0), "it is empty"),
        (gzip.compress(b"a text file", mtime=0), "neither pcap, pcapng, IPFIX nor nfcapd"),
        (b"\x1f\x8bno gzip", "its gzip data is damaged from the start"),
        (b"\x28\xb5\x2f\xfdno zstd", "its zstd data is damaged from the start"),
        # an empty frame with a window of 256 MiB (RFC 8878 section 3.1.1)
        (
            b"\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00",
            "its zstd window is above 128 MiB (compress the file again with zstd --long=27) from the start",
        ),
        (
            bz2.compress(CAPTURE),
            "neither pcap, pcapng, IPFIX nor nfcapd, but bzip2 data; decompress it first: bunzip2 FILE",
        ),
        (
            lzma.compress(CAPTURE),
            "neither pcap, pcapng, IPFIX nor nfcapd, but xz data; decompress it first: unxz FILE",
        ),
    ],
)
def test_a_foreign_file_is_an_error(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with CaptureReader(path) as reader, pytest.raises(CaptureError) as caught:
        read(reader)
    assert str(caught.value) == f"{path}: not a capture: {reason}"


@each_compression
def test_a_truncated_capture_is_counted(compress: Callable[[bytes], bytes]) -> None:
    reader = CaptureReader(io.BytesIO(compress(CAPTURE[:-1])))
    assert read_payloads(reader) == PAYLOADS[:-1]
    assert reader.counters == {"truncated_capture": 1}


def test_a_capture_without_packets_has_no_datagrams() -> None:
    reader = CaptureReader(io.BytesIO(pcap()))
    assert read(reader) == []
    assert reader.counters == {}
    assert reader.packets == 0


def test_skipped_packets_are_counted() -> None:
    tcp = bytearray(udp_packet(b"x"))
    tcp[9] = 6
    content = pcap(udp_packet(b"first"), bytes(tcp), udp_packet(b"second")[:-1])
    content += struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30) + bytes(100)
    reader = CaptureReader(io.BytesIO(content))
    assert read_payloads(reader) == [b"first"]
    assert reader.counters == {"other_packet": 1, "truncated_packet": 1, "damaged_capture": 1}


# An independent writer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("writer_name", ["PcapWriter", "PcapNgWriter"])
def test_captures_written_by_scapy_are_read(tmp_path: Path, writer_name: str, ipv6: bool) -> None:
    from scapy import utils
    from scapy.layers.inet import IP, UDP, fragment
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6
    from scapy.layers.l2 import Dot1Q, Ether

    payloads = [random.Random(i).randbytes(size) for i, size in enumerate((0, 1, 100, 1400, 5000, 40000))]
    path = tmp_path / "scapy"
    with getattr(utils, writer_name)(str(path)) as writer:
        for number, payload in enumerate(payloads):
            udp = UDP(sport=40000 + number, dport=2055) / payload
            if ipv6:
                whole = IPv6(src="2001:db8::1", dst="2001:db8::2") / IPv6ExtHdrFragment(id=number) / udp
                packets = fragment6(whole, 1280)
            else:
                packets = fragment(IP(src="192.0.2.1", dst="192.0.2.2", id=number + 1) / udp, 1280)
            for packet in packets:
                packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / Dot1Q(vlan=100) / packet
                packet.time = 1700000000 + number
                writer.write(packet)
    with CaptureReader(path) as reader:
        datagrams = read(reader)
    assert [payload for payload, _, _, _ in datagrams] == payloads
    for number, (_, source, destination_port, time) in enumerate(datagrams):
        assert source == ("2001:db8::1" if ipv6 else "192.0.2.1", 40000 + number)
        assert destination_port == 2055
        assert time == (1700000000 + number) * 10**9
    assert reader.counters == {}


def test_a_reused_ip_identification_belongs_to_a_new_datagram() -> None:
    """A lost fragment loses its own datagram only. Later datagrams reuse its identification."""
    whole = [udp_packet(bytes([i]) * 64) for i in range(10)]
    fragments = [fragment for packet in whole for fragment in split(packet)]
    capture = CaptureReader(io.BytesIO(pcap(*fragments[:1], *fragments[2:])))
    assert read_payloads(capture) == [bytes([i]) * 64 for i in range(1, 10)]
    assert capture.counters == {"fragment_dropped": 1}


def split(packet: bytes) -> list[bytes]:
    """Split a raw IPv4 packet into two fragments. The first has 32 bytes after its header."""
    header, payload = packet[:20], packet[20:]
    parts = []
    for offset, part in ((0, payload[:32]), (32, payload[32:])):
        length, flags = (
            struct.pack(">H", 20 + len(part)),
            struct.pack(">H", offset // 8 | (0x2000 if offset == 0 else 0)),
        )
        parts.append(header[:2] + length + header[4:6] + flags + header[8:] + part)
    return parts


def test_link_types_come_from_the_packets() -> None:
    with CaptureReader(io.BytesIO(pcap(udp_packet(b"one"), udp_packet(b"two")))) as reader:
        assert reader.link_types == []
        assert sum(map(len, reader)) == 2
        assert reader.link_types == [101]


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_an_invalid_port_is_an_error(port: int) -> None:
    with pytest.raises(ValueError, match=f"port is {port}; it may be 1 to 65,535"):
        CaptureReader(io.BytesIO(b""), port)
    with pytest.raises(TypeError, match=f"port is {port}.5; it must be a whole number"):
        CaptureReader(io.BytesIO(b""), float(f"{port}.5"))  # type: ignore[arg-type]


def test_a_reader_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="a capture reader cannot be copied or pickled; open the capture in"):
        pickle.dumps(CaptureReader(io.BytesIO(b"")))


def inflate_by_byte(compressed: bytes) -> bytes:
    """Return the decompressed content before the damage of gzip data."""
    decompressor, content = zlib.decompressobj(31), bytearray()
    with contextlib.suppress(zlib.error):
        for byte in compressed:
            content += decompressor.decompress(bytes((byte,)))
    return bytes(content)


@pytest.mark.parametrize("members", slow_after(1, [2, 1]))
@pytest.mark.parametrize("place", [10, 700, 66_000, -5, *slow(200, 30_000, -1, -9)])
def test_all_content_before_damaged_gzip_data_is_read(place: int, members: int) -> None:
    content = random.Random(7).randbytes(50_000) + bytes(100_000) + random.Random(8).randbytes(50_000)
    whole = gzip.compress(content, mtime=0)
    damaged = bytearray(whole)
    damaged[place] ^= 0xFF
    read = bytearray()
    view = memoryview(bytearray(1 << 16))
    with Content(io.BytesIO(whole * (members - 1) + damaged)) as source:
        while count := source.readinto(view):
            read += view[:count]
        assert bool(source.fault) == (inflate_by_byte(damaged) != content or place < 0)
    assert bytes(read) == content * (members - 1) + inflate_by_byte(damaged)


def compress_blocks(blocks: list[bytes], **options: bool) -> tuple[bytes, list[int]]:
    """Return a zstd frame of these blocks, and the offset of each block in it."""
    zstandard = pytest.importorskip("zstandard")
    compressor = zstandard.ZstdCompressor(**options).compressobj()
    frame, places = b"", []
    for block in blocks:
        frame += compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) if block is blocks[0] else b""
        places.append(len(frame))
        frame += compressor.compress(block) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return frame + compressor.flush(), places


@pytest.mark.parametrize("checksum", slow_after(1, [True, False]))
@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize("size", [3, 300, 100_000, *slow(40, 3000)])
def test_all_blocks_before_damaged_zstd_data_are_read(size: int, frames: int, checksum: bool) -> None:
    blocks = [random.Random(i).randbytes(size // 2).hex().encode() for i in range(30)]
    blocks[20] = bytes(size)  # one repeated byte
    whole, places = compress_blocks(blocks, write_checksum=checksum)
    for i in range(1, 30):
        damaged = bytearray(whole)
        damaged[places[i]] |= 6  # the reserved block type
        content = b"".join(blocks) * (frames - 1) + b"".join(blocks[:i])
        read = bytearray()
        view = memoryview(bytearray(1 << 16))
        with Content(io.BytesIO(whole * (frames - 1) + damaged)) as source:
            while count := source.readinto(view):
                read += view[:count]
            assert source.fault == "zstd data is damaged"
        assert bytes(read) == content
