"""Flows as text, one value after another: what `flowbuf read` writes as JSON lines and CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowbuf.cli.output.csv_rows import csv_line, neutralize
from flowbuf.schema import Column, Schema
from flowbuf.targets.flow_text import is_number, text_renderer, to_json_string

__all__ = ["FlowText"]

Render = Callable[[Any], str]


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
        return ",".join(self.cells(flow))

    def csv_line(self, flow: Mapping[str, Any], spreadsheet: bool = False) -> str:
        """Return a flow as a line of CSV."""
        return csv_line(
            neutralize(text) if spreadsheet and not is_number(column) else text
            for text, column in zip(self.cells(flow), self._columns, strict=True)
        )

    def cells(self, flow: Mapping[str, Any]) -> list[str]:
        """Return the text of every column. An absent one is empty."""
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
        return lambda number: to_json_string(names[number]) if names.get(number) else str(number)
    if column.type == "string":
        return to_json_string
    render = text_renderer(replace(column, repeated=False))
    if column.type in ("ip", "mac", "timestamp", "bytes"):
        return lambda value: f'"{render(value)}"'
    if column.type in ("float", "double"):
        return lambda value: render(value) if math.isfinite(value) else f'"{render(value)}"'
    return render
