"""Several threads use flowbuf at once without data races.

`make sanitize-threads` runs these tests under ThreadSanitizer. Otherwise they compare the results of several
threads with the results of one.
"""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import flowbuf
from flowbuf import Decoder, _core, encode_capture, encode_columns
from flowbuf.arrow.batch import FlowBatch, new_table_type
from flowbuf.io.capture import CaptureReader
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

FLOW = Schema.load("flow")
PLAN = compile_plan(FLOW)
TYPE = new_table_type(FLOW, PLAN)
PROTOCOLS = ("netflow5", "netflow9", "ipfix", "sflow")
PROTO = """
syntax = "proto3";
message Event {
  message Place { string name = 1; repeated double position = 2; }
  uint64 id = 1; string text = 2; repeated Place places = 3; map<string, int64> counts = 4; bytes data = 5;
}
"""


def run_all(*works: Callable[[], object]) -> list[object]:
    """Call each function in its own thread, all at once. Return their results or raise the first error."""
    start = threading.Barrier(len(works))
    results: list[object] = [None] * len(works)

    def run(place: int, work: Callable[[], object]) -> None:
        try:
            start.wait(60)
            results[place] = work()
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


@pytest.fixture(scope="module", params=PROTOCOLS)
def capture(request: pytest.FixtureRequest) -> bytes:
    return b"".join(_core.generate(protocol=request.param, flows=20_000, exporters=5))


def decode(capture: bytes, schema: Schema = FLOW) -> bytes:
    decoder = Decoder(schema)
    return b"".join(decoder.encode_datagrams(batch) for batch in CaptureReader(io.BytesIO(capture)))


def test_decoders_of_several_threads_share_a_schema(capture: bytes) -> None:
    expected = decode(capture)
    assert run_all(*[lambda: decode(capture)] * 2) == [expected] * 2


def test_reader_decoder_and_writer_run_in_three_threads(capture: bytes) -> None:
    """One thread reads a capture, one decodes copies of its datagrams, and one writes views of the output."""
    read: queue.Queue[_core.Datagrams | None] = queue.Queue(4)
    decoded: queue.Queue[memoryview | None] = queue.Queue(1)
    output = bytearray()

    def reader() -> None:
        for batch in CaptureReader(io.BytesIO(capture)):
            items = [batch[i] for i in range(len(batch))]
            payloads, sources, times = ([item[place] for item in items] for place in (0, 1, 3))
            read.put(_core.pack_datagrams(payloads, sources, times))
        read.put(None)

    def decoder() -> None:
        decoder = Decoder()
        while (batch := read.get(timeout=60)) is not None:
            decoded.put(decoder.view_datagrams(batch))
        decoded.put(None)

    def writer() -> None:
        while (view := decoded.get(timeout=60)) is not None:
            output.extend(view)
            view.release()

    run_all(reader, decoder, writer)
    assert output == decode(capture)


def test_a_decoder_may_change_its_thread(capture: bytes) -> None:
    decoder = Decoder()
    lock = threading.Lock()
    batches = iter(CaptureReader(io.BytesIO(capture)))
    flows = 0

    def work() -> None:
        nonlocal flows
        while True:
            with lock:
                batch = next(batches, None)
                if batch is None:
                    return
                flows += _core.count_messages(decoder.encode_datagrams(batch))

    run_all(work, work)
    assert flows == decoder.flows == 20_000


def test_tables_are_built_shared_and_freed_by_several_threads(capture: bytes) -> None:
    """Memory blocks of freed tables are reused by any thread."""
    messages = decode(capture)

    def read() -> int:
        reader = _core.MessageTables(TYPE, 1000)
        tables: list[_core.Table] = []
        reader.read(messages, tables)
        return sum(map(len, [*tables, reader.finish()]))

    assert run_all(*[read] * 4) == [20_000] * 4
    reader = _core.MessageTables(TYPE, 1 << 20)
    reader.read(messages, [])
    batch = FlowBatch(FLOW, reader.finish())
    encoded = run_all(*[lambda: encode_columns(batch), lambda: encode_columns(batch.text())] * 2)
    assert encoded == [encode_columns(batch)] * 4


def test_one_capture_is_read_as_columns_and_messages_at_once(capture: bytes) -> None:
    def columns() -> int:
        return sum(map(len, flowbuf.read_capture(io.BytesIO(capture), FLOW, batch_rows=500)))

    expected = decode(capture)
    assert run_all(columns, lambda: decode(capture), columns) == [20_000, expected, 20_000]


def test_generators_of_two_threads_are_independent() -> None:
    def generate() -> bytes:
        return b"".join(_core.generate(protocol="ipfix", flows=5000, chunk=5000))

    first, second = run_all(generate, generate)
    assert first == second


def test_four_threads_share_a_codec(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    (tmp_path / "event.proto").write_text(PROTO)
    codec = flowbuf.Codec.load(tmp_path / "event.proto", "Event")
    records = codec.examples(50, seed=3)
    stream = codec.encode_many(records)

    class Event:
        """An object with computed attributes: other threads run in between."""

        def __init__(self, record: dict[str, object]) -> None:
            self._record = record

        def __getattr__(self, name: str) -> object:
            return self.__dict__["_record"][name]

    def work() -> bytes:
        for _ in range(20):
            assert codec.decode_many(stream) == records
            assert codec.decode_many(codec.encode_many(map(Event, records))) == records
            assert codec.encode_many(codec.decode_many(stream, tuple)) == stream
        return codec.encode_many(codec.decode_many(stream))

    assert run_all(*[work] * 4) == [stream] * 4


def test_captures_are_encoded_in_two_threads_at_once(capture: bytes, tmp_path: Path) -> None:
    """Like `flowbuf encode`, each thread writes its output while it decodes the next batch."""

    def encode(name: str) -> bytes:
        encode_capture(io.BytesIO(capture), tmp_path / name)
        return (tmp_path / name).read_bytes()

    assert run_all(lambda: encode("a.pb"), lambda: encode("b.pb")) == [decode(capture)] * 2
