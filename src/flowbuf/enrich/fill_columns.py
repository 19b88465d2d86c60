"""Fill columns of a batch with the results of a lookup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flowbuf.enrich.flows import Flows
from flowbuf.enrich.lookup import Found

__all__ = ["fill_columns"]


def fill_columns(
    flows: Flows, names: Sequence[str], find: Callable[[], Found], replace: bool = False
) -> None:
    """Fill absent values of columns with the results of `find`, in the order of `names`.

    If no value is absent, `find` is not called. With `replace`, results also replace present values.
    """
    lacking = [
        (i, name, rows) for i, name in enumerate(names) if (rows := flows.to_fill(name, replace)) is not None
    ]
    if not lacking:
        return
    found = find()
    for i, name, rows in lacking:
        values = found.column(i)
        if values is not None:
            flows.fill(name, flows.where_present(rows, values) if replace else rows, values)
