"""What all clients of Kafka share: settings, secrets that stay secret, brokers that may be down, topics.

`confluent_kafka` is imported when a client is made; it comes with `flowbuf[kafka]`.
"""

from __future__ import annotations

import functools
import logging
import operator
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from flowbuf.errors import KafkaError, optional_import

__all__ = [
    *("TIMEOUT", "Note", "Notes"),
    *("Topics", "import_kafka", "new_client", "read_settings", "redact"),
]

TIMEOUT = 30.0
"""Seconds in which a broker has to answer at the start."""

Note = Callable[[str], None]

_SECRET = re.compile(
    r"password|secret|\.key|\.pem|jaas|\.token|credential|user\.info|oauthbearer\.config", re.IGNORECASE
)
_REPORTS = "delivery.report.only.error"
_RETRY = 0.2  # seconds between two questions to a broker
_MESSAGE_LIMIT = 1_000_000  # octets
_SILENCE = 30.0  # seconds before the same is told again
_ALL_DOWN = "no broker is available"
_LOOK_PAUSE = 1.0  # seconds between two looks for a broker that is unavailable
_LOOK_TIMEOUT = 0.2  # seconds for an answer
_STEADY = 2  # statistics that show a connection before it counts: the first may be older than the last error
# Errors that name a broker, at their start: [thread: ][protocol://]HOST:PORT[/number]: reason
_OF_BROKER = re.compile(r"(?:\S+: )?(?:\w+://)?(?P<address>[^/\s]+:\d+)(?:/\w+)?: (?P<reason>.*)", re.DOTALL)
_UNAVAILABLE = {"_TRANSPORT", "_RESOLVE", "_TIMED_OUT"}
_TOPIC_TIMEOUT = 2.0  # for a topic to appear that a broker makes by itself


def import_kafka() -> Any:
    """The module `confluent_kafka`. Raises ImportError that says how to get it."""
    with optional_import("Kafka needs confluent-kafka", "flowbuf[kafka]"):
        import confluent_kafka
        import confluent_kafka.admin
    return confluent_kafka


def read_settings(path: str) -> dict[str, str]:
    """Settings of librdkafka from a file: `name=value` on each line; # begins a comment. Raises OSError, and KafkaError
    for a line that is none."""
    settings: dict[str, str] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            name, equals, value = text.partition("=")
            if not equals or not name.strip():
                raise KafkaError(f"{path}:{number}: not name=value")
            settings[name.strip()] = value.strip()
    return settings


def redact(text: str, settings: Mapping[str, Any]) -> str:
    """A text without the values of settings that are secret."""
    secrets = {str(value) for name, value in settings.items() if _SECRET.search(name)}
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _logger() -> logging.Logger:
    """Where librdkafka's own lines go: nowhere, unless the program has said where those of `flowbuf.kafka` go. What
    matters comes as notes."""
    logger = logging.getLogger("flowbuf.kafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def new_client(kind: str, servers: str, settings: Mapping[str, Any], defaults: Mapping[str, Any], notes: Notes) -> Any:
    """A "Producer", "Consumer" or "admin.AdminClient" of `confluent_kafka`. What the user says (`settings`) is stronger
    than `defaults`. Raises ImportError, and KafkaError for settings that cannot be."""
    kafka = import_kafka()
    if _REPORTS in settings:  # the only one that is no text to confluent_kafka
        settings = {**settings, _REPORTS: str(settings[_REPORTS]).lower() in ("true", "1")}
    base = {"bootstrap.servers": servers, "client.id": "flowbuf", "log.connection.close": False}
    config = {**base, **defaults, **settings}
    config["error_cb"] = functools.partial(notes.add, servers=str(config["bootstrap.servers"]))
    try:
        return operator.attrgetter(kind)(kafka)(config, logger=_logger())
    except (kafka.KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, kafka.KafkaException) else str(error)
        raise KafkaError(f"settings of the client: {redact(reason, settings)}") from None


class Notes:
    """Tells what goes wrong with brokers, each thing once in a while. librdkafka goes on by itself, so none of it is an
    error of its own, but for `fatal`; `latest` is what went wrong last."""

    def __init__(self, note: Note, settings: Mapping[str, Any]) -> None:
        self.fatal = ""
        self.latest = ""
        self._note = note
        self._settings = settings
        self._told: dict[str, float] = {}
        self._down: dict[str, int] = {}  # unavailable brokers: statistics in a row that show a connection
        self._next_look = 0.0

    @property
    def waiting(self) -> bool:
        """Return True while a broker is reported as unavailable."""
        return bool(self._down)

    def add(self, error: Any, servers: str = "") -> None:
        """Report an error that librdkafka gives to the callback of a client of `servers`."""
        # How often and how fast it was tried says nothing new.
        text = re.sub(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)", "", error.str())
        text = redact(re.sub(r"^\S+: (?=\S+/)", "", text), self._settings)
        everywhere = error.name() == "_ALL_BROKERS_DOWN"
        if everywhere:
            text = _ALL_DOWN
        if not everywhere or not self.latest:  # what it was before says more
            self.latest = text
        if error.fatal():
            self.fatal = text
        found = _OF_BROKER.fullmatch(text)
        if everywhere:
            for address in [] if self._down else servers.split(","):
                self._lose(address.strip().rpartition("://")[2], "")
        elif found and error.name() in _UNAVAILABLE:
            self._lose(found["address"], f": {found['reason']}")
        else:
            self._tell(text, text)

    def _lose(self, address: str, reason: str) -> None:
        self._down[address] = 0
        self._tell(address, f"broker {address} unavailable; waiting{reason}")

    def look(self, client: Any, topic: str) -> None:
        """Look for brokers that are reported as unavailable, at most once in a second. `client` asks for `topic`, and
        one of the brokers that it is connected to answers. Without an answer this takes 0.2 seconds."""
        if not self.waiting or time.monotonic() < self._next_look:
            return
        try:
            found = client.list_topics(topic, timeout=_LOOK_TIMEOUT)
        except import_kafka().KafkaException:
            found = None
        self._next_look = time.monotonic() + _LOOK_PAUSE
        if found is not None:
            address = found.orig_broker_name.rpartition("://")[2].partition("/")[0]
            known = {f"{each.host}:{each.port}" for each in found.brokers.values()} | {address}
            self.see({each: {"nodename": each, "state": "UP" if each == address else ""} for each in known}, 1)

    def see(self, brokers: Mapping[str, Mapping[str, Any]], steady: int = _STEADY) -> None:
        """Report brokers that are available again. `brokers` is that of librdkafka's statistics, which leave out a
        bootstrap server as soon as the client knows the brokers behind it. A broker is available when `steady` calls
        in a row show a connection."""
        known = {broker.get("nodename") for broker in brokers.values()}
        up = {str(broker.get("nodename")) for broker in brokers.values() if broker.get("state") == "UP"}
        for address in list(self._down):
            connected = address in up or (bool(up) and address not in known)
            self._down[address] = self._down[address] + 1 if connected else 0
            if self._down[address] >= steady:
                del self._down[address]
                self._told.pop(address, None)
                self._note(f"kafka: broker {address if address in up else min(up)} available")

    def _tell(self, subject: str, text: str) -> None:
        """Tell a text, unless another one of the same subject was told a short while ago."""
        now = time.monotonic()
        if now - self._told.get(subject, -_SILENCE) >= _SILENCE:
            self._told[subject] = now
            self._note(f"kafka: {text}")


class Topics:
    """The topics of a broker."""

    def __init__(self, servers: str, settings: Mapping[str, Any], notes: Notes) -> None:
        self._kafka = import_kafka()
        self._servers = servers
        self._notes = notes
        of = self._kafka.KafkaError
        self._final = (of.TOPIC_EXCEPTION, of.TOPIC_AUTHORIZATION_FAILED)  # waiting does not help
        self._client = new_client("admin.AdminClient", servers, settings, {}, notes)

    def find(
        self,
        topic: str,
        timeout: float,
        partitions: int | None = None,
        config: Mapping[str, str] | None = None,
        *,
        fix: str = "make it first, or correct its name",
    ) -> int:
        """The number of partitions of a topic. Where there is none, it is made with so many `partitions` and this
        `config`, if there are to be any. Waits up to `timeout` seconds for a broker. Raises KafkaError, with the `fix`
        where there is none."""
        found = self._ask(topic, timeout, wait=partitions is None)
        if found:
            return found
        if partitions is None:
            raise KafkaError(f"there is no topic {topic!r}: {fix}")
        self._create(topic, partitions, dict(config or {}), timeout)
        return self._ask(topic, timeout, wait=True)

    def _ask(self, topic: str, timeout: float, wait: bool) -> int:
        """The number of partitions, 0 where there is no such topic; `wait`: for one that the broker makes by itself."""
        begun = time.monotonic()
        while True:
            waited = time.monotonic() - begun
            try:
                found = self._client.list_topics(topic, timeout=max(min(timeout - waited, 1.0), 0.1)).topics[topic]
            except self._kafka.KafkaException as error:
                self._client.poll(0)  # which brings the reason
                if time.monotonic() - begun >= timeout:
                    problem = self._notes.latest or error.args[0].str()
                    if problem == _ALL_DOWN:  # all that is known of one that ends connections
                        problem += ", or they want TLS or a login (security.protocol)"
                    raise KafkaError(f"{self._servers}: no broker has answered in {timeout:g} s: {problem}") from None
            else:
                if found.error is None:
                    return len(found.partitions)
                missing = found.error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
                if missing and (not wait or waited >= min(timeout, _TOPIC_TIMEOUT)):
                    return 0
                if waited >= timeout or found.error.code() in self._final:
                    raise KafkaError(f"topic {topic!r}: {found.error.str()}")
            time.sleep(_RETRY)

    def _create(self, topic: str, partitions: int, config: dict[str, str], timeout: float) -> None:
        """Makes a topic; it may have come in the meantime."""
        wanted = self._kafka.admin.NewTopic(topic, partitions, -1, config=config)
        try:
            self._client.create_topics([wanted], request_timeout=timeout)[topic].result()
        except self._kafka.KafkaException as error:
            if error.args[0].code() != self._kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise KafkaError(f"topic {topic!r} cannot be made: {error.args[0].str()}") from error

    def find_identifier(self, topic: str, timeout: float) -> str:
        """Return what Kafka calls a topic, apart from its name: a topic that is deleted and created again has another
        identifier. Brokers before Kafka 2.8 have none: then it is empty. Raises KafkaError."""
        wanted = self._kafka.TopicCollection([topic])
        try:
            identifier = self._client.describe_topics(wanted, request_timeout=timeout)[topic].result().topic_id
        except self._kafka.KafkaException as error:
            raise KafkaError(f"topic {topic!r}: {error.args[0].str()}") from error
        parts = identifier.get_most_significant_bits(), identifier.get_least_significant_bits()
        return "".join(f"{part % (1 << 64):016x}" for part in parts) if any(parts) else ""

    def message_limit(self, topic: str, timeout: float) -> int:
        """The most octets that a batch of records may have in a topic. Who may not know is told what brokers allow that
        nobody has changed."""
        resource = self._kafka.admin.ConfigResource
        wanted = resource(resource.Type.TOPIC, topic)
        try:
            config = self._client.describe_configs([wanted], request_timeout=timeout)[wanted].result()
            return int(config["max.message.bytes"].value)
        except (self._kafka.KafkaException, KeyError, ValueError):
            return _MESSAGE_LIMIT
