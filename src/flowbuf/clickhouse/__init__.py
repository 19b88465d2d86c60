"""ClickHouse in this process (`Local`), and a sink that inserts over HTTP (`flowbuf.clickhouse.sink`)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowbuf.clickhouse.local import (
        KafkaOptions,
        Local,
        TableOptions,
        drop_ddl,
        insert_query,
        migration,
        to_ddl,
        to_text,
    )

__all__ = [
    "KafkaOptions",
    "Local",
    "TableOptions",
    "drop_ddl",
    "insert_query",
    "migration",
    "to_ddl",
    "to_text",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'flowbuf.clickhouse' has no attribute {name!r}")
    return getattr(importlib.import_module("flowbuf.clickhouse.local"), name)  # the sink does not need it
