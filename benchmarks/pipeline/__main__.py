"""Measure how fast a consumer reads and decodes a topic of a real broker, for each format.

A producer fills a new topic with exactly --messages records and ends. Then a consumer on one processor reads
it from its first offset. The consumer may have at most --memory MiB resident. If the machine allows it, a
cgroup enforces the same limit.

Each round reads every topic twice: once without decoding ("raw"), which is the cost of the transport, and
once with decoding. All topics of a packing exist at once, and each round reads all of them. Two million
records of telemetry in the default formats take ten minutes and 2.5 GB of the broker's disk, or twice as much
if it deletes late.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.lab import FAMILIES, FORMATS, Format, select_formats
from flowbuf.io.output_file import OutputFile

from .report import make_report, make_tables
from .run import Failed, Plan, Show, run

EXAMPLES = """examples:
  make kafka                                                   start a broker on this machine
  python -m benchmarks.pipeline                                use 2,000,000 records of telemetry
  python -m benchmarks.pipeline --messages 100000 --rounds 1   take a quick look
  python -m benchmarks.pipeline --formats protobuf-upb,orjson,msgspec-msgpack --family record --packing many
  python -m benchmarks.pipeline --kafka broker:9092 --json pipeline.json

formats:
  {formats}
"""
DEFAULT = "flowbuf,protobuf-upb,json,orjson,avro-fastavro,msgpack,msgspec-msgpack-struct-array"
PACKINGS = {"one": (False,), "many": (True,), "both": (False, True)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Exit status: 1 if a run failed, 2 if the command line is wrong or a requirement is missing.
    """
    parser = make_parser()
    given = parser.parse_args(arguments)
    if not sys.platform.startswith("linux"):
        parser.error("the pipeline needs Linux")
    plan = Plan(
        servers=given.kafka or find_broker(parser),
        family=given.family,
        formats=choose_formats(parser, given.formats),
        messages=given.messages,
        packings=PACKINGS[given.packing],
        rounds=given.rounds,
        memory=given.memory * 2**20,
    )
    try:
        with ExitStack() as stack:
            file = stack.enter_context(OutputFile(given.json)) if given.json else None
            with show_steps(plan.steps) as show:
                outcomes = run(plan, show)
            if file:
                file.write(json.dumps(make_report(plan, outcomes), indent=2).encode() + b"\n")
    except (Failed, OSError) as error:
        sys.exit(f"pipeline: {error}")
    if given.json != "-":
        print("\n".join(make_tables(outcomes)))
    sys.exit(1 if any(outcome.failed for outcome in outcomes) else 0)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline",
        description=__doc__,
        epilog=EXAMPLES.format(formats="\n  ".join(form.name for form in FORMATS)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kafka", metavar="HOST:PORT", help="use this broker [the one of `make kafka`]")
    parser.add_argument(
        "--messages", type=count, default=2_000_000, metavar="N", help="produce N records [2,000,000]"
    )
    parser.add_argument("--formats", default=DEFAULT, metavar="A,B", help=f"measure these [{DEFAULT}]")
    parser.add_argument(
        "--family", choices=FAMILIES, default="telemetry", help="use records of this kind [telemetry]"
    )
    parser.add_argument(
        "--packing",
        choices=PACKINGS,
        default="both",
        help="put one or many records in a Kafka message [both]",
    )
    parser.add_argument("--rounds", type=count, default=3, metavar="N", help="measure N rounds [3]")
    parser.add_argument(
        "--memory",
        type=count,
        default=512,
        metavar="MIB",
        help="limit the memory of a consumer, resident and in its cgroup [512]",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write all results to FILE; - writes only JSON to standard output"
    )
    return parser


def count(text: str) -> int:
    """Parse a number of at least 1, with or without underscores. Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return number


def choose_formats(parser: argparse.ArgumentParser, names: str) -> list[Format]:
    try:
        formats = select_formats(names)
    except ValueError as error:
        parser.error(str(error))
    for form in formats:
        if reason := form.absent():
            parser.error(f"{form.name} is {reason}")
    return formats


def find_broker(parser: argparse.ArgumentParser) -> str:
    """Return the address of the broker of `make kafka`. Exit if it does not run."""
    from tools.services import Kafka

    broker = Kafka()
    if not broker.answers():
        parser.error("no broker runs on this machine; start one with make kafka, or use --kafka")
    return broker.address


@contextmanager
def show_steps(total: int) -> Iterator[Show]:
    """Show a progress bar on stderr if it is a terminal. Each step has a description."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, completed=-1)  # the first step begins, and none is done
        yield lambda text: progress.update(task, advance=1, description=text)


if __name__ == "__main__":
    main()
