"""Fuzz family: UDP payloads, decoded in each way."""

from __future__ import annotations

import contextlib
import functools
import random
from typing import Any

import flowbuf
from flowbuf import Decoder, _core, encode_columns
from flowbuf.arrow.batch import FlowBatch, new_table_type
from flowbuf.schema import Schema
from tests.binding.fuzz_common import RECEIVED, SOURCES, Parts, check, files, payloads_of, schemas
from tests.support import datagrams as d


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
        options["memory_limit"] = memory_of(schema) + rng.choice((1, 1000, 10_000, 100_000))
    return options


@functools.cache
def memory_of(schema: Schema) -> int:
    """Return a memory limit in bytes that is sufficient to create a decoder."""
    return 3 * Decoder(schema).memory_used


def run_datagrams(parts: Parts, rng: random.Random) -> None:
    """Check that all ways to decode give the same messages and counters."""
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
        check(b"".join(pieces) == output, "output of a strict decoder")
