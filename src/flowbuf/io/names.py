"""Names from options data, read before the flows that need them."""

from __future__ import annotations

from typing import Any

from flowbuf import _core
from flowbuf.schema import Schema

__all__ = ["name_columns", "only_names"]


def name_columns(schema: Schema) -> list[str]:
    """Return the enabled columns that take names from options data or counter samples."""
    return [
        column.name
        for column in schema.enabled
        if any(source.text in _core.NAME_SOURCES for rank in column.sources for source in rank)
    ]


def only_names(exporters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the names in the state of exporters, in the form that `Decoder.restore_exporters` takes.

    Args:
        exporters: Result of `Decoder.read_exporters`.
    """
    named = []
    for exporter in exporters:
        domains = [_named(domain) for domain in exporter["domains"] if domain["names"]]
        if domains:
            kept = {key: exporter[key] for key in ("address", "sub_agent", "session") if key in exporter}
            named.append({**kept, "domains": domains})
    return named


def _named(domain: dict[str, Any]) -> dict[str, Any]:
    return {key: domain[key] for key in ("version", "id", "port", "names")}
