"""Names from options data, read before the flows that need them."""

from __future__ import annotations

from typing import Any

from flowbuf import _core
from flowbuf.schema import Schema

__all__ = ["name_columns", "only_names"]

_EXPORTER, _DOMAIN = ("address", "sub_agent", "session"), ("version", "id", "port")


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
    named: list[dict[str, Any]] = []
    for exporter in exporters:
        domains = [_choose(domain, *_DOMAIN, "names") for domain in exporter["domains"] if domain["names"]]
        if domains:
            named.append(_choose(exporter, *_EXPORTER))
            named[-1]["domains"] = domains
    return named


def _choose(entry: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in keys}
