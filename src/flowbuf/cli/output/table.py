"""Print flows as an aligned table with only the columns that occur and that fit the terminal.

Flows arrive in blocks. The first block determines columns and widths. A later block that does not fit gets a
new heading, which keeps the columns of earlier blocks, so that headings soon stop changing.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

from flowbuf.cli.counters import COUNTER_WORDS, SECTIONS, count_rows, section_of, section_schema
from flowbuf.cli.output.terminal import clean_line
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Column, Schema
from flowbuf.schema.column import fold
from flowbuf.targets.flow_text import format_address, is_number, text_renderer
from flowbuf.targets.protocols import describe_icmp, describe_protocol, describe_tcp_flags

__all__ = ["CounterTable", "FlowTable", "Heading", "RowTable", "column_heading"]

Flow = Mapping[str, Any]
Cells = Mapping["Heading", list[str]]
GAP = "  "
ARROW = "→ "
MAX_TITLE = 8  # of a name in one line

# Columns by importance. On a narrow terminal, these are removed last.
IMPORTANCE = (
    *(
        "source",
        "destination",
        "src_addr",
        "dst_addr",
        "bytes",
        "exporter_address",  # above the table if there is one exporter
        "packets",
        "proto",
        "time",
        "src_port",
        "dst_port",
    ),
    *("time_received", "tcp_flags"),
    *("tunnel", "in_if", "out_if", "src_as", "dst_as", "sampling_rate"),
    *(name for section in SECTIONS.values() for name in section),
)
# Columns that often have one value for all flows. It is then printed once, above the table.
CONTEXT = {
    "date": "{}",
    "exporter_address": "exporter {}",
    "flow_type": "{}",
    "sampling_rate": "sampling {}",
    "flow_direction": "{}",
    "observation_domain_id": "domain {}",
    "sample_kind": "{}",
}

TUNNEL = ("tunnel_src_addr", "tunnel_dst_addr", "tunnel_id")  # one column of the table
# Columns with the type and the code of an ICMP message, or numbers from which they follow.
ICMP = ("proto", "src_port", "dst_port", "icmp_type", "icmp_code")
# Numbers that are shown as words.
LEFT = {"proto", "tcp_flags", "forwarding_status", "if_status", "drop_reason", "source_id_type"}

BOLD, DIM = Style(bold=True), Style(dim=True)


class RowTable:
    """Write rows as a table with these headings, block by block.

    On a terminal, it has the terminal's width and styles. In other outputs, it has every column that occurs.

    Args:
        file: Open output file.
        headings: Columns of the table.
        to_terminal: The output is a terminal.
        count_text: Function that returns the text for a number of rows.
        as_asked: As in `Layout`.
    """

    def __init__(
        self,
        file: OutputFile,
        headings: Sequence[Heading],
        to_terminal: bool,
        count_text: Callable[[int], str],
        as_asked: bool = False,
    ) -> None:
        self.count = 0
        self._file = file
        self._headings = headings
        self._count_text = count_text
        self._layout = Layout(shutil.get_terminal_size().columns if to_terminal else None, as_asked)
        self._to_terminal = to_terminal
        self._has_style = to_terminal and not Console().is_dumb_terminal

    @property
    def hidden(self) -> list[str]:
        """Columns that do not fit."""
        return [heading.name for heading in self._layout.hidden]

    def write(self, flows: Sequence[Flow], heading: bool = False) -> None:
        """Write a block of rows. With `heading`, print a new heading even if the last one still fits."""
        if not flows:
            return
        self.count += len(flows)
        cells = {heading: [heading.render(flow) for flow in flows] for heading in self._headings}
        if self._layout.fit(cells) or heading:
            self._print_heading()
        self._file.write("".join(self._layout.lines(cells)).encode())

    def finish(self) -> None:
        """Print the number of rows, and the columns that did not fit."""
        self.summarize(self.count, self.hidden)

    def summarize(self, count: int, hidden: Sequence[str]) -> None:
        """Print the last line, on a terminal."""
        if not self._to_terminal or not count:
            return
        notes = [self.describe_count(count)]
        if hidden:
            notes.append("no room for " + ", ".join(hidden))
        self._file.write(f"\n{self._styled('; '.join(notes), DIM)}\n".encode())

    def describe_count(self, count: int) -> str:
        """Return the text for a number of rows."""
        return self._count_text(count)

    def _print_heading(self) -> None:
        layout = self._layout
        lines = [self._styled(" · ".join(layout.context_texts()), DIM)] if layout.context else []
        lines += [self._styled(line, BOLD) for line in layout.heading_lines()]
        above = "\n" if self._to_terminal else ""
        self._file.write((above + "\n".join(lines) + "\n").encode())

    def _styled(self, text: str, style: Style) -> str:
        return style.render(text) if self._has_style else text


class FlowTable(RowTable):
    """Write flows as a table. The last line on a terminal has the sums of packets and bytes.

    Args:
        file: Open output file.
        schema: Schema of the flows.
        to_terminal: The output is a terminal.
        order: Columns that the user named. They come first, in this order, each in a column of its own, even
            if all values are absent. Default: a choice of columns, in the order of the table.
    """

    def __init__(
        self, file: OutputFile, schema: Schema, to_terminal: bool, order: Sequence[str] = ()
    ) -> None:
        headings = list(map(column_heading, schema.arrange(order))) if order else make_headings(schema)
        super().__init__(file, headings, to_terminal, functools.partial(count_rows, schema), bool(order))
        summed = ("packets", "bytes") if to_terminal else ()
        enabled = {column.name: column for column in schema.enabled}
        self._sums = {name: 0 for name in summed if is_number(enabled.get(name))}

    def write(self, flows: Sequence[Flow], heading: bool = False) -> None:
        """Write a block of rows, as in `RowTable`."""
        for name in self._sums:
            self._sums[name] += sum(flow.get(name, 0) for flow in flows)
        super().write(flows, heading)

    def describe_count(self, count: int) -> str:
        """Return the number of flows, and their sums."""
        sums = (f"{total:,} {name}" for name, total in self._sums.items())
        return ", ".join([super().describe_count(count), *sums])


class CounterTable:
    """Write counter and drop samples as tables.

    Hosts, interfaces and discarded packets have different columns, so each block becomes up to three tables.
    """

    def __init__(self, file: OutputFile, schema: Schema, to_terminal: bool) -> None:
        self.count = 0
        self._tables = {name: FlowTable(file, section_schema(schema, name), to_terminal) for name in SECTIONS}
        self._last = ""

    def write(self, rows: Sequence[Flow]) -> None:
        """Write a block of samples."""
        self.count += len(rows)
        sections: dict[str, list[Flow]] = {}
        for row in rows:
            sections.setdefault(section_of(row), []).append(row)
        for name, part in sections.items():
            self._tables[name].write(part, heading=name != self._last)
            self._last = name

    def finish(self) -> None:
        """Print the number of samples, and the columns that did not fit."""
        tables = list(self._tables.values())
        hidden = dict.fromkeys(name for table in tables for name in table.hidden)
        tables[0].summarize(self.count, list(hidden))


@dataclass(frozen=True)
class Heading:
    """A column of the table. `render` returns its text for a flow, or an empty text."""

    name: str
    render: Callable[[Flow], str]
    right: bool = False

    @functools.cached_property
    def title(self) -> tuple[str, str]:
        """Name in two lines. A long name is cut at the underscore that makes it narrowest."""
        cuts = [match.end() for match in re.finditer("_", self.name)] if len(self.name) > MAX_TITLE else []
        cut = min(cuts, key=lambda cut: max(cut, len(self.name) - cut), default=0)
        return self.name[:cut], self.name[cut:]

    def align(self, text: str, width: int) -> str:
        """Pad a text to a width in terminal cells."""
        room = " " * (width - measure(text))
        return room + text if self.right else text + room


class Layout:
    """Select the columns of a table, and their widths.

    Args:
        width: Width of the terminal in cells. None without a terminal.
        as_asked: Print nothing above the table, and remove columns from the end if they do not fit. Default:
            False.
    """

    def __init__(self, width: int | None, as_asked: bool = False) -> None:
        self._as_asked = as_asked
        self.context: dict[Heading, str] = {}
        self.hidden: list[Heading] = []
        self._width = width
        self._widths: dict[Heading, int] = {}
        self._shown: list[Heading] = []
        self._second: Heading | None = None  # shown below the first column if it does not fit beside it

    def fit(self, cells: Cells) -> bool:
        """Adapt the layout to a block. Return True if anything changed."""
        before = (dict(self.context), dict(self._widths))
        for heading, texts in cells.items():
            if not self._keeps_context(heading, texts):
                width = max(map(measure, texts))
                if width or self._as_asked:
                    known = self._widths.get(heading, max(map(len, heading.title)))
                    self._widths[heading] = max(width, known)
        if (self.context, self._widths) == before:
            return False
        self._choose([heading for heading in cells if heading in self._widths])
        return True

    def _keeps_context(self, heading: Heading, texts: list[str]) -> bool:
        """Return True if all texts are equal and can stay above the table."""
        if self._as_asked or heading.name not in CONTEXT or heading in self._widths:
            return False
        same = texts[0] if all(text == texts[0] for text in texts) else ""
        known = self.context.get(heading, same)
        if same and known == same:
            self.context[heading] = same
            return True
        if self.context.pop(heading, ""):
            self._widths[heading] = max(map(len, heading.title))
        return False

    def _choose(self, headings: list[Heading]) -> None:
        """Select the most important columns, as many as fit."""
        wanted = headings[:] if self._as_asked else sorted(headings, key=importance)
        self._second = self._find_second(wanted)
        if self._second:
            wanted.remove(self._second)
            first = wanted[0]
            self._widths[first] = max(self._widths[first], self._widths[self._second] + len(ARROW))
        room = self._width
        chosen: set[Heading] = set()
        for heading in wanted:
            taken = self._widths[heading] + (len(GAP) if chosen else 0)
            if room is None or taken <= room or not chosen:
                chosen.add(heading)
                room = None if room is None else room - taken
        self._shown = [heading for heading in headings if heading in chosen]
        self.hidden = [heading for heading in wanted if heading not in chosen]

    def _find_second(self, wanted: list[Heading]) -> Heading | None:
        names = [heading.name for heading in wanted[:3]]
        if self._width is None or self._as_asked or names[:2] != ["source", "destination"]:
            return None
        needed = sum(self._widths[heading] + len(GAP) for heading in wanted[:3]) - len(GAP)
        return wanted[1] if needed > self._width else None

    def context_texts(self) -> list[str]:
        """Return the texts that apply to all flows."""
        return [CONTEXT[heading.name].format(text) for heading, text in self.context.items()]

    def heading_lines(self) -> list[str]:
        """Return the names of the columns."""
        shown = [*self._shown, *filter(None, [self._second])]
        lines = self._rows({heading: list(heading.title) for heading in shown})
        return [line for line in lines if line.strip(" →")]

    def lines(self, cells: Cells) -> list[str]:
        """Return the lines of a block of flows."""
        return [line + "\n" for line in self._rows(cells)]

    def _rows(self, cells: Mapping[Heading, Sequence[str]]) -> list[str]:
        columns = [
            [heading.align(text, self._widths[heading]) for text in cells[heading]] for heading in self._shown
        ]
        rows = [GAP.join(row).rstrip() for row in zip(*columns, strict=True)]
        if not self._second:
            return rows
        return [
            line for row, text in zip(rows, cells[self._second], strict=True) for line in (row, ARROW + text)
        ]


_RANKS = {fold(name): rank for rank, name in reversed([*enumerate(IMPORTANCE)])}


def importance(heading: Heading) -> int:
    """Return the rank of a column. Columns with a smaller rank are removed later."""
    return _RANKS.get(fold(heading.name), len(IMPORTANCE))


def measure(text: str) -> int:
    """Return the width of a text in terminal cells."""
    return len(text) if text.isascii() else cell_len(text)


# Columns of the table ---------------------------------------------------------------------------------------


def make_headings(schema: Schema) -> list[Heading]:
    """Return the possible columns of a schema's table, in the order of the table."""
    enabled = {column.name: column for column in schema.enabled}
    headings: list[Heading] = []
    if "time_received" in enabled and enabled["time_received"].type == "timestamp":
        headings += _time_headings(enabled.pop("time_received"))
    for name, side in (("source", "src"), ("destination", "dst")):
        if f"{side}_addr" in enabled and enabled[f"{side}_addr"].type == "ip":
            del enabled[f"{side}_addr"]
            enabled.pop(f"{side}_port", None)
            icmp = side == "dst" and all(is_number(schema[each]) for each in ICMP if each in schema)
            headings.append(Heading(name, _endpoint(f"{side}_addr", f"{side}_port", icmp)))
    first = [enabled.pop(name) for name in ("proto", "tcp_flags", "packets", "bytes") if name in enabled]
    headings += [column_heading(column) for column in first]
    if [enabled.pop(name) for name in TUNNEL if name in enabled]:
        headings.append(Heading("tunnel", _tunnel))
    return headings + [column_heading(column) for column in enabled.values()]


def _time_headings(column: Column) -> list[Heading]:
    render = text_renderer(column)

    def part(flow: Flow, begin: int, end: int | None) -> str:
        return render(flow[column.name])[begin:end].rstrip("Z") if column.name in flow else ""

    return [
        Heading("date", lambda flow: part(flow, 0, 10)),
        Heading("time", lambda flow: part(flow, 11, None)),
    ]


def _endpoint(address: str, port: str, icmp: bool) -> Callable[[Flow], str]:
    """Return a function for an address with its port: 192.0.2.1:53, [2001:db8::1]:53.

    With `icmp`, the name of an ICMP message takes the place of the port: 192.0.2.1 echo-request.
    """

    def render(flow: Flow) -> str:
        text = format_address(flow[address]) if address in flow else ""
        if icmp and (message := _icmp_message(flow)):
            return f"{text} {message}"
        if port not in flow:
            return text
        return f"[{text}]:{flow[port]}" if ":" in text else f"{text}:{flow[port]}"

    return render


def _icmp_message(flow: Flow) -> str:
    """Return the name of an ICMP message, or "" if the type is unknown.

    Some exporters write type and code in place of the destination port, with source port 0. ICMPv6 has no
    type 0, so a smaller number is not both.
    """
    protocol = flow.get("proto", 0)
    both = flow.get("icmp_type", 0) << 8 | flow.get("icmp_code", 0)
    if not both and not flow.get("src_port"):
        both = flow.get("dst_port", 0)
    if not both or (protocol == 58 and both < 256):
        return ""
    return describe_icmp(protocol, both)


def _tunnel(flow: Flow) -> str:
    """Return the ends of a tunnel and its id: 192.0.2.1 → 192.0.2.2 #5000."""
    source, destination, number = TUNNEL
    parts = [format_address(flow[source])] if source in flow else []
    parts += [ARROW + format_address(flow[destination])] if destination in flow else []
    parts += [f"#{flow[number]}"] if number in flow else []
    return " ".join(parts)


def column_heading(column: Column) -> Heading:
    """Return the heading of one column."""
    name = column.name
    number = is_number(column)
    render: Callable[[Any], str] = (number and _SPECIAL.get(name)) or text_renderer(column)
    if number and name == "etype":
        return Heading(name, _ethertype)
    if column.type == "timestamp":
        plain = render
        render = lambda value: plain(value).replace("T", " ").rstrip("Z")  # noqa: E731
    elif column.type in ("string", "enum"):
        plain = render
        render = lambda value: clean_line(plain(value))  # noqa: E731
    return Heading(
        name, lambda flow: render(flow[name]) if name in flow else "", right=number and name not in LEFT
    )


def _ethertype(flow: Flow) -> str:
    """Return the Ethernet type. It is empty for IP with an address column, which shows the version."""
    value = flow.get("etype", 0)
    return "" if not value or (value in (0x0800, 0x86DD) and "src_addr" in flow) else f"0x{value:04x}"


def _status(value: int) -> str:
    """Return the forwarding status (RFC 7270 section 4.12).

    The upper two bits are the status, the others the reason.
    """
    what = ("unknown", "forwarded", "dropped", "consumed")[value >> 6 & 3]
    return f"{what} {value}" if value & 63 else what


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "proto": describe_protocol,
    "tcp_flags": describe_tcp_flags,
    "packets": "{:,}".format,
    "bytes": "{:,}".format,
    "sampling_rate": "1:{}".format,
    "forwarding_status": _status,
    **COUNTER_WORDS,
}
