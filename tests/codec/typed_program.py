"""A program with types from end to end: `test_types.py` runs it, and checks it with mypy and pyright."""

import asyncio
import enum
import socket
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, NamedTuple

import flowbuf

State = enum.Enum("State", {"OPEN": 0, "PAID": 1})


class Line(NamedTuple):
    name: str
    price: float
    amount: Annotated[int, "pieces"] = 1


@dataclass
class Order:
    id: int
    state: State = State.OPEN
    lines: list[Line] = field(default_factory=list[Line])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    placed: datetime | None = None
    coupon: str | None = None


class Total(NamedTuple):
    id: int
    lines: list[Line]

    def price(self) -> float:
        return sum(line.price * line.amount for line in self.lines)


async def echo(codec: flowbuf.Codec[Order], sent: list[Order]) -> None:
    (reader, writer), (source, target) = [await asyncio.open_connection(sock=s) for s in socket.socketpair()]
    await codec.write_async(writer, sent)
    writer.write_eof()
    await codec.write_async(target, codec.read_async(source))
    target.close()
    objects = codec.read_async(reader)
    print(len([(await anext(objects)).id, *[each.id async for each in objects]]))
    writer.close()


codec = flowbuf.Codec.from_class(Order)
order: Order = codec.decode(codec.encode(Order(7, lines=[Line("tea", 2.5, 2)], notes={"to": "ana"})))
total: Total = codec.decode(codec.encode(order), Total)
written: int = codec.write("orders.pb.gz", (Order(i, State.PAID, [Line("tea", 2.5, i)]) for i in range(1000)))
with codec.read("orders.pb.gz") as reader, codec.read("orders.pb.gz", Total, invalid="skip") as totals:
    names = [next(reader).lines[0].name, *(line.name.upper() for each in reader for line in each.lines)]
    print(order.state.name, total.price(), written, len(names), max(each.price() for each in totals))
asyncio.run(echo(codec, list(codec.read("orders.pb.gz"))[:10]))
plain = flowbuf.Codec.load("telemetry")
device: dict[str, object] = plain.decode(plain.encode({"device_id": "a1"}))
print(device["device_id"], codec.decode_json('{"id": "3"}').id, codec.has(order, "coupon"))
