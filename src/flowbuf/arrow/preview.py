"""Short descriptions of batches and streams: `repr`, and tables for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flowbuf.targets.flow_text import NUMBERS, text_renderer

if TYPE_CHECKING:
    from flowbuf.arrow.batch import FlowBatch

__all__ = ["PREVIEW_ROWS", "describe_columns", "preview_html"]

PREVIEW_ROWS = 10
"""Number of flows in a preview."""
NAMED_COLUMNS = 6
"""Largest number of column names in `repr`."""


def describe_columns(names: Sequence[str]) -> str:
    """Return the number and the first names of columns: "27 columns: time_received, src_addr, …"."""
    count = "1 column" if len(names) == 1 else f"{len(names)} columns"
    shown = list(names[:NAMED_COLUMNS])
    if len(names) > NAMED_COLUMNS:
        shown.append("…")
    return f"{count}: {', '.join(shown)}" if names else count


def preview_html(title: str, flows: FlowBatch | None) -> str:
    """Return a description as HTML, with a table of some flows.

    Without pyarrow, or with None instead of flows, there is only the description.
    """
    from html import escape

    heading = f"<p><code>{escape(title)}</code></p>"
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return heading
    return heading + (_table(flows) if flows is not None and flows.columns else "")


def _table(flows: FlowBatch) -> str:
    from html import escape

    from flowbuf.arrow.rows import RowReader

    batch = flows.text().to_arrow()
    reader = RowReader(flows._schema)
    columns = []
    for name in flows.columns:
        column = flows._schema[name]
        render = text_renderer(column)
        if column.type in ("ip", "mac"):
            render = " ".join if column.repeated else str
        values = reader.read_column(batch.column(name), column)
        texts = ["" if value is None else escape(render(value)) for value in values]
        align = ' style="text-align: right"' if column.type in NUMBERS else ""
        columns.append([f"<td{align}>{text}</td>" for text in texts])
    head = "".join(f"<th>{escape(name)}</th>" for name in flows.columns)
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
