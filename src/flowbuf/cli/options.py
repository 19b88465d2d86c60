"""Options that commands share, and how their errors end: one line on stderr, exit status 2."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from flowbuf.decoder import TIMES, Decoder
from flowbuf.errors import SchemaError
from flowbuf.schema import Schema

__all__ = ["DecodeOptions", "UsageProblem", "decode_options", "load_schema", "schema_errors", "schema_options"]


COUNTERS = "sflow_counters"
"""The schema of --counters."""


class UsageProblem(click.ClickException):
    """Something about the command line, or a file it names, is wrong."""

    exit_code = 2


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
    """Give a command --schema, --columns, --enable and --disable; it gets them as one argument, `schema: Schema`. Its
    option --counters, if it has one, is another name of a schema."""

    @functools.wraps(command)
    def with_schema(
        *args: Any,
        reference: str,
        only: list[str],
        enable: list[str],
        disable: list[str],
        counters: bool = False,
        **rest: Any,
    ) -> Any:
        if counters:
            if click.get_current_context().get_parameter_source("reference") is not ParameterSource.DEFAULT:
                raise UsageProblem(f"--counters is --schema {COUNTERS}: give one of the two")
            reference = COUNTERS
        return command(*args, schema=load_schema(reference, only, enable, disable), **rest)

    for option in reversed(_SCHEMA_OPTIONS):
        with_schema = option(with_schema)
    return with_schema


@dataclass(frozen=True)
class DecodeOptions:
    """What the user says of decoding."""

    strict: bool
    time: str
    default_sampling: int | None
    port: int | None

    def new_decoder(self, schema: Schema) -> Decoder:
        """A decoder that obeys them. Raises UsageProblem where the schema does not allow it."""
        with schema_errors():
            return Decoder(schema, strict=self.strict, time=self.time, default_sampling_rate=self.default_sampling)


_DECODE_OPTIONS = [
    click.option("--strict", is_flag=True, help="Stop at the first datagram that is malformed or left undecoded."),
    click.option(
        "--time", type=click.Choice(TIMES), default=TIMES[0], show_default=True, help="What fills time_received."
    ),
    click.option(
        "--default-sampling",
        type=click.IntRange(1, 2**64 - 1),
        metavar="N",
        help="Fills sampling_rate where no exporter says it.",
    ),
    click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Only datagrams to this UDP port."),
]


def decode_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --strict, --time, --default-sampling and --port; it gets them as `decoding: DecodeOptions`."""

    @functools.wraps(command)
    def with_options(
        *args: Any, strict: bool, time: str, default_sampling: int | None, port: int | None, **rest: Any
    ) -> Any:
        return command(*args, decoding=DecodeOptions(strict, time, default_sampling, port), **rest)

    for option in reversed(_DECODE_OPTIONS):
        with_options = option(with_options)
    return with_options
