"""A deliberate data race. ThreadSanitizer must report it; otherwise `make sanitize-threads` proves nothing.

One thread counts unknown fields without the GIL. The other reads the counter.
"""

from __future__ import annotations

import threading

from flowbuf import _core
from flowbuf.arrow.batch import new_table_type
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan


def main() -> None:
    schema = Schema.load("flow")
    reader = _core.MessageTables(new_table_type(schema, compile_plan(schema)), 1 << 20)
    message = bytes.fromhex("f8ff0701")  # field 16383, which no column uses
    data = (bytes([len(message)]) + message) * 300_000
    thread = threading.Thread(target=reader.read, args=(data, []))
    thread.start()
    seen = 0
    while thread.is_alive():
        seen = reader.unknown_fields
    thread.join()
    print(f"{seen:,} of {reader.unknown_fields:,} fields were seen")


if __name__ == "__main__":
    main()
