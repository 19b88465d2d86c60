"""`flowbuf produce`: send captures to a Kafka topic."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import click

from flowbuf.cli.counters import missing_kinds
from flowbuf.cli.inputs import check_inputs, expand_inputs, total_size
from flowbuf.cli.kafka_options import KafkaOptions, kafka_options
from flowbuf.cli.options import (
    CaptureOptions,
    Choice,
    UsageProblem,
    decode_options,
    inputs_argument,
    rows_options,
    schema_errors,
    verbose_option,
)
from flowbuf.cli.output.columnar import need
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import print_text
from flowbuf.cli.session import Session
from flowbuf.cli.signals import Interrupt
from flowbuf.cli.state import check_state
from flowbuf.decoder import check_rows
from flowbuf.errors import KafkaError
from flowbuf.kafka.client import is_pattern
from flowbuf.kafka.sink import COMPRESSIONS, FORMATS, KEYS, PACK_SIZE, KafkaSink, check_pack
from flowbuf.schema import Schema
from flowbuf.schema.loader import FRAMINGS

__all__ = ["produce"]


_EMPTY = "ClickHouse's ProtobufSingle skips them; --framing delimited keeps them"


def _check_pack(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    try:
        return check_pack(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@inputs_argument
@kafka_options
@click.option(
    "--topic",
    metavar="T",
    help="Send to this topic; {hash}, {name} and {rows} are replaced by those of the schema.  "
    "[default: flows-{hash}; {rows}-{hash} for several kinds of rows]",
)
@click.option(
    "--pack",
    callback=_check_pack,
    default=str(PACK_SIZE),
    show_default=True,
    metavar="flow|datagram|BYTES",
    help="Put into each Kafka record one flow, the flows of a datagram, or up to BYTES bytes of flows.",
)
@click.option(
    "-f",
    "--format",
    "form",
    type=Choice(FORMATS),
    default="protobuf",
    show_default=True,
    help="Send Protocol Buffers messages, or one JSON object per flow.",
)
@click.option(
    "--framing",
    type=Choice(FRAMINGS),
    help="Send each message alone (bare, ProtobufSingle in ClickHouse) or after its length (delimited, "
    "Protobuf).  [default: bare with --pack flow, else delimited]",
)
@click.option(
    "--key", type=Choice(KEYS), default="none", show_default=True, help="Set the key of Kafka records."
)
@click.option(
    "--compression",
    type=Choice(COMPRESSIONS),
    default="none",
    show_default=True,
    help="Compress Kafka records.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Create the topic with N partitions if it does not exist.",
)
@verbose_option
@decode_options
@rows_options
def produce(
    inputs: tuple[str, ...],
    kafka: KafkaOptions,
    topic: str | None,
    pack: int | str,
    form: str,
    framing: str | None,
    key: str,
    compression: str,
    partitions: int | None,
    verbose: bool,
    decoding: CaptureOptions,
    schemas: tuple[Schema, ...],
) -> None:
    """Send captures to Kafka as Protocol Buffers messages or JSON.

    The broker confirms every Kafka record (acks=all, idempotent). At the end, stdout shows the counts: flows,
    Kafka records, and those that were delivered, failed, or sent again. The exit status is 1 if one has
    failed.

    Readers find the schema from the name of the topic, from the headers of packed Kafka records, and in the
    topic flowbuf-schemas. With --schema-registry, they find it in a registry. Each Kafka record is then one
    flow after the number of its schema, in the wire format of Confluent's libraries.

    With --format json, each Kafka record is one flow, as flowbuf read -f jsonl prints it. It has no headers
    and no schema. flowbuf consume does not read JSON.

    --rows flows,counters sends flows and the counter samples of sFlow to a topic each. The counts then have
    one line per topic.

    With --key exporter, the key is the exporter's address, so that its flows stay in one partition. With
    --key flow, it is a hash of addresses, ports and protocol, equal for both directions.

    \b
    Examples:
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows --partitions 4
      flowbuf produce capture.pcap --kafka localhost:9092 --partitions 4 --key exporter --compression lz4
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows --pack flow --key flow
      flowbuf produce capture.pcap --kafka localhost:9092 --schema-registry http://localhost:8081
      flowbuf produce capture.pcap --kafka broker:9093 --kafka-config client.properties
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows --schema goflow2
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows-json --format json --key exporter
      flowbuf produce sflow.pcap --kafka localhost:9092 --rows flows,counters --topic 'site-{rows}'
    """
    if form == "json":
        need("pyarrow", "arrow", "--format json")
        if topic is None or "{hash}" in topic:
            raise UsageProblem("--format json needs a topic without {hash}; write --topic T")
        if kafka.registry_url:
            raise UsageProblem("--format json has no schema; leave out --schema-registry")
    inputs = expand_inputs(inputs)
    check_inputs(inputs)
    check_state(decoding.state)
    report = Report(notes=verbose)
    with schema_errors():
        for schema in schemas:
            check_rows(schema)
            schema.to_proto()  # before the work
    options = {
        "pack": pack,
        "format": form,
        "framing": framing,
        "key": key,
        "compression": compression,
        "partitions": partitions,
    }
    sinks = {
        schema.rows: _open_sink(kafka, report, name, schema, **options)
        for schema, name in zip(schemas, _choose_topics(topic, schemas), strict=True)
    }

    def poll() -> None:
        for sink in sinks.values():
            sink.poll()

    send = _send_by_exporter if key == "exporter" or pack == "datagram" else _send
    try:
        with (
            ExitStack() as stack,
            show_progress(total_size(inputs)) as show,
            Session(
                schemas[0], decoding, report, show, "sent", Interrupt(poll), others=schemas[1:]
            ) as session,
        ):
            for sink in sinks.values():
                stack.enter_context(sink)
            session.learn_names(inputs)
            for path in inputs:
                send(session, path, sinks)
            session.finish()
    except KafkaError as error:
        report.add_problem(str(error))
    finally:
        print_text("\n".join(map(_summary, sinks.values())))
    if empty := sum(sink.report.empty for sink in sinks.values()):
        report.add_note(f"flows without a value, in empty Kafka records: {empty}; {_EMPTY}")
    if session.readable:
        for note in missing_kinds(schemas, session.decoder.rows, session.counters):
            report.add_note(note)
    sys.exit(report.status)


def _choose_topics(topic: str | None, schemas: Sequence[Schema]) -> list[str]:
    """Return the topic of each schema. Raise UsageProblem if two have the same, or for an expression."""
    if topic is not None and is_pattern(topic):
        raise UsageProblem(f"--topic {topic}: only flowbuf consume takes an expression; name one topic")
    if topic is None:
        topic = "flows-{hash}" if len(schemas) == 1 else "{rows}-{hash}"
    topics = [schema.expand(topic) for schema in schemas]
    if len(set(topics)) < len(topics):
        raise UsageProblem(f"topic {topic} is the same for several kinds of rows; write {{rows}} in its name")
    return topics


def _open_sink(kafka: KafkaOptions, report: Report, topic: str, schema: Schema, **options: Any) -> KafkaSink:
    """Return a sink. Raise UsageProblem for options that cannot be combined, and KafkaError."""
    try:
        return KafkaSink(
            kafka.servers,
            topic,
            schema,
            **options,
            **kafka.arguments(report.add_note),
        )
    except ValueError as error:
        raise UsageProblem(str(error)) from error


def _send(session: Session, path: str, sinks: Mapping[str, KafkaSink]) -> None:
    for rows in session.encode_rows(path):
        for kind, messages in rows.items():
            sinks[kind].write(messages)


def _send_by_exporter(session: Session, path: str, sinks: Mapping[str, KafkaSink]) -> None:
    for pieces in session.encode_each_rows(path):
        for exporter, rows in pieces:
            for kind, messages in rows.items():
                sinks[kind].write(messages, exporter)


def _summary(sink: KafkaSink) -> str:
    report = sink.report
    counts = {
        "topic": sink.topic,
        "flows": report.flows,
        "records": report.records,
        "bytes": report.bytes,
        "delivered": report.delivered,
        "failed": report.failed,
        "retried": report.retries,
    }
    return " ".join(f"{name}={value}" for name, value in counts.items())
