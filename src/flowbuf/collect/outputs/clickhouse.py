"""An output that inserts flows into a table of ClickHouse, as `flowbuf consume --clickhouse` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flowbuf.clickhouse.sink import ClickHouseSink
from flowbuf.schema import Schema
from flowbuf.targets.clickhouse_tables import TableOptions

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ClickHouseOutput"]

INSERT_FLOWS = 100_000
"""Flows per insert at high rates. Otherwise, there is one insert per second."""

TIMEOUT = 30.0
PATIENCE = 5.0
"""Seconds in which an insert is repeated. Afterwards, the output tries again with the same token."""


class ClickHouseOutput:
    """Insert flows into a table of ClickHouse. Implements `Output`.

    Batches are collected for up to a second, because ClickHouse prefers few large inserts. An insert that
    fails is repeated with the same token, so that its flows are stored once. Meanwhile, up to two inserts
    wait here, and others in the queue of the output.

    Each entry of the spool is an insert of its own. Its token is the same if the entry is delivered again
    after a restart, so its flows are stored once then too.

    Args:
        url: URL of the server: see `ClickHouseSink`.
        schema: Schema of the flows.
        table: Name of the table. Default: that of `TableOptions`.
        on_problem: Function that receives a text for each temporary problem.
        spool: Identity of the spool of this output. Default: none.

    Raises:
        ImportError: clickhouse-connect is not installed (`flowbuf[clickhouse]`).
        ValueError: the URL is invalid.
    """

    def __init__(
        self,
        url: str,
        schema: Schema,
        table: str = "",
        on_problem: Callable[[str], None] = lambda text: None,
        spool: str = "",
    ) -> None:
        options = TableOptions(table=table)
        self._sink = ClickHouseSink(url, options, timeout=TIMEOUT, patience=PATIENCE, on_problem=on_problem)
        self._schema = schema
        self._spool = spool
        self._instance = os.urandom(8).hex()
        self._number = 0  # of the next insert without an entry of the spool
        self._token = ""  # of the insert that waits
        self._batches: list[Any] = []
        self._closed = False  # the insert that waits must not get other flows, which its token does not cover
        self.stored = 0
        self.pending = 0
        self.lost: Mapping[str, int] = {}

    def write(self, batch: pyarrow.RecordBatch, number: int | None = None) -> None:
        """Collect the flows of a batch, and insert them if there are enough."""
        spooled = number is not None and self._spool != ""
        if self.pending and (spooled or self._closed or self.pending >= INSERT_FLOWS):
            self._insert()
        if spooled:
            self._token, self._closed = f"flowbuf-{self._spool}-{number}", True
        elif not self._batches:
            self._token = f"flowbuf-{self._instance}-{self._number}"
            self._number += 1
        self._batches.append(batch)
        self.pending += batch.num_rows

    def tick(self) -> None:
        """Insert the flows that wait."""
        if self.pending:
            self._insert()

    def _insert(self) -> None:
        """Insert the flows that wait. After an error, they still wait, and get the same token."""
        self._closed = True
        self._sink.insert(self._schema, self._batches, self._token)
        self.stored += self.pending
        self._batches, self.pending, self._closed = [], 0, False

    def close(self) -> None:
        """Insert the flows that wait, and close the connection."""
        if self.pending:
            self._insert()
        self._sink.close()
