"""`flowbuf produce`: captures into a topic of Kafka."""

from __future__ import annotations

import sys
from typing import Any

import click

from flowbuf.cli.counters import no_rows
from flowbuf.cli.inputs import check_inputs, expand_inputs, total_size
from flowbuf.cli.kafka_options import KafkaOptions, kafka_options
from flowbuf.cli.options import (
    DecodeOptions,
    UsageProblem,
    decode_options,
    inputs_argument,
    schema_errors,
    schema_options,
    verbose_option,
)
from flowbuf.cli.output.progress import show_progress
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import print_text
from flowbuf.cli.session import Session
from flowbuf.cli.state import check_state
from flowbuf.decoder import check_rows
from flowbuf.errors import KafkaError
from flowbuf.kafka.sink import COMPRESSIONS, KEYS, PACK_SIZE, KafkaSink, check_pack
from flowbuf.schema import Schema
from flowbuf.schema.loader import FRAMINGS

__all__ = ["produce"]


_EMPTY = "ClickHouse's ProtobufSingle skips those: --framing delimited keeps them"


def _check_pack(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    try:
        return check_pack(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@inputs_argument
@kafka_options
@click.option(
    "--topic", default="flows-{hash}", show_default=True, metavar="T", help="{hash} and {name} are those of the schema."
)
@click.option(
    "--pack",
    callback=_check_pack,
    default=str(PACK_SIZE),
    show_default=True,
    metavar="flow|datagram|OCTETS",
    help="What is in a record: one flow, those of a datagram, or as many as have so many octets.",
)
@click.option(
    "--framing",
    type=click.Choice(FRAMINGS),
    help="Messages alone (ProtobufSingle in ClickHouse), or each after its length (Protobuf).  "
    "[default: bare with --pack flow, else delimited]",
)
@click.option("--key", type=click.Choice(KEYS), default="none", show_default=True, help="Key of records.")
@click.option("--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True, help="Of records.")
@click.option(
    "--partitions", type=click.IntRange(1), metavar="N", help="Make the topic, with N partitions, if need be."
)
@verbose_option
@decode_options
@schema_options
def produce(
    inputs: tuple[str, ...],
    kafka: KafkaOptions,
    topic: str,
    pack: int | str,
    framing: str | None,
    key: str,
    compression: str,
    partitions: int | None,
    verbose: bool,
    decoding: DecodeOptions,
    schema: Schema,
) -> None:
    """Turn captures into Protocol Buffers messages in Kafka.

    Every record is confirmed by the broker (acks=all, idempotent). What was sent is said on stdout when all is done:
    flows, records, records that were delivered, that failed, that were sent again. Where a record has failed the exit
    status is 1.

    Readers find the schema by the name of the topic, by the headers of packed records, and in the topic
    flowbuf-schemas; or, with --schema-registry, in a registry: then each record is one flow behind the number of its
    schema, as Confluent's libraries have it.

    The key of a record is the exporter's address, so that its flows stay in one partition, or a hash of a flow's
    addresses, ports and protocol, the same for both directions.

    \b
    Examples:
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows --partitions 4
      flowbuf produce capture.pcap --kafka localhost:9092 --partitions 4 --key exporter --compression lz4
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows --pack flow --key flow
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows --schema-registry http://localhost:8081
      flowbuf produce capture.pcap --kafka broker:9093 -X security.protocol=SSL --kafka-config client.properties
      flowbuf produce capture.pcap --kafka localhost:9092 --topic flows --schema goflow2
    """
    inputs = expand_inputs(inputs)
    check_inputs(inputs)
    check_state(decoding.state)
    report = Report(notes=verbose)
    with schema_errors():
        check_rows(schema)
        schema.to_proto()  # now, not after the work
    sink = _open_sink(
        kafka,
        report,
        topic,
        schema,
        pack=pack,
        framing=framing,
        key=key,
        compression=compression,
        partitions=partitions,
    )
    send = _send_by_exporter if key == "exporter" or pack == "datagram" else _send
    try:
        with (
            sink,
            show_progress(total_size(inputs)) as show,
            Session(schema, decoding, report, show, "sent") as session,
        ):
            for path in inputs:
                send(session, path, sink)
            session.finish()
    except KafkaError as error:
        report.add_problem(str(error))
    finally:
        print_text(_summary(sink))
    if sink.report.empty:
        report.add_note(f"flows without a value, in records without an octet: {sink.report.empty}; {_EMPTY}")
    if session.readable and not session.flows:
        report.add_note(no_rows(schema, session.counters))
    sys.exit(report.status)


def _open_sink(kafka: KafkaOptions, report: Report, topic: str, schema: Schema, **options: Any) -> KafkaSink:
    """Raises UsageProblem for options that do not go together, and KafkaError."""
    try:
        return KafkaSink(
            kafka.servers,
            topic,
            schema,
            **options,
            registry=kafka.open_registry(),
            schema_topic=kafka.schema_topic,
            settings=kafka.settings,
            timeout=kafka.timeout,
            on_problem=report.add_note,
        )
    except ValueError as error:
        raise UsageProblem(str(error)) from error


def _send(session: Session, path: str, sink: KafkaSink) -> None:
    for messages in session.encode(path):
        sink.write(messages)


def _send_by_exporter(session: Session, path: str, sink: KafkaSink) -> None:
    for pieces in session.encode_each(path):
        for exporter, messages in pieces:
            sink.write(messages, exporter)


def _summary(sink: KafkaSink) -> str:
    report = sink.report
    counts = {
        "topic": sink.topic,
        "flows": report.flows,
        "records": report.records,
        "octets": report.octets,
        "delivered": report.delivered,
        "failed": report.failed,
        "retried": report.retries,
    }
    return " ".join(f"{name}={value}" for name, value in counts.items())
