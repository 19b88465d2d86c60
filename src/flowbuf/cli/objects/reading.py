"""`flowbuf read` for messages with nested messages, maps or oneofs: JSON lines, without columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from flowbuf.cli.objects.definition import load_codec
from flowbuf.cli.options import UsageProblem, schema_errors
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.progress import Show
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import open_errors, open_output
from flowbuf.errors import CaptureError, DecodeError, SchemaError
from flowbuf.io.input_stream import Content
from flowbuf.io.proto_file import find_proto, is_own_proto
from flowbuf.schema import Schema

if TYPE_CHECKING:  # a codec takes longer to import than most commands take to run
    from flowbuf.codec import Codec
    from flowbuf.codec.convert import Piece

__all__ = ["find_codecs", "read_objects", "report_unknown"]

_COLUMN_OPTIONS = ("where", "enrich", "only", "enable", "disable", "rows_per_file", "ip", "spreadsheet")


def find_codecs(
    inputs: Sequence[str],
    schema: Schema,
    form: str,
    proto: str | None,
    message: str | None,
    include: Sequence[str],
) -> list[Codec] | None:
    """Return the codecs of the inputs, or None if they have columns.

    `proto`, or else a .proto beside a stream that flowbuf did not write, defines the messages. Otherwise the
    schema does.

    Raises UsageProblem if some inputs have columns and others have not, or if options do not apply.
    """
    if proto is not None:
        _check_options(form)
        return [load_codec(proto, message, include)] * len(inputs)
    protos = [find_proto(path) if path != "-" else None for path in inputs]
    foreign = [proto if proto and not is_own_proto(proto) else None for proto in protos]
    nested = _is_nested(schema)
    if not nested and not any(foreign):
        return None
    if not nested and not all(foreign):
        raise UsageProblem(
            "some inputs have a .proto of another program; read them in a command of their own"
        )
    _check_options(form)
    from flowbuf.codec import Codec

    with schema_errors():
        return [Codec.load(proto) if proto else Codec(schema) for proto in foreign]


def _check_options(form: str) -> None:
    chosen = [name for name in _COLUMN_OPTIONS if click.get_current_context().params.get(name)]
    if form != "jsonl" or chosen:
        option = f"--{chosen[0].replace('_', '-')}" if chosen else f"-f {form}"
        fix = "use -f jsonl without options for columns"
        raise UsageProblem(f"{option}: messages of this type have no columns; {fix}")


def _is_nested(schema: Schema) -> bool:
    try:
        schema.require_flat("a table")
    except SchemaError:
        return True
    return False


def read_objects(
    inputs: Sequence[str],
    codecs: Sequence[Codec],
    output: str,
    limit: int | None,
    report: Report,
    show: Show,
) -> None:
    """Write the messages of all inputs as JSON lines, with the names of their definition.

    A damaged message ends the command with an error. Unknown fields are left out, and reported.
    """
    from flowbuf.codec.convert import to_json_lines

    count = before = 0
    unknown: list[int] = []
    with open_output(output) as file:
        for path, codec in zip(inputs, codecs, strict=True):
            with _open(path) as content:
                try:
                    messages = _first(content, limit, count)
                    pieces = to_json_lines(codec, messages, unknown.append, names="original")
                    for lines, number in pieces:
                        file.write(lines)
                        count += number
                        show(before + content.position, count)
                except DecodeError as error:
                    raise Failure(f"{content.name}: {error}") from error
                before += content.position
                report_unknown(report, content.name, unknown)


def report_unknown(report: Report, name: str, unknown: list[int]) -> None:
    """Report the number of unknown fields of an input, if there are any, and clear the list."""
    if any(unknown):
        fix = "these messages have another definition, or a newer one"
        report.add_problem(f"{name}: unknown fields, which were left out: {sum(unknown)}; {fix}")
    unknown.clear()


def _open(path: str) -> Content:
    with open_errors():
        try:
            return Content(path, ends_at_error=True)
        except CaptureError as error:
            raise UsageProblem(str(error)) from error


def _first(content: Content, limit: int | None, count: int) -> Iterator[Piece]:
    """Yield the messages up to the limit. `count`: messages before this input."""
    from flowbuf.codec.convert import read_stream

    for stream, number in read_stream(content):
        if limit is None or count + number <= limit:
            yield stream, number
            count += number
            continue
        yield _cut(stream, limit - count), limit - count
        return


def _cut(stream: bytes, count: int) -> bytes:
    from flowbuf._core import split_messages

    return b"".join(split_messages(stream, None)[:count]) if count else b""
