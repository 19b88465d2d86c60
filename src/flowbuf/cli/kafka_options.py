"""Options that all Kafka commands share: brokers, client settings, and the place of schemas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click

from flowbuf.cli.options import Number, UsageProblem
from flowbuf.cli.output.columnar import need
from flowbuf.cli.output.streams import open_errors
from flowbuf.errors import KafkaError
from flowbuf.kafka.client import TIMEOUT, Note, Notes, read_settings, split_settings
from flowbuf.kafka.dead_letters import DeadLetters
from flowbuf.kafka.schema_registry import SchemaRegistry
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC, parse_schema_topic

__all__ = ["KafkaOptions", "kafka_options"]


@dataclass(frozen=True)
class KafkaOptions:
    """Options of the brokers, as the user has set them.

    `registry_settings` are those of the registry's client.
    """

    servers: str
    settings: dict[str, str] = field(default_factory=dict, repr=False)
    registry_url: str | None = field(default=None, repr=False)
    registry_settings: dict[str, str] = field(default_factory=dict, repr=False)
    schema_topic: str | None = SCHEMAS_TOPIC
    timeout: float = TIMEOUT

    def open_registry(self) -> SchemaRegistry | None:
        """Return the registry of --schema-registry.

        Raise UsageProblem if its client is missing, and KafkaError.
        """
        if self.registry_url is None:
            return None
        need("confluent_kafka.schema_registry", "registry", "--schema-registry")
        return SchemaRegistry(self.registry_url, self.registry_settings, self.timeout)

    def arguments(self, note: Note) -> dict[str, Any]:
        """Return the arguments that `KafkaSource` and `KafkaSink` share.

        Raise UsageProblem if the client of the registry is missing, and KafkaError.
        """
        return {
            "registry": self.open_registry(),
            "schema_topic": self.schema_topic,
            "settings": self.settings,
            "timeout": self.timeout,
            "on_problem": note,
        }

    def open_letters(self, topic: str, note: Note) -> DeadLetters:
        """Return the writer of Kafka records that cannot be decoded. Raise KafkaError."""
        return DeadLetters(self.servers, topic, self.settings, self.timeout, Notes(note, self.settings))


_OPTIONS = [
    click.option(
        "--kafka", "servers", required=True, metavar="HOST:PORT,...", help="Connect to these brokers first."
    ),
    click.option(
        "-X",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a librdkafka property; schema.registry.* sets properties of the registry's client.",
    ),
    click.option(
        "--kafka-config",
        metavar="FILE",
        help="Read settings from this file, one NAME=VALUE per line. Keep secrets there.",
    ),
    click.option(
        "--schema-registry", "registry_url", metavar="URL", help="Use this Confluent schema registry."
    ),
    click.option(
        "--schema-topic",
        default=SCHEMAS_TOPIC,
        show_default=True,
        metavar="T",
        help="Store schema descriptions in this topic, or look them up there; 'none' disables it.",
    ),
    click.option(
        "--timeout",
        type=Number(0, min_open=True),
        default=TIMEOUT,
        show_default=True,
        metavar="SECONDS",
        help="Wait this long for the first answer of a broker.",
    ),
]


def kafka_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of brokers to a command, which receives them as `kafka: KafkaOptions`."""

    @functools.wraps(command)
    def with_kafka(
        *args: Any,
        servers: str,
        pairs: tuple[str, ...],
        kafka_config: str | None,
        registry_url: str | None,
        schema_topic: str,
        timeout: float,
        **rest: Any,
    ) -> Any:
        need("confluent_kafka", "kafka", "--kafka")
        settings = _read_file(kafka_config) | dict(map(_split_pair, pairs))
        ours, theirs = split_settings(settings)
        topic = parse_schema_topic(schema_topic)
        options = KafkaOptions(servers, ours, registry_url, theirs, topic, timeout)
        return command(*args, kafka=options, **rest)

    for option in reversed(_OPTIONS):
        with_kafka = option(with_kafka)
    return with_kafka


def _read_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        with open_errors():
            return read_settings(path)
    except (KafkaError, UnicodeDecodeError) as error:
        raise UsageProblem(f"--kafka-config: {error}") from None


def _split_pair(pair: str) -> tuple[str, str]:
    """Split NAME=VALUE. Errors do not contain the value, which may be a secret."""
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise UsageProblem(f"-X {name} is not a setting; write NAME=VALUE")
    return name, value
