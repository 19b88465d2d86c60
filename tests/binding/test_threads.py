"""Objects that release the GIL reject changes while another thread or a callback uses them."""

from __future__ import annotations

import gc
import io
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf import Decoder, _core, encode_capture
from flowbuf.arrow.batch import new_table_type
from flowbuf.arrow.row_text import RowText
from flowbuf.io.capture import CaptureReader
from flowbuf.io.columns import message_tables
from flowbuf.io.ipfix_file import choose_elements, new_writer
from flowbuf.io.message_stream import StreamBytes
from flowbuf.options import DecodeOptions
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

FLOW = Schema.load("flow")
PLAN = compile_plan(FLOW)
TYPE = new_table_type(FLOW, PLAN)
FLOWS = 60_000


@pytest.fixture(scope="module")
def capture() -> bytes:
    """Return a capture of several batches."""
    return b"".join(_core.generate(protocol="netflow9", flows=FLOWS))


@pytest.fixture(scope="module")
def messages(capture: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("threads") / "flows.pb"
    encode_capture(io.BytesIO(capture), path)
    return path.read_bytes()


class CallingValue:
    """A column value that calls a function during its conversion, in the middle of decoding."""

    def __init__(self, interfere: Callable[[], object]) -> None:
        self._call = interfere
        self.errors: list[str] = []

    def __index__(self) -> int:
        with pytest.raises(RuntimeError) as raised:
            self._call()
        self.errors.append(str(raised.value))
        return 64500


def _decode_by_columns(batch: _core.Datagrams, override: dict[str, Any]) -> object:
    decoder = Decoder()
    return _core.ColumnBuilder(decoder, new_table_type(decoder.schema, decoder.plan), 1000).decode(
        batch, override=override
    )


DECODE: dict[str, Callable[[_core.Datagrams, dict[str, Any]], object]] = {
    "encode_datagrams": lambda batch, override: Decoder().encode_datagrams(batch, override=override),
    "view_datagrams": lambda batch, override: Decoder().view_datagrams(batch, override=override),
    "encode_each": lambda batch, override: Decoder().encode_each(batch, override=override),
    "columns": _decode_by_columns,
}


@pytest.mark.parametrize("decode", DECODE.values(), ids=DECODE)
@pytest.mark.parametrize("careful", [False, True])
def test_a_capture_cannot_advance_while_its_batch_is_decoded(
    decode: Callable[[_core.Datagrams, dict[str, Any]], object], careful: bool, capture: bytes
) -> None:
    reader = CaptureReader(io.BytesIO(capture))
    batches = reader.batches() if careful else iter(reader)
    value = CallingValue(lambda: next(batches))
    first = next(batches)
    decode(first, {"src_as": value})
    assert value.errors
    assert set(value.errors) == {
        "the batch of this capture is still being decoded; request the next one after that"
    }
    # The batch is unchanged, and the capture continues at its position.
    assert first[0][0][:2] == b"\0\x09"
    assert len(first) + sum(len(batch) for batch in batches) == reader._core.datagrams
    with pytest.raises(RuntimeError, match="use it before the capture's next batch"):
        decode(first, {})


def test_the_core_cannot_scan_while_a_batch_is_decoded(capture: bytes) -> None:
    scanner = _core.Capture()
    consumed, _, batch = scanner.scan(capture, True, 100)
    for interfere in (lambda: scanner.scan(capture[consumed:], True), scanner.advance):
        value = CallingValue(interfere)
        Decoder().encode_datagrams(batch, override={"src_as": value})
        assert len(value.errors) == 1


def test_a_view_taken_during_decoding_stays_unchanged(capture: bytes) -> None:
    payloads = [datagram[0] for datagram in next(iter(CaptureReader(io.BytesIO(capture))))]
    decoder = Decoder()
    view = decoder.view_datagrams(_core.pack_datagrams(payloads[:20], ("192.0.2.1", 4000)))
    expected, output = bytes(view), view.obj
    view.release()
    taken: list[memoryview] = []

    class Taker:
        def __index__(self) -> int:
            taken.append(memoryview(output))
            return 64500

    decoder.encode_datagrams(
        _core.pack_datagrams(payloads, ("192.0.2.1", 4000)), override={"src_as": Taker()}
    )
    assert bytes(taken[0]) == expected


def test_a_batch_can_be_decoded_again_after_an_error(capture: bytes) -> None:
    batches = iter(CaptureReader(io.BytesIO(capture)))
    batch = next(batches)
    for override in ({"no such column": 1}, {"src_as": -1}):
        with pytest.raises((KeyError, flowbuf.EncodeError)):
            Decoder().encode_datagrams(batch, override=override)
    assert Decoder().encode_datagrams(batch)
    assert len(next(batches)) > 0  # the batch is released


def test_overrides_end_with_their_call(capture: bytes) -> None:
    """Also if something empties their dict during the call."""
    payloads = [datagram[0] for datagram in next(iter(CaptureReader(io.BytesIO(capture))))]
    batch = _core.pack_datagrams(payloads, ("192.0.2.1", 4000))
    decoder = Decoder()
    override: dict[str, Any] = {"src_as": 64500}

    class Emptier:
        def __index__(self) -> int:
            override.clear()
            return 64501

    override["dst_as"] = Emptier()
    with pytest.raises(RuntimeError, match="dictionary"):
        decoder.encode_datagrams(batch, override=override)
    assert decoder.encode_datagrams(batch) == Decoder().encode_datagrams(batch)


def test_advancing_invalidates_the_batch(capture: bytes) -> None:
    scanner = _core.Capture()
    _, _, batch = scanner.scan(capture, True, 100)
    scanner.advance()
    with pytest.raises(RuntimeError, match="use it before the capture's next batch"):
        batch[0]


def test_a_builder_cannot_finish_while_it_decodes(capture: bytes) -> None:
    _, _, batch = _core.Capture().scan(capture, True, 100)
    decoder = Decoder()
    builder = _core.ColumnBuilder(decoder, new_table_type(decoder.schema, decoder.plan), 100_000)
    for interfere in (builder.finish, lambda: builder.decode(batch)):
        value = CallingValue(interfere)
        builder.decode(batch, override={"src_as": value})
        assert [error.partition(";")[0] for error in value.errors] == [
            "this builder is in use by another thread"
        ]
    rows = len(builder.finish())
    assert rows == decoder.flows


def test_a_decoder_in_use_rejects_other_builders(capture: bytes) -> None:
    _, _, batch = _core.Capture().scan(capture, True, 100)
    decoder = Decoder()
    type = new_table_type(decoder.schema, decoder.plan)
    builder, other = (_core.ColumnBuilder(decoder, type, 1000) for _ in range(2))
    for interfere in (
        lambda: other.decode(batch),
        decoder.read_exporters,
        decoder.finish,
        decoder.read_other,
    ):
        value = CallingValue(interfere)
        builder.decode(batch, override={"src_as": value})
        assert [error.partition(";")[0] for error in value.errors] == [
            "this decoder is in use by another thread"
        ]
    assert len(other.finish()) == 0


# Two threads ------------------------------------------------------------------------------------------------


def while_it_runs(work: Callable[[], object], interfere: Callable[[], object]) -> tuple[object, int]:
    """Run `work` in another thread. Return its result and the number of errors that `interfere` raised."""
    results: list[object] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    refused = 0
    thread.start()
    while thread.is_alive():
        try:
            interfere()
        except RuntimeError:
            refused += 1
    thread.join()
    if errors:
        raise errors[0]
    return results[0], refused


def test_a_reader_of_messages_serves_one_thread_at_a_time(messages: bytes) -> None:
    data = messages * 8
    builder = _core.MessageTables(TYPE, 1 << 26)
    tables: list[_core.Table] = []
    finished: list[_core.Table] = []
    used, refused = while_it_runs(
        lambda: builder.read(data, tables), lambda: finished.append(builder.finish())
    )
    assert used == len(data)
    assert refused > 0
    assert sum(map(len, [*tables, *finished, builder.finish()])) == 8 * FLOWS
    _, refused = while_it_runs(lambda: builder.read(data, []), lambda: builder.read(messages, []))
    assert refused > 0


def test_writable_data_is_read_with_the_gil(messages: bytes) -> None:
    """The GIL prevents changes by other threads."""
    builder = _core.MessageTables(TYPE, 1 << 26)
    data = bytearray(messages * 8)
    _, refused = while_it_runs(lambda: builder.read(data, []), builder.finish)
    assert refused == 0


def _view_of_messages(capture: bytes) -> tuple[object, Callable[[], bytes]]:
    """Return the buffer of a decoder that has no view, and a function that writes to it."""
    payloads = [datagram[0] for batch in CaptureReader(io.BytesIO(capture)) for datagram in batch]
    few, many = (_core.pack_datagrams(some, ("192.0.2.1", 4000)) for some in (payloads[:3], payloads))
    decoder = Decoder()
    with decoder.view_datagrams(few) as view:
        return view.obj, lambda: decoder.encode_datagrams(many)


def _view_of_lines(capture: bytes) -> tuple[object, Callable[[], bytes]]:
    """The same for a writer of text."""
    (batch,) = flowbuf.read_capture(io.BytesIO(capture), FLOW, batch_rows=FLOWS)
    text = RowText(FLOW)
    with text.lines(batch[:3]) as view:
        return view.obj, lambda: bytes(text.lines(batch))


@pytest.mark.parametrize("begin", [_view_of_messages, _view_of_lines])
def test_a_buffer_has_no_new_views_while_it_is_written(
    begin: Callable[[bytes], tuple[Any, Callable[[], bytes]]], capture: bytes
) -> None:
    """Its memory may move. Views from before or after keep their content."""
    expected, refused, taken = begin(capture)[1](), 0, 0
    deadline = time.monotonic() + 60
    while not (refused and taken) and time.monotonic() < deadline:
        buffer, write = begin(capture)
        views: list[memoryview] = []

        def take(buffer: Any = buffer, views: list[memoryview] = views) -> None:
            try:
                view = memoryview(buffer)
            except BufferError as error:
                raise RuntimeError from error
            if len(views) < 20:
                views.append(view)

        written, errors = while_it_runs(write, take)
        assert len(written) == len(expected)  # the times of reception differ
        assert all(len(bytes(view)) == len(view) for view in views)
        refused, taken = refused + errors, taken + len(views)
    assert refused
    assert taken


def test_an_ipfix_writer_keeps_the_gil_for_writable_messages(messages: bytes) -> None:
    data = bytearray(messages * 8)
    writer = new_writer(choose_elements(FLOW))
    _, refused = while_it_runs(lambda: writer.write(data), lambda: writer.finish())
    assert refused == 0


def test_windows_of_files_are_read_without_the_gil(messages: bytes, tmp_path: Path) -> None:
    (tmp_path / "flows.pb").write_bytes(messages)
    with flowbuf.io.input_stream.Content(tmp_path / "flows.pb") as content:
        assert all(window.readonly for window, _ in flowbuf.io.message_stream.StreamWindows(content))


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_capture_advances_while_other_threads_decode(by_columns: bool, capture: bytes) -> None:
    """Each batch is decoded completely or rejected. No datagram is read from a window that has advanced."""
    current: list[_core.Datagrams] = []
    outcomes: Counter[str] = Counter()
    done = threading.Event()

    def advance() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and min(outcomes["decoded"], outcomes["refused"]) < 30:
            batches = iter(CaptureReader(io.BytesIO(capture)))
            while time.monotonic() < deadline:
                try:
                    current[:] = [next(batches)]
                except StopIteration:
                    break
                except RuntimeError:
                    outcomes["refused"] += 1
                time.sleep(0.0002)
        done.set()

    def decode() -> None:
        decoder = Decoder(strict=True)
        for batch in CaptureReader(io.BytesIO(capture)):  # later batches need the templates of the first
            decoder.encode_datagrams(batch)
        builder = _core.ColumnBuilder(decoder, new_table_type(decoder.schema, decoder.plan), 1000)
        while not done.is_set():
            for batch in list(current):
                try:
                    (builder.decode if by_columns else decoder.encode_datagrams)(batch)
                    outcomes["decoded"] += 1
                except RuntimeError:
                    outcomes["too late"] += 1
                except flowbuf.DecodeError as error:  # a strict decoder detects a changed window
                    outcomes[str(error)] += 1
                time.sleep(0.0002)

    threads = [threading.Thread(target=target) for target in (advance, decode, decode)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes.keys() <= {"decoded", "refused", "too late"}
    assert outcomes["decoded"]
    assert outcomes["refused"]


def test_a_generator_serves_one_thread_at_a_time() -> None:
    generator = _core.generate(protocol="sflow", flows=500_000, chunk=1 << 25)
    _, refused = while_it_runs(lambda: next(generator), lambda: next(generator, None))
    assert refused > 0


def test_an_ipfix_writer_serves_one_thread_at_a_time(messages: bytes) -> None:
    data = messages * 8
    writer = new_writer(choose_elements(FLOW))
    written: list[bytes] = []
    first, refused = while_it_runs(lambda: writer.write(data), lambda: written.append(writer.finish()))
    assert refused > 0
    assert isinstance(first, bytes)
    content = b"".join([*written, first, writer.finish()])
    assert len(flowbuf.read_capture(io.BytesIO(content)).to_arrow()) == 8 * FLOWS


# Garbage collection -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["decoder", "builder"])
def test_the_garbage_collector_frees_objects_in_their_order(kept: str) -> None:
    """A decoder of several plans needs them until it is freed. AddressSanitizer finds a wrong order."""

    class Job:
        def __init__(self) -> None:
            decoder = Decoder(schemas=["flow", "sflow_counters"])
            self.made = decoder if kept == "decoder" else decoder.new_builder(1000)
            self.job = self

    gc.disable()
    try:
        Job()
        for rate in range(70):  # more than the caches of plans and types hold
            Decoder(schemas=["flow", "sflow_counters"], default_sampling_rate=rate + 2).new_builder(10)
        assert gc.collect() > 0
    finally:
        gc.enable()


# Objects built incorrectly ----------------------------------------------------------------------------------


def test_objects_built_without_their_factories_are_safe() -> None:
    with pytest.raises(TypeError):
        _core.Table()
    for arguments in ((None, 100), (TYPE,), ()):
        with pytest.raises((TypeError, ValueError)):
            _core.TableBuilder(*arguments)
    generator = type(_core.generate(protocol="sflow", flows=1))
    assert (list(generator()), generator().flows_written) == ([], 0)


def test_an_unsealed_plan_is_an_error() -> None:
    plan = _core.Plan()
    makers: list[Callable[[], object]] = [
        lambda: _core.Decoder(plan, DecodeOptions()),
        lambda: _core.TableType(plan, []),
        lambda: _core.MessageReader(plan),
        lambda: _core.Row(plan),
        lambda: _core.encode_arrow_stream(plan, _core.export_stream(TYPE, []), list),
    ]
    for make in makers:
        with pytest.raises(ValueError, match="not sealed"):
            make()
    with pytest.raises(flowbuf.FlowbufError):
        PLAN.add_column("late", 60000, _core.TYPES["bool"], 0, 1, 0, {})


def test_the_names_of_a_plan_are_a_copy() -> None:
    plan = compile_plan(FLOW)
    plan.names.clear()
    assert plan.names == PLAN.names != []


def test_none_instead_of_a_message_is_an_error() -> None:
    with pytest.raises(TypeError):
        _core.join_messages([b"", None])  # type: ignore[list-item]


def test_a_wrong_number_of_bindings_is_an_error() -> None:
    for bind in (
        lambda names: [],
        lambda names: [(None, None, False)] * 1000,
        lambda names: names.clear() or [],
    ):
        with pytest.raises(ValueError, match=r"bindings for \d+ columns"):
            _core.encode_arrow_stream(PLAN, _core.export_stream(TYPE, []), bind)


def test_reinitialising_a_decoder_keeps_its_plan(capture: bytes) -> None:
    _, _, batch = _core.Capture().scan(capture, True, 100)
    decoder = Decoder()
    plan, flows = decoder.plan, decoder.encode_datagrams(batch)
    decoder.__init__("goflow2")  # type: ignore[misc]
    assert decoder.plan is plan
    assert decoder.encode_datagrams(batch) == flows


def test_concurrent_readers_of_one_stream_are_independent(messages: bytes) -> None:
    """Eight threads read the same stream at once."""
    expected = sum(map(len, message_tables(StreamBytes(messages), _core.MessageTables(TYPE, 1000))))
    counts: list[int] = []

    def read() -> None:
        tables = message_tables(StreamBytes(messages), _core.MessageTables(TYPE, 1000))
        counts.append(sum(map(len, tables)))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counts == [expected] * 8
