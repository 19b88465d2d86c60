"""Configuration of the collector: a TOML file, or command-line options with the same names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from flowbuf.collect.access import make_access_list
from flowbuf.collect.forward import SOURCES
from flowbuf.collect.listen import BUFFER_BYTES, DEFAULT_LISTEN, MAX_BUFFER_BYTES
from flowbuf.collect.places import describe, exclusive_place
from flowbuf.collect.settings import read_settings, setting, write_settings
from flowbuf.collect.streams.sessions import SessionOptions
from flowbuf.collect.streams.tls import new_tls_context
from flowbuf.errors import ConfigError
from flowbuf.kafka.schema_topic import SCHEMAS_TOPIC
from flowbuf.options import TIMES, TUNNELS, DecodeOptions, choose_tunnels
from flowbuf.sampling import SamplingRule
from flowbuf.schema import Schema
from flowbuf.schema.row_kinds import (
    COUNTERS_SCHEMA,
    DECODED_ROWS,
    OPTIONS_SCHEMA,
    choose_schemas,
    switch_each,
)
from flowbuf.schema.toml_json import DocumentError, parse_toml

__all__ = [
    *("DESTINATIONS", "LIVE", "RESTART", "CollectConfig", "OutputConfig", "SamplingConfig"),
    *("expand_outputs", "format_config", "output_name", "read_config"),
]

Table = TypeVar("Table")

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Values of `compression`."""

SESSIONS = SessionOptions()

OVERFLOW = ("drop", "spool", "block")
"""Values of `on_overflow`."""

DESTINATIONS = (
    "DIR/ or s3://BUCKET/PREFIX (Parquet files), pb:DIR/ (Protobuf files), kafka://HOST:PORT/TOPIC, "
    "http[s]://HOST:PORT (ClickHouse), - (JSON lines on stdout), or null: (discard)"
)
"""Forms of `to`, for the help and for errors."""

LIVE = "live:"
"""Destination of the flows for the live view. It is in no total, and its losses are not reported."""


RESTART = (
    *("listen", "workers", "interface", "receive_buffer", "interval"),
    *("metrics", "log", "log_limit", "live_window"),
)
"""Keys whose changes need a restart. A reload applies changes of all others."""


@dataclass(frozen=True)
class OutputConfig:
    """Settings of one output: a table [[output]] of the file.

    Attributes:
        scaled: Bytes and packets are multiplied by the sampling rate: `scale` of the collector.
    """

    to: str = setting(
        "text",
        "",
        f"Destination: {DESTINATIONS}.",
        "DESTINATION",
    )
    rows: str = setting(
        "text",
        "",
        "Kind of rows that this output takes. {rows} in `to` makes one output per kind.",
        "|".join(DECODED_ROWS),
        empty="flows if they are decoded",
    )
    name: str = setting("text", "", "Name in reports and metrics.", "NAME", empty="the destination")
    where: str = setting("text", "", 'Keep only flows that match, for example "dst_port = 53".', "SQL")
    columns: tuple[str, ...] = setting("list", (), "Write only these columns.", "A,B")
    enrich: tuple[str, ...] = setting(
        "list", (), "Add columns from FILE.toml or your MODULE:FUNCTION.", "SPEC"
    )
    ip: str = setting("text", "text", "Form of addresses in Parquet.", choices=("text", "binary"))
    queue_flows: int = setting(
        "whole", 1 << 20, "Maximum number of flows that wait in memory for this output.", "N", least=1
    )
    on_overflow: str = setting(
        "text",
        "drop",
        "Action when the queue is full: drop flows, store them in a spool on disk, or block the workers.",
        choices=OVERFLOW,
    )
    spool: str = setting("text", "", "Folder of the spool. Each output has its own folder in it.", "FOLDER")
    spool_bytes: int = setting("bytes", 10 << 30, "Largest size of the spool.", "SIZE", least=1)
    rotate: float = setting("seconds", 300.0, "Start a new file after this time.", "TIME", least=1)
    rotate_bytes: int = setting("bytes", 256 << 20, "Start a new file at this size.", "SIZE", least=1)
    keep: float = setting("seconds", 0.0, "Delete files older than this. 0 keeps all.", "TIME")
    keep_bytes: int = setting(
        "bytes", 0, "Delete the oldest files beyond this total size. 0 keeps all.", "SIZE"
    )
    table: str = setting(
        "text", "", "Insert into this table of ClickHouse.", "NAME", empty="the kind of rows"
    )
    kafka_config: str = setting(
        "text", "", "Read librdkafka settings from this file, one NAME=VALUE per line.", "FILE"
    )
    format: str = setting(
        "text",
        "protobuf",
        "Write Kafka records of many Protobuf messages, or of one JSON object.",
        choices=("protobuf", "json"),
    )
    key: tuple[str, ...] = setting(
        "list", (), "Set the key of Kafka records to the values of these columns.", "A,B"
    )
    compression: str = setting("text", "none", "Compress Kafka records.", choices=COMPRESSIONS)
    partitions: int = setting(
        "whole", 0, "Create a missing topic with N partitions. 0 expects the topic.", "N"
    )
    schema_topic: str = setting(
        "text",
        SCHEMAS_TOPIC,
        "Store schema descriptions of Protobuf messages in this topic of Kafka. 'none' disables it.",
        "TOPIC",
    )
    scaled: bool = False

    @property
    def address_form(self) -> str:
        """Form of addresses in the batches for this output. Only Parquet stores batches as they are."""
        if self.to.startswith("s3://"):
            return self.ip
        others = ("pb:", "kafka://", "http://", "https://")
        return self.ip if self.to.endswith("/") and not self.to.startswith(others) else "binary"


@dataclass(frozen=True)
class SamplingConfig:
    """Sampling rate of exporters: a table [[sampling]] of the file."""

    exporter: str = setting("text", "", "Address of the exporter, or network.", "NETWORK")
    interface: tuple[int, ...] = setting(
        "numbers", (), "Index of the ingress interface, or a list of them.", "N", empty="all interfaces"
    )
    rate: int = setting("whole", 0, "Sampling rate N: one packet in N was sampled.", "N", least=1)
    override: bool = setting("flag", False, "Replace the sampling rate that the exporter reports.")

    def make_rules(self) -> Iterator[SamplingRule]:
        """Yield one rule for each interface, or one for all interfaces.

        Raises:
            ValueError: the network is invalid, or a number is out of range.
        """
        for interface in self.interface or (None,):
            yield SamplingRule(self.exporter, self.rate, interface, self.override)


@dataclass(frozen=True)
class CollectConfig:
    """Settings of `flowbuf collect`."""

    listen: tuple[str, ...] = setting(
        "list",
        DEFAULT_LISTEN,
        "Receive at this address and port. The prefix tcp:// or tls:// selects IPFIX over TCP or TLS.",
        "ADDR:PORT",
    )
    workers: int = setting("whole", 1, "Number of threads that receive and decode.", "N", least=1)
    interface: str = setting("text", "", "Receive only from this network interface.", "NAME")
    receive_buffer: int = setting(
        *("bytes", BUFFER_BYTES, "Size of the receive buffer of each socket.", "SIZE"),
        least=1,
        most=MAX_BUFFER_BYTES,
    )
    interval: float = setting(
        "seconds", 1.0, "Longest time that flows wait in a worker.", "TIME", least=0.001
    )
    rows: tuple[str, ...] = setting(
        "list",
        (),
        f"Decode these kinds of rows: {', '.join(DECODED_ROWS)}. Counters are counter and drop samples of "
        "sFlow, options are options records of NetFlow v9 and IPFIX. {rows} in an output stands for the "
        "kind.",
        "A,B",
        empty="the rows of the schema",
    )
    schema: str = setting("text", "flow", "Use this schema.", "NAME|FILE")
    counters_schema: str = setting(
        "text", COUNTERS_SCHEMA, "Use this schema for counters, beside the schema of flows.", "NAME|FILE"
    )
    options_schema: str = setting(
        "text", OPTIONS_SCHEMA, "Use this schema for options, beside the schema of flows.", "NAME|FILE"
    )
    enable: tuple[str, ...] = setting("list", (), "Enable these columns, or groups (group:NAME).", "A,B")
    disable: tuple[str, ...] = setting("list", (), "Disable these columns, or groups (group:NAME).", "A,B")
    metrics: str = setting("text", "", "Serve metrics and health over HTTP at this address.", "ADDR:PORT")
    state: str = setting("text", "", "Keep templates, sampling rates and names in this file.", "FILE")
    report: float = setting("seconds", 60.0, "Report totals this often. 0 disables it.", "TIME")
    log: str = setting("text", "text", "Form of the messages on stderr.", choices=("text", "json"))
    log_limit: int = setting(
        "whole",
        10,
        "Maximum number of warnings of one kind per minute; others are counted. 0 disables the limit.",
        "N",
    )
    time: str = setting("text", TIMES[0], "Fill time_received with this time.", choices=TIMES)
    allow: tuple[str, ...] = setting(
        "list", (), "Decode only datagrams from these addresses and networks.", "NETWORK,..."
    )
    deny: tuple[str, ...] = setting(
        "list", (), "Decode no datagrams from these addresses and networks, also if allowed.", "NETWORK,..."
    )
    rate_limit: int = setting(
        "whole",
        0,
        "Decode at most N flows per second of each exporter, and increase their sampling rate to account for "
        "those that are skipped. 0 sets no limit.",
        "N",
    )
    default_sampling: int = setting(
        "whole", 0, "Fill sampling_rate with N in flows of unknown rate. 0 leaves it absent.", "N"
    )
    scale: bool = setting("flag", False, "Multiply bytes and packets by the sampling rate.")
    decapsulate: tuple[str, ...] = setting(
        "list", (), f"Open these tunnels: {', '.join(TUNNELS)} or all.", "A,B"
    )
    template_expiry: float = setting(
        "seconds", 0.0, "Forget templates that were not refreshed for this long. 0 keeps them.", "TIME"
    )
    exporter_limit: int = setting(
        "whole", 0, "Maximum number of exporters to remember. 0 means 1,048,576.", "N"
    )
    forward: tuple[str, ...] = setting(
        "list", (), "Send a copy of each received datagram and message to this UDP address.", "HOST:PORT"
    )
    forward_source: str = setting(
        "text",
        "own",
        "Send copies from an address of this machine, or from the original source (needs CAP_NET_RAW).",
        choices=SOURCES,
    )
    save_undecoded: str = setting(
        "text", "", "Save datagrams and messages that cannot be decoded in this pcap file.", "FILE.pcap"
    )
    save_undecoded_bytes: int = setting("bytes", 64 << 20, "Largest size of that file.", "SIZE", least=1)
    tls_certificate: str = setting("text", "", "Certificate for tls:// addresses, a PEM file.", "FILE")
    tls_key: str = setting("text", "", "Private key of the certificate, if it is in another file.", "FILE")
    tls_client_ca: str = setting(
        "text", "", "Accept only exporters with a certificate of an authority in this PEM file.", "FILE"
    )
    session_limit: int = setting(
        "whole", SESSIONS.session_limit, "Maximum number of TCP and TLS sessions at once.", "N", least=1
    )
    peer_session_limit: int = setting(
        "whole",
        SESSIONS.peer_session_limit,
        "Maximum number of TCP and TLS sessions of one address.",
        "N",
        least=1,
    )
    idle_timeout: float = setting(
        "seconds",
        SESSIONS.idle_timeout,
        "End a TCP or TLS session that sends nothing for this long. 0 disables it.",
        "TIME",
    )
    message_timeout: float = setting(
        "seconds",
        SESSIONS.message_timeout,
        "Longest time for an incomplete message of a TCP or TLS session.",
        "TIME",
        least=0.001,
    )
    handshake_timeout: float = setting(
        "seconds", SESSIONS.handshake_timeout, "Longest time for a TLS handshake.", "TIME", least=0.001
    )
    live_top: tuple[str, ...] = setting(
        "list", ("src_addr",), "With --live, show the top talkers by these columns.", "A,B"
    )
    live_window: float = setting(
        "seconds", 10.0, "With --live, show the top talkers of this time.", "TIME", least=1
    )
    sampling: tuple[SamplingConfig, ...] = field(default=())
    outputs: tuple[OutputConfig, ...] = field(default=())

    def load_schemas(self) -> tuple[Schema, ...]:
        """Return the schema of each kind of rows.

        Raises:
            SchemaError: a schema or a column does not exist.
        """
        chosen = choose_schemas(self.rows, self.schema, self.counters_schema, self.options_schema)
        return switch_each(chosen, enable=self.enable, disable=self.disable)

    def decode_options(self) -> DecodeOptions:
        """Return the options of the decoders.

        Raises:
            ConfigError: an option is invalid.
        """
        try:
            return DecodeOptions(
                time=self.time,
                default_sampling_rate=self.default_sampling or None,
                scale=self.scale,
                decapsulate=choose_tunnels(self.decapsulate),
                template_expiry=self.template_expiry or None,
                exporter_limit=self.exporter_limit,
                sampling=[rule for each in self.sampling for rule in each.make_rules()],
                rate_limit=self.rate_limit,
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def session_options(self) -> SessionOptions:
        """Return the limits of TCP and TLS sessions, and read the certificate.

        Raises:
            ConfigError: a file is missing or invalid.
        """
        if (self.tls_key or self.tls_client_ca) and not self.tls_certificate:
            raise ConfigError("tls_key and tls_client_ca need a certificate; set tls_certificate")
        context = None
        if self.tls_certificate:
            context = new_tls_context(self.tls_certificate, self.tls_key, self.tls_client_ca)
        return SessionOptions(
            session_limit=self.session_limit,
            peer_session_limit=self.peer_session_limit,
            idle_timeout=self.idle_timeout,
            message_timeout=self.message_timeout,
            handshake_timeout=self.handshake_timeout,
            tls=context,
        )


def expand_outputs(
    outputs: Sequence[OutputConfig], schemas: Mapping[str, Schema]
) -> tuple[OutputConfig, ...]:
    """Return the outputs, each for one of the decoded kinds of rows.

    Args:
        outputs: Outputs. One with `{rows}` in its destination becomes one output per kind, with those of its
            columns that the kind has.
        schemas: Schema of each kind of rows that is decoded. The first kind is the default.

    Raises:
        ConfigError: an output takes rows that are not decoded, a kind of rows has no output, or two outputs
            write to the same folder or to standard output.
    """
    expanded = tuple(
        replace(
            output,
            rows=kind,
            to=output.to.replace("{rows}", kind),
            name=output.name.replace("{rows}", kind),
            columns=_columns_of(output, kind, schemas),
        )
        for output in outputs
        for kind in _rows_of(output, list(schemas))
    )
    for output in expanded:
        if output.rows not in schemas:
            fix = f"add {output.rows} to rows"
            problem = f"rows {output.rows} are not decoded"
            raise ConfigError(f"output {describe(output.to)!r}: {problem}; {fix}")
    for kind in schemas:
        if kind not in {output.rows for output in expanded}:
            fix = f"write {{rows}} in a destination, or add an output with rows = {kind!r}"
            raise ConfigError(f"rows {kind} have no output; {fix}")
    _check_places(expanded)
    return expanded


def _check_places(outputs: Iterable[OutputConfig]) -> None:
    """Raise ConfigError if two outputs write to a place that only one can use."""
    users: dict[tuple[str, ...], OutputConfig] = {}
    for output in outputs:
        place = exclusive_place(output.to, output.rows)
        other = users.setdefault(place, output)
        if not place or other is output:
            continue
        names = f"outputs {output_name(other)!r} and {output_name(output)!r}"
        if output.to == "-":
            raise ConfigError(f"{names} write to standard output; leave one of them out")
        fix = "name another folder"
        raise ConfigError(f"{names} write {output.rows} to one folder, {describe(output.to)!r}; {fix}")


def output_name(output: OutputConfig) -> str:
    """Return the name of an output in messages and metrics."""
    return output.name or describe(output.to)


def _rows_of(output: OutputConfig, rows: Sequence[str]) -> Sequence[str]:
    if _is_for_each_kind(output):
        return rows
    return (output.rows,) if output.rows else rows[:1]


def _is_for_each_kind(output: OutputConfig) -> bool:
    return not output.rows and "{rows}" in output.to


def _columns_of(output: OutputConfig, kind: str, schemas: Mapping[str, Schema]) -> tuple[str, ...]:
    """Return the columns of an output for one kind: without those that only other kinds have."""
    if not _is_for_each_kind(output):
        return output.columns
    return tuple(
        name
        for name in output.columns
        if name in schemas[kind] or not any(name in schema for schema in schemas.values())
    )


def read_config(path: str) -> CollectConfig:
    """Read a configuration file.

    Raises:
        ConfigError: the file is invalid. The text names the file and the key.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        text = file.read()
    try:
        document = parse_toml(text.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8") from error
    except DocumentError as error:
        raise ConfigError(f"{error.place(path)}: {error}") from error
    try:
        return _from_document(document)
    except ConfigError as error:
        raise ConfigError(f"{os.fspath(path)}: {error}") from error


def _from_document(document: dict[str, Any]) -> CollectConfig:
    outputs = tuple(_read_tables(document, "output", OutputConfig, {"to": "name a destination"}))
    missing = {"exporter": "name an address or a network", "rate": "write the sampling rate"}
    sampling = tuple(_read_tables(document, "sampling", SamplingConfig, missing))
    for number, each in enumerate(sampling, 1):
        _check_sampling(each, number)
    config = replace(read_settings(CollectConfig, document), outputs=outputs, sampling=sampling)
    config.decode_options()
    make_access_list(config.allow, config.deny)
    return config


def _check_sampling(sampling: SamplingConfig, number: int) -> None:
    try:
        tuple(sampling.make_rules())
    except ValueError as error:
        raise ConfigError(f"sampling {number}: {error}") from error


def _read_tables(
    document: dict[str, Any], name: str, kind: type[Table], required: dict[str, str]
) -> Iterator[Table]:
    """Take the tables [[name]] out of a document. `required` has keys, and the fixes if they are missing."""
    tables = document.pop(name, [])
    if not isinstance(tables, list):
        raise ConfigError(f"{name} is one table; write [[{name}]] with two brackets")
    for number, table in enumerate(tables, 1):
        try:
            yield _read_table(name, table, kind, required)
        except ConfigError as error:
            raise ConfigError(f"{name} {number}: {error}") from error


def _read_table(name: str, table: Any, kind: type[Table], required: dict[str, str]) -> Table:
    if not isinstance(table, dict):
        raise ConfigError(f"is not a table; write [[{name}]] and its keys below it")
    values = read_settings(kind, table)
    for key, fix in required.items():
        if not getattr(values, key):
            raise ConfigError(f'key "{key}" is missing; {fix}')
    return values


def format_config(config: CollectConfig) -> Iterator[str]:
    """Yield the lines of a file with this configuration. Keys with default values are comments."""
    yield "# Configuration of `flowbuf collect`. Keys with default values are commented out."
    yield from write_settings(config)
    for name, tables in (("sampling", config.sampling), ("output", config.outputs)):
        for table in tables:
            yield ""
            yield f"[[{name}]]"
            yield from write_settings(table)
