"""`flowbuf schema clickhouse`: print the ClickHouse tables of a schema."""

from __future__ import annotations

import re
from typing import Any

import click
from click.core import ParameterSource

from flowbuf.cli.options import UsageProblem, WholeNumber, load_schema, schema_errors, schema_options
from flowbuf.cli.output.streams import print_text
from flowbuf.schema import Schema
from flowbuf.targets.clickhouse_migration import migration
from flowbuf.targets.clickhouse_tables import (
    FRAMINGS,
    INTERVALS,
    PARTITIONS,
    KafkaOptions,
    TableOptions,
    drop_ddl,
    to_ddl,
    to_text,
)

__all__ = ["clickhouse"]


def _pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE of an option that can be repeated."""
    pairs = dict(value.partition("=")[::2] for value in values)
    for name, value in pairs.items():
        if not re.fullmatch(r"\w+", name) or not value:
            raise click.BadParameter("write NAME=VALUE")
    return pairs


def _aggregates(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, str]:
    """Parse intervals, each with an optional retention time."""
    if not value:
        return {}
    items = list(INTERVALS) if value == "all" else [item.strip() for item in value.split(",")]
    return dict(item.partition("=")[::2] for item in items)


@click.command(short_help="Print the SQL that creates or changes tables of ClickHouse.")
@click.argument("name", metavar="[NAME|FILE]", required=False)
@schema_options
@click.option(
    "--database",
    metavar="NAME",
    default="",
    help="Create the tables in this database.  [default: the current one]",
)
@click.option(
    "--table",
    metavar="NAME",
    default="",
    help="Use this name for the table, and as prefix of all others.  [default: flows or counters, by schema]",
)
@click.option(
    "--partition-by",
    type=click.Choice(list(PARTITIONS)),
    default="day",
    show_default=True,
    help="Partition rows by this unit of time.",
)
@click.option(
    "--ttl",
    metavar="TIME",
    default="",
    help="Delete rows after this time: 15d; h, d, w, mo (months), y.  [default: never]",
)
@click.option(
    "--aggregates",
    callback=_aggregates,
    metavar="1m,5m,1h|all",
    help="Create tables of totals per interval too; 1h=2y also sets the time after which rows are deleted.",
)
@click.option(
    "--aggregate-by",
    metavar="A,B",
    default="",
    help="Group totals by these columns.  "
    "[default: exporter, interfaces, addresses, etype, proto, autonomous systems, forwarding_status, and all "
    "text and enum columns, as far as they are enabled]",
)
@click.option(
    "--kafka", metavar="HOST:PORT", help="Create tables and views that read messages from these brokers."
)
@click.option(
    "--topic",
    metavar="NAME",
    default="flows-{hash}",
    show_default=True,
    help="Read this topic; {hash} and {name} are replaced by those of the schema.",
)
@click.option(
    "--group",
    metavar="NAME",
    default="",
    help="Read as this consumer group.  [default: the name of the table]",
)
@click.option(
    "--framing",
    type=click.Choice(list(FRAMINGS)),
    help="Expect this content in a Kafka record: messages, each after its length; one message; one "
    "message after the prefix of a schema registry.  [default: the schema's, else delimited]",
)
@click.option(
    "--consumers",
    type=WholeNumber(1, 1000),
    default=1,
    show_default=True,
    help="Run this many consumers of the topic.",
)
@click.option(
    "--schema-file",
    metavar="NAME",
    default="",
    help="Use this .proto file of the server, for servers that do not accept an inline .proto.",
)
@click.option(
    "-X",
    "--setting",
    "settings",
    multiple=True,
    callback=_pairs,
    metavar="NAME=VALUE",
    help="Add a setting of the Kafka table, such as kafka_sasl_username.",
)
@click.option(
    "--from", "old", metavar="NAME|FILE", help="Print the SQL that converts the tables of this schema."
)
@click.option("--drop", is_flag=True, help="Print the SQL that drops all tables, with all data.")
def clickhouse(schema: Schema, old: str | None, drop: bool, **given: Any) -> None:
    """Print the tables of a schema in ClickHouse, as SQL for clickhouse-client.

    Only the SQL of --drop deletes data. With --from, columns are added and widened if ClickHouse can do that.
    Otherwise, new tables are created beside the existing ones. Use the same options as for the existing
    tables.

    \b
    Examples:
      flowbuf schema clickhouse | clickhouse-client --multiquery
      flowbuf schema clickhouse --kafka 192.0.2.1:9092 --ttl 15d --aggregates 1m=30d,1h=2y
      flowbuf schema clickhouse goflow2 --kafka 192.0.2.1:9092 --topic flows --database net
      flowbuf schema clickhouse --kafka 192.0.2.1:9092 --from released.toml --schema next.toml
      flowbuf schema clickhouse --aggregates 1h --drop
    """
    if not given["kafka"]:
        _check_plain()
    options = _options(given)
    with schema_errors():
        if drop and old:
            raise UsageProblem("--drop cannot be combined with --from; leave one out")
        if drop:
            statements = drop_ddl(schema, options)
        else:
            statements = migration(load_schema(old), schema, options) if old else to_ddl(schema, options)
    print_text(to_text(statements), end="")


def _check_plain() -> None:
    """Raise UsageProblem for options that need --kafka."""
    context = click.get_current_context()
    for name in ("topic", "group", "framing", "consumers", "schema_file", "settings"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = {"settings": "-X", "schema_file": "--schema-file"}.get(name, f"--{name}")
            raise UsageProblem(f"{option} needs --kafka HOST:PORT; add it")


def _options(given: dict[str, Any]) -> TableOptions:
    names = [name.strip() for name in given["aggregate_by"].split(",") if name.strip()]
    try:
        kafka = KafkaOptions(
            brokers=given["kafka"],
            topic=given["topic"],
            group=given["group"],
            framing=given["framing"] or "",
            schema_file=given["schema_file"],
            consumers=given["consumers"],
            settings=given["settings"],
        )
        return TableOptions(
            database=given["database"],
            table=given["table"],
            partition_by=given["partition_by"],
            ttl=given["ttl"],
            aggregates=given["aggregates"],
            aggregate_by=tuple(names),
            kafka=kafka if given["kafka"] else None,
        )
    except ValueError as error:
        raise UsageProblem(str(error)) from error
