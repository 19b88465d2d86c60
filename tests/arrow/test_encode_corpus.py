"""google.protobuf parses the messages that `flowbuf encode` writes.

It uses the .proto file beside the messages, compiled by protoc, and the class of `message_class()`.
No message has unknown fields. The values equal those that `flowbuf read -f jsonl` prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_tools import protoc

from flowbuf.schema import Column, Schema
from tests.support.cases import slow
from tests.support.command import flowbuf

FLOW = Schema.load("flow")
SCHEMAS = {
    "default": (FLOW, []),
    "every-column": (
        FLOW.enable(*(column.name for column in FLOW)),
        ["--enable", ",".join(c.name for c in FLOW)],
    ),
}
SHIPPED = Path(__file__).parents[1] / "data"
NO_FLOWS = "netflow9-data-late-template"  # its data precedes the template
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.fixture(params=["shipped", "corpus"])
def captures(request: pytest.FixtureRequest) -> list[Path]:
    folder = SHIPPED if request.param == "shipped" else request.getfixturevalue("corpus")
    found = sorted(folder.glob("*.pcap"))
    assert len(found) >= 7
    return found


@pytest.mark.parametrize("variant", ["default", *slow("every-column")])
def test_google_protobuf_parses_the_values_that_read_prints(
    variant: str, captures: list[Path], tmp_path: Path
) -> None:
    schema, options = SCHEMAS[variant]
    for capture in captures:
        output = tmp_path / f"{capture.stem}.pb"
        assert flowbuf("encode", capture, "-o", output, *options).exit_code in (0, 1)
        compiled = compile_proto(
            output.with_name(output.name + ".proto"), f"flowbuf.{schema.name.capitalize()}"
        )
        printed = [
            json.loads(line) for line in flowbuf("read", capture, "-f", "jsonl", *options).stdout.splitlines()
        ]
        assert printed or capture.stem == NO_FLOWS
        data = output.read_bytes()
        for message_class in (compiled, schema.message_class()):
            messages = list(parse_stream(data, message_class))
            for message in messages:
                assert not UnknownFieldSet(message), capture.name
            assert [convert(message, schema) for message in messages] == printed, capture.name
        reread = flowbuf("read", output, "-f", "jsonl", *options)
        assert [json.loads(line) for line in reread.stdout.splitlines()] == printed


def test_the_proto_file_beside_the_messages_describes_the_schema(
    captures: list[Path], tmp_path: Path
) -> None:
    output = tmp_path / "flows.pb"
    flowbuf("encode", captures[0], "-o", output, "--enable", "group:l2")
    assert (tmp_path / "flows.pb.proto").read_text() == FLOW.enable("group:l2").to_proto()


# Conversion that shares no code with flowbuf ----------------------------------------------------------------


def compile_proto(proto: Path, message: str) -> type[Message]:
    """Compile a .proto file with protoc and return the class of a message."""
    descriptors = proto.with_suffix(".descriptors")
    command = ["protoc", f"-I{proto.parent}", f"--descriptor_set_out={descriptors}", str(proto)]
    assert protoc.main(command) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))


def parse_stream(data: bytes, message_class: type[Message]) -> Iterator[Message]:
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            size |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if byte < 0x80:
                break
        yield message_class.FromString(data[at : at + size])
        at += size


def convert(message: Message, schema: Schema) -> dict[str, Any]:
    """Return the fields of a message as `flowbuf read -f jsonl` prints them."""
    fields = {}
    for field, value in message.ListFields():
        column = schema[field.name]
        fields[column.name] = (
            [convert_value(each, column) for each in value]
            if column.repeated
            else convert_value(value, column)
        )
    return fields


def convert_value(value: Any, column: Column) -> Any:
    if column.type == "ip":
        address = ip_address(bytes(value))
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).compressed
    if column.type == "mac":
        return ":".join(f"{value >> shift & 255:02x}" for shift in range(40, -8, -8))
    if column.type == "timestamp":
        per_second = UNITS[str(column.unit)]
        time = EPOCH + timedelta(seconds=value // per_second)
        digits = len(str(per_second)) - 1
        return f"{time:%Y-%m-%dT%H:%M:%S}" + (f".{value % per_second:0{digits}d}" if digits else "") + "Z"
    if column.type == "enum":
        return next((name for name, number in column.values.items() if number == value), value)
    return value.hex() if column.type == "bytes" else value
