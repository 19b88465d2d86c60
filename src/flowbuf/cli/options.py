"""Options that commands share, and how their errors end: one line on stderr, exit status 2."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import click
from click.core import ParameterSource

from flowbuf.cli.output.terminal import escape_line
from flowbuf.decoder import TIMES, TUNNELS, Decoder, choose_tunnels
from flowbuf.errors import SchemaError
from flowbuf.schema import Schema

__all__ = [
    *("DecodeOptions", "UsageProblem", "WholeNumber", "counters_option", "decode_options", "exporter_options"),
    *("inputs_argument", "load_schema", "schema_errors", "schema_options", "verbose_option"),
]


COUNTERS = "sflow_counters"
"""The schema of --counters."""


class UsageProblem(click.ClickException):
    """Something about the command line, or a file it names, is wrong. It is one line, unless it has `lines`."""

    exit_code = 2

    def __init__(self, message: str, lines: bool = False) -> None:
        super().__init__(message)
        self._lines = lines

    def format_message(self) -> str:
        """Return the message as it is shown."""
        return "\n".join(map(escape_line, self.message.split("\n"))) if self._lines else escape_line(self.message)


class WholeNumber(click.IntRange):
    """A number of a range that help and errors say in words."""

    name = "whole number"

    def _describe_range(self) -> str:
        if self.max is None:
            return f"{self.min} and up"
        return f"{self.min} to {'2^64-1' if self.max == 2**64 - 1 else self.max}"


@contextmanager
def schema_errors() -> Iterator[None]:
    """A SchemaError inside ends the command."""
    try:
        yield
    except SchemaError as error:
        raise UsageProblem(str(error)) from error


def load_schema(
    reference: str = "flow", only: Sequence[str] = (), enable: Sequence[str] = (), disable: Sequence[str] = ()
) -> Schema:
    """A schema by name or path, with columns and groups switched. Raises UsageProblem."""
    with schema_errors():
        return Schema.load(reference).switch(only=only or None, enable=enable, disable=disable)


def _split(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


_SCHEMA_OPTIONS = [
    click.option(
        "--schema", "reference", default="flow", show_default=True, metavar="NAME|FILE", help="Schema to use."
    ),
    click.option("--columns", "only", multiple=True, callback=_split, metavar="A,B", help="Enable only these columns."),
    click.option("--enable", multiple=True, callback=_split, metavar="A,B", help="Columns or group:NAME to enable."),
    click.option("--disable", multiple=True, callback=_split, metavar="A,B", help="Columns or group:NAME to disable."),
]


def schema_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --schema, --columns, --enable and --disable; it gets them as one argument, `schema: Schema`. A
    command that has an argument `name` takes the schema from there too, and its option --counters, if it has one, is
    another name of a schema."""

    @functools.wraps(command)
    def with_schema(
        *args: Any,
        reference: str,
        only: list[str],
        enable: list[str],
        disable: list[str],
        name: str | None = None,
        counters: bool = False,
        **rest: Any,
    ) -> Any:
        if name and reference not in ("flow", name):
            raise UsageProblem(f"two schemas, {name} and {reference}: leave out --schema")
        if counters:
            if click.get_current_context().get_parameter_source("reference") is not ParameterSource.DEFAULT:
                raise UsageProblem(f"--counters is --schema {COUNTERS}: give one of the two")
            reference = COUNTERS
        return command(*args, schema=load_schema(name or reference, only, enable, disable), **rest)

    for option in reversed(_SCHEMA_OPTIONS):
        with_schema = option(with_schema)
    return with_schema


inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
counters_option = click.option("--counters", is_flag=True, help="Counter and drop samples of sFlow instead of flows.")
verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print all notes on stderr, not only losses and faults.",
)


@dataclass(frozen=True)
class DecodeOptions:
    """What the user says of decoding."""

    strict: bool = False
    time: str = TIMES[0]
    default_sampling: int | None = None
    override_sampling: int | None = None
    scale: bool = False
    decapsulate: tuple[str, ...] = ()
    obey_withdrawals: bool = False
    template_expiry: int | None = None
    state: str | None = None
    port: int | None = None

    def new_decoder(self, schema: Schema) -> Decoder:
        """A decoder that obeys them. Raises UsageProblem where the schema does not allow it."""
        if self.override_sampling and self.default_sampling:
            raise UsageProblem("--override-sampling replaces every rate: leave out --default-sampling")
        with schema_errors():
            decoder = Decoder(
                schema,
                strict=self.strict,
                time=self.time,
                default_sampling_rate=self.default_sampling,
                scale=self.scale,
                decapsulate=self.decapsulate,
                obey_withdrawals=self.obey_withdrawals,
                template_expiry=self.template_expiry,
            )
        self._check_override(decoder)
        return decoder

    def override(self, schema: Schema) -> dict[str, Any] | None:
        """The columns that are replaced in every flow. Raises UsageProblem where the schema has them not."""
        if self.override_sampling is None:
            return None
        if schema.rate is None:
            disabled = " or ".join(column.name for column in schema if column.scale == "rate")
            fix = f"enable {disabled}" if disabled else 'give a column scale = "rate"'
            raise UsageProblem(f"--override-sampling: schema {schema.name} has no sampling rate enabled; {fix}")
        return {schema.rate.name: self.override_sampling}

    def _check_override(self, decoder: Decoder) -> None:
        """Now, not with the first datagram."""
        try:
            decoder.encode_many([], [], override=self.override(decoder.schema))
        except ValueError as error:
            raise UsageProblem(f"--override-sampling: {error}") from error


def _tunnels(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return choose_tunnels(_split(context, parameter, values))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_EXPORTER_OPTIONS = [
    click.option(
        "--obey-withdrawals",
        is_flag=True,
        help="Forget templates that are withdrawn, which RFC 7011 forbids over UDP; else withdrawals are counted.",
    ),
    click.option(
        "--template-expiry",
        type=WholeNumber(1, 10**9),
        metavar="SECONDS",
        help="Forget templates that were not refreshed for so long.  [default: never]",
    ),
    click.option("--port", type=WholeNumber(1, 65535), metavar="N", help="Only datagrams to this UDP port."),
]
_DECODE_OPTIONS = [
    click.option(
        "--strict",
        is_flag=True,
        help="Stop at the first datagram that is malformed or left undecoded. Other packets are ignored.",
    ),
    click.option(
        "--time", type=click.Choice(TIMES), default=TIMES[0], show_default=True, help="What fills time_received."
    ),
    click.option(
        "--default-sampling",
        type=WholeNumber(1, 2**64 - 1),
        metavar="N",
        help="Fills sampling_rate where no exporter says it.",
    ),
    click.option(
        "--override-sampling",
        type=WholeNumber(1, 2**64 - 1),
        metavar="N",
        help="Fills sampling_rate whatever exporters say.",
    ),
    click.option("--scale", is_flag=True, help="Multiply bytes and packets by the sampling_rate of their flow."),
    click.option(
        "--decapsulate",
        multiple=True,
        callback=_tunnels,
        metavar="A,B",
        help=f"Show the flows inside of tunnels: {', '.join(TUNNELS)}, all. The outer endpoints are in the columns of "
        "--enable group:tunnel.",
    ),
    click.option(
        "--state", metavar="FILE", help="Keep what exporters said, templates and sampling rates, from run to run."
    ),
    *_EXPORTER_OPTIONS,
]


def decode_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of decoding; it gets them as `decoding: DecodeOptions`."""
    return _with_options(command, _DECODE_OPTIONS)


def exporter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with only those that say which datagrams are looked at and what is known of exporters."""
    known = click.option("--state", metavar="FILE", help="What exporters said before; the file stays as it is.")
    return _with_options(command, [known, *_EXPORTER_OPTIONS])


def _with_options(command: Callable[..., Any], options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    names = {field.name for field in fields(DecodeOptions)}

    @functools.wraps(command)
    def with_options(*args: Any, **given: Any) -> Any:
        decoding = DecodeOptions(**{name: given.pop(name) for name in names & given.keys()})
        return command(*args, decoding=decoding, **given)

    for option in reversed(options):
        with_options = option(with_options)
    return with_options
