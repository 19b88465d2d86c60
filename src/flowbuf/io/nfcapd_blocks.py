"""Decompress the blocks of nfcapd files (layout version 2 of nfdump 1.7).

The core reads the records of the blocks. This module replaces compressed blocks by plain ones. Their header
gets the new size, and the flag of a plain block.

    file header (40): magic (2), layout version (2), …, compression at byte 16, …
    block header (12): records (4), size (4), type (2), flags (2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from flowbuf.errors import CaptureError

__all__ = ["MAX_BLOCK_SIZE", "START_SIZE", "NfcapdBlocks", "has_compressed_blocks", "is_nfcapd"]

START_SIZE = 17
"""Number of bytes that `has_compressed_blocks` needs."""

MAX_BLOCK_SIZE = 8 << 20
"""Largest block in bytes, compressed or not. nfdump writes blocks up to 5 MiB."""

_FILE_HEADER_SIZE = 40
_BLOCK_HEADER_SIZE = 12
_READ_SIZE = 1 << 16
_IS_PLAIN = 1  # flag of a block
_LZO, _BZ2, _LZ4, _ZSTD = 1, 2, 3, 4
_NAMES = {_LZO: "LZO", _BZ2: "BZ2", _LZ4: "LZ4", _ZSTD: "zstd"}

Decompress = Callable[[bytes], bytes]


class _Damaged(Exception):
    """A block cannot be decompressed."""


class _Inner(Protocol):
    """Content of the file."""

    @property
    def fault(self) -> str: ...
    @property
    def read_into(self) -> Callable[[memoryview], int]: ...


def _byte_order(start: bytes) -> Any:
    """Return the byte order of a file of layout version 2, or None for other files."""
    return {b"\x0c\xa5\x02\x00": "little", b"\xa5\x0c\x00\x02": "big"}.get(start[:4])


def is_nfcapd(start: bytes) -> bool:
    """Return True if the first four bytes are those of an nfcapd file of layout version 2."""
    return _byte_order(start) is not None


def has_compressed_blocks(start: bytes) -> bool:
    """Return True if the first bytes are those of an nfcapd file with compressed blocks."""
    return len(start) >= START_SIZE and is_nfcapd(start) and start[START_SIZE - 1] != 0


class NfcapdBlocks:
    """Content of a file, in which compressed blocks of nfcapd are replaced by plain ones.

    Other files do not change. Damage and an early end of the file end the content before the block.

    Args:
        inner: Content of the file.
        name: Name of the file, for messages to users.
        open_zstd: Return a function that creates a decompressor, and its error. Raise CaptureError if the
            library is not installed.

    Raises:
        CaptureError: The compression is not supported, or its library is not installed. Raised while reading.
    """

    def __init__(self, inner: _Inner, name: str, open_zstd: Callable[[], Any]) -> None:
        self._inner = inner
        self._name = name
        self._open_zstd = open_zstd
        self._fault = ""
        self._chunk = memoryview(b"")
        self._chunks: Iterator[bytes] | None = self._read_chunks()

    @property
    def fault(self) -> str:
        """Damage to the compression, for example "LZ4 data is cut short". Empty if there is no damage."""
        return self._fault or self._inner.fault

    def read_into(self, view: memoryview) -> int:
        """Read into `view`, and return the number of bytes, 0 at the end."""
        while not self._chunk:
            if self._chunks is None:
                return self._inner.read_into(view)
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._chunk = memoryview(chunk)
        count = min(len(view), len(self._chunk))
        view[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        return count

    def _read_chunks(self) -> Iterator[bytes]:
        header = self._read(_FILE_HEADER_SIZE)
        order = _byte_order(header)
        if not has_compressed_blocks(header):
            self._chunks = None  # the rest of the file is not changed
        yield header
        decompress = self._get_decompress(header[START_SIZE - 1])
        while len(header := self._read(_BLOCK_HEADER_SIZE)) == _BLOCK_HEADER_SIZE:
            size = int.from_bytes(header[4:8], order)
            flags = int.from_bytes(header[10:12], order)
            if flags & _IS_PLAIN:
                yield header
                yield from self._copy(size)
                continue
            try:
                content = decompress(self._read_block(size))
            except _Damaged as error:
                self._fault = str(error)
                return
            plain = len(content).to_bytes(4, order), header[8:10], (flags | _IS_PLAIN).to_bytes(2, order)
            yield header[:4] + b"".join(plain)
            yield content
        yield header

    def _read(self, size: int) -> bytes:
        """Read `size` bytes, or fewer at the end of the file."""
        content = bytearray()
        while len(content) < size:
            piece = memoryview(bytearray(min(size - len(content), _READ_SIZE)))
            count = self._inner.read_into(piece)
            if not count:
                break
            content += piece[:count]
        return bytes(content)

    def _copy(self, size: int) -> Iterator[bytes]:
        while size and (piece := self._read(min(size, _READ_SIZE))):
            size -= len(piece)
            yield piece

    def _read_block(self, size: int) -> bytes:
        if size > MAX_BLOCK_SIZE:
            raise _Damaged("header of a block is damaged")
        block = self._read(size)
        if len(block) < size:
            raise _Damaged(f"{self._compression} data is cut short")
        return block

    def _get_decompress(self, compression: int) -> Decompress:
        self._compression = _NAMES.get(compression, f"compression {compression}")
        if compression == _BZ2:
            return self._decompress_bz2
        if compression == _ZSTD:
            self._new_decompressor, self._zstd_error = self._open_zstd()
            return self._decompress_zstd
        if compression != _LZ4:
            raise CaptureError(
                f"{self._name}: nfcapd blocks are compressed with {self._compression}, which flowbuf cannot "
                f"read; convert the file: nfdump -r {self._name} -w OUT"
            )
        try:
            import lz4.block
        except ImportError:
            raise CaptureError(
                f"{self._name}: nfcapd blocks are compressed with LZ4; "
                "install the package lz4 to read it (pip install 'flowbuf[nfcapd]')"
            ) from None
        self._lz4 = lz4.block
        return self._decompress_lz4

    def _decompress_lz4(self, block: bytes) -> bytes:
        try:
            content: bytes = self._lz4.decompress(block, uncompressed_size=MAX_BLOCK_SIZE)
        except (self._lz4.LZ4BlockError, ValueError):
            raise _Damaged("LZ4 data is damaged") from None
        return content

    def _decompress_bz2(self, block: bytes) -> bytes:
        import bz2

        decompressor = bz2.BZ2Decompressor()
        try:
            content = decompressor.decompress(block, MAX_BLOCK_SIZE)
        except (OSError, ValueError):
            raise _Damaged("BZ2 data is damaged") from None
        if not decompressor.eof:
            raise _Damaged("BZ2 data is damaged")
        return content

    def _decompress_zstd(self, block: bytes) -> bytes:
        decompressor = self._new_decompressor()
        content = bytearray()
        try:
            for at in range(0, len(block), 512):
                if decompressor.eof:
                    break
                content += decompressor.decompress(block[at : at + 512])
                if len(content) > MAX_BLOCK_SIZE:
                    raise _Damaged("zstd data is damaged")
        except self._zstd_error:
            raise _Damaged("zstd data is damaged") from None
        if not decompressor.eof:
            raise _Damaged("zstd data is damaged")
        return bytes(content)
