"""Tell readers of a topic which schema its messages have.

1. The name of the topic may contain the hash of the schema: `flows-{hash}`.
2. Kafka records of several messages have the hash in the header `flowbuf-schema`, beside `flowbuf-framing`.
   The compacted topic `flowbuf-schemas` maps a hash to a JSON object: the .proto, the descriptor, and the
   columns as in a schema file.
3. Kafka records in the wire format of a Confluent schema registry begin with the number of the .proto.
4. ClickHouse has the .proto itself in its DDL (`flowbuf.targets.clickhouse`).
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from flowbuf.errors import KafkaError, SchemaError, optional_import
from flowbuf.kafka.client import TIMEOUT, redact
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC
from flowbuf.schema import Column, Reserved, Schema, SubMessage
from flowbuf.schema.toml_json import DocumentError, parse_json

__all__ = [
    *("FRAMING_HEADER", "MAGIC", "PREFIX_SIZE", "SCHEMA_HEADER"),
    *("ForeignSchemaError", "SchemaRegistry", "describe_schema", "find_hash", "read_description"),
]

SCHEMA_HEADER = "flowbuf-schema"
FRAMING_HEADER = "flowbuf-framing"

MAGIC = b"\0"
"""First byte of a Kafka record in the wire format of a Confluent schema registry.

The number of its schema follows in 4 bytes. One more byte selects the message in the .proto: 0, the first.
"""
PREFIX_SIZE = 6
"""Bytes before the message in this format."""

_TRIES = 4  # attempts of the registry's client

_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")


def find_hash(topic: str) -> str | None:
    """Return the schema hash in the name of a topic, or None."""
    found = _HASH.findall(topic)
    return found[-1] if found else None


# Schema descriptions ----------------------------------------------------------------------------------------


def describe_schema(schema: Schema) -> bytes:
    """Return a schema as a JSON object for readers: enabled columns, .proto, descriptor."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    descriptors = FileDescriptorSet(file=[schema.file_descriptor()])
    described = {
        "hash": schema.hash,
        "name": schema.name,
        "message_name": schema.message_name,
        "rows": schema.rows,
        "framing": schema.framing,
        "reserved": _describe_reserved(schema.reserved),
        "columns": [_describe_column(column) for column in schema.enabled],
        **(
            {"messages": [_describe_message(message) for message in schema.used_messages]}
            if schema.nested
            else {}
        ),
        "proto": schema.to_proto(),
        "descriptor_set": base64.b64encode(descriptors.SerializeToString(deterministic=True)).decode(),
    }
    return json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()


def _describe_column(column: Column) -> dict[str, Any]:
    """Return a column as in a schema file, without its sources. Default values are left out."""
    needed = {key: getattr(column, key) for key in ("unit", "values", "message", "key", "value")}
    plain = Column(column.name, column.number, column.type, **needed)
    keys = (
        "group",
        "repeated",
        "explicit",
        "ip",
        "scale",
        "clickhouse",
        "doc",
        "required",
        "oneof",
        "packed",
    )
    said = {key: getattr(column, key) for key in keys if getattr(column, key) != getattr(plain, key)}
    said |= {key: value for key, value in needed.items() if value}
    return {"name": column.name, "number": column.number, "type": column.type, **said}


def _describe_reserved(reserved: Iterable[Reserved]) -> list[dict[str, Any]]:
    return [{"number": old.number, "name": old.name} for old in reserved]


def _describe_message(message: SubMessage) -> dict[str, Any]:
    columns = [_describe_column(column) for column in message.columns]
    return {"name": message.name, "reserved": _describe_reserved(message.reserved), "columns": columns}


def read_description(data: bytes, origin: str = SCHEMAS_TOPIC) -> Schema:
    """Return the schema of a description from `describe_schema`.

    Raise SchemaError if it is invalid or its hash differs.
    """
    try:
        described: dict[str, Any] = parse_json(data)
        columns, reserved = _read_columns(described, origin)
        nested = tuple(
            SubMessage(message["name"], *_read_columns(message, origin), origin)
            for message in described.get("messages", ())
        )
        names = {key: str(described[key]) for key in ("name", "message_name", "rows", "framing")}
        wanted = described["hash"]
    except SchemaError:
        raise
    except DocumentError as error:
        raise SchemaError(str(error), "check which program writes to this topic", origin=origin) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaError(
            f"is not a schema description: {error!r}",
            "check which program writes to this topic",
            origin=origin,
        ) from None
    schema = Schema(columns=columns, reserved=reserved, origin=origin, nested=nested, **names)
    if schema.hash != wanted:
        problem = f"the hash of its columns is {schema.hash}, not {wanted}"
        raise SchemaError(problem, "a newer flowbuf wrote it; update flowbuf", origin=origin)
    return schema


def _read_columns(
    described: Mapping[str, Any], origin: str
) -> tuple[tuple[Column, ...], tuple[Reserved, ...]]:
    columns = tuple(Column.from_table(table, origin) for table in described["columns"])
    return columns, tuple(Reserved(old["number"], old["name"]) for old in described["reserved"])


# Schema registry --------------------------------------------------------------------------------------------


class ForeignSchemaError(KafkaError):
    """A schema of the registry is not for Protocol Buffers."""


class SchemaRegistry:
    """A Confluent schema registry, or a compatible one.

    Args:
        url: URL of the registry. It may contain a user and a password.
        settings: Settings of the registry's client, for example `basic.auth.user.info` and `ssl.ca.location`.
        timeout: Approximate number of seconds in which the registry must answer. Default: 30.

    Raises:
        ImportError: The client of the registry is not installed (`flowbuf[registry]`).
        KafkaError: A setting is invalid, or a request failed.

    Example:
        registry = flowbuf.SchemaRegistry("http://localhost:8081")
        sink = flowbuf.KafkaSink("localhost:9092", "flows", registry=registry)
    """

    def __init__(self, url: str, settings: Mapping[str, Any] | None = None, timeout: float = TIMEOUT) -> None:
        with optional_import("a schema registry needs the client of confluent-kafka", "flowbuf[registry]"):
            from confluent_kafka.schema_registry import SchemaRegistryClient
        self._settings = {"url": url, **(settings or {})}
        self.name = re.sub(r"//[^/]*@", "//", url)
        try:
            numbers = {"timeout": timeout / _TRIES, **_numbers(self._settings)}
            self._open = functools.partial(SchemaRegistryClient, {**self._settings, **numbers})
            self._open().close()  # check the settings
        except Exception as error:  # errors of settings and certificate files have no common base class
            raise self._error(error) from None

    def register(self, subject: str, schema: Schema) -> bytes:
        """Register the .proto of a schema if the registry does not have it.

        The compatibility rule of the registry decides if it accepts a changed .proto.

        Args:
            subject: Name in the registry, for example "flows-value".
            schema: Schema to register.

        Returns:
            bytes: Prefix of each Kafka record, 6 bytes.

        Raises:
            KafkaError: The registry rejected the .proto, or did not answer.
        """
        from confluent_kafka.schema_registry import Schema as Text

        try:
            with self._open() as client:
                number = client.register_schema(subject, Text(schema.to_proto(), "PROTOBUF"))
        except Exception as error:  # errors of the registry, of HTTP and of sockets have no common base class
            raise self._error(error, f"{subject}: ") from None
        return MAGIC + int(number).to_bytes(4, "big") + b"\0"

    def find(self, number: int) -> str:
        """Return the .proto with a number.

        Raises:
            ForeignSchemaError: The schema with this number is no .proto, but of Avro or JSON Schema.
            KafkaError: The registry does not have the number, or did not answer.
        """
        try:
            with self._open() as client:
                schema = client.get_schema(number)
        except Exception as error:
            raise self._error(error, f"schema {number}: ") from None
        if schema.schema_type != "PROTOBUF":
            raise ForeignSchemaError(f"schema {number} of the registry is {schema.schema_type}, not PROTOBUF")
        return str(schema.schema_str)

    def _error(self, error: Exception, what: str = "") -> KafkaError:
        """Return an error without secrets. Do not chain the client's error, which may contain them."""
        names = [
            str(self._settings.get("basic.auth.user.info", "")),
            *re.findall(r"//([^/]*)@", self._settings["url"]),
        ]
        names += [unquote(name) for name in names]
        passwords = {f"password {name}": name.partition(":")[2] for name in names}
        text = redact(
            str(error), {**self._settings, **{f"credential {name}": name for name in names}, **passwords}
        )
        if isinstance(error, json.JSONDecodeError) or getattr(error, "error_code", 0) == -1:
            answer = " ".join(text.split())[:200]
            text = f"the server is not a registry, or the path of the URL is wrong: {answer}"
        return KafkaError(f"schema registry {self.name}: {what}{text}")


def _numbers(settings: Mapping[str, Any]) -> dict[str, float]:
    """Return the settings that the registry's client accepts only as numbers.

    The command line passes text.
    """
    names = ("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.capacity")
    return {name: float(settings[name]) for name in names if name in settings}
