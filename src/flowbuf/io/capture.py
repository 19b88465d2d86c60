"""Read captures, IPFIX files and nfcapd files, plain or compressed, as batches of UDP datagrams.

The core parses the formats: pcap and pcapng with link layers and fragments, IPFIX files, records of nfcapd.
This module supplies it with data.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, BinaryIO

from flowbuf._core import MAX_WINDOW, START_SIZE, STATUSES, Capture, Datagrams, starts_with_flows
from flowbuf.arguments import check_whole
from flowbuf.errors import CaptureError, DecodeError
from flowbuf.io.input_stream import Content
from flowbuf.io.statuses import sort_counters

__all__ = ["MESSAGE_SUFFIXES", "START_SIZE", "CaptureReader", "check_port", "is_capture"]

_MAGIC = {
    *(b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d", b"\xa1\xb2\xcd\x34"),
    *(b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1", b"\x34\xcd\xb2\xa1"),
    b"\n\r\r\n",
}
"""The first bytes of pcap (microseconds, nanoseconds, Kuznetzov's patch) in both orders, and of pcapng."""

# 1 MiB: more than the core needs to see at once, so the window never grows.
WINDOW_SIZE = 2 * MAX_WINDOW
# Other formats, and their readers.
_OTHER_FILES = {
    b"BZh": "bzip2 data; decompress it first: bunzip2 FILE",
    b"\xfd7zXZ\0": "xz data; decompress it first: unxz FILE",
    b"\x04\x22\x4d\x18": "LZ4 data; decompress it first: unlz4 FILE",
    b"PK\x03\x04": "a zip archive; unpack it first: unzip FILE",
    b"PAR1": "Parquet; read it with flowbuf query",
    b"ARROW1": "Arrow; read it with pyarrow or polars",
    b"\x0c\xa5\x01\x00": "nfcapd of nfdump 1.6; convert it with nfdump 1.7: nfdump -r FILE -w OUT",
}
MESSAGE_SUFFIXES = (".pb", ".pb.gz", ".pb.zst")
"""Ends of the names of message streams."""


def is_capture(start: bytes, name: str = "") -> bool:
    """Return True if the first bytes of a file are those of a capture, an IPFIX file or an nfcapd file.

    Args:
        start: START_SIZE bytes, or fewer if the file is shorter.
        name: Name of the file. A message stream can begin like an IPFIX file, so a name that ends like that
            of a message stream decides.
    """
    if start[:4] in _MAGIC:
        return True
    return not name.endswith(MESSAGE_SUFFIXES) and starts_with_flows(start)


def check_port(port: int | None) -> None:
    """Raise an error if a port is neither None nor that of datagrams."""
    if port is not None:
        check_whole("port", port, 1, 65535)


class CaptureReader:
    """Read the UDP datagrams of one capture in bounded memory.

    A capture is a file in the format pcap or pcapng, an IPFIX file (RFC 5655), or a file of nfcapd (nfdump
    1.7). Each message of an IPFIX file is a datagram. Flows of nfcapd become IPFIX messages.

    Iterating yields batches for `Decoder`. **A batch is valid until the next one is requested.** A reader can
    be iterated once. Another thread may decode a batch. It must finish before the next batch is requested.

    A damaged capture does not raise an exception. The packets before the damage are read, and `counters`
    reports it. Call `check` to raise an exception for damage.

    Args:
        source: Path, "-" for standard input, binary file object, or `Content`. A file object is read from its
            current position and left open.
        port: Return only datagrams to this UDP port, 1 to 65,535. Default: all. IPFIX files and nfcapd files
            have no ports, so all their datagrams are returned.

    Attributes:
        name: Name of the file, for messages to users.
        size: Size of the file in bytes, or None if it is unknown.

    Raises:
        OSError: The source cannot be opened, or cannot be read while iterating.
        ValueError: port is out of range.
        CaptureError: The file is not a capture. Raised while iterating.
        RuntimeError: The next batch was requested while another thread still uses this one. Raised while
            iterating.

    Example:
        decoder = flowbuf.Decoder()
        with flowbuf.CaptureReader("capture.pcap.gz", port=2055) as reader:
            for batch in reader:
                messages = decoder.encode_datagrams(batch)
    """

    def __init__(self, source: str | os.PathLike[str] | BinaryIO | Content, port: int | None = None) -> None:
        check_port(port)
        self._core = Capture(port)
        self._content = source if isinstance(source, Content) else Content(source)
        self.name = self._content.name
        self.size = self._content.size

    def __iter__(self) -> Iterator[Datagrams]:
        return _Batches(self._core, self._content)

    def batches(self) -> Iterator[Datagrams]:
        """Iterate like the reader itself, but raise CaptureError instead of OSError for read errors.

        An OSError in the loop then comes from the processing of the batches.
        """
        return _CarefulBatches(self._core, self._content)

    @property
    def position(self) -> int:
        """Number of bytes of the file read so far, before decompression. Equals `size` at the end."""
        return self._content.position

    @property
    def packets(self) -> int:
        """Number of packets read so far; of messages in IPFIX files and nfcapd files."""
        count: int = self._core.packets
        return count

    @property
    def link_types(self) -> list[int]:
        """Link types of the packets read so far (https://www.tcpdump.org/linktypes.html)."""
        link_types: list[int] = self._core.link_types
        return link_types

    @property
    def counters(self) -> dict[str, int]:
        """Counts of damage and of packets that were not delivered: name of the status -> count.

        Zeros are left out.
        """
        counters = dict(self._core.counters)
        if self._content.fault or self._content.failure:
            counters.pop("truncated_capture", None)  # a consequence of the damage
        if self._content.fault:
            counters.pop("damaged_capture", None)  # another consequence
            counters["damaged_compression"] = 1
        return counters

    def check(self) -> None:
        """Raise DecodeError if packets are damaged or were lost.

        Such losses belong to no datagram, so a strict decoder does not detect them.
        """
        for name, _ in sort_counters(self.counters):
            kind, text = STATUSES[name]
            if kind != "note":
                raise DecodeError(f"{self.name}: {name}: {text}", status=name)

    def close(self) -> None:
        """Close the file if it was opened here."""
        self._content.close()

    def __reduce__(self) -> Any:
        raise TypeError("a capture reader cannot be copied or pickled; open the capture in each process")

    def __enter__(self) -> CaptureReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Batches:
    """Batches of a capture. Iteration can continue after an error, once its cause is removed."""

    def __init__(self, core: Capture, content: Content) -> None:
        self._core = core
        self._content = content
        self._window = memoryview(bytearray(WINDOW_SIZE))
        self._begin = self._end = 0  # of the part of the window that has not been scanned
        self._final = False
        self._status = ""
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Datagrams]:
        return self

    def __next__(self) -> Datagrams:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this capture is being read in another thread")
        try:
            return self._scan()
        finally:
            self._lock.release()

    def _scan(self) -> Datagrams:
        while self._status != "end":
            if self._status == "not_a_capture":
                if self._content.failure:
                    raise CaptureError(f"{self._content.name}: {self._content.failure}")
                raise CaptureError(f"{self._content.name}: not a capture: {self._explain()}")
            self._core.advance()  # before the window changes
            if self._status == "more_input":
                self._fill()
            consumed, self._status, batch = self._core.scan(
                self._window[self._begin : self._end], self._final
            )
            self._begin += consumed
            if len(batch):
                return batch
        if self._content.compressed and "damaged_capture" in self._core.counters:
            self._read_rest()
        raise StopIteration

    def _read_rest(self) -> None:
        """Read compressed data to its end.

        Its checksum shows if the bad record is damage to the compression.
        """
        rest = memoryview(bytearray(WINDOW_SIZE))  # the last batch is in the window
        while self._read(rest):
            pass

    def _fill(self) -> None:
        left = self._end - self._begin
        self._window[:left] = self._window[self._begin : self._end]
        self._begin, self._end = 0, left
        count = self._read(self._window[left:])
        self._end += count
        self._final = count == 0

    def _read(self, view: memoryview) -> int:
        return self._content.readinto(view)

    def _explain(self) -> str:
        if self._content.fault:
            return f"its {self._content.fault} from the start"
        if not self._end:
            return "it is empty"
        seen = bytes(self._window[:16])
        readers = [f", but {readers}" for magic, readers in _OTHER_FILES.items() if seen.startswith(magic)]
        return "neither pcap, pcapng, IPFIX nor nfcapd" + "".join(readers)


class _CarefulBatches(_Batches):
    """Batches that raise CaptureError instead of OSError."""

    def _read(self, view: memoryview) -> int:
        try:
            return super()._read(view)
        except OSError as error:
            raise CaptureError(f"{self._content.name}: {error.strerror or error}") from error
