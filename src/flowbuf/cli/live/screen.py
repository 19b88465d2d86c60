"""The screen of the live view: functions of counters that return text for a terminal of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from flowbuf.cli.live.units import count_text, share_text, time_text
from flowbuf.cli.output.table import column_heading
from flowbuf.cli.output.terminal import clean_line
from flowbuf.collect.live import ExporterRates, LiveCounters, OutputRates
from flowbuf.collect.outputs.top_talkers import MEASURES, TopWindow
from flowbuf.schema import Column

__all__ = ["Screen", "make_screen", "share_lines"]

WIDE = 140
"""Width from which exporters and top talkers are beside each other."""

NARROW = 64
"""Width from which traffic and losses are beside each other."""

GAP = 2
TALL = 20
"""Height from which sections are separated by empty lines."""

MOST_OUTPUTS = 6
CALM = ("kernel drops", "dropped by outputs")
"""Losses that are shown even if there are none."""

QUIET_SECONDS = 10.0
NOW_SECONDS = 2.0
BAR = 6

NAMES = {0: "sFlow", 1: "NetFlow v1", 5: "NetFlow v5", 7: "NetFlow v7", 9: "NetFlow v9", 10: "IPFIX"}
LEVELS = {"warning": "yellow", "error": "bold red"}
KEYS = {"q": "quit", "space": "pause", "b": "sort by bytes", "p": "by packets", "f": "by flows"}

Cell = Text | str
Lines = list[Text]


@dataclass(frozen=True)
class Screen:
    """Everything that the live view shows.

    Attributes:
        counters: Counters and rates.
        top: Top talkers.
        measure: Measure by which they are sorted.
        condition: Condition in SQL of the flows that they include, or "".
        messages: Level and text of the last messages of the log.
        state: Word for the state of the view, such as "paused", or "".
        keys: The view reads keys.
    """

    counters: LiveCounters
    top: TopWindow
    measure: str = MEASURES[0]
    condition: str = ""
    messages: Sequence[tuple[str, str]] = field(default=())
    state: str = ""
    keys: bool = True


def make_screen(screen: Screen, width: int, height: int) -> Text:
    """Return the screen for a terminal with this number of columns and lines. No line is longer."""
    gap = _gap(height)
    above = [_title(screen, width), *gap, *_totals(screen.counters, width, height)]
    below = [_keys(screen)] if screen.keys else []
    room = height - len(above) - len(below)
    lines = [*above, *_sections(screen, width, room, height), *below][:height]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    text = Text("\n", end="").join(lines)
    text.no_wrap, text.overflow = True, "crop"
    return text


def _gap(height: int) -> Lines:
    return [Text("")] if height >= TALL else []


def share_lines(room: int, wanted: Sequence[int], least: Sequence[int]) -> list[int]:
    """Divide lines among sections.

    Each section in turn gets its least number of lines, or nothing if they do not fit. The other lines are
    divided evenly, up to the numbers that are wanted.
    """
    shares = [0] * len(wanted)
    for index, (most, few) in enumerate(zip(wanted, least, strict=True)):
        if min(most, few) <= room:
            shares[index] = min(most, few)
            room -= shares[index]
    while room:
        hungry = [index for index, share in enumerate(shares) if 0 < share < wanted[index]]
        if not hungry:
            break
        index = min(hungry, key=lambda each: (shares[each], each))
        shares[index] += 1
        room -= 1
    return shares


def _sections(screen: Screen, width: int, room: int, height: int) -> Lines:
    """Return outputs, exporters, top talkers and messages in `room` lines."""
    counters, gap = screen.counters, _gap(height)
    wide = width >= WIDE  # the top talkers are beside the exporters
    exporters = room if wide else max(counters.exporter_count, 1) + 1 + len(gap)
    messages = min(len(screen.messages), max(height // 10, 1))
    wanted = [
        min(len(counters.outputs), MOST_OUTPUTS) + 1 + len(gap),
        0 if wide else room,
        exporters,
        messages + len(gap) if messages else 0,
    ]
    shares = share_lines(room, wanted, [least + len(gap) for least in (2, 2, 2, 1)])
    sizes = [share - len(gap) for share in shares]
    lines: Lines = []
    if shares[0]:
        lines += [*gap, *_outputs(counters.outputs, width, sizes[0])]
    if shares[2]:
        lines += [*gap, *(_beside if wide else _exporters)(screen, width, sizes[2])]
    if shares[1]:
        lines += [*gap, *_top(screen, width, sizes[1])]
    if shares[3]:
        lines += [*gap, *_messages(screen.messages, sizes[3])]
    return lines + [Text("") for _ in range(room - len(lines))]


def _beside(screen: Screen, width: int, lines: int) -> Lines:
    room = width - 2 * GAP
    left = room // 2
    return _side_by_side(_exporters(screen, left, lines), left, _top(screen, room - left, lines))


def _side_by_side(left: Lines, width: int, right: Lines) -> Lines:
    for line, more in zip(left, right, strict=True):
        line.pad_right(width + 2 * GAP - line.cell_len)
        line.append_text(more)
    return left


# Tables -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    """A column of a table. Fields with a higher rank are removed first if the table does not fit.

    The heading of the first column is the title of the table. The elastic column has the rest of the width.
    """

    heading: Cell
    width: int
    rank: int = 0
    left: bool = False


def _table(
    fields: Sequence[_Field], rows: Sequence[Sequence[Cell]], width: int, lines: int, elastic: int = 0
) -> Lines:
    """Return a table of exactly `lines` lines: the headings, the rows, and empty lines."""
    shown = list(range(len(fields)))
    for index in sorted(shown, key=lambda each: -fields[each].rank):
        if sum(fields[each].width + GAP for each in shown) - GAP <= width or not fields[index].rank:
            break
        shown.remove(index)
    others = sum(fields[index].width + GAP for index in shown if index != elastic)
    widths = {index: fields[index].width for index in shown} | {elastic: max(width - others, 1)}
    headings = [_heading(fields[index].heading, "dim" if index else "bold cyan") for index in shown]
    table = [headings, *([_cell(row[index]) for index in shown] for row in rows)]
    sides = [not index or fields[index].left for index in shown]
    texts = [_line(row, [widths[index] for index in shown], sides) for row in table[:lines]]
    return texts + [Text("") for _ in range(lines - len(texts))]


def _line(cells: Sequence[Text], widths: Sequence[int], left: Sequence[bool]) -> Text:
    """Return cells, cut or padded to their widths, as one line."""
    line = Text()
    for cell, width, is_left in zip(cells, widths, left, strict=True):
        cell.truncate(width, overflow="ellipsis")
        rest = " " * (width - cell.cell_len)
        line.append("" if is_left else rest)
        line.append_text(cell)
        line.append((rest if is_left else "") + " " * GAP)
    line.right_crop(GAP)
    return line


def _cell(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(clean_line(cell))


def _heading(heading: Cell, style: str) -> Text:
    return heading if isinstance(heading, Text) else Text(heading, style)


def _more(rows: list[list[Cell]], count: int, lines: int) -> list[list[Cell]]:
    """Replace rows that do not fit by a row with their number."""
    if count < lines or lines < 3:
        return rows
    rest = count - (lines - 2)
    more: list[Cell] = [Text(f"… {rest:,} more", "dim"), *[""] * (len(rows[0]) - 1)]
    return [*rows[: lines - 2], more]


def _loss(text: str, lost: float | None) -> Text:
    return Text(text, "bold red" if lost else "")


# Sections ---------------------------------------------------------------------------------------------------


def _title(screen: Screen, width: int) -> Text:
    counters = screen.counters
    sampled = f"sampled: {share_text(counters.seen)} of flows" if counters.seen < 0.995 else ""
    notes = (screen.state, sampled, f"up {time_text(counters.seconds)}")
    right = "   ".join(note for note in notes if note)
    addresses = ", ".join(counters.addresses)
    line = Text.assemble(("flowbuf collect", "bold"), f"  {clean_line(addresses)}")
    line.truncate(max(width - len(right) - GAP, 1), overflow="ellipsis", pad=True)
    line.append(" " * GAP + right, "bold yellow" if screen.state or sampled else "")
    return line


def _totals(counters: LiveCounters, width: int, height: int) -> Lines:
    """Return the traffic and the losses, beside each other if there is room."""
    room = width - 2 * GAP
    losses = len(_rows_of_losses(counters)) + 1
    traffic = len(counters.rows) + 3
    if width < NARROW:
        return _traffic(counters, width, traffic) + _losses(counters, width, min(losses, 3))
    lines = min(max(losses, traffic), max(traffic, height // 5))
    left = min(room // 2, 36)
    return _side_by_side(
        _traffic(counters, left, lines), left, _losses(counters, min(room - left, 44), lines)
    )


def _traffic(counters: LiveCounters, width: int, lines: int) -> Lines:
    intake = counters.intake
    fields = [_Field("Traffic", 9), _Field("total", 15), _Field("per s", 8, 1)]
    received, size = intake.received + intake.messages, intake.bytes + intake.message_bytes
    name = "messages" if intake.streams else "datagrams"
    rows: list[list[Cell]] = [[name, f"{received:,}", count_text(counters.datagrams)]]
    for kind, rate in counters.rows.items():
        rows.append([kind, f"{intake.rows[kind].decoded:,}", count_text(rate)])
    rows.append(["bytes", count_text(size, "B"), count_text(counters.bytes, "B")])
    return _table(fields, rows, width, lines)


def _losses(counters: LiveCounters, width: int, lines: int) -> Lines:
    fields = [_Field("Losses", 19), _Field("total", 8), _Field("per s", 8, 1)]
    rows = _rows_of_losses(counters)
    return _table(fields, _more(rows, len(rows), lines), width, lines)


def _rows_of_losses(counters: LiveCounters) -> list[list[Cell]]:
    """Return the losses that occurred, and then those that are shown even if there are none."""
    losses = [(name, count, rate) for name, (count, rate) in counters.losses.items()]
    shown = [each for each in losses if each[1]]
    shown += [each for each in losses if not each[1] and each[0] in CALM]
    return [
        [_loss(name, count), _loss(_count_or_unknown(count), count), _loss(count_text(rate), rate)]
        for name, count, rate in shown
    ]


def _count_or_unknown(count: int | None) -> str:
    return "unknown" if count is None else count_text(count)


def _outputs(outputs: Sequence[OutputRates], width: int, lines: int) -> Lines:
    name = max((cell_len(clean_line(output.name)) for output in outputs), default=0)
    fields = [
        _Field("Outputs", max(min(name, width // 5), 8)),
        *(_Field("queue", BAR + 5, left=True), _Field("written/s", 9, 2)),
        *(_Field("stored", 8, 1), _Field("pending", 8, 3), _Field("spooled", 8, 4), _Field("filtered", 8, 5)),
        *(_Field("dropped", 8), _Field("state", 7, left=True)),
    ]
    rows = [_output(output, width) for output in outputs]
    return _table(fields, _more(rows, len(rows), lines), width, lines, elastic=len(fields) - 1)


def _output(output: OutputRates, width: int) -> list[Cell]:
    """Return the cells of an output. A narrow table has no room for the text of an error."""
    problem = clean_line(output.failing) if width >= WIDE else "failing"
    counters = output.counters
    dropped = counters.dropped.total()
    return [
        output.name,
        _queue_bar(counters.queue.queued, output.limit),
        count_text(output.written),
        count_text(counters.stored),
        count_text(counters.pending),
        count_text(counters.spooled),
        count_text(counters.filtered),
        _loss(count_text(dropped), dropped),
        Text(problem, "bold red") if output.failing else Text("ok", "green"),
    ]


def _queue_bar(queued: int, limit: int) -> Text:
    """Return a bar of BAR characters, and the share of the queue that is used."""
    share = min(queued / limit, 1.0)
    full = round(share * BAR)
    colour = ("green", "yellow", "red")[(share >= 0.5) + (share >= 0.9)]
    return Text.assemble(("█" * full, colour), ("░" * (BAR - full), "dim"), f" {share_text(share)}")


def _exporters(screen: Screen, width: int, lines: int) -> Lines:
    counters = screen.counters
    fields = [
        *(_Field(f"Exporters {counters.exporter_count:,}", 15), _Field("protocol", 10, 1, left=True)),
        *(_Field("datagrams/s", 11), _Field("flows/s", 8), _Field("missing", 14, 2)),
        _Field("last seen", 9, 3),
    ]
    rows = [_exporter(each) for each in counters.exporters[:lines]]
    if not rows:
        rows = [[Text("no datagram yet", "dim"), *[""] * 5]]
    return _table(fields, _more(rows, counters.exporter_count, lines), width, lines)


def _exporter(exporter: ExporterRates) -> list[Cell]:
    agent = f" #{exporter.sub_agent}" if exporter.sub_agent else ""
    missing = ", ".join(f"{count_text(count)} {unit}" for unit, count in exporter.lost.items() if count)
    protocol = "" if exporter.version is None else NAMES.get(exporter.version, str(exporter.version))
    late = exporter.quiet is None or exporter.quiet >= QUIET_SECONDS
    return [
        f"{exporter.address}{agent}",
        protocol,
        count_text(exporter.datagrams),
        count_text(exporter.rows.get("flows", sum(exporter.rows.values()))),
        _loss(missing or "0", missing != ""),
        Text(_seen(exporter.quiet), "yellow" if late else ""),
    ]


def _seen(quiet: float | None) -> str:
    if quiet is None:
        return "–"
    return "now" if quiet < NOW_SECONDS else time_text(quiet)


def _top(screen: Screen, width: int, lines: int) -> Lines:
    """Return the top talkers. The first column has the values of their columns, aligned."""
    top, measure = screen.top, screen.measure
    texts = [[_value(*each) for each in zip(top.columns, values, strict=True)] for values, _ in top.rows]
    heads = [f"Top {top.columns[0].name}", *(column.name for column in top.columns[1:])]
    widths = [max(map(cell_len, column)) for column in zip(heads, *texts, strict=True)]
    heading = Text(_aligned(heads, widths), "bold cyan").append(f"  {_note(screen)}", "dim not bold default")
    fields = [
        _Field(heading, 16),
        *(_measure_field(each, measure) for each in MEASURES),
        _Field("share", 5, 4),
    ]
    rows: list[list[Cell]] = [
        [
            _aligned(text, widths),
            *(count_text(sums[each] * _UNITS[each] / max(top.seconds, 1e-9)) for each in MEASURES),
            share_text(sums[measure] / max(top.totals[measure], sums[measure], 1e-9)),
        ]
        for text, (_, sums) in zip(texts, top.rows, strict=True)
    ]
    return _table(fields, rows or [[Text("no flows yet", "dim"), *[""] * 4]], width, lines)


_UNITS = {"bytes": 8, "packets": 1, "flows": 1}
_HEADS = {"bytes": "bit/s", "packets": "packets/s", "flows": "flows/s"}


def _measure_field(name: str, chosen: str) -> _Field:
    if name == chosen:
        return _Field(Text(f"▼ {_HEADS[name]}", "bold"), 11)
    return _Field(_HEADS[name], 9, 1 + MEASURES.index(name))


def _aligned(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(texts, widths, strict=True))


def _note(screen: Screen) -> str:
    """Return the flows that the top talkers include."""
    return clean_line(f"last {time_text(screen.top.seconds)}  {screen.condition}".rstrip())


def _value(column: Column, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return clean_line(value)
    return column_heading(column).render({column.name: value})


def _messages(messages: Sequence[tuple[str, str]], lines: int) -> Lines:
    return [Text(clean_line(message), LEVELS.get(level, "dim")) for level, message in messages[-lines:]]


def _keys(screen: Screen) -> Text:
    parts = [part for key, meaning in KEYS.items() for part in ((key, "bold"), (f" {meaning}   ", "dim"))]
    return Text.assemble(*parts)
