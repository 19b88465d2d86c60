"""Measure five implementations that convert NetFlow v9 datagrams to Protocol Buffers messages.

    python -m benchmarks.bench_story [CAPTURE]           print a table
    python -m benchmarks.bench_story [CAPTURE] --json    print the same as JSON

CAPTURE is the name of a NetFlow v9 capture in the folder FLOWBUF_CORPUS or in tests/data.

The stages follow Akvorado's path from generated classes to a dynamic encoder ("Fast and dynamic encoding of
Protocol Buffers in Go"). Each stage uses the counterpart in Python:

    objects      Decoder in plain Python (tests/reference). Encodes with objects of google.protobuf in plain
                 Python, which finds fields by reflection (PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python).
    upb          Decodes with the core and encodes with the default classes of google.protobuf (upb, in C).
                 The core returns messages only, so reading them back into dicts is part of decoding.
    appender     Decoder in plain Python. Calls the appender of the core from Python, once per value.
    interpreted  Decodes and appends in one pass in C. Looks up each field of each record in the plan
                 (ext/bench/interpreted.h).
    compiled     The core: template and plan are compiled into a list of operations.

Each stage is timed with and without encoding. The decoding is the same in both cases. Without encoding,
stages in Python discard the values. Stages in C pass them to an emitter that adds them up and writes nothing
(ext/bench/null_row.h).

Stages in Python time encoding separately, on values decoded before. For stages in C, the time of encoding is
the difference of both times in the same round. "interpreted" has no such figure because the noise of its
decoding is larger than the difference. Its encoder is the one of "compiled".

The whole capture is decoded once. Then only datagrams with data are timed, by CPU time of the process. First
the stages in Python run in turn, then those in C. On a busy machine, the minimum of the repetitions is more
reliable than the median. All five stages must produce the same messages before anything is timed.

Allocated bytes are the sum of all requests, including memory freed later, as Go counts them. In Python, they
are requests to the C library, and Python's own allocator is off (ext/bench/count_malloc.c; requires glibc).
In C, they are requests for memory by the core.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.core_programs import Failed, build, run
from flowbuf import Decoder, Schema, _core, wire
from flowbuf.schema.plan import compile_plan

FOLDERS = (Path(os.environ.get("FLOWBUF_CORPUS", "no-corpus")), Path(__file__).parent.parent / "tests/data")
DEFAULTS = ("netflow9-data", "generated-netflow9")
"""Default captures. The first one that exists is used."""

Datagram = tuple[bytes, tuple[str, int], int]
"""Payload, source and time of receipt in ns since 1970."""
Values = list[dict[str, Any]]

STAGES = {
    "objects": ("plain Python", "objects"),
    "upb": ("C, into dicts", "upb classes"),
    "appender": ("plain Python", "appender, called"),
    "interpreted": ("C, look-ups", "appender, in C"),
    "compiled": ("C, compiled", "appender, in C"),
}
"""Stage -> its decoder and its encoder."""

IN_PYTHON = ("objects", "upb", "appender")
IMPLEMENTATIONS = {"objects": "python", "upb": "upb"}
SECONDS_PER_REPETITION = 0.2


class PythonStage(NamedTuple):
    """Decode a datagram to the values of its flows, and encode these as length-delimited messages."""

    decode: Callable[..., Values]
    encode: Callable[[Values], bytes]


def encode_objects(schema: Schema) -> Callable[[Values], bytes]:
    """Return an encoder that uses the classes of the active implementation of google.protobuf."""
    flow = schema.message_class()

    def encode(values: Values) -> bytes:
        messages = [flow(**each).SerializeToString() for each in values]
        return b"".join(wire.varint(len(message)) + message for message in messages)

    return encode


def encode_by_appender(schema: Schema) -> Callable[[Values], bytes]:
    plan = compile_plan(schema)

    def encode(values: Values) -> bytes:
        row = _core.Row(plan)
        for each in values:
            for column, value in each.items():
                row.append(column, value)
            row.finish()
        return bytes(row)

    return encode


def decode_by_core(schema: Schema) -> Callable[..., Values]:
    decoder, reader = Decoder(schema), _core.MessageReader(compile_plan(schema))
    return lambda *datagram: [reader.read(message) for message in decoder.messages(*datagram)]


def decode_by_reference(schema: Schema) -> Callable[..., Values]:
    from tests import reference

    return reference.Decoder(schema).decode  # type: ignore[no-any-return]


def open_stage(name: str, datagrams: list[Datagram]) -> PythonStage:
    """Return a stage in Python that has decoded all datagrams of a capture."""
    schema = Schema.load("flow")
    decode = (decode_by_core if name == "upb" else decode_by_reference)(schema)
    encode = (encode_by_appender if name == "appender" else encode_objects)(schema)
    for datagram in datagrams:
        decode(*datagram)
    return PythonStage(decode, encode)


# Captures ---------------------------------------------------------------------------------------------------


def find_capture(name: str) -> Path | None:
    """Return the file of a capture by its name or path. None if it does not exist."""
    if Path(name).is_file():
        return Path(name)
    return next((path for folder in FOLDERS if (path := folder / f"{name}.pcap").exists()), None)


def read_datagrams(capture: Path) -> list[Datagram]:
    _, _, batch = _core.Capture().scan(capture.read_bytes(), True, 65536)
    return [
        (payload, source, received) for payload, source, _, received in (batch[i] for i in range(len(batch)))
    ]


def choose_data(datagrams: list[Datagram]) -> list[Datagram]:
    """Return the datagrams that have flows and no templates. The programs in C choose the same ones."""

    def count_templates() -> int:
        return sum(exporter["templates"] for exporter in decoder.stats.values())

    decoder, chosen = Decoder(), []
    for datagram in datagrams:
        templates = count_templates()
        if decoder.messages(*datagram) and count_templates() == templates:
            chosen.append(datagram)
    return chosen


# Messages ---------------------------------------------------------------------------------------------------


def encode_in_python(stage: PythonStage, data: list[Datagram]) -> bytes:
    return b"".join(stage.encode(stage.decode(*datagram)) for datagram in data)


def write_messages(stage: str, capture: Path) -> bytes:
    """Return the length-delimited messages of a stage for all data of a capture. Raises Failed."""
    if stage in IN_PYTHON:
        return run(*worker_command("messages", stage, capture)).stdout
    programs = build()
    return run(programs / "bench/run_story", "--messages", stage, programs / "flow.plan", capture).stdout


def read_messages(data: bytes) -> Values:
    """Read length-delimited messages with google.protobuf."""
    flow, messages, at = Schema.load("flow").message_class(), [], 0
    while at < len(data):
        size, at = wire.read_varint(data, at)
        message = flow.FromString(data[at : at + size])
        messages.append({field.name: value for field, value in message.ListFields()})
        at += size
    return messages


def find_difference(messages: dict[str, Values]) -> str:
    """Describe the first difference between the messages of the stages.

    Return "" if they are equal. Messages without any flow count as a difference.
    """
    first, expected = next(iter(messages.items()))
    if not expected:
        return f"{first}: no flows"
    for stage, found in messages.items():
        if len(found) != len(expected):
            return f"{stage}: {len(found)} flows, {first}: {len(expected)}"
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            for column in one.keys() | other.keys():
                if one.get(column) != other.get(column):
                    return f"flow {i}, {column}: {stage} {one.get(column)!r}, {first} {other.get(column)!r}"
    return ""


# Measuring --------------------------------------------------------------------------------------------------


class Passes:
    """Passes of a stage in Python over all data of a capture: decode and encode, decode, encode."""

    def __init__(self, stage: PythonStage, data: list[Datagram]) -> None:
        self.stage, self.data = stage, data
        self.values = [stage.decode(*datagram) for datagram in data]
        self.flows = sum(map(len, self.values))

    def both(self) -> None:
        for datagram in self.data:
            self.stage.encode(self.stage.decode(*datagram))

    def decode(self) -> None:
        for datagram in self.data:
            self.stage.decode(*datagram)

    def encode(self) -> None:
        for values in self.values:
            self.stage.encode(values)


def time_passes(run_pass: Callable[[], None]) -> float:
    """Return the CPU time of a pass in nanoseconds."""
    begin, passes = time.process_time_ns(), 0
    while (now := time.process_time_ns()) - begin < SECONDS_PER_REPETITION * 1e9 or not passes:
        run_pass()
        passes += 1
    return (now - begin) / passes


def count_bytes(run_pass: Callable[[], None]) -> int:
    """Return the bytes that a pass requests from malloc.

    REQUIRES: count_malloc.so was loaded before the C library.
    """
    counter = ctypes.c_uint64.in_dll(ctypes.CDLL(None), "malloc_bytes")
    run_pass()
    before = counter.value
    run_pass()
    return counter.value - before


def describe(times: list[float], flows: int) -> dict[str, float]:
    """Return statistics in nanoseconds per flow, from times of passes."""
    by_flow = sorted(ns / flows for ns in times)
    return {
        "flows": flows,
        "ns_per_flow": round(statistics.median(by_flow), 2),
        "least": round(by_flow[0], 2),
        "greatest": round(by_flow[-1], 2),
    }


def describe_stage(stage: str, rounds: list[dict[str, float]], sizes: dict[str, int]) -> dict[str, Any]:
    """Return the result of a stage. `sizes` are the allocated bytes of a pass, if they were counted."""
    flows = int(rounds[0]["flows"])
    result: dict[str, Any] = {
        "stage": stage,
        "encoding": describe([each["encoding"] for each in rounds], flows),
    }
    for side in ("with", "without"):
        allocated = round(sizes[side] / flows, 3) if side in sizes else None
        result[side] = {**describe([each[side] for each in rounds], flows), "bytes_per_flow": allocated}
    return result


def measure_in_python(capture: Path, repetitions: int) -> list[dict[str, Any]]:
    """Measure the stages in Python in turn, each in a separate process."""
    with ExitStack() as stack:
        workers = {stage: stack.enter_context(start_worker("times", stage, capture)) for stage in IN_PYTHON}
        rounds = [{stage: ask(worker) for stage, worker in workers.items()} for _ in range(repetitions)]
    allocated = {stage: count_allocated(stage, capture) for stage in IN_PYTHON}
    return [describe_stage(stage, [each[stage] for each in rounds], allocated[stage]) for stage in IN_PYTHON]


def measure_in_c(capture: Path, repetitions: int) -> list[dict[str, Any]]:
    programs = build()
    command = (programs / "bench/run_story", "--repetitions", repetitions, programs / "flow.plan", capture)
    return [json.loads(line) for line in run(*command).stdout.splitlines()]


def measure(capture: Path, repetitions: int) -> list[dict[str, Any]]:
    """Measure all stages, in their order. Raises Failed, also if their messages differ."""
    difference = find_difference({stage: read_messages(write_messages(stage, capture)) for stage in STAGES})
    if difference:
        raise Failed(f"the messages of the stages differ: {difference}")
    return [*measure_in_python(capture, repetitions), *measure_in_c(capture, repetitions)]


# Processes --------------------------------------------------------------------------------------------------


def worker_command(task: str, stage: str, capture: Path) -> list[str]:
    """Return the command of a process for one stage, with the implementation of google.protobuf it needs."""
    implementation = f"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION={IMPLEMENTATIONS.get(stage, 'upb')}"
    return [
        "env",
        implementation,
        sys.executable,
        "-m",
        "benchmarks.bench_story",
        "worker",
        task,
        stage,
        str(capture),
    ]


def start_worker(task: str, stage: str, capture: Path) -> subprocess.Popen[str]:
    command = worker_command(task, stage, capture)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(worker: subprocess.Popen[str]) -> Any:
    """Run one repetition in a worker and return its result. Raises Failed."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(file=worker.stdin, flush=True)
    answer = worker.stdout.readline()
    if not answer:
        raise Failed("a stage ended early")
    return json.loads(answer)


def count_allocated(stage: str, capture: Path) -> dict[str, int]:
    """Return the allocated bytes of a pass with and without encoding.

    The result is empty if they cannot be counted (without glibc). Raises Failed.
    """
    if platform.libc_ver()[0] != "glibc":
        return {}
    loaded = (f"LD_PRELOAD={build() / 'bench/count_malloc.so'}", "PYTHONMALLOC=malloc")
    return json.loads(run("env", *loaded, *worker_command("bytes", stage, capture)).stdout)  # type: ignore[no-any-return]


def work(task: str, stage: str, capture: str) -> None:
    """Run a task in a worker. The task "times" runs one repetition for each line of standard input."""
    from google.protobuf.internal import api_implementation

    assert api_implementation.Type() == os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"]
    datagrams = read_datagrams(Path(capture))
    opened, data = open_stage(stage, datagrams), choose_data(datagrams)
    if task == "messages":
        sys.stdout.buffer.write(encode_in_python(opened, data))
        return
    passes = Passes(opened, data)
    if task == "bytes":
        print(json.dumps({"with": count_bytes(passes.both), "without": count_bytes(passes.decode)}))
        return
    for _ in sys.stdin:
        times = {"with": passes.both, "without": passes.decode, "encoding": passes.encode}
        round_ = {side: time_passes(run_pass) for side, run_pass in times.items()}
        print(json.dumps({"flows": passes.flows, **round_}), flush=True)


# The program ------------------------------------------------------------------------------------------------


def show(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def make_table(name: str, results: list[dict[str, Any]]) -> Table:
    title = f"{name}: nanoseconds (median and minimum) and bytes allocated, per flow"
    table = Table(title=title, box=SIMPLE)
    table.add_column("stage", no_wrap=True)
    table.add_column("decoder")
    table.add_column("encoder")
    for heading in (
        "with\nencoding",
        "\nmin",
        "\nwithout",
        "\nmin",
        "encoding\nalone",
        "bytes\nwith",
        "\nwithout",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        sides = (result["with"], result["without"])
        times = [side[key] for side in sides for key in ("ns_per_flow", "least")]
        sizes = [side["bytes_per_flow"] for side in sides]
        encoding = result["encoding"]["ns_per_flow"] if "encoding" in result else None
        values = map(show, (*times, encoding, *sizes))
        table.add_row(result["stage"], *STAGES[result["stage"]], *values)
    return table


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = next(name for name in DEFAULTS if find_capture(name))
    parser.add_argument(
        "capture", nargs="?", default=default, help="NetFlow v9 capture, name or path (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")
    parser.add_argument(
        "--repetitions", type=int, default=9, metavar="N", help="measure N times (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    capture = find_capture(options.capture)
    if capture is None:
        parser.error(f"{options.capture} is not a file or a capture in {' or '.join(map(str, FOLDERS))}")
    try:
        results = measure(capture, options.repetitions)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"capture": options.capture, "stages": results}, indent=2))
    else:
        Console(width=max(120, Console().width)).print(make_table(options.capture, results))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
