"""Options that define the messages of a stream, and the codec that they choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flowbuf.cli.options import UsageProblem
from flowbuf.errors import SchemaError

if TYPE_CHECKING:  # a codec takes longer to import than most commands take to run
    from flowbuf.codec import Codec

__all__ = ["definition_options", "load_codec"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--proto",
        metavar="PROTO",
        help="The messages are defined in this .proto file, folder of .proto files, or descriptor set.",
    ),
    click.option("--message", metavar="NAME", help="Name of the message, if PROTO defines several."),
    click.option(
        "--include",
        metavar="FOLDER",
        multiple=True,
        help="Search PROTO and its imports in this folder. Can be repeated.",
    ),
)


def definition_options(command: F) -> F:
    """Add --proto, --message and --include to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def load_codec(definition: str, message: str | None, include: Sequence[str], times: str = "ns") -> Codec[Any]:
    """Return the codec of a definition. Raises UsageProblem. `times`: unit of times in columns, ns or us."""
    from flowbuf.codec import Codec

    try:
        return Codec.load(definition, message, include=include, times="datetime" if times == "us" else "ns")
    except SchemaError as error:
        text = (
            str(error).replace("message=…", "--message NAME").replace("include=[FOLDER]", "--include FOLDER")
        )
        raise UsageProblem(text, lines=True) from error
