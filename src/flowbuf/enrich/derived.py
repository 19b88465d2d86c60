"""Columns computed from other columns of the same flow."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flowbuf.enrich.flows import Flows
from flowbuf.enrich.icmp import icmp_name
from flowbuf.enrich.lookup import Distinct, Lookup
from flowbuf.schema import Schema

__all__ = ["DERIVED", "Derived"]

# Lower bounds of the ranges of packet sizes: powers of two, with smaller steps for common sizes, and one
# above the usual MTU.
BOUNDS = (0, 64, 128, 256, 512, 768, 1024, 1280, 1501, 2048, 3072, 4096, 8192, 10240, 16384, 32768, 65536)


class Recipe(NamedTuple):
    """Computation of a column.

    `make` turns plain arrays into the column, or into keys if there is `find`. `find` turns each distinct key
    into a value.
    """

    needs: tuple[str, ...]
    make: Callable[..., Any]
    find: Callable[..., Any] | None = None


class Derived:
    """Fills the columns listed in `derive`."""

    def __init__(self, names: tuple[str, ...], schema: Schema) -> None:
        self.provides = tuple(name for name in DERIVED if name in names)
        self.needs = tuple(dict.fromkeys(need for name in self.provides for need in DERIVED[name].needs))
        self._lookups = {
            name: Lookup([schema[name]], find)
            for name in self.provides
            if (find := _finder(DERIVED[name])) is not None
        }

    def fill(self, flows: Flows) -> None:
        """Fill absent values of a batch. If an input column is absent, the derived column is absent too."""
        for name in self.provides:
            inputs = [flows.get(need) for need in DERIVED[name].needs]
            lacking = flows.to_fill(name)
            if lacking is None or any(array is None for array in inputs):
                continue
            values = DERIVED[name].make(*inputs)
            if name in self._lookups:
                values = self._lookups[name].find(values).column(0)
            if values is not None:
                flows.fill(name, lacking, values)


def _finder(recipe: Recipe) -> Callable[[Any], tuple[Any, ...]] | None:
    find = recipe.find
    return None if find is None else lambda key: (find(key),)


def packet_size(total: Any, packets: Any) -> Any:
    """Return the average size of a packet in bytes; 0 if the number of packets is 0 or unknown."""
    some = pc.fill_null(pc.greater(packets, 0), False)
    sizes = pc.divide(total, pc.if_else(some, packets, pa.scalar(1, packets.type)))
    return pc.fill_null(pc.if_else(some, sizes, pa.scalar(0, total.type)), 0)


def packet_size_bucket(size: int) -> str | None:
    """Return the range of a packet size, such as "512-767"."""
    if not size:
        return None
    i = bisect.bisect(BOUNDS, size)
    return f"{BOUNDS[i - 1]}-{BOUNDS[i] - 1}" if i < len(BOUNDS) else f"{BOUNDS[-1]}-inf"


def item(i: int) -> Callable[[Any], Any]:
    """Return a function that takes item `i` of each list; 0 if there is no such item."""

    def take(lists: Any) -> Any:
        there = pc.fill_null(pc.greater(pc.list_value_length(lists), i), False)
        places = pc.if_else(
            there, pc.add(lists.offsets[: len(lists)], i), pa.scalar(None, lists.offsets.type)
        )
        return pc.fill_null(lists.values.take(places), 0)

    return take


DERIVED = {
    "packet_size": Recipe(("bytes", "packets"), packet_size),
    "packet_size_bucket": Recipe(
        ("bytes", "packets"),
        lambda total, packets: Distinct.of(packet_size(total, packets)),
        packet_size_bucket,
    ),
    "icmp_name": Recipe(
        ("proto", "icmp_type", "icmp_code"),
        lambda proto, type, code: Distinct.of(proto).join(type).join(code),
        lambda key: icmp_name(*key),
    ),
    **{f"dst_{word}_as": Recipe(("dst_as_path",), item(i)) for i, word in enumerate(("1st", "2nd", "3rd"))},
    **{
        f"mpls_{word}_label": Recipe(("mpls_labels",), item(i))
        for i, word in enumerate(("1st", "2nd", "3rd", "4th"))
    },
}
