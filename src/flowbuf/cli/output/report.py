"""Report problems on stderr, and derive the exit status from them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from flowbuf._core import STATUSES
from flowbuf.cli.output.terminal import escape_line
from flowbuf.cli.signals import INTERRUPTED
from flowbuf.decoder import Decoder
from flowbuf.errors import DecodeError
from flowbuf.io.statuses import LOSSES, Counters, sort_counters
from flowbuf.schema import elements

__all__ = [
    "REVERSE_PEN",
    "Report",
    "count_by_exporter",
    "count_things",
    "describe_fault",
]

MAX_LINES = 20  # of one input
MAX_COLUMNS = 5  # per line
MAX_ELEMENTS = 3  # of a column

REVERSE_PEN = 29305  # RFC 5103: the element of the same id, of the other direction
VARIABLE = 0xFFFF  # RFC 7011 section 7

# Notes that are printed without --verbose: values that their column cannot hold.
VALUES_LEFT_OUT = ("bad_field_size", "bad_list", "out_of_range")


def count_things(count: int, noun: str) -> str:
    """Return a number with its noun: `1 packet`, `1,024 packets`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def count_by_exporter(decoder: Decoder) -> dict[str, dict[str, int]]:
    """Return the counters of each exporter by address.

    An empty address has those of datagrams without an exporter.
    """
    counters = {exporter: dict(stats["counters"]) for exporter, stats in decoder.stats.items()}
    counters[""] = dict(decoder.read_other()["counters"])
    return counters


def _read_fields(decoder: Decoder) -> list[tuple[str, int, int, int]]:
    """Return (kind, enterprise number, element, size in bytes) of all fields of data templates.

    The kind is "ipfix" or "netflow9".
    """
    fields = {
        ("netflow9" if domain["version"] == 9 else "ipfix", *field)
        for exporter in decoder.read_exporters()
        for domain in exporter["domains"]
        for template in domain["templates"].values()
        if not template["options"]
        for field in template["fields"]
    }
    return sorted(fields)


def _name_elements(decoder: Decoder, column: str, fields: Sequence[tuple[str, int, int, int]]) -> str:
    """Return the elements that fill a column, for example " (ipfix:61 flowDirection, 2 bytes)"."""
    sources = {
        (source.kind, source.pen, source.id)
        for schema in decoder.schemas
        if column in schema
        for rank in schema[column].sources
        for source in rank
    }
    texts = []
    for kind, pen, id, size in fields:
        element = (0 if pen == REVERSE_PEN else pen, id)
        if sources.isdisjoint({("ipfix", *element), (kind, *element)}):
            continue
        name = f"{kind}:{pen}/{id}" if pen else f"{kind}:{id}"
        if known := elements.by_number(pen, id):
            name += f" {known.name}"
        texts.append(f"{name}, {'variable length' if size == VARIABLE else f'{size} bytes'}")
    more = " or others" if len(texts) > MAX_ELEMENTS else ""
    return f" ({' or '.join(texts[:MAX_ELEMENTS])}{more})" if texts else ""


def describe_fault(name: str, error: DecodeError) -> str:
    """Return the error of a strict decoder as one line."""
    text = STATUSES[error.status][1] if error.status in STATUSES else str(error)
    place = "" if error.offset is None else f"byte {error.offset}: "
    return f"{name}: {error.exporter}: {place}{error.status}: {text}"


class Report:
    """Collect the problems of the inputs of one command, and print one line each.

    Faults and losses set the exit status to 1. Notes are printed only on request, except those of
    VALUES_LEFT_OUT.
    """

    def __init__(self, notes: bool = False) -> None:
        self.status = 0
        self.notes = notes
        self._before: dict[str, dict[str, int]] = {}
        self._left_out: dict[str, int] = {}

    def add_problem(self, text: str) -> None:
        """Report a problem that is not a counter, and set the exit status to 1."""
        self.status = 1
        self.add_note(text)

    def add_interrupt(self, rows: str) -> None:
        """Report Ctrl-C, and the number of rows that were still written."""
        self.status = INTERRUPTED
        self.add_note(f"interrupted: {rows} written")

    def add_note(self, text: str) -> None:
        """Print a note without changing the exit status.

        click.echo would write into the line of a progress bar, so print() is used. The text is escaped here,
        because a progress bar captures stderr and interprets styles in it.
        """
        print(f"flowbuf: {escape_line(text)}", file=sys.stderr)

    def add_counters(self, name: str, counters: Counters) -> None:
        """Report the counters of a capture whose datagrams are not decoded."""
        for line in self._lines(name, counters):
            self.add_note(line)

    def add_input(self, name: str, decoder: Decoder, capture: Counters) -> None:
        """Report the counts of a decoder since the last input, and the counters of the capture."""
        lines = self._lines(name, capture)
        after = count_by_exporter(decoder)
        for exporter, counters in after.items():
            before = self._before.get(exporter, {})
            new = {status: count - before.get(status, 0) for status, count in counters.items()}
            lines += self._lines(f"{name}: {exporter}" if exporter else name, new)
        self._before = after
        lines += self._list_columns(name, decoder)
        for line in lines[:MAX_LINES]:
            self.add_note(line)
        if len(lines) > MAX_LINES:
            self.add_note(f"{name}: {len(lines) - MAX_LINES} more such lines; flowbuf inspect shows all")

    def _list_columns(self, name: str, decoder: Decoder) -> list[str]:
        """Return a line with the columns that could not hold values since the last input.

        The line begins with the most frequent column, and names the template elements that fill each.
        """
        left_out = decoder.read_left_out()
        new = {column: count - self._left_out.get(column, 0) for column, count in left_out.items()}
        self._left_out = left_out
        columns = [column for column in sorted(new, key=lambda column: -new[column]) if new[column]]
        if not columns:
            return []
        fields = _read_fields(decoder)
        counts = [
            f"{column} {new[column]}{_name_elements(decoder, column, fields)}"
            for column in columns[:MAX_COLUMNS]
        ]
        more = f" and {len(columns) - MAX_COLUMNS} more" if len(columns) > MAX_COLUMNS else ""
        return [f"{name}: values left out, by column: {', '.join(counts)}{more}"]

    def _lines(self, who: str, counters: Counters) -> list[str]:
        lines = []
        for name, count in sort_counters({name: count for name, count in counters.items() if count}):
            if name in LOSSES:
                self.status = 1
            elif not self.notes and name not in VALUES_LEFT_OUT:
                continue
            lines.append(f"{who}: {count} {name}: {STATUSES[name][1]}")
        return lines
