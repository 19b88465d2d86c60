"""Encode a capture to a file of messages in one call."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from flowbuf._core import Datagrams
from flowbuf.decoder import Decoder
from flowbuf.io.background_writer import WriteBehind
from flowbuf.io.capture import CaptureReader
from flowbuf.io.output_file import OutputFile, would_replace
from flowbuf.io.proto_file import check_proto, write_proto
from flowbuf.options import DecodeKeywords, DecodeOptions, merge_options
from flowbuf.schema import Schema

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["EncodeResult", "decode_batches", "decode_row_batches", "encode_capture"]


@dataclass(frozen=True)
class EncodeResult:
    """Result of `encode_capture`.

    Attributes:
        flows: Number of flows written.
        datagrams: Number of UDP datagrams read.
        bytes: Size of the messages in bytes, before any compression.
        counters: Counters of the capture and of all exporters: name of a status (`flowbuf.STATUSES`) ->
            number of occurrences.
    """

    flows: int
    datagrams: int
    bytes: int
    counters: dict[str, int]


def encode_capture(
    source: str | os.PathLike[str] | BinaryIO,
    output: str | os.PathLike[str],
    schema: Schema | str = "flow",
    *,
    port: int | None = None,
    override: dict[str, Any] | None = None,
    options: DecodeOptions | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> EncodeResult:
    """Decode a capture into a file of length-delimited messages, and write their .proto beside it.

    For the output `flows.pb`, the .proto is `flows.pb.proto`. Each file appears whole or not at all.
    Malformed data is counted in the result, unless `strict` is set.

    Args:
        source: Capture (pcap, pcapng, IPFIX file or file of nfcapd; plain, gzip or zstd): path, "-" for
            standard input, or binary file object.
        output: Path of the file to write. Names ending in .gz and .zst are compressed. "-" is standard
            output, without a .proto.
        schema: Schema, name of a built-in schema, or path to a TOML file. Default: "flow".
        port: Decode only datagrams to this UDP port. Default: all.
        override: Values of late columns that replace those of every flow, for example {"sampling_rate":
            1000}.
        options: Options of decoding. Default: `DecodeOptions()`.
        **keywords: Fields of `DecodeOptions` to replace, for example `scale=True`.

    Returns:
        EncodeResult: Numbers of flows, datagrams and bytes, and the counters.

    Raises:
        OSError: A file cannot be read or written.
        FileExistsError: The .proto exists and flowbuf did not write it. The .proto is not changed.
        SchemaError: The schema cannot be loaded, or cannot be decoded into.
        KeyError: override names a column that the schema does not have.
        ValueError: An option is invalid, or output is the file of source.
        CaptureError: source is not a capture, or reading failed.
        DecodeError: With strict, a datagram or the capture is damaged.

    Example:
        result = flowbuf.encode_capture("capture.pcap", "flows.pb.zst")
        print(result.flows, result.counters)
    """
    chosen = merge_options(options, keywords)
    decoder = Decoder(schema, chosen)
    if would_replace(output, source):
        raise ValueError(f"output {os.fspath(output)!r} is the capture itself; write to another file")
    size = datagrams = 0
    with CaptureReader(source, port) as reader, OutputFile(output) as file:
        if file.is_regular:
            check_proto(output)  # before the work
        with WriteBehind(file) as behind:
            for batch, messages in decode_batches(reader, decoder, override):
                behind.write(messages)
                datagrams += len(batch)
                size += len(messages)
        if chosen.strict:
            reader.check()
        decoder.finish()
        if file.is_regular:
            write_proto(output, decoder.schema, scaled=chosen.scale)
    counters = Counter(reader.counters)
    counters.update(decoder.counters)
    return EncodeResult(decoder.flows, datagrams, size, dict(counters))


def decode_batches(
    reader: CaptureReader, decoder: Decoder, override: dict[str, Any] | None = None
) -> Iterator[tuple[Datagrams, memoryview]]:
    """Yield the datagrams of each batch of a capture, and the messages of their flows.

    Both are valid until the next batch is requested. Copy the messages to keep them.

    Args:
        reader: Reader of the capture.
        decoder: Decoder of the datagrams.
        override: Values that replace late columns.

    Raises:
        CaptureError: The source is not a capture, or reading failed.
    """
    for batch in reader.batches():
        with decoder.view_datagrams(batch, override=override) as messages:
            yield batch, messages


def decode_row_batches(
    reader: CaptureReader, decoder: Decoder, override: dict[str, Any] | None = None
) -> Iterator[dict[str, memoryview]]:
    """Yield the messages of each batch of a capture, by their kind of rows: see `decode_batches`."""
    for batch in reader.batches():
        rows = decoder.view_rows(batch, override=override)
        try:
            yield rows
        finally:
            for messages in rows.values():
                messages.release()
