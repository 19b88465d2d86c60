"""Shared parts of all Kafka clients: settings, redaction of secrets, unavailable brokers, topics.

`confluent_kafka` is imported when a client is created. It is installed with `flowbuf[kafka]`.
"""

from __future__ import annotations

import functools
import logging
import operator
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from flowbuf.errors import KafkaError, optional_import

__all__ = [
    *("CONSUMER_DEFAULTS", "TIMEOUT", "Note", "Notes"),
    *(
        "TopicNames",
        "Topics",
        "import_kafka",
        "is_pattern",
        "new_client",
        "read_settings",
        "redact",
        "split_settings",
    ),
]

TIMEOUT = 30.0
"""Seconds to wait for the first answer of a broker."""

CONSUMER_DEFAULTS: dict[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 65536,
    "queued.min.messages": 1_000_000,
    "fetch.message.max.bytes": 1 << 22,
    "fetch.queue.backoff.ms": 10,  # the default is to wait one second when enough is queued
}
"""Default settings of the consumers of flows."""

Note = Callable[[str], None]

_SECRET = re.compile(
    r"password|secret|\.key|\.pem|jaas|\.token|credential|user\.info|oauthbearer\.config", re.IGNORECASE
)
_REGISTRY_PREFIX = "schema.registry."
_REPORTS = "delivery.report.only.error"
_RETRY = 0.2  # seconds between two requests to a broker
_MESSAGE_LIMIT = 1_000_000  # bytes
_SILENCE = 30.0  # seconds before a problem is reported again
_ALL_DOWN = "no broker is available"
_LOOK_PAUSE = 1.0  # seconds between two checks for an unavailable broker
_LOOK_TIMEOUT = 0.2  # seconds to wait for an answer
_LAST_LOOK_TIMEOUT = 2.0  # seconds to wait for the answer of a last check
_STEADY = 2  # connected statistics before it counts: the first may precede the last error
# Errors that begin with a broker: [thread: ][protocol://]HOST:PORT[/number]: reason
_OF_BROKER = re.compile(r"(?:\S+: )?(?:\w+://)?(?P<address>[^/\s]+:\d+)(?:/\w+)?: (?P<reason>.*)", re.DOTALL)
_UNAVAILABLE = {"_TRANSPORT", "_RESOLVE", "_TIMED_OUT"}
_NEW_TOPICS = 30.0  # seconds between two looks for topics that match a regular expression
_TOPIC_TIMEOUT = 2.0  # seconds until a broker knows a topic that was just created


def import_kafka() -> Any:
    """Import and return `confluent_kafka`. Raise ImportError with the install command if it is missing."""
    with optional_import("Kafka needs confluent-kafka", "flowbuf[kafka]"):
        import confluent_kafka
        import confluent_kafka.admin
    return confluent_kafka


def read_settings(path: str) -> dict[str, str]:
    """Read librdkafka settings from a file with one `name=value` per line.

    Lines that begin with # are comments.

    Raises:
        OSError: The file cannot be read.
        KafkaError: A line is not a setting.
    """
    settings: dict[str, str] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            name, equals, value = text.partition("=")
            if not equals or not name.strip():
                raise KafkaError(f"{path}:{number}: is not a setting; write NAME=VALUE")
            settings[name.strip()] = value.strip()
    return settings


def split_settings(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of librdkafka, and those of the registry's client (`schema.registry.…`)."""
    ours = {name: value for name, value in settings.items() if not name.startswith(_REGISTRY_PREFIX)}
    theirs = {
        name.removeprefix(_REGISTRY_PREFIX): value for name, value in settings.items() if name not in ours
    }
    return ours, theirs


def redact(text: str, settings: Mapping[str, Any]) -> str:
    """Return a text with the values of secret settings replaced by ***."""
    secrets = {str(value) for name, value in settings.items() if _SECRET.search(name)}
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _logger() -> logging.Logger:
    """Return the logger for librdkafka's own log lines.

    They are discarded unless the program configures `flowbuf.kafka`.

    Important problems are reported as notes.
    """
    logger = logging.getLogger("flowbuf.kafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def new_client(
    kind: str, servers: str, settings: Mapping[str, Any], defaults: Mapping[str, Any], notes: Notes
) -> Any:
    """Create a client of `confluent_kafka`.

    Args:
        kind: "Producer", "Consumer" or "admin.AdminClient".
        servers: Initial brokers, "host:port,host:port".
        settings: Settings of the user. They override `defaults`.
        defaults: Settings of flowbuf.
        notes: Receiver of errors.

    Raises:
        ImportError: confluent-kafka is not installed.
        KafkaError: A setting is invalid.
    """
    kafka = import_kafka()
    if _REPORTS in settings:  # confluent_kafka accepts no text for this one
        settings = {**settings, _REPORTS: str(settings[_REPORTS]).lower() in ("true", "1")}
    base = {"bootstrap.servers": servers, "client.id": "flowbuf", "log.connection.close": False}
    config = {**base, **defaults, **settings}
    config["error_cb"] = functools.partial(notes.add, servers=str(config["bootstrap.servers"]))
    try:
        return operator.attrgetter(kind)(kafka)(config, logger=_logger())
    except (kafka.KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, kafka.KafkaException) else str(error)
        raise KafkaError(f"client settings are invalid: {redact(reason, settings)}") from None


class Notes:
    """Report problems of brokers, each one at most every 30 seconds.

    librdkafka retries, so only `fatal` is an error. `latest` is the most recent problem, and `number` counts
    them.
    """

    def __init__(self, note: Note, settings: Mapping[str, Any]) -> None:
        self.fatal = ""
        self.latest = ""
        self.number = 0
        self._note = note
        self._settings = settings
        self._told: dict[str, float] = {}
        self._down: dict[str, int] = {}  # unavailable brokers -> consecutive statistics with a connection
        self._next_look = 0.0

    @property
    def waiting(self) -> bool:
        """True while a broker is reported as unavailable."""
        return bool(self._down)

    def add(self, error: Any, servers: str = "") -> None:
        """Report an error from the callback of a client of `servers`."""
        # Remove the number and duration of attempts, which vary between repeated errors.
        text = re.sub(
            r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)", "", error.str()
        )
        text = redact(re.sub(r"^\S+: (?=\S+/)", "", text), self._settings)
        self.number += 1
        everywhere = error.name() == "_ALL_BROKERS_DOWN"
        if everywhere:
            text = _ALL_DOWN
        if not everywhere or not self.latest:  # keep the earlier problem, which is more specific
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
        self._tell(address, f"broker {address} is unavailable; waiting for it{reason}")

    def look(self, client: Any, topic: str, last: bool = False) -> None:
        """Check at most once per second if unavailable brokers are back. A `last` check is always made.

        `client` requests `topic`, and one of its connected brokers answers. Without an answer, this takes 0.2
        seconds, or 2 for a last check.
        """
        if not self.waiting or (time.monotonic() < self._next_look and not last):
            return
        try:
            found = client.list_topics(topic, timeout=_LAST_LOOK_TIMEOUT if last else _LOOK_TIMEOUT)
        except import_kafka().KafkaException:
            found = None
        self._next_look = time.monotonic() + _LOOK_PAUSE
        if found is not None:
            address = found.orig_broker_name.rpartition("://")[2].partition("/")[0]
            known = {f"{each.host}:{each.port}" for each in found.brokers.values()} | {address}
            self.see(
                {each: {"nodename": each, "state": "UP" if each == address else ""} for each in known}, 1
            )

    def see(self, brokers: Mapping[str, Mapping[str, Any]], steady: int = _STEADY) -> None:
        """Report brokers that are available again.

        Args:
            brokers: Brokers in librdkafka's statistics. These omit a bootstrap server when the client knows
                the brokers behind it.
            steady: Number of consecutive calls that must show a connection.
        """
        known = {broker.get("nodename") for broker in brokers.values()}
        up = {str(broker.get("nodename")) for broker in brokers.values() if broker.get("state") == "UP"}
        for address in list(self._down):
            connected = address in up or (bool(up) and address not in known)
            self._down[address] = self._down[address] + 1 if connected else 0
            if self._down[address] >= steady:
                del self._down[address]
                self._told.pop(address, None)
                self._note(f"kafka: broker {address if address in up else min(up)} is available")

    def _tell(self, subject: str, text: str) -> None:
        """Report a text, unless a text on the same subject was reported in the last 30 seconds."""
        now = time.monotonic()
        if now - self._told.get(subject, -_SILENCE) >= _SILENCE:
            self._told[subject] = now
            self._note(f"kafka: {text}")


def is_pattern(topic: str) -> bool:
    """Return True if the name of a topic is a regular expression."""
    return topic.startswith("^")


class Topics:
    """Find, create and describe the topics of a broker."""

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
        fix: str = "create it, or correct its name",
    ) -> int:
        """Return the number of partitions of a topic. Create a missing topic if `partitions` is set.

        Args:
            topic: Name of the topic.
            timeout: Seconds to wait for a broker.
            partitions: Number of partitions of a new topic. Default: None, a missing topic is an error.
            config: Settings of a new topic.
            fix: Advice in the error text for a missing topic.

        Raises:
            KafkaError: No broker answers, or the topic is missing or cannot be used.
        """
        found = self._count_partitions(topic, timeout, wait=partitions is None)
        if found:
            return found
        if partitions is None:
            raise KafkaError(f"topic {topic!r} does not exist; {fix}")
        self._create(topic, partitions, dict(config or {}), timeout)
        return self._count_partitions(topic, timeout, wait=True)

    def expand(self, names: Iterable[str], hidden: Collection[str | None], timeout: float) -> list[str]:
        """Return names of topics, each once. A regular expression (`^…`) is replaced by those that match.

        Args:
            names: Names and regular expressions.
            hidden: Topics that match no expression; None stands for no topic. Those of Kafka itself (`__…`)
                match none either.
            timeout: Seconds to wait for a broker.

        Raises:
            ValueError: A regular expression is invalid.
            KafkaError: No broker answers, or no topic matches an expression.
        """
        expanded: dict[str, None] = {}
        for name in names:
            found = self._match(name, hidden, timeout) if is_pattern(name) else [name]
            expanded.update(dict.fromkeys(found))
        return list(expanded)

    def _match(self, pattern: str, hidden: Collection[str | None], timeout: float) -> list[str]:
        try:
            matches = re.compile(pattern).match
        except re.error as error:
            raise ValueError(f"topic {pattern!r} is not a regular expression: {error}") from None
        begun = time.monotonic()
        topics = self._ask(lambda left: self._client.list_topics(timeout=left).topics, begun, timeout)
        there = sorted(filter(matches, topics))
        found = [name for name in there if name not in hidden and not name.startswith("__")]
        if not found:
            raise KafkaError(f"no topic matches {pattern!r}; create one, or correct the expression")
        return found

    def _ask(self, request: Callable[[float], Any], begun: float, timeout: float) -> Any:
        """Return the answer to a request. `request` receives its own timeout.

        Raises:
            KafkaError: No broker has answered `timeout` seconds after `begun`.
            confluent_kafka.KafkaException: A broker has answered with an error.
        """
        while True:
            left = timeout - (time.monotonic() - begun)
            try:
                return request(max(min(left, 1.0), 0.1))
            except self._kafka.KafkaException as error:
                if error.args[0].code() > 0:  # not an error of the client
                    raise
                self._client.poll(0)  # reads the reason
                if time.monotonic() - begun >= timeout:
                    problem = self._notes.latest or error.args[0].str()
                    if problem == _ALL_DOWN:  # no other reason is known if a broker closes connections
                        problem += "; if they require TLS or a login, set security.protocol"
                    raise KafkaError(
                        f"{self._servers}: no broker answered in {timeout:g} s: {problem}"
                    ) from None
            time.sleep(_RETRY)

    def _describe(self, topic: str, timeout: float) -> Any:
        """Return the description of a topic.

        This request creates no topic. `list_topics` with a name does, if `auto.create.topics.enable` is set.
        """
        wanted = self._kafka.TopicCollection([topic])
        return self._client.describe_topics(wanted, request_timeout=timeout)[topic].result()

    def _count_partitions(self, topic: str, timeout: float, wait: bool) -> int:
        """Return the number of partitions, or 0 if the topic does not exist.

        With `wait`, the topic may have been created a moment ago.
        """
        begun = time.monotonic()
        while True:
            waited = time.monotonic() - begun
            try:
                found = self._ask(functools.partial(self._describe, topic), begun, timeout)
                return len(found.partitions)
            except self._kafka.KafkaException as error:
                problem = error.args[0]
            missing = problem.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            if missing and (not wait or waited >= min(timeout, _TOPIC_TIMEOUT)):
                return 0
            if waited >= timeout or problem.code() in self._final:
                raise KafkaError(f"topic {topic!r}: {problem.str()}")
            time.sleep(_RETRY)

    def _create(self, topic: str, partitions: int, config: dict[str, str], timeout: float) -> None:
        """Create a topic. Another client may have created it in the meantime."""
        wanted = self._kafka.admin.NewTopic(topic, partitions, -1, config=config)
        try:
            self._client.create_topics([wanted], request_timeout=timeout)[topic].result()
        except self._kafka.KafkaException as error:
            if error.args[0].code() != self._kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise KafkaError(f"topic {topic!r} cannot be created: {error.args[0].str()}") from error

    def read_offsets(
        self, places: Iterable[tuple[str, int]], timeout: float
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the first offset of each partition, and the one after the last.

        Each broker is asked once for all of its partitions.

        Args:
            places: Topics and partitions.
            timeout: Seconds to wait for the brokers.

        Raises:
            KafkaError: A broker does not answer, or a partition does not exist.
        """
        places = list(places)
        first, end = (self._list_offsets(places, which, timeout) for which in ("earliest", "latest"))
        return {place: (first[place], end[place]) for place in first}

    def _list_offsets(
        self, places: Iterable[tuple[str, int]], which: str, timeout: float
    ) -> dict[tuple[str, int], int]:
        wanted = getattr(self._kafka.admin.OffsetSpec, which)()
        partitions = {self._kafka.TopicPartition(*place): wanted for place in places}
        if not partitions:
            return {}
        found = {}
        for asked, answer in self._client.list_offsets(partitions, request_timeout=timeout).items():
            try:
                found[asked.topic, asked.partition] = answer.result().offset
            except self._kafka.KafkaException as error:
                reason = error.args[0].str()
                raise KafkaError(f"topic {asked.topic!r}, partition {asked.partition}: {reason}") from None
        return found

    def find_identifier(self, topic: str, timeout: float) -> str:
        """Return Kafka's identifier of a topic. Raise KafkaError if it cannot be read.

        A topic that is deleted and created again has a new identifier. Brokers before Kafka 2.8 have none;
        the result is then empty.
        """
        try:
            identifier = self._describe(topic, timeout).topic_id
        except self._kafka.KafkaException as error:
            raise KafkaError(f"topic {topic!r}: {error.args[0].str()}") from error
        parts = identifier.get_most_significant_bits(), identifier.get_least_significant_bits()
        return "".join(f"{part % (1 << 64):016x}" for part in parts) if any(parts) else ""

    def message_limit(self, topic: str, timeout: float) -> int:
        """Return the maximum size of a record batch in a topic, in bytes.

        If the user may not read the setting, return 1,000,000 bytes.
        """
        resource = self._kafka.admin.ConfigResource
        wanted = resource(resource.Type.TOPIC, topic)
        try:
            config = self._client.describe_configs([wanted], request_timeout=timeout)[wanted].result()
            return int(config["max.message.bytes"].value)
        except (self._kafka.KafkaException, KeyError, ValueError):
            return _MESSAGE_LIMIT


class TopicNames:
    """Names of topics and regular expressions, and the topics that they stand for.

    Args:
        known: Topics of the broker.
        names: Names and regular expressions (`^…`).
        hidden: Topics that match no expression.
        timeout: Seconds to wait for a broker.

    Attributes:
        topics: Names of the topics that were found last.

    Raises:
        ValueError: A regular expression is invalid.
        KafkaError: No broker answers, or no topic matches an expression.
    """

    def __init__(
        self, known: Topics, names: Sequence[str], hidden: Collection[str | None], timeout: float
    ) -> None:
        self._known = known
        self._names = names
        self._hidden = hidden
        self.topics = known.expand(names, hidden, timeout)
        self._looked = time.monotonic()
        self._changes = any(map(is_pattern, names))

    def have_changed(self) -> bool:
        """Look for other topics from time to time. Return True if there are any."""
        if not self._changes or time.monotonic() - self._looked < _NEW_TOPICS:
            return False
        before = self.topics
        with suppress(KafkaError):  # no broker answers now
            self.topics = self._known.expand(self._names, self._hidden, _TOPIC_TIMEOUT)
        self._looked = time.monotonic()
        return set(self.topics) != set(before)
