"""The queue of an output keeps flows in order, within its bounds, and counts each of them."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import flowbuf
from flowbuf.collect import queue as queue_module
from flowbuf.collect.batch_bytes import to_bytes
from flowbuf.collect.queue import FlowQueue, QueuedBatch
from flowbuf.collect.runner import OutputRunner
from flowbuf.collect.spools.segment import ENTRY_HEADER, SEGMENT_HEADER
from flowbuf.collect.spools.spool import Spool
from flowbuf.selection import FlowSelection
from flowbuf.targets.arrow import register_types
from tests.collect.spools import memory_folder, segments_of
from tests.collect.test_service import ListOutput

ROOT = Path(__file__).parents[2]
LIMIT = 1 << 20
FLOW = flowbuf.Schema.load("flow")


def new_batch(worker: int, number: int, flows: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"worker": [worker] * flows, "number": [number] * flows})


def name_of(batch: pa.RecordBatch) -> tuple[int, int]:
    """Return the worker and the number of a batch."""
    return batch["worker"][0].as_py(), batch["number"][0].as_py()


def put(queue: FlowQueue, batch: pa.RecordBatch) -> bool:
    """Put a batch. Return False if the only thread that puts lost it."""
    before = queue.read_counters().dropped
    queue.put(batch)
    return queue.read_counters().dropped == before


def check(queue: FlowQueue) -> None:
    counters = queue.read_counters()
    kept = counters.taken + counters.queued + counters.spooled
    assert counters.offered + counters.recovered + counters.inherited == kept + counters.dropped
    assert counters.dropped == sum(counters.reasons.values())
    assert min(counters.queued, counters.spooled, *counters.reasons.values(), 0) == 0


def take_all(queue: FlowQueue) -> list[tuple[int, int]]:
    """Take and finish all batches."""
    names = []
    while item := queue.get(0):
        check(queue)
        names.append(name_of(item.batch))
        queue.done(item)
    return names


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def spool(folder: Path) -> Iterator[Spool]:
    with Spool(folder, LIMIT) as spool:
        yield spool


# Policies ---------------------------------------------------------------------------------------------------


def test_batches_are_taken_in_order() -> None:
    queue = FlowQueue(100)
    for number in range(5):
        assert put(queue, new_batch(0, number, flows=2))
    assert queue.read_counters().queued == 10
    assert take_all(queue) == [(0, number) for number in range(5)]
    assert queue.read_counters().taken == 10
    assert queue.memory_bytes == 0


@pytest.mark.parametrize(("limit", "max_bytes", "expected"), [(10, LIMIT, 5), (100, 32 * 3, 3)])
def test_a_full_queue_drops_later_batches(limit: int, max_bytes: int, expected: int) -> None:
    queue = FlowQueue(limit, max_bytes=max_bytes)
    kept = [put(queue, new_batch(0, number, flows=2)) for number in range(8)]
    assert kept == [True] * expected + [False] * (8 - expected)
    assert queue.read_counters().reasons == {"queue_full": 2 * (8 - expected)}
    assert take_all(queue) == [(0, number) for number in range(expected)]
    assert put(queue, new_batch(0, 9))
    check(queue)


def test_an_empty_queue_takes_a_batch_of_any_size() -> None:
    queue = FlowQueue(10, "drop")
    assert put(queue, new_batch(0, 1, flows=100))
    assert not put(queue, new_batch(0, 2))
    assert take_all(queue) == [(0, 1)]


def test_an_empty_batch_is_ignored() -> None:
    queue = FlowQueue(100)
    assert put(queue, new_batch(0, 0, flows=0))
    assert queue.get(0) is None
    assert queue.read_counters().offered == 0


def test_a_full_queue_blocks_until_there_is_room() -> None:
    queue = FlowQueue(2, "block")
    worker = threading.Thread(target=lambda: [put(queue, new_batch(0, number)) for number in range(100)])
    worker.start()
    names = []
    while len(names) < 100:
        item = queue.get(60)
        assert item
        check(queue)
        assert queue.read_counters().queued <= 2
        names.append(name_of(item.batch))
    worker.join()
    assert names == [(0, number) for number in range(100)]
    assert queue.read_counters().reasons == {}


@pytest.mark.parametrize(("end", "reason"), [(FlowQueue.close, "closed"), (FlowQueue.unblock, "queue_full")])
def test_blocked_calls_can_be_ended(end: Callable[[FlowQueue], None], reason: str) -> None:
    queue = FlowQueue(1, "block")
    queue.put(new_batch(0, 0))
    workers = [threading.Thread(target=queue.put, args=(new_batch(number, 1, 3),)) for number in range(3)]
    for worker in workers:
        worker.start()
    end(queue)
    for worker in workers:
        worker.join()
    assert queue.read_counters().reasons == {reason: 9}
    assert take_all(queue) == [(0, 0)]
    check(queue)


def test_a_closed_queue_keeps_its_batches_and_refuses_others() -> None:
    queue = FlowQueue(10)
    queue.put(new_batch(0, 0))
    queue.close()
    assert queue.closed
    assert not put(queue, new_batch(0, 1))
    assert take_all(queue) == [(0, 0)]
    assert queue.get() is None
    assert queue.read_counters().reasons == {"closed": 1}


def test_close_ends_a_waiting_output() -> None:
    queue = FlowQueue(100)
    items: list[QueuedBatch | None] = []
    output = threading.Thread(target=lambda: items.append(queue.get()))
    output.start()
    queue.close()
    output.join()
    assert items == [None]


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_get_ends_after_its_timeout(timeout: float) -> None:
    assert FlowQueue(100).get(timeout) is None


def test_invalid_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="on_overflow is 'wait'; it may be drop, spool, block"):
        FlowQueue(1, "wait")
    with pytest.raises(ValueError, match="needs a spool; open one"):
        FlowQueue(1, "spool")
    with pytest.raises(ValueError, match="the queue has no spool; create it with one"):
        FlowQueue(100).save()


# Spool ------------------------------------------------------------------------------------------------------


def test_batches_beyond_the_bounds_are_spooled(spool: Spool) -> None:
    queue = FlowQueue(2, "spool", spool=spool)
    for number in range(10):
        assert put(queue, new_batch(0, number))
        check(queue)
    assert (queue.read_counters().queued, queue.read_counters().spooled, len(spool)) == (2, 8, 8)
    items = [queue.get(0) for _ in range(10)]
    assert [name_of(item.batch) for item in items if item] == [(0, number) for number in range(10)]
    assert [item.number is None for item in items if item] == [True] * 2 + [False] * 8
    assert (queue.read_counters().taken, queue.read_counters().spooled, len(spool)) == (10, 0, 8)
    assert items[5]
    queue.done(items[5])
    assert len(spool) == 4
    assert items[9]
    queue.done(items[9])
    assert (len(spool), spool.disk_bytes) == (0, 0)


def test_a_batch_from_memory_finishes_those_of_the_spool_before_it(spool: Spool) -> None:
    queue = FlowQueue(1, "spool", spool=spool)
    for number in range(2):
        queue.put(new_batch(0, number))
    first, second = queue.get(0), queue.get(0)
    queue.put(new_batch(0, 2))
    third = queue.get(0)
    assert first
    assert second
    assert third
    assert [item.number is None for item in (first, second, third)] == [True, False, True]
    queue.done(first)
    assert len(spool) == 1
    queue.done(third)
    assert len(spool) == 0


def test_later_batches_are_spooled_until_the_spool_is_drained(spool: Spool) -> None:
    queue = FlowQueue(2, "spool", spool=spool)
    for number in range(4):
        queue.put(new_batch(0, number))
    for _ in range(2):
        assert queue.get(0)
    queue.put(new_batch(0, 4))  # there is room in memory, but the batches in the spool are older
    assert (queue.read_counters().queued, queue.read_counters().spooled) == (0, 3)
    assert take_all(queue) == [(0, 2), (0, 3), (0, 4)]
    queue.put(new_batch(0, 5))
    assert (queue.read_counters().queued, queue.read_counters().spooled) == (1, 0)
    assert take_all(queue) == [(0, 5)]


def test_a_full_spool_drops(folder: Path) -> None:
    with Spool(folder, 5000) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        kept = [number for number in range(20) if put(queue, new_batch(0, number))]
        assert 1 < len(kept) < 20
        assert queue.read_counters().reasons == {"spool_full": 20 - len(kept)}
        assert take_all(queue) == [(0, number) for number in kept]


def test_a_spool_that_cannot_be_written_drops(folder: Path) -> None:
    resource = pytest.importorskip("resource")
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        queue.put(new_batch(0, 0))
        queue.put(new_batch(0, 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (spool.disk_bytes + 10, limits[1]))
        try:
            assert not put(queue, new_batch(0, 2, flows=5))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert queue.read_counters().reasons == {"spool_error": 5}
        assert queue.problem.startswith("the spool cannot be written: [Errno 27] File too large")
        assert put(queue, new_batch(0, 3))
        assert queue.problem == ""
        assert take_all(queue) == [(0, 0), (0, 1), (0, 3)]


def test_a_full_spool_that_is_not_needed_any_more_is_no_problem(folder: Path) -> None:
    """The queue has room in memory again, so nothing is appended that could show that the spool works."""
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        queue.put(new_batch(0, 0))
        moved = folder.rename(folder.with_name("moved"))
        try:
            assert not put(queue, new_batch(0, 1))
        finally:
            moved.rename(folder)
        assert queue.problem.startswith("the spool cannot be written: [Errno 2] No such file")
        assert take_all(queue) == [(0, 0)]
        assert put(queue, new_batch(0, 2))
        assert queue.problem == ""


def test_damaged_entries_are_dropped(folder: Path) -> None:
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        for number in range(4):
            queue.put(new_batch(0, number, flows=number + 1))
        path = segments_of(folder)[0]
        content = bytearray(path.read_bytes())
        content[SEGMENT_HEADER + ENTRY_HEADER + 10] ^= 1
        path.write_bytes(content)
        assert take_all(queue) == [(0, 0), (0, 2), (0, 3)]
        assert queue.read_counters().reasons == {"spool_damaged": 2}


@pytest.mark.parametrize("inherited", [0, 3, 10])
def test_entries_that_are_missing_at_the_start_are_dropped(folder: Path, inherited: int) -> None:
    for number in range(4):
        with Spool(folder, LIMIT) as spool:
            spool.append(to_bytes(new_batch(0, number, flows=number + 1)), number + 1)
    segments = segments_of(folder)
    segments[1].unlink()
    os.truncate(segments[3], segments[3].stat().st_size - 1)
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(100, "spool", waits=True)
        queue.attach(spool, inherited)
        counters = queue.read_counters()
        assert (counters.inherited, counters.recovered) == (inherited, 10 - inherited)
        assert take_all(queue) == [(0, 0), (0, 2)]
        assert queue.read_counters().reasons == {"spool_damaged": 6}


@pytest.mark.parametrize("data", [b"", b"other", bytes(1000)])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_entries_that_are_no_batches_are_dropped(folder: Path, data: bytes, place: int) -> None:
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        queue.put(new_batch(0, 9))
        for number in range(3):
            if number == place:
                spool.append(data, 7)
            else:
                queue.put(new_batch(0, number))
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(100, "spool", spool=spool)
        assert take_all(queue) == [(0, number) for number in range(3) if number != place]
        assert queue.read_counters().reasons == {"spool_damaged": 7}
        assert (len(spool), spool.disk_bytes) == (0, 0)


def test_a_dropped_entry_does_not_acknowledge_batches_that_are_not_done(folder: Path) -> None:
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        for number in range(2):
            queue.put(new_batch(0, number))
        spool.append(b"other", 1)
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(100, "spool", spool=spool)
        item = queue.get(0)
        assert item
        assert queue.get(0) is None
        assert len(spool) == 2
        queue.done(item)
        assert len(spool) == 0


@pytest.mark.parametrize("policy", ["spool", "drop", "block"])
def test_a_restart_continues_with_the_spool(folder: Path, policy: str) -> None:
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        for number in range(5):
            queue.put(new_batch(0, number, flows=2))
        items = [queue.get(0) for _ in range(3)]
        assert items[1]
        queue.done(items[1])
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(100, policy, spool=spool)
        assert queue.read_counters().recovered == queue.read_counters().spooled == 6
        queue.put(new_batch(1, 0))
        check(queue)
        item = queue.get(0)
        assert item
        assert items[2]
        assert item.number == items[2].number
        assert take_all(queue) == [(0, 3), (0, 4), (1, 0)]


def test_save_keeps_the_batches_in_memory(folder: Path) -> None:
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(3, "spool", spool=spool)
        for number in range(5):
            queue.put(new_batch(0, number))
        queue.close()
        queue.save()
        check(queue)
        assert (queue.read_counters().queued, queue.read_counters().spooled) == (0, 5)
    with Spool(folder, LIMIT) as spool:
        assert sorted(take_all(FlowQueue(100, "spool", spool=spool))) == [(0, number) for number in range(5)]


def test_a_lack_of_memory_loses_nothing(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = FlowQueue(1, "spool", spool=spool)
    for number in range(3):
        queue.put(new_batch(0, number))
    assert queue.get(0)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as context:
        context.setattr(queue_module, "from_bytes", fail)
        assert queue.get(0) is None
        check(queue)
        assert queue.problem == "the spool cannot be read: MemoryError"
    assert take_all(queue) == [(0, 1), (0, 2)]
    assert queue.problem == ""


def test_a_spool_that_cannot_be_read_is_read_later(spool: Spool) -> None:
    resource = pytest.importorskip("resource")
    queue = FlowQueue(1, "spool", spool=spool)
    for number in range(3):
        queue.put(new_batch(0, number))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert queue.get(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        assert queue.get(0) is None
        check(queue)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert queue.problem.startswith("the spool cannot be read: [Errno 24] Too many open files")
    assert take_all(queue) == [(0, 1), (0, 2)]
    assert queue.problem == ""
    assert queue.read_counters().reasons == {}


def test_all_columns_survive_the_spool(spool: Spool) -> None:
    """Enums are dictionaries, and addresses have extension types."""
    register_types(needed=True)
    schema = FLOW.enable(*(column.name for column in FLOW))
    queue = FlowQueue(1, "spool", spool=spool)
    captures = sorted((ROOT / "tests/data").glob("*.pcap"))
    batches = [batch.to_arrow() for capture in captures for batch in flowbuf.read_capture(capture, schema)]
    assert len(batches) > 5
    for batch in batches:
        assert put(queue, batch)
    assert queue.read_counters().spooled > 0
    for batch in batches:
        item = queue.get(0)
        assert item
        item.batch.validate(full=True)
        assert item.batch.schema.equals(batch.schema, check_metadata=True)
        assert item.batch.equals(batch)
    types = {
        str(field.type.extension_name) for field in batches[0].schema if hasattr(field.type, "extension_name")
    }
    assert types == {"flowbuf.ip", "flowbuf.mac"}
    assert any(pa.types.is_dictionary(field.type) for field in batches[0].schema)


def test_a_slice_of_a_batch_survives_the_spool(spool: Spool) -> None:
    queue = FlowQueue(1, "spool", spool=spool)
    whole = pa.record_batch({"number": list(range(100)), "text": [str(number) for number in range(100)]})
    for part in (whole[:50], whole[50:]):
        queue.put(part)
    assert [item.batch.equals(part) for part in (whole[:50], whole[50:]) if (item := queue.get(0))] == [
        True
    ] * 2


# Threads ----------------------------------------------------------------------------------------------------


def produce(queue: FlowQueue, worker: int, count: int) -> None:
    luck = random.Random(worker)
    for number in range(count):
        queue.put(new_batch(worker, number, flows=luck.randrange(1, 6)))


def run_workers(queue: FlowQueue, count: int, watch: Callable[[], None]) -> None:
    """Put batches in four threads, then close the queue."""
    workers = [threading.Thread(target=produce, args=(queue, number, count)) for number in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        watch()
    for worker in workers:
        worker.join()
    queue.close()


@pytest.mark.parametrize(
    ("policy", "limit"), [("drop", LIMIT), ("block", LIMIT), ("spool", LIMIT), ("spool", 6000)]
)
def test_sums_match_with_several_workers(folder: Path, policy: str, limit: int) -> None:
    count = 150
    with Spool(folder, limit) as spool:
        queue = FlowQueue(20, policy, spool=spool if policy == "spool" else None)
        taken: list[tuple[int, int]] = []

        def take() -> None:
            while item := queue.get():
                taken.append(name_of(item.batch))
                if len(taken) % 7 == 0:
                    queue.done(item)

        output = threading.Thread(target=take)
        output.start()
        run_workers(queue, count, lambda: check(queue))
        output.join()
        counters = queue.read_counters()
        check(queue)
        assert (counters.queued, counters.spooled) == (0, 0)
        assert counters.offered == counters.taken + counters.dropped
        for worker in range(4):
            numbers = [number for each, number in taken if each == worker]
            assert numbers == sorted(set(numbers))
        if policy == "block" or (policy == "spool" and limit == LIMIT):
            assert len(taken) == 4 * count
            assert counters.reasons == {}


# Output -----------------------------------------------------------------------------------------------------


class OpenFile(ListOutput):
    """An output that has stored nothing yet."""

    def write(self, batch: Any, number: int | None = None) -> None:
        super().write(batch, number)
        self.stored, self.pending = 0, self.pending + batch.num_rows


@pytest.mark.parametrize("kind", [ListOutput, OpenFile])
def test_an_output_takes_the_flows_of_the_spool(folder: Path, kind: type[ListOutput]) -> None:
    """The flows are those of batches in memory. The spool keeps them while the output has not stored them."""
    selection = FlowSelection(FLOW.only("src_addr", "dst_port", "proto"), "dst_port > 1000", ip="text")
    capture = ROOT / "tests/data/generated-netflow5.pcap"
    batches = [*flowbuf.read_capture(capture, selection.decoded)] * 3
    with Spool(folder, LIMIT) as spool:
        queue = FlowQueue(1, "spool", spool=spool)
        for batch in batches:
            queue.put(batch)
        entries = len(spool)
        assert entries == len(batches) - 1 > 1
        output = kind()
        runner = OutputRunner("list", queue, selection, output)
        runner.start()
        runner.stop()
        assert output.batches == [selection.apply(batch) for batch in batches]
        counters = runner.read_counters()
        places = counters.filtered + counters.stored + counters.pending + counters.lost.total()
        assert (counters.queue.taken, counters.pending) == (places, 0)
        assert len(spool) == (entries if kind is OpenFile else 0)
