"""The families of the fuzz driver: valid inputs of each kind, and a function that runs one input.

The function raises an exception for every finding. It catches the errors of flowbuf that the input may cause,
and no others.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import flowbuf
from flowbuf import Decoder, EncodeError, StateError, _core, encode_columns, load_state, save_state
from flowbuf.arrow.batch import FlowBatch, new_table_type
from flowbuf.io.capture import CaptureReader
from flowbuf.kafka.kafka_records import RecordReader
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan
from tests.support import datagrams as d

Parts = list[bytes]

DATA = Path(__file__).parents[1] / "data"
SEED_SIZE = 1 << 16
RECEIVED = 1_700_000_000.0
SOURCES = [("192.0.2.1", 9995), ("192.0.2.1", 9996), ("2001:db8::7", 2055)]


class Family(NamedTuple):
    """Valid inputs, and what is done with one."""

    seeds: Callable[[], list[Parts]]
    run: Callable[[Parts, random.Random], None]


def check(condition: object, *what: object) -> None:
    if not condition:
        raise AssertionError(*what)


@functools.cache
def schemas() -> list[Schema]:
    flow = Schema.load("flow")
    return [
        flow,
        flow.enable(*(column.name for column in flow)),
        Schema.load("goflow2"),
        Schema.load("sflow_counters"),
    ]


@functools.cache
def type_of(schema: Schema) -> _core.TableType:
    return new_table_type(schema, compile_plan(schema))


def files() -> list[Path]:
    corpus = os.environ.get("FLOWBUF_CORPUS")
    more = [path for path in Path(corpus).rglob("*.pcap*") if path.is_file()] if corpus else []
    return sorted(path for path in [*DATA.glob("*.pcap"), *more] if path.stat().st_size < 1 << 20)


def payloads_of(capture: bytes) -> Parts:
    payloads = []
    with contextlib.suppress(flowbuf.CaptureError):
        for batch in CaptureReader(io.BytesIO(capture)):
            payloads += [batch[i][0] for i in range(len(batch))]
    return payloads


# Datagrams --------------------------------------------------------------------------------------------------


def seed_datagrams() -> list[Parts]:
    packets = [
        d.ethernet(d.ipv4(d.tcp(443, 50000), proto=6)),
        d.ethernet(d.ipv4(d.udp(53, 5000, bytes(30)), proto=17)),
    ]
    samples = [d.flow_sample(d.sampled_header(packet)) for packet in packets]
    options = d.options_template_set(d.options_template(400, [(149, 4)], [(34, 4), (160, 8)]))
    layout = d.template_set(d.template(256, (8, 4), (12, 4), (1, 8), (82, d.VARIABLE)))
    record = bytes([192, 0, 2, 1, 192, 0, 2, 2]) + d.uint(1500, 8) + d.variable(b"eth0")
    layout9 = d.template_set9(d.template(256, (8, 4), (12, 4), (1, 4), (22, 4)))
    seeds = [
        [d.netflow5(d.record5("192.0.2.1", "192.0.2.2", packets=1, octets=60, proto=6), sampling=100)],
        [d.sflow(*samples), d.sflow(samples[0], samples[0], samples[1])],
        [d.ipfix(layout), d.ipfix(d.data_set(256, record, record))],
        [d.ipfix(d.data_set(256, record)), d.ipfix(layout), d.ipfix(d.template_set(d.withdrawal(256)))],
        [d.ipfix(options), d.ipfix(d.data_set(400, d.u32(1) + d.u32(64) + d.uint(1_700_000_000_000, 8)))],
        [d.netflow9(layout9), d.netflow9(d.data_set(256, bytes(16), bytes(16)))],
    ]
    for path in files():
        payloads = payloads_of(path.read_bytes())
        seeds += [payloads[i : i + 8] for i in range(0, min(len(payloads), 64), 8)]
    return seeds


def options_of(schema: Schema, rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"time": rng.choice(("received", "export", "flow-start"))}
    if rng.random() < 0.3:
        options["decapsulate"] = "all"
    if rng.random() < 0.2:
        options["template_expiry"] = rng.choice((1e-9, 1, 1800))
    for name, share in (("scale", 0.2), ("obey_withdrawals", 0.3)):
        options[name] = rng.random() < share
    if rng.random() < 0.2:
        options["early_data_limit"] = rng.choice((1, 1000))
    if rng.random() < 0.1:
        options["memory_limit"] = _memory_of(schema) + rng.choice((1, 1000, 10_000, 100_000))
    return options


@functools.cache
def _memory_of(schema: Schema) -> int:
    """Bytes that are enough to make a decoder."""
    return 3 * Decoder(schema).memory_used


def run_datagrams(parts: Parts, rng: random.Random) -> None:
    """Each way to decode gives the same messages, and the same counters."""
    schema = rng.choice(schemas())
    options = options_of(schema, rng)
    capacity = rng.choice((0, 1, 100, 65536))
    sources = [rng.choice(SOURCES) for _ in parts]
    times = [RECEIVED + rng.choice((0, 0, 1, 5000)) for _ in parts]
    if schema.rows != "flows":
        options["time"] = "received"
        options["scale"] = False
    one, many = (Decoder(schema, capacity=capacity, **options) for _ in range(2))
    output = b"".join(map(one.encode, parts, sources, times))
    if rng.random() < 0.5:
        together = many.encode_many(parts, sources, times)
    else:
        each = many.encode_each(_core.pack_datagrams(parts, sources, times))
        together = b"".join(messages for _, messages in each)
    check(output == together, "one by one, and together")
    for decoder in (one, many):
        decoder.finish()
    check(one.counters == many.counters, one.counters, many.counters)
    check_counters(one, parts, output)
    if "memory_limit" not in options:
        run_by_columns(schema, options, parts, sources, times, one, output)
    run_strictly(schema, options, parts, sources, times, output)


def check_counters(decoder: Decoder, parts: Parts, output: bytes) -> None:
    tables = [decoder.read_other(), *decoder.read_exporters()]
    check(sum(table["datagrams"] for table in tables) == len(parts), "datagrams")
    check(sum(table["bytes"] for table in tables) == sum(map(len, parts)), "bytes")
    check(sum(table["flows"] for table in tables) == decoder.flows, "flows")
    check(_core.count_messages(output) == decoder.flows, "messages")
    check(not any(table["waiting"]["sets"] for table in tables[1:]), "sets wait after finish")
    check(
        sum(sum(table["counters"].values()) for table in tables) == sum(decoder.counters.values()), "counters"
    )


def run_by_columns(
    schema: Schema,
    options: dict[str, Any],
    parts: Parts,
    sources: list[Any],
    times: list[float],
    expected: Decoder,
    output: bytes,
) -> None:
    decoder = Decoder(schema, **options)
    builder = _core.ColumnBuilder(
        decoder, new_table_type(decoder.schema, decoder.plan), 2 + len(output) % 100
    )
    tables = builder.decode(_core.pack_datagrams(parts, sources, times))
    decoder.finish()
    tables.append(builder.finish())
    check(decoder.counters == expected.counters, "counters of columns", decoder.counters, expected.counters)
    check(sum(map(len, tables)) == expected.flows, "rows")
    again = b"".join(encode_columns(FlowBatch(decoder.schema, table), decoder.schema) for table in tables)
    check(_core.count_messages(again) == expected.flows, "messages of columns")


def run_strictly(
    schema: Schema,
    options: dict[str, Any],
    parts: Parts,
    sources: list[Any],
    times: list[float],
    output: bytes,
) -> None:
    decoder = Decoder(schema, strict=True, **options)
    pieces = []
    with contextlib.suppress(flowbuf.DecodeError):
        for part, source, at in zip(parts, sources, times, strict=True):
            pieces.append(decoder.encode(part, source, at))
        check(b"".join(pieces) == output, "a strict decoder that raises nothing")


# Captures ---------------------------------------------------------------------------------------------------


def seed_captures() -> list[Parts]:
    import gzip

    plain = [path.read_bytes()[:SEED_SIZE] for path in files()]
    flows = b"".join(_core.generate(protocol="ipfix", flows=50))
    packets = [d.ethernet(d.ipv4(d.udp(9000, 2055, payload), proto=17)) for payload in payloads_of(flows)[:8]]
    header = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000".replace(" ", ""))
    sizes = [len(packet).to_bytes(4, "little") for packet in packets]
    built = header + b"".join(
        bytes(8) + size + size + packet for size, packet in zip(sizes, packets, strict=True)
    )
    return [[capture] for capture in [built, *plain, pcapng(packets), gzip.compress(built, mtime=0)]]


def pcapng(packets: list[bytes]) -> bytes:
    """A section, an interface, and enhanced packets."""

    def block(kind: int, body: bytes) -> bytes:
        size = (12 + len(body) + -len(body) % 4).to_bytes(4, "little")
        return kind.to_bytes(4, "little") + size + body + bytes(-len(body) % 4) + size

    section = block(0x0A0D0D0A, bytes.fromhex("4d3c2b1a01000000ffffffffffffffff"))
    interface = block(1, bytes.fromhex("0100000000000400"))
    sizes = [len(packet).to_bytes(4, "little") for packet in packets]
    return (
        section
        + interface
        + b"".join(
            block(6, bytes(12) + size + size + packet) for size, packet in zip(sizes, packets, strict=True)
        )
    )


class ShortReads(io.BytesIO):
    """A file that gives a little at a time."""

    def __init__(self, data: bytes, rng: random.Random) -> None:
        super().__init__(data)
        self._rng = rng

    def readinto(self, buffer: Any) -> int:
        return super().readinto(memoryview(buffer)[: self._rng.choice((1, 7, 100, 5000, 1 << 20))])

    readinto1 = readinto


def read_capture(file: Any, port: int | None) -> tuple[list[Any], dict[str, int], str]:
    """The datagrams, the counters, and the error."""
    found, error = [], ""
    reader = CaptureReader(file, port)
    try:
        for batch in reader:
            found += [batch[i] for i in range(len(batch))]
    except flowbuf.CaptureError as raised:
        error = str(raised)
    check(reader._core.datagrams == len(found), "datagrams of a capture")
    return found, reader.counters, error


def run_captures(parts: Parts, rng: random.Random) -> None:
    data = b"".join(parts)
    port = rng.choice((None, None, 2055))
    whole = read_capture(io.BytesIO(data), port)
    if len(data) < 30_000:
        check(read_capture(ShortReads(data, rng), port) == whole, "a capture in pieces")
    schema = rng.choice(schemas()[:3])
    decoder = Decoder(schema)
    messages = []
    with contextlib.suppress(flowbuf.CaptureError):
        messages += [decoder.encode_datagrams(batch) for batch in CaptureReader(io.BytesIO(data), port)]
    decoder.finish()
    check(_core.count_messages(b"".join(messages)) == decoder.flows, "messages of a capture")
    stream = flowbuf.read_capture(io.BytesIO(data), schema, port=port, batch_rows=rng.choice((2, 50, 10_000)))
    rows = 0
    try:
        for batch in stream:
            rows += len(batch)
    except flowbuf.CaptureError:
        check(whole[2], "an error of columns alone")
    check(rows == decoder.flows, "rows of a capture")
    expected = Counter(whole[1])
    expected.update(decoder.counters)
    check(whole[2] or stream.counters == expected, "counters of a capture", stream.counters, expected)


# Messages ---------------------------------------------------------------------------------------------------


def seed_messages() -> list[Parts]:
    seeds = []
    for parts in seed_datagrams():
        for schema in schemas():
            decoder = Decoder(schema)
            messages = [decoder.encode(part, SOURCES[0], RECEIVED) for part in parts]
            seeds += [[message[:4096]] for message in messages if message]
    # Tags of two bytes, unknown fields, groups, packed numbers.
    odd = bytes.fromhex(
        "0a0461626364 8a0104313233 34f2ff0301 1b1c aa0603010203 f80701 fa0f0161".replace(" ", "")
    )
    return [*seeds[:400], [bytes([len(odd)]) + odd], [b"\x02\x80\x04"], [b"\x01\x80"]]


def read_tables(
    data: Any, schema: Schema, cut: int, rows: int
) -> tuple[list[_core.Table], str, tuple[int, int]]:
    """Tables, the error without its place, unknown fields, mended texts.

    Read in two windows where `cut` is not 0.
    """
    reader = _core.MessageTables(type_of(schema), rows)
    tables: list[_core.Table] = []
    error = ""
    try:
        used = reader.read(data[:cut], tables, False) if cut else 0
        reader.read(data[used:], tables)
    except flowbuf.DecodeError as raised:
        error = str(raised).partition(": ")[2]
    tables.append(reader.finish())
    return tables, error, (reader.unknown_fields, reader.invalid_texts)


def run_messages(parts: Parts, rng: random.Random) -> None:
    data = b"".join(parts)
    schema = rng.choice(schemas())
    rows = rng.choice((2, 3, 100))
    tables, error, counts = read_tables(data, schema, 0, rows)
    total = sum(map(len, tables))
    for other in (bytearray(data), memoryview(data)):
        again = read_tables(other, schema, rng.randrange(len(data) + 1), rng.choice((2, 100)))
        check(
            (sum(map(len, again[0])), *again[1:]) == (total, error, counts),
            "messages in pieces",
            error,
            again[1],
        )
    for table in tables:
        batch = FlowBatch(schema, table)
        check(_core.count_messages(encode_columns(batch, schema)) == len(table), "columns of messages")
    run_framing(data, rng)
    reader = _core.MessageReader(compile_plan(schema))
    with contextlib.suppress(flowbuf.DecodeError):
        flows, used = reader.read_stream(data)
        check(used == len(data), "a stream that is read halfway")
        check(error or len(flows) == total, "flows and rows")
    records = RecordReader(schema, rng.choice(("bare", "delimited")), rng.choice((0, 5)))
    batches, faults = records.read(parts)
    check(all(0 <= place < len(parts) for place in faults) and all(map(len, batches)), "records")


def refuses(read: Callable[[bytes], object], data: bytes) -> bool:
    try:
        read(data)
    except flowbuf.DecodeError:
        return True
    return False


def run_framing(data: bytes, rng: random.Random) -> None:
    try:
        count = _core.count_messages(data)
    except flowbuf.DecodeError:
        for read in (_core.split_messages, lambda stream: _core.cut_messages(stream, 100, 100)):
            check(refuses(read, data), "a stream that is damaged, and is not")
        _core.hash_conversations(data, src_addr=1, dst_addr=2, src_port=3, dst_port=4, proto=5)
        return
    bare = _core.split_messages(data, b"")
    check(len(bare) == count, "split messages")
    check(b"".join(_core.split_messages(data)) == data, "messages with their lengths")
    check(_core.split_messages(_core.join_messages(bare), b"") == bare, "joined messages")
    pieces = _core.cut_messages(data, rng.choice((1, 50, 1000)), rng.choice((0, 50)))
    check(b"".join(piece for piece, _ in pieces) == data, "cut messages")
    check(sum(number for _, number in pieces) == count, "numbers of cut messages")
    check(len(_core.hash_conversations(data, src_addr=1, dst_addr=2)) == count, "conversations")


# Arrow ------------------------------------------------------------------------------------------------------


def seed_arrow() -> list[Parts]:
    values = [
        bytes(range(256)),
        b"192.0.2.1",
        b"2001:db8::1",
        b"00:11:22:33:44:55",
        b"tcp",
        bytes(16),
        b"\xff" * 32,
    ]
    return [
        values,
        [b"".join(parts)[:2000] for parts in ([value] for value in values)],
        *seed_datagrams()[:6],
    ]


def arrow_types(rng: random.Random, depth: int = 2) -> Any:
    import pyarrow as pa

    plain = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    plain += [pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(), pa.null()]
    plain += [make(unit) for unit in ("s", "ms", "us", "ns") for make in (pa.timestamp, pa.duration)]
    plain += [
        pa.time32("s"),
        pa.time64("ns"),
        pa.decimal128(20, 3),
        pa.binary(4),
        pa.binary(16),
        pa.binary(5),
    ]
    plain += [
        pa.string(),
        pa.binary(),
        pa.large_string(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
    ] * 4
    nested = [
        lambda: pa.list_(arrow_types(rng, depth - 1)),
        lambda: pa.large_list(arrow_types(rng, depth - 1)),
        lambda: pa.list_(arrow_types(rng, depth - 1), rng.randrange(4)),
        lambda: pa.struct([("a", arrow_types(rng, depth - 1))]),
        lambda: pa.dictionary(
            rng.choice((pa.int8(), pa.uint16(), pa.int64())), rng.choice(plain[:8] + plain[-24:])
        ),
    ]
    return rng.choice(nested)() if depth and rng.random() < 0.35 else rng.choice(plain)


def arrow_array(type: Any, length: int, parts: Parts, rng: random.Random) -> Any:
    """An array whose numbers are the bytes of a part as they are."""
    import pyarrow as pa

    bits = pa.py_buffer(rng.randbytes(length // 8 + 1)) if rng.random() < 0.5 else None
    if isinstance(type, pa.DictionaryType):
        values = arrow_array(type.value_type, rng.randrange(1, 6), parts, rng)
        indices = pa.array([rng.randrange(len(values)) for _ in range(length)], type.index_type)
        return pa.DictionaryArray.from_arrays(indices, values, safe=False)
    if isinstance(type, pa.StructType):
        child = arrow_array(type.field(0).type, length, parts, rng)
        return pa.StructArray.from_buffers(type, length, [bits], children=[child])
    if isinstance(type, pa.FixedSizeListType):
        child = arrow_array(type.value_type, length * type.list_size, parts, rng)
        return pa.FixedSizeListArray.from_buffers(type, length, [bits], children=[child])
    if isinstance(type, (pa.ListType, pa.LargeListType)):
        sizes = [rng.choice((0, 1, 2, 5)) for _ in range(length)]
        child = arrow_array(type.value_type, sum(sizes), parts, rng)
        wide = pa.int64() if isinstance(type, pa.LargeListType) else pa.int32()
        offsets = pa.array([sum(sizes[:i]) for i in range(length + 1)], wide)
        return pa.Array.from_buffers(type, length, [bits, offsets.buffers()[1]], children=[child])
    if pa.types.is_null(type):
        return pa.nulls(length)
    if pa.types.is_primitive(type) or pa.types.is_fixed_size_binary(type) or pa.types.is_decimal(type):
        size = (length * type.bit_width + 7) // 8
        data = (rng.choice(parts) or b"\0") * (1 + size)
        return pa.Array.from_buffers(type, length, [bits, pa.py_buffer(data[:size])])
    values = [rng.choice((*parts, None, b"")) for _ in range(length)]
    return pa.array([value and value[:1000] for value in values], pa.large_binary()).cast(type, safe=False)


def run_arrow(parts: Parts, rng: random.Random) -> None:
    import pyarrow as pa

    schema = rng.choice(schemas())
    length = rng.choice((0, 1, 2, 9, 70))
    table = None
    with contextlib.suppress(pa.ArrowException, UnicodeDecodeError):  # pyarrow's own
        names = rng.sample([column.name for column in schema], rng.randrange(1, 5))
        arrays = [arrow_array(arrow_types(rng), length, parts, rng) for _ in names]
        table = pa.RecordBatch.from_arrays(arrays, names)
    if table is None:
        return
    begin = rng.randrange(length + 1)
    end = rng.randrange(begin, length + 1)
    results = []
    for each in (
        table,
        table.slice(begin),
        table.slice(begin, end - begin),
        table.slice(end),
        table.slice(0, begin),
    ):
        try:
            results.append(encode_columns(each, schema))
            check(_core.count_messages(results[-1]) == len(each), "messages of Arrow columns")
        except EncodeError:
            results.append(None)
    whole, behind, middle, rest, before = results
    if None not in (before, behind):
        check(whole == before + behind, "slices")
    if None not in (middle, rest):
        check(behind == middle + rest, "slices of slices")
    if whole is not None:
        stream = pa.Table.from_batches([table.slice(0, begin), table.slice(begin)])
        check(encode_columns(stream, schema) == whole, "a stream")
        rows, error, _ = read_tables(whole, schema, 0, 100)
        check(
            not error and sum(map(len, rows)) == length,
            "messages of Arrow columns that cannot be read",
            error,
        )


# The codec --------------------------------------------------------------------------------------------------

CODECS = ["Everything", "Old", "Maps", "Tree", "Reading"]


@functools.cache
def codecs() -> list[flowbuf.Codec]:
    from tests.support.codec_messages import make_codec, make_relaxed

    kept = [make_codec(name, times="ns", unknown_fields="keep") for name in CODECS]
    plain = [make_codec(name) for name in CODECS]
    return [*kept, *plain, make_relaxed("Old", times="ns", unknown_fields="keep")]


def seed_codec() -> list[Parts]:
    seeds = []
    for codec in codecs()[: len(CODECS)]:
        examples = codec.examples(12, seed=1)
        seeds += [[codec.encode(example)] for example in examples]
        seeds.append([codec.encode_many(examples[:3])])
    return seeds


def run_codec(parts: Parts, rng: random.Random) -> None:
    codec = rng.choice(codecs())
    data = b"".join(parts)
    with contextlib.suppress(flowbuf.DecodeError):
        records = codec.decode_many(data, rng.choice((None, tuple)))
        check(len(records) == _core.count_messages(data), "records of a stream")
    try:
        record = codec.decode(rng.choice((bytes, bytearray, memoryview))(data))
    except flowbuf.DecodeError as error:
        check(error.offset is not None and 0 <= error.offset <= len(data), "the offset of an error")
        return
    codec.decode(data, tuple)
    try:
        again = codec.encode(record)
    except EncodeError:
        return  # a time out of range, or a required field that is not there
    check(codec.encode(codec.decode(again)) == again, "a record that is read and written again")
    check(codec.decode_many(codec.encode_many([record]))[0].keys() == record.keys(), "a stream of one record")


# State ------------------------------------------------------------------------------------------------------


def seed_state() -> list[Parts]:
    seeds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        for parts in seed_datagrams():
            decoder = Decoder()
            for i, part in enumerate(parts):
                decoder.encode(part, SOURCES[i % 3], RECEIVED)
            save_state(decoder, path)
            if (text := path.read_bytes()) not in [seed for (seed,) in seeds]:
                seeds.append([text[:SEED_SIZE]])
    return seeds


def values_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places of a document: a container and a key."""
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(places):
        yield value, key
        yield from values_of(child)


ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    5,
    9,
    10,
    255,
    256,
    65535,
    65536,
    2**32,
    2**63,
    2**64,
    1.5,
    "",
    "9",
]
ODD_VALUES += [
    [],
    {},
    [[0, 1, 2]],
    [[0, 1, 65535]] * 50,
    {"256": {"fields": []}},
    "::",
    "192.0.2.1",
    10**30,
    "1" * 25,
]


def meddle(data: bytes, rng: random.Random) -> bytes:
    """Changes values of a document, where it is one."""
    try:
        document = json.loads(data)
        places = list(values_of(document))
    except (ValueError, RecursionError):
        return data
    for _ in range(rng.randrange(3)):
        if places:
            container, key = rng.choice(places)
            with contextlib.suppress(KeyError, IndexError):
                container[key] = rng.choice([*ODD_VALUES, container[key]])
    return json.dumps(document).encode()


@functools.cache
def state_path() -> Path:
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    import atexit
    import shutil

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder, "state")


def run_state(parts: Parts, rng: random.Random) -> None:
    data = b"".join(parts)
    if rng.random() < 0.7:
        data = meddle(data, rng)
    path = state_path()
    path.write_bytes(data)
    options = {"memory_limit": _memory_of(schemas()[0]) + 5000} if rng.random() < 0.1 else {}
    decoder = Decoder(**options)
    try:
        load_state(decoder, path)
    except StateError as error:
        check(not decoder.read_exporters(), "something is known of a state that was refused")
        if error.replaceable:
            return
        before = path.read_bytes()
        with contextlib.suppress(StateError):
            save_state(decoder, path)
        check(path.read_bytes() == before, "a file that is no state was changed")
        return
    save_state(decoder, path)
    text = path.read_bytes()
    again = Decoder(**options)
    load_state(again, path)
    save_state(again, path)
    check(path.read_bytes() == text, "a state that is saved again")
    for decoded in seed_state_datagrams():
        decoder.encode(decoded, rng.choice(SOURCES), RECEIVED)


@functools.cache
def seed_state_datagrams() -> Parts:
    return [part for parts in seed_datagrams()[:12] for part in parts[:4]]


FAMILIES = {
    "datagrams": Family(seed_datagrams, run_datagrams),
    "captures": Family(seed_captures, run_captures),
    "messages": Family(seed_messages, run_messages),
    "arrow": Family(seed_arrow, run_arrow),
    "codec": Family(seed_codec, run_codec),
    "state": Family(seed_state, run_state),
}
