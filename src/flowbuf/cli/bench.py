"""`flowbuf bench`: measure the decoding speed of flowbuf and other decoders on this machine."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from flowbuf import _core
from flowbuf.bench import (
    GENERATED,
    ROUNDS,
    SECONDS,
    Contestant,
    Flowbuf,
    Measurement,
    Quotation,
    Result,
    Workload,
    generate_workload,
    import_peers,
    load_workload,
    measure,
    name_processor,
)
from flowbuf.cli.inputs import check_inputs
from flowbuf.cli.options import Number, UsageProblem, WholeNumber, schema_options
from flowbuf.cli.output.console import StdoutConsole, fit_table
from flowbuf.cli.output.progress import show_steps
from flowbuf.cli.output.streams import is_terminal, print_text, standard_output
from flowbuf.schema import Schema
from flowbuf.targets.flow_text import escape_json

__all__ = ["bench"]

CORPUS = ("netflow9-data", "netflow5-29-records", "sflow-1140", "ipfix-cisco-srv6")
"""Captures in the folder of FLOWBUF_CORPUS."""

NUMBERS = ("flows", "ns a flow", "least", "greatest", "million/s", "ratio")
OF_PEERS = ("decoder", "ratio")
DISPENSABLE = ("greatest", "million/s", "flows", "least")
WIDTH_IN_A_PIPE = 160

Load = Callable[[], Workload]


@click.command()
@click.argument("captures", nargs=-1, metavar="[CAPTURE]...")
@click.option(
    "--rounds",
    default=ROUNDS,
    show_default=True,
    type=WholeNumber(1, 10_000),
    metavar="N",
    help="Time each decoder N times.",
)
@click.option(
    "--seconds",
    default=SECONDS,
    show_default=True,
    type=Number(0, 3600, min_open=True),
    metavar="S",
    help="Time each decoder for S seconds of CPU time per round.",
)
@click.option(
    "--peers",
    "folder",
    metavar="DIR",
    help="Load the package `peers` of this folder.  [default: benchmarks, if here]",
)
@click.option("--no-peers", is_flag=True, help="Measure flowbuf alone.")
@click.option(
    "--processor",
    type=click.Choice(_core.PROCESSORS),
    help="Use only instructions of this kind of processor.  "
    "[default: the newest kind that this processor supports]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every sample.")
@schema_options
def bench(
    captures: tuple[str, ...],
    rounds: int,
    seconds: float,
    folder: str | None,
    no_peers: bool,
    processor: str | None,
    as_json: bool,
    schema: Schema,
) -> None:
    """Measure the decoding speed on this machine.

    The result is nanoseconds of CPU time per flow on one core, from datagrams in memory to messages in
    memory. All datagrams of a CAPTURE are decoded once. Then the datagrams with flows are decoded repeatedly,
    2.5 MB per pass. Without a CAPTURE, generated traffic of each protocol and the captures of FLOWBUF_CORPUS
    are used.

    Peers decode the same datagrams in turn with flowbuf. They are Python code, which is executed. Their
    folder is `benchmarks`, in the current directory or beside flowbuf's source. Compare only figures of one
    run.

    \b
    Examples:
      flowbuf bench
      flowbuf bench capture.pcap --rounds 30
      flowbuf bench capture.pcap --no-peers --columns src_addr,dst_addr,bytes
      flowbuf bench capture.pcap --processor any
      flowbuf bench --json > new.json; python -m benchmarks.compare old.json new.json
    """
    check_inputs(captures)
    if folder is not None and no_peers:
        raise UsageProblem("--peers cannot be combined with --no-peers; leave one out")
    peers, quoted = ([], []) if no_peers else _find_peers(folder)
    absent = {peer.name: reason for peer in peers if (reason := peer.absent()) is not None}
    contestants = [Flowbuf(schema, processor), *(peer for peer in peers if peer.name not in absent)]
    measured = _measure_all(_choose(captures, schema), contestants, rounds, seconds)
    if as_json:
        print_text(
            escape_json(
                json.dumps(_describe(measured, absent, quoted, processor), indent=2, ensure_ascii=False)
            )
        )
        return
    console = StdoutConsole(width=None if is_terminal(sys.stdout) else WIDTH_IN_A_PIPE)
    with standard_output():
        console.print(_table(measured, quoted, console.width, processor))
        for line in _notes(measured, absent, quoted):
            console.print(line)


def _measure_all(
    loads: Sequence[Load], contestants: Sequence[Contestant], rounds: int, seconds: float
) -> list[Measurement]:
    measured = []
    with show_steps(rounds * len(loads)) as show:
        for i, load in enumerate(loads):
            workload = load()
            show(workload.name, rounds * i)
            step = lambda done, name=workload.name, before=rounds * i: show(name, before + done)  # noqa: E731
            measured.append(measure(workload, contestants, rounds, seconds, step))
    return measured


# Workloads and peers ----------------------------------------------------------------------------------------


def _choose(captures: Sequence[str], schema: Schema) -> list[Load]:
    """Return a loader for each workload, so that only one is in memory."""

    def load(name: str, path: str) -> Load:
        return lambda: load_workload(name, path, schema)

    def generate(protocol: str) -> Load:
        return lambda: generate_workload(protocol, schema)

    if captures:
        return [load(name, path) for name, path in zip(_names(captures), captures, strict=True)]
    corpus = os.environ.get("FLOWBUF_CORPUS")
    paths = [Path(corpus, f"{name}.pcap") for name in CORPUS] if corpus else []
    return [load(path.stem, str(path)) for path in paths if path.exists()] + [
        generate(each) for each in GENERATED
    ]


def _names(paths: Sequence[str]) -> list[str]:
    """Return the file names without suffixes, or whole paths for equal names."""
    names = [re.sub(r"(\.(pcap|pcapng|cap))?(\.(gz|zst))?$", "", Path(path).name) or path for path in paths]
    return [path if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True)]


def _find_peers(folder: str | None) -> tuple[list[Contestant], list[Quotation]]:
    """Return the peers, and the quoted figures of decoders that cannot be measured here."""
    beside = Path(__file__).parents[3] / "benchmarks"
    for candidate in [Path(folder)] if folder is not None else [Path("benchmarks"), beside]:
        try:
            module = import_peers(candidate)
        except ImportError as error:
            raise UsageProblem(f"{candidate}: {error}") from error
        if module:
            return list(module.PEERS), list(getattr(module, "QUOTED", []))
    if folder is not None:
        raise UsageProblem(f"{folder}: has no package `peers`; name the folder `benchmarks` of the sources")
    return [], []


# Output -----------------------------------------------------------------------------------------------------


def _describe(
    measured: Sequence[Measurement],
    absent: dict[str, str],
    quoted: Sequence[Quotation],
    processor: str | None,
) -> dict[str, Any]:
    return {
        "datasets": {each.workload.name: _describe_dataset(each, quoted) for each in measured},
        "absent": absent,
        "machine": _describe_machine(processor),
    }


def _describe_dataset(measurement: Measurement, quoted: Sequence[Quotation]) -> dict[str, Any]:
    workload, results = measurement.workload, dict(measurement.results)
    own = results.pop(Flowbuf.name)
    return {
        "flows": workload.flows,
        "ns_per_flow": round(own.median, 2),
        "min": round(own.min, 2),
        "max": round(own.max, 2),
        "spread": round(own.spread, 2),
        "samples": [round(sample, 3) for sample in own.samples],
        "datagrams": len(workload.data),
        "bytes": sum(len(datagram.payload) for datagram in workload.data),
        "peers": {name: round(result.median, 2) for name, result in results.items()},
        "peer_details": {name: _describe_peer(result) for name, result in results.items()},
        "failed": dict(measurement.failed),
        "quoted": [_describe_quotation(each) for each in quoted if each.dataset == workload.name],
    }


def _describe_peer(result: Result) -> dict[str, Any]:
    return {
        "does": result.does,
        "version": result.version,
        "flows": result.flows,
        "min": round(result.min, 2),
        "max": round(result.max, 2),
        "spread": round(result.spread, 2),
        "samples": [round(sample, 3) for sample in result.samples],
    }


def _describe_quotation(quotation: Quotation) -> dict[str, Any]:
    keys = ("name", "version", "does", "ns_per_flow", "source", "noted")
    return {key: getattr(quotation, key) for key in keys}


def _describe_machine(processor: str | None) -> dict[str, Any]:
    return {
        "cpu": name_processor(),
        "instructions": processor or _core.PROCESSORS[-1],
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": _core.COMPILER,
        "flowbuf": version("flowbuf"),
    }


def _table(
    measured: Sequence[Measurement], quoted: Sequence[Quotation], width: int, processor: str | None
) -> Table:
    rows = [row for each in measured for row in _rows(each, quoted)]
    if len(rows) == len(measured):  # only flowbuf
        rows = [{heading: text for heading, text in row.items() if heading not in OF_PEERS} for row in rows]
    limited = f", instructions: {processor}" if processor else ""
    title = f"flowbuf {version('flowbuf')} on one core, {name_processor()}{limited}"
    return fit_table(title, rows, NUMBERS, DISPENSABLE, width)


def _rows(measurement: Measurement, quoted: Sequence[Quotation]) -> Iterator[dict[str, str | Text]]:
    """Yield the row of flowbuf, then the other decoders from the fastest, then the quoted figures."""
    own = measurement.results[Flowbuf.name]
    peers = [result for result in measurement.results.values() if result is not own]
    for result in [own, *sorted(peers, key=lambda result: result.median)]:
        flows = f"{result.flows:,}"
        yield {
            "dataset": measurement.workload.name if result is own else "",
            "decoder": f"{result.name} {result.version}",
            "flows": flows if result.flows == measurement.workload.flows else Text(flows, style="yellow"),
            "ns a flow": Text(_figure(result.median), style="bold" if result is own else ""),
            "least": _figure(result.min),
            "greatest": _figure(result.max),
            "million/s": _figure(1000 / result.median),
            "ratio": "" if result is own else f"{_figure(result.median / own.median)}×",
        }
    for each in quoted:
        if each.dataset == measurement.workload.name:
            yield _quoted_row(each, own)


def _quoted_row(quotation: Quotation, own: Result) -> dict[str, str | Text]:
    row = {
        "dataset": "",
        "decoder": f"{quotation.name} {quotation.version}, quoted",
        "flows": "",
        "ns a flow": _figure(quotation.ns_per_flow),
        "least": "",
        "greatest": "",
        "million/s": _figure(1000 / quotation.ns_per_flow),
        "ratio": f"({_figure(quotation.ns_per_flow / own.median)}×)",
    }
    return {heading: Text(text, style="dim") for heading, text in row.items()}


def _figure(number: float) -> str:
    """Format a number with three digits or more."""
    if number < 10:
        return f"{number:,.2f}"
    return f"{number:,.{1 if number < 1000 else 0}f}"


def _notes(
    measured: Sequence[Measurement], absent: dict[str, str], quoted: Sequence[Quotation]
) -> Iterator[Text]:
    """Yield notes below the table, one per line. The first ones describe the work of each decoder."""
    does = {result.name: result.does for each in measured for result in each.results.values()}
    if len(does) > 1:
        yield from (Text(f"{name}: {text}") for name, text in does.items())
    for each in measured:
        name, flows = each.workload.name, each.workload.flows
        for result in each.results.values():
            if result.flows != flows:
                yield Text(
                    f"{name}: {result.name} decodes {result.flows:,} flows, not {flows:,}", style="yellow"
                )
        for who, reason in each.failed.items():
            yield Text(f"{name}: {who} failed: {reason}", style="red")
    for who, reason in absent.items():
        yield Text(f"{who} is not measured: {reason}", style="dim")
    names = {each.workload.name for each in measured}
    shown = [
        f"{each.name} {each.version}: {each.does}; {each.source}, {each.noted}"
        for each in quoted
        if each.dataset in names
    ]
    for text in dict.fromkeys(shown):
        yield Text(f"quoted: {text}", style="dim")
