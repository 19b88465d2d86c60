"""Flows as text, one value after another: what `flowbuf read` writes as JSON lines and CSV."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowbuf.schema import Column, Schema
from flowbuf.targets.flow_text import text_renderer

__all__ = ["FlowText"]

Render = Callable[[Any], str]

_ESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_QUOTED = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029",]')
_REMOVED = '\\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"'
_FORMULA = re.compile(f"[\t\r\n]|[{_REMOVED}]*[-=+@|%\uff1d\uff0b\uff0d\uff20]")
_NUMBERS = ("int", "sint", "uint", "fixed", "float", "double", "duration")


class FlowText:
    """Formats flows of one schema, with the columns of `order` first."""

    def __init__(self, schema: Schema, order: Sequence[str] = ()) -> None:
        self._columns = schema.arrange(order)

    def json_line(self, flow: Mapping[str, Any]) -> str:
        """Return a flow as one JSON object without absent columns."""
        members = [
            f'"{column.name}":{_in_json(column)(flow[column.name])}'
            for column in self._columns
            if flow.get(column.name) is not None
        ]
        return "{" + ",".join(members) + "}"

    def key(self, flow: Mapping[str, Any]) -> str:
        """Return the texts of all columns, separated by commas."""
        return ",".join(self._cells(flow))

    def csv_line(self, flow: Mapping[str, Any], spreadsheet: bool = False) -> str:
        """Return a flow as a line of CSV."""
        cells = [
            _neutral(text) if spreadsheet and not _is_number(column) else text
            for text, column in zip(self._cells(flow), self._columns, strict=True)
        ]
        return ",".join(map(_quoted, cells)) if cells != [""] else '""'

    def _cells(self, flow: Mapping[str, Any]) -> list[str]:
        return [
            "" if flow.get(column.name) is None else text_renderer(column)(flow[column.name])
            for column in self._columns
        ]


def _in_json(column: Column) -> Render:
    one = _one_in_json(column)
    return (lambda values: "[" + ",".join(map(one, values)) + "]") if column.repeated else one


def _one_in_json(column: Column) -> Render:
    if column.type == "enum":
        names = {number: name for name, number in column.values.items()}
        return lambda number: _string(names[number]) if names.get(number) else str(number)
    if column.type == "string":
        return _string
    render = text_renderer(replace(column, repeated=False))
    if column.type in ("ip", "mac", "timestamp", "bytes"):
        return lambda value: f'"{render(value)}"'
    if column.type in ("float", "double"):
        return lambda value: render(value) if math.isfinite(value) else f'"{render(value)}"'
    return render


def _string(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _quoted(text: str) -> str:
    if not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""').replace("\0", "\ufffd") + '"'


def _neutral(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text


def _is_number(column: Column) -> bool:
    return column.type.startswith(_NUMBERS) and not column.repeated
