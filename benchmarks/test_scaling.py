"""Measure how the time per flow depends on flows per call, exporters, templates and threads."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from statistics import median
from typing import Any

import pytest

from benchmarks.datasets import load
from benchmarks.record import read_clock, record, replay
from flowbuf import Decoder, _core
from flowbuf.bench import WORKING_SET, Flowbuf

ROUNDS = 25
PASSES, TURNS = 5, 11  # passes of each thread per round, and rounds
on_cpu_time = pytest.mark.benchmark(timer=time.thread_time)


# Flows ------------------------------------------------------------------------------------------------------


@on_cpu_time
@pytest.mark.parametrize("datagrams", [50, 500, 5000])
def test_flows(benchmark: Any, datagrams: int) -> None:
    """Vary the number of datagrams per call."""
    workload = load("generated-netflow9")
    assert workload
    decoder = Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    chosen = [workload.data[i % len(workload.data)] for i in range(datagrams)]
    batch = _core.pack_datagrams(*map(list, zip(*chosen, strict=True)))
    before = decoder.flows
    decoder.encode_datagrams(batch)
    flows = decoder.flows - before
    benchmark.pedantic(decoder.encode_datagrams, (batch,), rounds=ROUNDS)
    record(benchmark, workload.name, f"{datagrams} datagrams a call", flows)


# Exporters and templates ------------------------------------------------------------------------------------

TEMPLATES = 4  # per exporter
RECORDS = 24  # in a datagram of 1392 bytes
FIELDS = (
    *((1, 4), (2, 4), (8, 4), (12, 4), (10, 4), (14, 4), (21, 4), (22, 4), (7, 2), (11, 2), (16, 4), (17, 4)),
    *((18, 4), (9, 1), (13, 1), (4, 1), (6, 1), (5, 1), (61, 1), (89, 1)),
)


def make_templates(mark: int) -> bytes:
    """Return a NetFlow v9 datagram with TEMPLATES templates, which have the same fields in different orders.

    The templates of different marks differ in two elements that no column uses.
    """
    fields = [*FIELDS, (40_000 + mark % 10_000, 1), (50_000 + mark // 10_000, 1)]
    templates = b""
    for i in range(TEMPLATES):
        turned = fields[i:] + fields[:i]
        templates += struct.pack(">HH", 256 + i, len(turned)) + b"".join(
            struct.pack(">HH", *field) for field in turned
        )
    return make_header(TEMPLATES) + struct.pack(">HH", 0, 4 + len(templates)) + templates


def make_data(template: int, chance: random.Random) -> bytes:
    """Return a NetFlow v9 datagram of RECORDS records with random contents."""
    size = sum(size for _, size in FIELDS) + 2
    records = chance.randbytes(size * RECORDS)
    return make_header(RECORDS) + struct.pack(">HH", 256 + template, 4 + len(records)) + records


def make_header(count: int) -> bytes:
    return struct.pack(">HHIIII", 9, count, 1_000_000, 1_735_689_600, 0, 0)


def make_source(exporter: int) -> tuple[str, int]:
    return f"10.{exporter >> 16}.{exporter >> 8 & 0xFF}.{exporter & 0xFF}", 2055


def make_batches(exporters: int) -> Iterator[_core.Datagrams]:
    """Yield batches of the working set with data of each template of each exporter, in random order.

    All batches use the same few thousand payloads, so they differ in exporters and templates only.
    """
    chance = random.Random(1)
    count = WORKING_SET // len(make_data(0, chance))
    payloads = [cycle([make_data(i, chance) for _ in range(count // TEMPLATES)]) for i in range(TEMPLATES)]
    pairs = [(exporter, template) for exporter in range(exporters) for template in range(TEMPLATES)]
    pairs *= -(-count // len(pairs))
    chance.shuffle(pairs)
    for i in range(0, len(pairs) - count + 1, count):
        chosen = pairs[i : i + count]
        datagrams = [next(payloads[template]) for _, template in chosen]
        yield _core.pack_datagrams(datagrams, [make_source(exporter) for exporter, _ in chosen], 0)


@on_cpu_time
@pytest.mark.parametrize("templates", ["identical", "different"])
@pytest.mark.parametrize("exporters", [1, 100, 10_000, 100_000])
def test_exporters(benchmark: Any, exporters: int, templates: str) -> None:
    """Decode data of exporters with four templates each, identical or different between exporters."""
    decoder = Decoder(memory_limit=0)
    memory, compiled = decoder.memory_used, decoder.compiled_template_count
    for exporter in range(exporters):
        decoder.encode(make_templates(exporter if templates == "different" else 0), make_source(exporter), 0)
    held = decoder.memory_used - memory
    added = decoder.compiled_template_count - compiled
    assert added == TEMPLATES * (exporters if templates == "different" else 1)
    batches = list(make_batches(exporters))
    before = decoder.flows
    decoder.encode_datagrams(batches[0])
    flows = decoder.flows - before
    assert flows == RECORDS * len(batches[0])
    turns = cycle(batches)
    benchmark.pedantic(lambda: decoder.encode_datagrams(next(turns)), rounds=max(ROUNDS, len(batches)))
    record(benchmark, f"{exporters} exporters", f"{templates} templates", flows)
    benchmark.extra_info["bytes_per_exporter"] = round(held / exporters)


# Threads ----------------------------------------------------------------------------------------------------


@pytest.mark.benchmark(timer=read_clock)
def test_two_threads(benchmark: Any) -> None:
    """Compare two decoders in two threads with both in one thread, in turn.

    `speedup` is the ratio of wall times, `cpus` the number of busy processors.
    """
    workload = load("generated-netflow9")
    assert workload
    runs = [Flowbuf().open(workload), Flowbuf().open(workload)]

    def work(i: int) -> None:
        for _ in range(PASSES):
            runs[i].decode()

    one, two, cpu = [], [], []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(TURNS):
            begin = time.perf_counter()
            work(0)
            work(1)
            one.append(time.perf_counter() - begin)
            begin, began = time.perf_counter(), time.process_time()
            list(pool.map(work, [0, 1]))
            two.append(time.perf_counter() - begin)
            cpu.append((time.process_time() - began) / two[-1])
    replay(benchmark, two)
    record(benchmark, workload.name, "two threads, wall time", 2 * PASSES * workload.flows)
    benchmark.extra_info["speedup"] = round(median(one) / median(two), 2)
    benchmark.extra_info["cpus"] = round(median(cpu), 2)
