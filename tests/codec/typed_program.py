"""A program with types from end to end: `test_types.py` runs it, and checks it with mypy and pyright."""

from __future__ import annotations

import asyncio
import datetime
import enum
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import flowbuf


class State(enum.Enum):
    OPEN = 0
    PAID = 1


@dataclass
class Line:
    name: str
    price: float
    count: Annotated[int, "pieces"] = 1


@dataclass
class Order:
    id: int
    state: State = State.OPEN
    lines: list[Line] = field(default_factory=list[Line])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    placed: datetime.datetime | None = None
    coupon: str | None = None


@dataclass
class Total:
    id: int
    lines: list[Line]

    def price(self) -> float:
        return sum(line.price * line.count for line in self.lines)


def orders(count: int) -> Iterator[Order]:
    for number in range(count):
        yield Order(number, State.PAID, [Line("tea", 2.5, number)], {"to": "ana"})


async def echo(codec: flowbuf.Codec[Order], sent: list[Order]) -> list[Order]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await codec.write_async(writer, codec.read_async(reader))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        reader, writer = await asyncio.open_connection(host, port)
        await codec.write_async(writer, sent)
        writer.write_eof()
        received = [order async for order in codec.read_async(reader)]
        writer.close()
    return received


def main() -> None:
    codec = flowbuf.Codec.from_class(Order)
    order: Order = codec.decode(codec.encode(Order(7, lines=[Line("tea", 2.5, 2)])))
    total: Total = codec.decode(codec.encode(order), Total)
    print(order.state.name, total.price())
    path = Path(tempfile.mkdtemp()) / "orders.pb.gz"
    written: int = codec.write(path, orders(1000))
    with codec.read(path) as reader:
        names = [line.name.upper() for each in reader for line in each.lines]
    with codec.read(path, Total, invalid="skip") as totals:
        print(written, len(names), max(each.price() for each in totals))
    print(len(asyncio.run(echo(codec, list(orders(10))))))
    plain = flowbuf.Codec.load("telemetry")
    device: dict[str, object] = plain.decode(plain.encode({"device_id": "a1"}))
    print(device["device_id"], codec.decode_json('{"id": "3"}').id, codec.has(order, "coupon"))


if __name__ == "__main__":
    main()
