"""Measure conversion to and from columns, beside ptars, protarrow and python `netflow`.

All variants of a test run in turn, so that a slow minute affects all of them. CPU time is that of the whole
process, because ptars may use threads.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import load
from benchmarks.lab import FAMILIES
from benchmarks.record import read_clock, record, replay
from flowbuf import Codec, Decoder, Schema, _core, encode_columns, wire
from flowbuf.arrow.batch import BATCH_ROWS, new_table_type
from flowbuf.bench import Workload
from flowbuf.schema.plan import compile_plan

pytestmark = pytest.mark.benchmark(timer=read_clock)
ROUNDS = 11
MESSAGES = 20_000
FLOW = Schema.load("flow")

Ways = dict[str, Callable[[], Any]]


def take_turns(ways: Ways, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return CPU seconds of each variant in each round. The first round warms up and does not count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, run in ways.items():
            begin = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - begin)
    return times


# Datagrams to columns ---------------------------------------------------------------------------------------


@functools.cache
def time_datagrams(name: str) -> tuple[int, dict[str, list[float]]]:
    """Return the flows of a working set and the times to messages, to columns, and with text addresses."""
    workload = load(name)
    assert workload
    payloads, sources, received = zip(*workload.data, strict=True)
    batch = _core.pack_datagrams(payloads, sources, received)
    decoder = Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    builders = [
        _core.ColumnBuilder(decoder, new_table_type(FLOW, decoder.plan, ip), BATCH_ROWS)
        for ip in ("binary", "text")
    ]
    ways: Ways = {
        "messages": lambda: decoder.view_datagrams(batch).release(),
        "columns": lambda: (builders[0].decode(batch), builders[0].finish()),
        "columns, addresses as text": lambda: (builders[1].decode(batch), builders[1].finish()),
    }
    before = decoder.flows
    decoder.view_datagrams(batch).release()
    return decoder.flows - before, take_turns(ways)


@pytest.mark.parametrize("way", ["messages", "columns", "columns, addresses as text"])
def test_datagrams_to_columns(benchmark: Any, workload: Workload, way: str) -> None:
    flows, times = time_datagrams(workload.name)
    replay(benchmark, times[way])
    record(benchmark, workload.name, way, flows)


# Messages to columns, and back ------------------------------------------------------------------------------


SOURCES = ("generated-netflow9", "telemetry")
"""Sources of messages: flows of a dataset, and a family of the lab. Both schemas have many columns."""


def schema_of(source: str) -> Schema:
    return Schema.load("telemetry") if source == "telemetry" else FLOW


def flow_messages(dataset: str) -> list[bytes]:
    workload = load(dataset)
    assert workload
    decoder = Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    return [message for datagram in workload.data for message in decoder.messages(*datagram)]


@functools.cache
def messages_of(source: str) -> tuple[bytes, ...]:
    """Return MESSAGES messages of a source, without length prefix."""
    if source == "telemetry":
        messages = [Codec(schema_of(source)).encode(record) for record in FAMILIES[source].records]
    else:
        messages = flow_messages(source)
    return tuple((messages * (MESSAGES // len(messages) + 1))[:MESSAGES])


def new_reader(source: str) -> tuple[_core.MessageTables, bytes]:
    """Return a reader of messages into columns, and the messages of a source as a stream."""
    schema = schema_of(source)
    stream = b"".join(wire.varint(len(message)) + message for message in messages_of(source))
    return _core.MessageTables(new_table_type(schema, compile_plan(schema)), BATCH_ROWS), stream


def ptars_handler(schema: Schema) -> Any:
    ptars = pytest.importorskip("ptars")
    message = schema.message_class()
    return ptars.HandlerPool([message.DESCRIPTOR.file]).get_for_message(message.DESCRIPTOR)


@functools.cache
def time_messages(source: str) -> dict[str, list[float]]:
    schema, messages = schema_of(source), list(messages_of(source))
    reader, stream = new_reader(source)
    parse = schema.message_class().FromString

    def read() -> None:
        reader.read(stream, [])
        reader.finish()

    ways: Ways = {"flowbuf": read}
    try:
        ways["ptars"] = functools.partial(ptars_handler(schema).list_to_record_batch, messages)
        import protarrow
    except (ImportError, pytest.skip.Exception):
        return take_turns(ways)
    ways["protarrow"] = lambda: protarrow.messages_to_record_batch(
        [parse(message) for message in messages], schema.message_class()
    )
    return take_turns(ways)


@pytest.mark.parametrize("way", ["flowbuf", "ptars", "protarrow"])
@pytest.mark.parametrize("source", SOURCES)
def test_messages_to_columns(benchmark: Any, source: str, way: str) -> None:
    times = time_messages(source)
    if way not in times:
        pytest.skip(f"{way} is not installed")
    replay(benchmark, times[way])
    record(benchmark, source, f"messages to columns, {way}", MESSAGES)


@functools.cache
def time_columns(source: str) -> dict[str, list[float]]:
    schema = schema_of(source)
    pyarrow = pytest.importorskip("pyarrow")
    tables: list[_core.Table] = []
    reader, stream = new_reader(source)
    reader.read(stream, tables)
    batches = [pyarrow.record_batch(table) for table in (*tables, reader.finish())]
    table = pyarrow.Table.from_batches(batches)
    ways: Ways = {"flowbuf": lambda: encode_columns(table, schema)}
    try:
        handler = ptars_handler(schema)
        batch = handler.list_to_record_batch(list(messages_of(source)))
        ways["ptars"] = lambda: handler.record_batch_to_array(batch)
    except pytest.skip.Exception:
        pass
    return take_turns(ways)


@pytest.mark.parametrize("way", ["flowbuf", "ptars"])
@pytest.mark.parametrize("source", SOURCES)
def test_columns_to_messages(benchmark: Any, source: str, way: str) -> None:
    times = time_columns(source)
    if way not in times:
        pytest.skip(f"{way} is not installed")
    replay(benchmark, times[way])
    record(benchmark, source, f"columns to messages, {way}", MESSAGES)


# Datagrams to a DataFrame -----------------------------------------------------------------------------------


@functools.cache
def time_frames(name: str) -> tuple[int, dict[str, list[float]]]:
    """Return the flows and the times of payloads into a DataFrame, all flows at once.

    Both start from payloads, because python `netflow` cannot read captures.
    """
    pandas = pytest.importorskip("pandas")
    workload = load(name)
    assert workload
    datagrams = [*workload.first, *workload.data]
    payloads = [payload for payload, _, _ in datagrams]
    source, received = datagrams[0][1:]

    def decode() -> Any:
        return Decoder().columns_many(payloads, source, received).to_pandas()

    def parse() -> Any:
        """Parse one packet after the other and keep the templates, as users of the library do."""
        templates: dict[str, Any] = {"netflow": {}, "ipfix": {}}
        rows = [flow.data for payload in payloads for flow in parse_packet(payload, templates).flows]
        return pandas.DataFrame(rows)

    ways: Ways = {"flowbuf": decode}
    try:
        from netflow import parse_packet

        ways["netflow"] = parse
        assert len(parse()) >= len(decode())  # it counts options records as flows
    except ImportError:
        pass
    return len(decode()), take_turns(ways, 5)


@pytest.mark.parametrize("way", ["flowbuf", "netflow"])
@pytest.mark.parametrize("name", ["generated-netflow5", "netflow9-data"])
def test_datagrams_to_pandas(benchmark: Any, name: str, way: str) -> None:
    if load(name) is None:
        pytest.skip(f"{name} is missing; set FLOWBUF_CORPUS to the folder of captures")
    flows, times = time_frames(name)
    if way not in times:
        pytest.skip(f"{way} is not installed")
    replay(benchmark, times[way])
    record(benchmark, name, f"datagrams to pandas, {way}", flows)


# Memory -----------------------------------------------------------------------------------------------------

MEMORY = """
import resource, sys
from flowbuf import read_capture
flows = sum(len(batch) for batch in read_capture(sys.argv[1]))
print(flows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("flows", [100_000, 1_000_000, 10_000_000])
def test_memory_of_a_stream(benchmark: Any, tmp_path: Path, flows: int) -> None:
    """Measure the peak memory of a process in MB. A stream of batches must not need more for more flows."""
    import subprocess
    import sys

    path = tmp_path / "x.pcap"
    with path.open("wb") as file:
        for piece in _core.generate(protocol="netflow5", flows=flows, seed=1):
            file.write(piece)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True
    )
    counted, kilobytes = map(int, done.stdout.split())
    assert counted == flows
    replay(benchmark, [1e-9])
    benchmark.extra_info.update(flows=flows, megabytes=round(kilobytes / 1024, 1))
