"""Measure nested messages to Arrow columns and back, beside ptars.

python -m benchmarks.messages.columns [TYPE]...

TYPE is `record`, records of the built-in schema, or `order`, orders with a customer, lines and lists. Both
contestants take turns with the same messages. The table has medians of processor time in nanoseconds per
message, half the interquartile range as a share, and the ratio to flowbuf. ptars takes and returns one bytes
object per message, and flowbuf a stream.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from typing import Any

import ptars
import pyarrow
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from benchmarks.lab.families import FAMILIES
from benchmarks.messages.json_text import Work, summarize
from flowbuf import Codec, _core

ROUNDS = 15
MESSAGES = 20_000

ONE, MANY = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED
ORDER = {
    "Line": [
        ("sku", Field.TYPE_STRING, ONE),
        ("quantity", Field.TYPE_INT32, ONE),
        ("price", Field.TYPE_DOUBLE, ONE),
    ],
    "Customer": [
        ("id", Field.TYPE_UINT64, ONE),
        ("name", Field.TYPE_STRING, ONE),
        ("email", Field.TYPE_STRING, ONE),
    ],
    "Order": [
        ("id", Field.TYPE_UINT64, ONE),
        ("customer", "Customer", ONE),
        ("lines", "Line", MANY),
        ("tags", Field.TYPE_STRING, MANY),
        ("total", Field.TYPE_DOUBLE, ONE),
        ("codes", Field.TYPE_INT32, MANY),
    ],
}


def order_class() -> Any:
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    for name, fields in ORDER.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, label) in enumerate(fields, 1):
            of = {"type_name": f".shop.{kind}"} if isinstance(kind, str) else {}
            type = Field.TYPE_MESSAGE if of else kind
            message.field.add(name=field, number=number, type=type, label=label, **of)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def orders() -> tuple[Codec, list[bytes]]:
    """Return the codec of orders, and random ones."""
    kind, rng, messages = order_class(), random.Random(1), []
    for number in range(MESSAGES):
        order = kind(id=number, total=rng.random())
        order.customer.id = number
        order.customer.name, order.customer.email = f"Customer {number}", f"c{number}@example.com"
        for _ in range(rng.randrange(1, 6)):
            order.lines.add(
                sku=f"sku-{rng.randrange(1000)}", quantity=rng.randrange(1, 100), price=rng.random()
            )
        order.tags.extend(["a", "web"][: rng.randrange(3)])
        order.codes.extend(range(rng.randrange(5)))
        messages.append(order.SerializeToString())
    return Codec(kind), messages


def records() -> tuple[Codec, list[bytes]]:
    codec = Codec.load("record")
    messages = [codec.encode(record) for record in FAMILIES["record"].records]
    return codec, (messages * (MESSAGES // len(messages) + 1))[:MESSAGES]


TYPES = {"record": records, "order": orders}


def contestants(codec: Codec, messages: list[bytes]) -> dict[str, dict[str, Work]]:
    """Return the work of each contestant by direction: one pass over all messages."""
    stream = _core.join_messages(messages)
    columns = codec.read_columns(stream)
    handler = ptars.HandlerPool([codec.descriptor.file]).get_for_message(codec.descriptor)
    table, batch = columns.to_arrow(), handler.list_to_record_batch(messages)
    assert codec.encode_columns(table) == stream
    return {
        "to columns": {
            "flowbuf": lambda: [pyarrow.record_batch(each) for each in columns],
            "ptars": lambda: handler.list_to_record_batch(messages),
        },
        "from columns": {
            "flowbuf": lambda: codec.encode_columns(table),
            "ptars": lambda: handler.record_batch_to_array(batch),
        },
    }


def measure(works: dict[str, Work]) -> dict[str, list[float]]:
    """Return the times of each contestant in nanoseconds per message. They take turns, in both orders."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(ROUNDS + 1):  # the first round warms up
        for name in [*works][:: -1 if number % 2 else 1]:
            began = time.process_time()
            works[name]()
            if number:
                times[name].append((time.process_time() - began) / MESSAGES * 1e9)
    return times


def main(*types: str) -> None:
    print(f"{'type':<10}{'direction':<14}{'contestant':<13}{'ns':>8}{'spread':>8}{'ratio':>8}")
    for name in types or tuple(TYPES):
        for direction, works in contestants(*TYPES[name]()).items():
            times = measure(works)
            own = statistics.median(times["flowbuf"])
            for contestant, samples in times.items():
                median, spread = summarize(samples)
                ratio = median / own
                print(f"{name:<10}{direction:<14}{contestant:<13}{median:>8,.0f}{spread:>8.1%}{ratio:>8.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
