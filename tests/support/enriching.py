"""Batches of flows for tests of enrichment, and functions to load and read them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from flowbuf import Schema
from flowbuf.enrich import Pipeline, load_enrichments
from flowbuf.enrich.columns import absent, conform
from flowbuf.targets.arrow import arrow_type
from tests.support import mmdb

FLOW = Schema.load("flow")


def ip(text: str | None) -> bytes | None:
    """Return an address as flows have it."""
    if text is None:
        return None
    address = ipaddress.ip_address(text)
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def flows(**columns: Iterable[Any]) -> pa.RecordBatch:
    """Return a batch of these columns. Addresses are texts, None is absent."""
    arrays = {}
    for name, given in columns.items():
        column = FLOW[name]
        values = [ip(value) for value in given] if column.type == "ip" else list(given)
        if column.type == "enum":
            arrays[name] = conform(pa.array(values, pa.string()), column, arrow_type(column))
        else:
            arrays[name] = pa.array(values, arrow_type(column))
    return pa.RecordBatch.from_pydict(arrays)


def said(batch: pa.RecordBatch, *names: str) -> list[Any]:
    """Return the values of one column, or tuples of the values of several."""
    columns = [batch.column(name).to_pylist() for name in names]
    return columns[0] if len(names) == 1 else list(zip(*columns, strict=True))


def load(folder: Path, text: str, **options: Any) -> Pipeline:
    """Load the pipeline of one file."""
    path = folder / "net.toml"
    path.write_text(text)
    return load_enrichments([path], FLOW, **options)


def write_databases(folder: Path) -> None:
    """Write the databases that the example in docs/how-to/enrichment.md names."""
    city = {"203.0.113.0/24": {"country": {"iso_code": "FR"}, "city": {"names": {"en": "Lyon"}}}}
    (folder / "GeoLite2-City.mmdb").write_bytes(mmdb.database(city, "GeoLite2-City"))
    asn = {"203.0.113.0/24": {"autonomous_system_number": 65001}}
    (folder / "GeoLite2-ASN.mmdb").write_bytes(mmdb.database(asn, "GeoLite2-ASN"))


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def absent_column(name: str, length: int) -> Any:
    """Return a column of the schema without values."""
    return absent(FLOW[name], arrow_type(FLOW[name]), length)
