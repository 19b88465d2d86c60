"""Options that several commands share. Their errors are one line on stderr with exit status 2."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import click
from click.core import ParameterSource

from flowbuf.cli.output.terminal import escape_line
from flowbuf.decoder import Decoder
from flowbuf.errors import SchemaError, did_you_mean
from flowbuf.options import TIMES, TUNNELS, DecodeOptions, choose_tunnels
from flowbuf.schema import Schema
from flowbuf.schema.row_kinds import (
    COUNTERS_SCHEMA,
    DECODED_ROWS,
    OPTIONS_SCHEMA,
    choose_schemas,
    switch_each,
)

__all__ = [
    *(
        "Choice",
        "DecodeOptions",
        "Number",
        "UsageProblem",
        "WholeNumber",
        "counters_option",
        "options_option",
        "decode_options",
        "expand_rows",
        "exporter_options",
    ),
    *("inputs_argument", "load_schema", "name_outputs", "rows_options", "schema_errors", "schema_options"),
    "split_names",
    "split_values",
    "verbose_option",
]


class UsageProblem(click.ClickException):
    """An error in the command line, or in a file that it names.

    It is printed as one line, unless it has `lines`.
    """

    exit_code = 2

    def __init__(self, message: str, lines: bool = False) -> None:
        super().__init__(message)
        self._lines = lines

    def format_message(self) -> str:
        """Return the message as it is printed."""
        return (
            "\n".join(map(escape_line, self.message.split("\n")))
            if self._lines
            else escape_line(self.message)
        )


class WholeNumber(click.IntRange):
    """A whole number whose range is readable in help texts and errors."""

    name = "whole number"

    def _describe_range(self) -> str:
        if self.max is None:
            return f"{self.min} and up"
        return f"{self.min} to {'2^64-1' if self.max == 2**64 - 1 else self.max}"


class Number(click.FloatRange):
    """A finite number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raise BadParameter for text, a number out of range, infinity and NaN."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not finite; give a number of seconds", param, ctx)
        return number


class Choice(click.Choice):  # type: ignore[type-arg]  # it has no argument in click 8.1
    """A choice whose error suggests similar values."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value. Raise BadParameter if it is not a choice."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if not (fix := self._suggest(str(value))):
                raise
            raise click.BadParameter(f"{error.message.rstrip('.')}; {fix}", error.ctx, error.param) from None

    def _suggest(self, value: str) -> str:
        """Return the values that are similar, or that end with the same number, as netflow9 for v9."""
        number = value.lstrip("abcdefghijklmnopqrstuvwxyz-_ ")
        same = [str(each) for each in self.choices if number.isdigit() and str(each).endswith(number)]
        return f"did you mean {same[0]}?" if same else did_you_mean(value, map(str, self.choices))


@contextmanager
def schema_errors() -> Iterator[None]:
    """End the command for a SchemaError inside the block."""
    try:
        yield
    except SchemaError as error:
        raise UsageProblem(str(error)) from error


def load_schema(
    reference: str = "flow", only: Sequence[str] = (), enable: Sequence[str] = (), disable: Sequence[str] = ()
) -> Schema:
    """Return a schema by name or path, with columns and groups enabled or disabled. Raise UsageProblem."""
    with schema_errors():
        return Schema.load(reference).switch(only=only or None, enable=enable, disable=disable)


def split_names(values: Sequence[str]) -> list[str]:
    """Return the names in the values of a repeatable option, each a list such as "a,b"."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def split_values(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Return the names in the values of an option. Raise UsageProblem if it is given without a name."""
    names = split_names(values)
    if values and not names:
        raise UsageProblem(f"{parameter.opts[0]} is empty; name at least one, or leave the option out")
    return names


_SCHEMA_OPTIONS = [
    click.option(
        "--schema",
        "reference",
        default="flow",
        show_default=True,
        metavar="NAME|FILE",
        help="Use this schema.",
    ),
    click.option(
        "--columns",
        "only",
        multiple=True,
        callback=split_values,
        metavar="A,B",
        help="Enable only these columns.",
    ),
    click.option(
        "--enable",
        multiple=True,
        callback=split_values,
        metavar="A,B",
        help="Enable these columns, or groups (group:NAME).",
    ),
    click.option(
        "--disable",
        multiple=True,
        callback=split_values,
        metavar="A,B",
        help="Disable these columns, or groups (group:NAME).",
    ),
]


def schema_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --schema, --columns, --enable and --disable to a command, which receives them as `schema: Schema`.

    An argument `name` of the command also selects the schema. An option --counters selects COUNTERS_SCHEMA,
    and --options selects OPTIONS_SCHEMA.
    A command with `rows_options` receives `schemas: tuple[Schema, ...]` instead, one per kind of rows.
    """

    @functools.wraps(command)
    def with_schema(
        *args: Any,
        reference: str,
        only: list[str],
        enable: list[str],
        disable: list[str],
        name: str | None = None,
        counters: bool = False,
        options: bool = False,
        rows: list[str] | None = None,
        counters_schema: str = COUNTERS_SCHEMA,
        options_schema: str = OPTIONS_SCHEMA,
        **rest: Any,
    ) -> Any:
        if name and reference not in ("flow", name):
            raise UsageProblem(f"two schemas are given, {name} and {reference}; leave out --schema")
        if counters and options:
            raise UsageProblem("--counters and --options exclude each other; write --rows counters,options")
        if counters or options:
            reference = _short_form("counters" if counters else "options", rows)
        if rows is not None:
            with schema_errors():
                chosen = choose_schemas(rows, reference, counters_schema, options_schema)
                schemas = switch_each(chosen, only=only or None, enable=enable, disable=disable)
            return command(*args, schemas=schemas, **rest)
        return command(*args, schema=load_schema(name or reference, only, enable, disable), **rest)

    for option in reversed(_SCHEMA_OPTIONS):
        with_schema = option(with_schema)
    return with_schema


def _short_form(kind: str, rows: list[str] | None) -> str:
    """Return the schema that --counters or --options selects."""
    schema = {"counters": COUNTERS_SCHEMA, "options": OPTIONS_SCHEMA}[kind]
    if click.get_current_context().get_parameter_source("reference") is not ParameterSource.DEFAULT:
        raise UsageProblem(f"--{kind} already selects the schema {schema}; leave out --schema")
    if rows:
        raise UsageProblem(f"--{kind} is the same as --rows {kind}; leave out one of them")
    return schema


_ROWS_OPTIONS = [
    click.option(
        "--rows",
        multiple=True,
        callback=split_values,
        metavar="A,B",
        help=f"Decode these kinds of rows in one pass: {', '.join(DECODED_ROWS)}. Counters are counter and "
        "drop samples of sFlow, options are options records of NetFlow v9 and IPFIX. "
        "{rows} in an output stands for the kind.  [default: the rows of --schema]",
    ),
    click.option(
        "--counters-schema",
        default=COUNTERS_SCHEMA,
        show_default=True,
        metavar="NAME|FILE",
        help="Use this schema for counters, beside --schema for flows.",
    ),
    click.option(
        "--options-schema",
        default=OPTIONS_SCHEMA,
        show_default=True,
        metavar="NAME|FILE",
        help="Use this schema for options, beside --schema for flows.",
    ),
]


def rows_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --rows, --counters-schema, --options-schema and the options of `schema_options`.

    The command receives `schemas: tuple[Schema, ...]`.
    """
    with_rows = schema_options(command)
    for option in reversed(_ROWS_OPTIONS):
        with_rows = option(with_rows)
    return with_rows


def name_outputs(output: str, schemas: Sequence[Schema]) -> dict[str, str]:
    """Return the output of each kind of rows: `{rows}` in its name stands for the kind."""
    return {schema.rows: output.replace("{rows}", schema.rows) for schema in schemas}


def expand_rows(output: str, schemas: Sequence[Schema]) -> dict[str, str]:
    """Return the output of each kind of rows, as `name_outputs` does.

    Raise UsageProblem if several kinds would have the same output.
    """
    outputs = name_outputs(output, schemas)
    if len(set(outputs.values())) < len(outputs):
        kinds = " and ".join(outputs)
        raise UsageProblem(f"{output}: {kinds} need an output each; write {{rows}} in its name")
    return outputs


inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
counters_option = click.option(
    "--counters", is_flag=True, help="Read counter and drop samples of sFlow instead of flows."
)
options_option = click.option(
    "--options", is_flag=True, help="Read options records of NetFlow v9 and IPFIX instead of flows."
)
verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print all notes on stderr, not only losses and faults.",
)


@dataclass(frozen=True)
class CaptureOptions(DecodeOptions):
    """Options of a command that reads captures.

    Args:
        override_sampling: Sampling rate of all flows.
        state: File that keeps the state of exporters.
        two_pass: Read captures twice: first for the names in their options data.
        port: UDP port of the datagrams to read. Default: all.
    """

    override_sampling: int | None = None
    state: str | None = None
    port: int | None = None
    two_pass: bool = False

    def new_decoder(self, schema: Schema, *others: Schema) -> Decoder:
        """Return a decoder with these options, for one or several kinds of rows.

        Raise UsageProblem if the schema does not allow one of them.
        """
        if self.override_sampling and self.default_sampling_rate:
            raise UsageProblem("--override-sampling replaces every rate; leave out --default-sampling")
        with schema_errors():
            decoder = Decoder(options=self, schemas=[schema, *others])
        self._check_override(decoder)
        return decoder

    def override(self, schema: Schema) -> dict[str, Any] | None:
        """Return the columns to replace in every flow.

        Raise UsageProblem if the schema does not have them.
        """
        if self.override_sampling is None:
            return None
        if schema.rate is None:
            disabled = " or ".join(column.name for column in schema if column.scale == "rate")
            fix = f"enable {disabled}" if disabled else 'set scale = "rate" on a column'
            raise UsageProblem(
                f"--override-sampling: schema {schema.name} has no sampling rate enabled; {fix}"
            )
        return {schema.rate.name: self.override_sampling}

    def _check_override(self, decoder: Decoder) -> None:
        """Check the override now, not at the first datagram."""
        try:
            decoder.encode_rows([], [], override=self.override(decoder.schema))
        except ValueError as error:
            raise UsageProblem(f"--override-sampling: {error}") from error


def _tunnels(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return choose_tunnels(split_values(context, parameter, values))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


_EXPORTER_OPTIONS = [
    click.option(
        "--obey-withdrawals",
        is_flag=True,
        help="Remove a template when its exporter withdraws it. RFC 7011 does not allow withdrawals over "
        "UDP, so they are only counted by default.",
    ),
    click.option(
        "--template-expiry",
        type=WholeNumber(1, 10**9),
        metavar="SECONDS",
        help="Forget templates that were not refreshed for this long.  [default: never]",
    ),
    click.option(
        "--port", type=WholeNumber(1, 65535), metavar="N", help="Read only datagrams to this UDP port."
    ),
]
_DECODE_OPTIONS = [
    click.option(
        "--strict",
        is_flag=True,
        help="Stop at the first datagram that is malformed or not decoded. Other packets are ignored.",
    ),
    click.option(
        "--time",
        type=Choice(TIMES),
        default=TIMES[0],
        show_default=True,
        help="Fill time_received with this time.",
    ),
    click.option(
        "--default-sampling",
        "default_sampling_rate",
        type=WholeNumber(1, 2**64 - 1),
        metavar="N",
        help="Fill sampling_rate with N in flows of unknown rate.",
    ),
    click.option(
        "--override-sampling",
        type=WholeNumber(1, 2**64 - 1),
        metavar="N",
        help="Fill sampling_rate with N in all flows.",
    ),
    click.option(
        "--scale", is_flag=True, help="Multiply bytes and packets by the sampling_rate of their flow."
    ),
    click.option(
        "--decapsulate",
        multiple=True,
        callback=_tunnels,
        metavar="A,B",
        help=f"Decode the flows inside these tunnels: {', '.join(TUNNELS)}, all. "
        "Show the outer endpoints with --enable group:tunnel.",
    ),
    click.option(
        "--state",
        metavar="FILE",
        help="Keep templates, sampling rates and names in this file from run to run.",
    ),
    click.option(
        "--two-pass",
        is_flag=True,
        help="Read captures twice, so that flows also get names from options data that came after them.",
    ),
    *_EXPORTER_OPTIONS,
]


def decode_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of decoding to a command, which receives them as `decoding: CaptureOptions`."""
    return _with_options(command, _DECODE_OPTIONS)


def exporter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add only the options that select datagrams or set the state of exporters."""
    known = click.option(
        "--state",
        metavar="FILE",
        help="Read templates, sampling rates and names from this file, without changing it.",
    )
    return _with_options(command, [known, *_EXPORTER_OPTIONS])


def _with_options(command: Callable[..., Any], options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    names = {field.name for field in fields(CaptureOptions)}

    @functools.wraps(command)
    def with_options(*args: Any, **given: Any) -> Any:
        decoding = CaptureOptions(**{name: given.pop(name) for name in names & given.keys()})
        return command(*args, decoding=decoding, **given)

    for option in reversed(options):
        with_options = option(with_options)
    return with_options
