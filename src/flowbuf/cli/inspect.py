"""`flowbuf inspect`: summarize the content of a capture."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from flowbuf._core import STATUSES
from flowbuf.cli.inputs import check_inputs, expand_inputs
from flowbuf.cli.options import CaptureOptions, exporter_options
from flowbuf.cli.output.console import StdoutConsole, fit_table, new_table
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.report import Report, count_things
from flowbuf.cli.output.streams import is_terminal, print_text, standard_output
from flowbuf.cli.output.terminal import cut_line, escape_line
from flowbuf.cli.state import check_known_state
from flowbuf.cli.survey.file import survey_file
from flowbuf.errors import CaptureError
from flowbuf.io.statuses import LOSSES, sort_counters
from flowbuf.targets.flow_text import escape_json

__all__ = ["inspect"]

CLASS_STYLES = {"fault": "red", "loss": "yellow", "note": "dim"}
WIDTH_IN_A_PIPE = 160
NUMBERS = (
    "datagrams",
    "bytes",
    "flows",
    "options",
    "templates",
    "lost",
    "errors",
    "of",
    "share",
    "late",
    "restarts",
)
SPARED_OF_EXPORTERS = ("bytes", "templates", "options", "protocol", "datagrams")
SAMPLE_WIDTH = 40
"""Largest width of a value in the table of fields, in characters."""
SPARED_OF_SEQUENCES = ("protocol", "restarts", "late")


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON object with all information. Several captures are a list of objects.",
)
@exporter_options
def inspect(captures: tuple[str, ...], as_json: bool, decoding: CaptureOptions) -> None:
    """Summarize captures: exporters, templates, sampling, losses.

    Losses are computed from sequence numbers, in the unit of each protocol: flows (NetFlow v5, v7), packets
    (NetFlow v9), records (IPFIX), datagrams and samples (sFlow). Losses before the first and after the last
    datagram are unknown. They do not change the exit status.

    The fields of data templates are listed as sources for columns of your own schema. Each has a value from
    the capture, if one is found, and the columns of the schema flow that it fills. In the list of a template,
    fields that fill no column are in brackets. stdin has no values.

    CAPTURE is pcap, pcapng, an IPFIX file or a file of nfcapd, plain, gzip or zstd, or a pattern; - is stdin.
    Each is summarized separately, with its own templates. The exit status is 1 if any data is malformed or
    cannot be decoded.

    \b
    Examples:
      flowbuf inspect capture.pcap
      flowbuf inspect 'captures/*.pcap.gz'
      flowbuf inspect capture.pcapng.gz --port 2055
      flowbuf inspect today.pcap --state exporters.state
      flowbuf inspect capture.pcap --json | jq '.exporters[].domains[].templates[].id'
      flowbuf inspect capture.pcap --json | jq -r '.fields[] | select(.columns == []) | .source'
    """
    paths = expand_inputs(captures)
    check_inputs(paths)
    check_known_state(decoding.state)
    report = Report()
    surveys = []
    for path in paths:
        try:
            survey = survey_file(path, decoding, report)
        except CaptureError as error:
            if len(paths) == 1:
                raise Failure(str(error)) from error
            report.add_problem(str(error))
            continue
        surveys.append(survey)
        if not as_json:
            _print_tables(survey)
        if any(name in LOSSES for _, name, _ in _all_counters(survey)):
            report.status = 1
    if as_json:
        shown: Any = surveys if len(paths) > 1 else surveys[0]
        print_text(escape_json(json.dumps(shown, indent=2, ensure_ascii=False)))
    sys.exit(report.status)


def _print_tables(survey: dict[str, Any]) -> None:
    console = StdoutConsole(width=None if is_terminal(sys.stdout) else WIDTH_IN_A_PIPE)
    with standard_output():
        for part in _tables(survey, console.width):
            console.print(part)


def _all_counters(survey: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield (owner, name, count), those of the capture first."""
    without_exporter = Counter(survey["capture"]["counters"]) + Counter(survey["other"]["counters"])
    owners = [("capture", without_exporter)]
    owners += [(_exporter_name(exporter), exporter["counters"]) for exporter in survey["exporters"]]
    for who, counters in owners:
        for name, count in sort_counters(counters):
            yield who, name, count


def _exporter_name(exporter: dict[str, Any]) -> str:
    name: str = exporter["address"]
    return f"{name}#{exporter['sub_agent']}" if exporter["sub_agent"] else name


# The tables -------------------------------------------------------------------------------------------------


def _tables(survey: dict[str, Any], width: int) -> Iterator[Any]:
    yield _capture_text(survey["capture"])
    if survey["exporters"]:
        yield _exporters_table(survey["exporters"], width)
    sequences = [row for exporter in survey["exporters"] for row in _uneven_sequences(exporter)]
    if sequences:
        yield fit_table("Sequence numbers", sequences, NUMBERS, SPARED_OF_SEQUENCES, width)
    for exporter in survey["exporters"]:
        for domain in exporter["domains"]:
            if domain["templates"] or domain["samplers"] or domain["selection_sequences"]:
                yield _domain_table(exporter, domain)
    if survey["fields"]:
        yield _fields_table(survey["fields"])
    counters = list(_all_counters(survey))
    if counters:
        yield _counters_table(counters)


def _amounts_text(capture: dict[str, Any]) -> str:
    """Return the amounts of packets and datagrams. Files without packets have messages and no ports."""
    link_types = ", ".join(dict.fromkeys(capture["link_types"]))
    if capture["packets"] and not link_types:
        return count_things(capture["packets"], "message")
    packets = count_things(capture["packets"], "packet") + (f" ({link_types})" if link_types else "")
    datagrams = count_things(capture["datagrams"], "UDP datagram")
    ports = [str(port) for port in capture["ports"]]
    if ports:
        datagrams += f" to port{'s' if len(ports) > 1 else ''} "
        datagrams += f"{', '.join(ports[:8])}{', …' if len(ports) > 8 else ''}"
    return f"{packets}, {datagrams}"


def _capture_text(capture: dict[str, Any]) -> Text:
    lines = [f"{capture['bytes']:,} bytes, {_amounts_text(capture)}"]
    if capture["first"]:
        times = [_readable_time(capture[key]) for key in ("first", "last")]
        lines.append(" to ".join(dict.fromkeys(times)) + " UTC")
    text = Text(f"\n{escape_line(capture['name'])}\n", style="bold")
    return text.append("".join(f"{line}\n" for line in lines), style="not bold")


def _readable_time(text: str) -> str:
    """Shorten a time to milliseconds."""
    return text.replace("T", " ")[:23]


def _exporters_table(exporters: list[dict[str, Any]], width: int) -> Table:
    rows = [_exporter_row(exporter) for exporter in exporters]
    return fit_table("Exporters", rows, NUMBERS, SPARED_OF_EXPORTERS, width)


def _exporter_row(exporter: dict[str, Any]) -> dict[str, str | Text]:
    errors = sum(count for name, count in exporter["counters"].items() if name in LOSSES)
    return {
        "exporter": _exporter_name(exporter),
        "protocol": ", ".join(exporter["protocols"]),
        "datagrams": f"{exporter['datagrams']:,}",
        "bytes": f"{exporter['bytes']:,}",
        "flows": f"{exporter['flows']:,}",
        "options": f"{exporter['options_records']:,}",
        "templates": f"{exporter['templates_received']:,}",
        "lost": _worst_loss(exporter),
        "errors": Text(f"{errors:,}", style="red" if errors else ""),
        "sampling": ", ".join(f"1:{rate}" for rate in exporter["sampling_rates"]) or "unknown",
    }


def _sequences(exporter: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, dict[str, int]]]:
    """Yield (domain, unit, amounts) of every numbering."""
    for domain in exporter["domains"]:
        sequence = domain["sequence"]
        if sequence["unit"]:
            yield domain, sequence["unit"], sequence
        if "samples" in sequence:
            yield domain, "samples", sequence["samples"]


def _uneven_sequences(exporter: dict[str, Any]) -> Iterator[dict[str, str | Text]]:
    """Yield a row for each numbering with lost, late or restarted numbers."""
    for domain, unit, amounts in _sequences(exporter):
        if amounts["lost"] or amounts["late"] or amounts["restarts"]:
            yield {
                "exporter": _exporter_name(exporter),
                "protocol": domain["protocol"],
                "domain": _domain_name(domain),
                "lost": _dim_zero(f"{amounts['lost']:,}"),
                "of": f"{amounts['expected']:,} {unit}",
                "share": _dim_zero(_share(amounts["lost"], amounts["expected"])),
                "late": _dim_zero(f"{amounts['late']:,}"),
                "restarts": _dim_zero(f"{amounts['restarts']:,}"),
            }


def _dim_zero(text: str) -> Text:
    return Text(text, style="dim" if text == "0" else "")


def _domain_name(domain: dict[str, Any]) -> str:
    if domain["protocol"] == "NetFlow v5":
        return f"engine {domain['id'] >> 8}/{domain['id'] & 0xFF}"
    return "" if domain["protocol"] in ("sFlow v5", "NetFlow v7") else str(domain["id"])


def _share(lost: int, expected: int) -> str:
    """Return the share as a percentage. A nonzero loss is never 0 %, and an incomplete one is never 100 %."""
    if not lost:
        return "0"
    percent = 100 * lost / expected
    if percent < 0.01:
        return "<0.01%"
    if 99 < percent < 100:
        return ">99%"
    if percent < 1:
        return f"{percent:.2f}%"
    return f"{percent:.{1 if percent < 10 else 0}f}%"


def _worst_loss(exporter: dict[str, Any]) -> Text:
    """Return the highest loss of any numbering of the exporter, or an empty text if it numbers nothing."""
    shares = [
        (amounts["lost"], amounts["expected"])
        for _, _, amounts in _sequences(exporter)
        if amounts["expected"]
    ]
    if not shares:
        return Text("")
    lost, expected = max(shares, key=lambda share: share[0] / share[1])
    return Text(_share(lost, expected), style="yellow" if lost else "")


def _name_sequence(sequence: dict[str, Any]) -> str:
    ids = sequence["selectors"]
    noun = "selector" if len(ids) == 1 else "selectors"
    return f"selection sequence {sequence['id']}: {noun} {', '.join(map(str, ids)) or 'unknown'}"


def _name_sampler(sampler: dict[str, int]) -> str:
    return f"sampler {sampler['id']} " + (f"1:{sampler['rate']}" if sampler["rate"] else "without a rate")


def _domain_table(exporter: dict[str, Any], domain: dict[str, Any]) -> Table:
    title = [f"{_exporter_name(exporter)}, {domain['protocol']}, domain {domain['id']}"]
    if domain["port"] is not None:
        title[0] += f", port {domain['port']}"
    if domain["samplers"]:
        title.append(", ".join(map(_name_sampler, domain["samplers"])))
    title.extend(map(_name_sequence, domain["selection_sequences"]))
    if domain["system_init"]:
        title.append(f"running since {_readable_time(domain['system_init']).rstrip('Z')} UTC")
    elif domain["protocol"] == "IPFIX" and any(map(_needs_start, domain["templates"])):
        title.append("start unknown, no flow times")
    table = new_table(
        "; ".join(title),
        "template",
        "kind",
        "bytes",
        "fields",
        numbers=("template", "bytes"),
        wraps="fields",
    )
    for template in domain["templates"]:
        size = "variable" if template["record_size"] is None else str(template["record_size"])
        table.add_row(str(template["id"]), template["kind"], size, _fields_text(template["fields"]))
    return table


def _needs_start(template: dict[str, Any]) -> bool:
    """Return True if a template has times in uptime (21, 22) and not the exporter's start (160)."""
    ids = {field["id"] for field in template["fields"] if not field["pen"]}
    return template["kind"] == "data" and not ids.isdisjoint({21, 22}) and 160 not in ids


def _fields_text(fields: list[dict[str, Any]]) -> Text:
    """Return field names with sizes in bytes. A bar separates the scope fields, which come first.

    Fields of data templates that fill no column are in brackets.
    """
    text = Text()
    for i, each in enumerate(fields):
        if i:
            text.append(" | " if fields[i - 1]["scope"] and not each["scope"] else ", ")
        plain = f"{each['pen']}/{each['id']}" if each["pen"] else str(each["id"])
        used = each.get("used", True)
        text.append("" if used else "(")
        text.append(each["name"] or plain, style="cyan" if each["scope"] else "")
        text.append(":variable" if each["size"] is None else f":{each['size']}", style="dim")
        text.append("" if used else ")")
    return text


def _fields_table(fields: list[dict[str, Any]]) -> Table:
    table = new_table("Fields", "source", "sample", "columns", wraps="columns")
    for each in fields:
        sample = cut_line(each["sample"] or "", SAMPLE_WIDTH)
        table.add_row(each["source"], sample, ", ".join(each["columns"]))
    return table


def _counters_table(counters: list[tuple[str, str, int]]) -> Table:
    table = new_table(
        "Counters", "where", "count", "what", "class", "meaning", numbers=("count",), wraps="meaning"
    )
    for who, name, count in counters:
        kind, text = STATUSES[name]
        table.add_row(who, f"{count:,}", name, Text(kind, style=CLASS_STYLES.get(kind, "")), text)
    return table
