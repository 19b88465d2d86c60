"""A consumer that is behind by a constant number of messages catches up, by a real broker, format by format.

A producer fills a new topic with exactly so many messages and ends; then a consumer on one processor, with so
many MiB resident at most, drains it from its first offset; where a cgroup can be made, it is in one of so
many MiB. Every topic is drained twice a round: values alone, which is what the way itself costs ("raw"), and
decoded. All topics of a packing are there at once, and rounds take turns: two million records of telemetry in
the default formats take 2.5 GB of the broker's disk, twice where it deletes late, and ten minutes.
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
  make kafka                                                   a real broker on this machine, once
  python -m benchmarks.pipeline                                two million records of telemetry, default formats
  python -m benchmarks.pipeline --messages 100000 --rounds 1   a quick look
  python -m benchmarks.pipeline --formats protobuf-upb,orjson,msgspec-msgpack --family record --packing many
  python -m benchmarks.pipeline --kafka broker:9092 --json pipeline.json

formats:
  {formats}
"""
DEFAULT = "flowbuf,protobuf-upb,json,orjson,avro-fastavro,msgpack,msgspec-msgpack-struct-array"
PACKINGS = {"one": (False,), "many": (True,), "both": (False, True)}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command.

    Exit status: 1 where a run failed, 2 where the command line, or what it needs, is wrong.
    """
    parser = make_parser()
    given = parser.parse_args(arguments)
    if not sys.platform.startswith("linux"):
        parser.error("a process is kept to one processor and its memory is watched on Linux alone")
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
    parser.add_argument("--kafka", metavar="HOST:PORT", help="the broker; else the one of `make kafka`")
    parser.add_argument("--messages", type=count, default=2_000_000, metavar="N", help="records [2,000,000]")
    parser.add_argument("--formats", default=DEFAULT, metavar="A,B", help=f"[{DEFAULT}]")
    parser.add_argument(
        "--family", choices=FAMILIES, default="telemetry", help="what records are [telemetry]"
    )
    parser.add_argument(
        "--packing", choices=PACKINGS, default="both", help="records of a Kafka message [both]"
    )
    parser.add_argument("--rounds", type=count, default=3, metavar="N", help="[3]")
    parser.add_argument(
        "--memory",
        type=count,
        default=512,
        metavar="MIB",
        help="of a consumer, resident and in its cgroup [512]",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="all results; - is standard output, and then nothing else"
    )
    return parser


def count(text: str) -> int:
    """A number of at least one, with or without underscores. Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of at least 1")
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
    """That of `make kafka`."""
    from tools.services import Kafka

    broker = Kafka()
    if not broker.answers():
        parser.error("no broker runs here: make kafka starts one, or name another by --kafka")
    return broker.address


@contextmanager
def show_steps(total: int) -> Iterator[Show]:
    """A progress bar on stderr, where that is a terminal; each step says what is being done."""
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
