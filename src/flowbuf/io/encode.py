"""A capture to a file of messages, in one call."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from flowbuf._core import Datagrams
from flowbuf.decoder import Decoder
from flowbuf.io.background_writer import WriteBehind
from flowbuf.io.capture import CaptureReader
from flowbuf.io.output_file import OutputFile
from flowbuf.io.proto_file import check_proto, write_proto
from flowbuf.schema import Schema

__all__ = ["EncodeResult", "decode_batches", "encode_capture"]


@dataclass(frozen=True)
class EncodeResult:
    """What became of a capture. `octets` are those of the messages, before any compression; `counters` are those of the
    capture and of all exporters, from the name of a status (`flowbuf.STATUSES`) to how often it was met."""

    flows: int
    datagrams: int
    octets: int
    counters: dict[str, int]


def encode_capture(
    source: str | os.PathLike[str] | BinaryIO,
    output: str | os.PathLike[str],
    schema: Schema | str = "flow",
    *,
    port: int | None = None,
    time: str = "received",
    default_sampling_rate: int | None = None,
    override: dict[str, Any] | None = None,
    scale: bool = False,
    strict: bool = False,
    decapsulate: str | Iterable[str] = (),
    early_data_limit: int = 0,
    template_expiry: float | None = None,
    obey_withdrawals: bool = False,
) -> EncodeResult:
    """Decodes a capture into a file of length-delimited messages, and writes their .proto beside it (`flows.pb.proto`).

    `source` is a path, "-" for standard input, or a binary file object; `output` is a path: .gz and .zst are
    compressed, "-" is standard output, which gets no .proto. `port`: only datagrams to this UDP port. `override`
    replaces late columns in every flow, as in `Decoder.encode`: {"sampling_rate": 1000}. The other options are those
    of `Decoder`. The file appears whole or not at all.

    Raises OSError (FileExistsError for a .proto that flowbuf did not write, which stays), SchemaError, KeyError or
    ValueError for an `override` that the schema does not allow, ValueError for an option that cannot be, CaptureError
    where the source is no capture or cannot be read to its end, and with `strict` DecodeError at the first datagram
    that is malformed or left undecoded, or where the capture itself is damaged. Without it, that is counted.
    """
    decoder = Decoder(
        schema,
        time=time,
        default_sampling_rate=default_sampling_rate,
        scale=scale,
        strict=strict,
        decapsulate=decapsulate,
        early_data_limit=early_data_limit,
        template_expiry=template_expiry,
        obey_withdrawals=obey_withdrawals,
    )
    octets = datagrams = 0
    with CaptureReader(source, port) as reader, OutputFile(output) as file:
        if file.is_regular:
            check_proto(output)  # now, not after the work
        with WriteBehind(file) as behind:
            for batch, messages in decode_batches(reader, decoder, override):
                behind.write(messages)
                datagrams += len(batch)
                octets += len(messages)
        if strict:
            reader.check()
        decoder.finish()
        if file.is_regular:
            write_proto(output, decoder.schema, scaled=scale)
    counters = Counter(reader.counters)
    counters.update(decoder.counters)
    return EncodeResult(decoder.flows, datagrams, octets, dict(counters))


def decode_batches(
    reader: CaptureReader, decoder: Decoder, override: dict[str, Any] | None = None
) -> Iterator[tuple[Datagrams, memoryview]]:
    """A capture, batch by batch: the datagrams, and the messages of their flows, late columns replaced by `override`.
    Both are valid until the next ones are asked for: who keeps messages copies them. Raises CaptureError where it is
    none, or cannot be read on."""
    for batch in reader.batches():
        with decoder.view_datagrams(batch, override=override) as messages:
            yield batch, messages
