"""The story behind flowbuf as a series that anyone can run: five ways from NetFlow v9 to Protocol Buffers messages.

    python -m benchmarks.bench_story [CAPTURE]           a table
    python -m benchmarks.bench_story [CAPTURE] --json    the same as JSON

CAPTURE is the name of one of NetFlow v9, from the folder that FLOWBUF_CORPUS names or from tests/data.

It follows Akvorado's way from generated classes to a dynamic encoder ("Fast and dynamic encoding of Protocol Buffers in
Go"), with what Python has in each place:

    objects      a decoder in plain Python (tests/reference), objects of google.protobuf written in Python alone, which
                 find their fields by reflection (PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python)
    upb          the core as the decoder, classes of google.protobuf as it comes (upb, in C). The core gives values to
                 Python only as messages that are read back, into dicts: that way is part of decoding here
    appender     the decoder in plain Python again, and the core's appender called from Python, value by value
    interpreted  decoding and appending in one pass in C, each field of each record looked up in the plan
                 (ext/bench/interpreted.h)
    compiled     the core as it is: template and plan compiled into a list of operations

Each is timed with and without encoding. "Without" is the same decoding: in Python its values are thrown away, in C they
go to an emitter that adds them up and writes nothing (ext/bench/null_row.h). In Python, encoding is timed separately,
on values that were kept. In C, its time is the difference of the two, round by round. "interpreted" has no such figure:
the noise of its decoding is larger than the difference, and its encoder is that of "compiled".

Only datagrams of data are timed, once all of the capture has been fed; what counts is CPU time of the process. The
stages in Python take turns, then those in C. On a machine that does other things too, the least of the repetitions says
more than their median. Before anything is timed, all five must give the same messages.

Allocated is all that is ever asked for, given back or not, as Go counts it: of the C library in Python, whose own
allocator is switched off for that (ext/bench/count_malloc.c; glibc alone); of the core's memory in C.
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
"""The first of them that is on this machine."""

Datagram = tuple[bytes, tuple[str, int], int]
"""A payload, its source, and when it was received, ns since 1970."""
Values = list[dict[str, Any]]

STAGES = {
    "objects": ("plain Python", "objects"),
    "upb": ("C, into dicts", "upb classes"),
    "appender": ("plain Python", "appender, called"),
    "interpreted": ("C, look-ups", "appender, in C"),
    "compiled": ("C, compiled", "appender, in C"),
}
"""Stage -> what decodes, and what encodes."""

IN_PYTHON = ("objects", "upb", "appender")
IMPLEMENTATIONS = {"objects": "python", "upb": "upb"}
SECONDS_PER_REPETITION = 0.2


class PythonStage(NamedTuple):
    """One datagram to the values of its flows, and those to length-delimited messages."""

    decode: Callable[..., Values]
    encode: Callable[[Values], bytes]


def encode_objects(schema: Schema) -> Callable[[Values], bytes]:
    """By the classes of google.protobuf, in whichever implementation runs."""
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
    """A stage in Python, which has been fed all datagrams of a capture."""
    schema = Schema.load("flow")
    decode = (decode_by_core if name == "upb" else decode_by_reference)(schema)
    encode = (encode_by_appender if name == "appender" else encode_objects)(schema)
    for datagram in datagrams:
        decode(*datagram)
    return PythonStage(decode, encode)


# Captures -------------------------------------------------------------------------------------------------------------


def find_capture(name: str) -> Path | None:
    """The file of a capture, by its name or its path; None where it is not on this machine."""
    if Path(name).is_file():
        return Path(name)
    return next((path for folder in FOLDERS if (path := folder / f"{name}.pcap").exists()), None)


def read_datagrams(capture: Path) -> list[Datagram]:
    _, _, batch = _core.Capture().scan(capture.read_bytes(), True, 65536)
    return [(payload, source, received) for payload, source, _, received in (batch[i] for i in range(len(batch)))]


def choose_data(datagrams: list[Datagram]) -> list[Datagram]:
    """Those of data alone, flows and no templates: the programs in C choose the same."""

    def count_templates() -> int:
        return sum(exporter["templates"] for exporter in decoder.stats.values())

    decoder, chosen = Decoder(), []
    for datagram in datagrams:
        templates = count_templates()
        if decoder.messages(*datagram) and count_templates() == templates:
            chosen.append(datagram)
    return chosen


# Messages -------------------------------------------------------------------------------------------------------------


def encode_in_python(stage: PythonStage, data: list[Datagram]) -> bytes:
    return b"".join(stage.encode(stage.decode(*datagram)) for datagram in data)


def write_messages(stage: str, capture: Path) -> bytes:
    """The messages that a stage makes of all data of a capture, length-delimited. Raises Failed."""
    if stage in IN_PYTHON:
        return run(*worker_command("messages", stage, capture)).stdout
    programs = build()
    return run(programs / "bench/run_story", "--messages", stage, programs / "flow.plan", capture).stdout


def read_messages(data: bytes) -> Values:
    """Length-delimited messages, by google.protobuf."""
    flow, messages, at = Schema.load("flow").message_class(), [], 0
    while at < len(data):
        size, at = wire.read_varint(data, at)
        message = flow.FromString(data[at : at + size])
        messages.append({field.name: value for field, value in message.ListFields()})
        at += size
    return messages


def find_difference(messages: dict[str, Values]) -> str:
    """Where the messages of the stages differ; nothing where they are equal, and there are some."""
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


# Measuring ------------------------------------------------------------------------------------------------------------


class Passes:
    """A stage in Python at work on all data of a capture: with encoding, without, and encoding by itself."""

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
    """Nanoseconds of CPU time of a pass."""
    begin, passes = time.process_time_ns(), 0
    while (now := time.process_time_ns()) - begin < SECONDS_PER_REPETITION * 1e9 or not passes:
        run_pass()
        passes += 1
    return (now - begin) / passes


def count_octets(run_pass: Callable[[], None]) -> int:
    """What a pass asks of malloc. REQUIRES: count_malloc.so was loaded before the C library."""
    octets = ctypes.c_uint64.in_dll(ctypes.CDLL(None), "malloc_octets")
    run_pass()
    before = octets.value
    run_pass()
    return octets.value - before


def describe(times: list[float], flows: int) -> dict[str, float]:
    """Nanoseconds of passes as those of a flow."""
    by_flow = sorted(ns / flows for ns in times)
    return {
        "flows": flows,
        "ns_per_flow": round(statistics.median(by_flow), 2),
        "least": round(by_flow[0], 2),
        "greatest": round(by_flow[-1], 2),
    }


def describe_stage(stage: str, rounds: list[dict[str, float]], octets: dict[str, int]) -> dict[str, Any]:
    """`octets` are those of a pass, where they were counted."""
    flows = int(rounds[0]["flows"])
    result: dict[str, Any] = {"stage": stage, "encoding": describe([each["encoding"] for each in rounds], flows)}
    for side in ("with", "without"):
        allocated = round(octets[side] / flows, 3) if side in octets else None
        result[side] = {**describe([each[side] for each in rounds], flows), "bytes_per_flow": allocated}
    return result


def measure_in_python(capture: Path, repetitions: int) -> list[dict[str, Any]]:
    """The stages in Python, in turn, each in a process of its own."""
    with ExitStack() as stack:
        workers = {stage: stack.enter_context(start_worker("times", stage, capture)) for stage in IN_PYTHON}
        rounds = [{stage: ask(worker) for stage, worker in workers.items()} for _ in range(repetitions)]
    octets = {stage: count_allocated(stage, capture) for stage in IN_PYTHON}
    return [describe_stage(stage, [each[stage] for each in rounds], octets[stage]) for stage in IN_PYTHON]


def measure_in_c(capture: Path, repetitions: int) -> list[dict[str, Any]]:
    programs = build()
    command = (programs / "bench/run_story", "--repetitions", repetitions, programs / "flow.plan", capture)
    return [json.loads(line) for line in run(*command).stdout.splitlines()]


def measure(capture: Path, repetitions: int) -> list[dict[str, Any]]:
    """All stages, in their order. Raises Failed, also where their messages are not the same."""
    difference = find_difference({stage: read_messages(write_messages(stage, capture)) for stage in STAGES})
    if difference:
        raise Failed(f"the stages do not give the same messages: {difference}")
    return [*measure_in_python(capture, repetitions), *measure_in_c(capture, repetitions)]


# Processes ------------------------------------------------------------------------------------------------------------


def worker_command(task: str, stage: str, capture: Path) -> list[str]:
    """A process that does one stage, with the implementation of google.protobuf that it wants."""
    implementation = f"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION={IMPLEMENTATIONS.get(stage, 'upb')}"
    return ["env", implementation, sys.executable, "-m", "benchmarks.bench_story", "worker", task, stage, str(capture)]


def start_worker(task: str, stage: str, capture: Path) -> subprocess.Popen[str]:
    command = worker_command(task, stage, capture)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(worker: subprocess.Popen[str]) -> Any:
    """One more repetition. Raises Failed."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(file=worker.stdin, flush=True)
    answer = worker.stdout.readline()
    if not answer:
        raise Failed("a stage ended early")
    return json.loads(answer)


def count_allocated(stage: str, capture: Path) -> dict[str, int]:
    """Octets of one pass with and without encoding; nothing where they cannot be counted. Raises Failed."""
    if platform.libc_ver()[0] != "glibc":
        return {}
    loaded = (f"LD_PRELOAD={build() / 'bench/count_malloc.so'}", "PYTHONMALLOC=malloc")
    return json.loads(run("env", *loaded, *worker_command("octets", stage, capture)).stdout)  # type: ignore[no-any-return]


def work(task: str, stage: str, capture: str) -> None:
    """What a worker does. "times": a repetition for each line of standard input."""
    from google.protobuf.internal import api_implementation

    assert api_implementation.Type() == os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"]
    datagrams = read_datagrams(Path(capture))
    opened, data = open_stage(stage, datagrams), choose_data(datagrams)
    if task == "messages":
        sys.stdout.buffer.write(encode_in_python(opened, data))
        return
    passes = Passes(opened, data)
    if task == "octets":
        print(json.dumps({"with": count_octets(passes.both), "without": count_octets(passes.decode)}))
        return
    for _ in sys.stdin:
        times = {"with": passes.both, "without": passes.decode, "encoding": passes.encode}
        round_ = {side: time_passes(run_pass) for side, run_pass in times.items()}
        print(json.dumps({"flows": passes.flows, **round_}), flush=True)


# The program ----------------------------------------------------------------------------------------------------------


def show(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def make_table(name: str, results: list[dict[str, Any]]) -> Table:
    title = f"{name}: nanoseconds (median and least) and octets allocated, a flow"
    table = Table("stage", "decoder", "encoder", title=title, box=SIMPLE)
    for heading in ("with\nencoding", "\nleast", "\nwithout", "\nleast", "what\nit adds", "octets\nwith", "\nwithout"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        sides = (result["with"], result["without"])
        times = [side[key] for side in sides for key in ("ns_per_flow", "least")]
        octets = [side["bytes_per_flow"] for side in sides]
        encoding = result["encoding"]["ns_per_flow"] if "encoding" in result else None
        values = map(show, (*times, encoding, *octets))
        table.add_row(result["stage"], *STAGES[result["stage"]], *values)
    return table


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = next(name for name in DEFAULTS if find_capture(name))
    parser.add_argument("capture", nargs="?", default=default, help="NetFlow v9, name or path (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")
    parser.add_argument("--repetitions", type=int, default=9, metavar="N")
    options = parser.parse_args(arguments)
    capture = find_capture(options.capture)
    if capture is None:
        parser.error(f"{options.capture} is no file, and no capture in {' or '.join(map(str, FOLDERS))}")
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
