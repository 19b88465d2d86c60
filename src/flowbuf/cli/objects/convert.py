"""`flowbuf convert`: convert files of messages between Protocol Buffers, JSON lines and Parquet."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from flowbuf.cli.inputs import check_inputs, total_size
from flowbuf.cli.objects.definition import definition_options, load_codec
from flowbuf.cli.objects.reading import report_unknown
from flowbuf.cli.options import UsageProblem
from flowbuf.cli.output.columnar import need, open_sink
from flowbuf.cli.output.failure import Failure
from flowbuf.cli.output.progress import Show, show_progress
from flowbuf.cli.output.report import Report, count_things
from flowbuf.cli.output.streams import (
    check_overwrite,
    force_option,
    is_terminal,
    open_errors,
    open_output,
    refuse_terminal,
)
from flowbuf.errors import CaptureError, DecodeError, EncodeError, SchemaError
from flowbuf.io.input_stream import Content, JoinedPieces
from flowbuf.io.output_file import OutputFile

if TYPE_CHECKING:
    from flowbuf.codec import Codec
    from flowbuf.codec.convert import Piece

__all__ = ["convert"]

_SUFFIXES = {".pb": "pb", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
_FORMS = ("pb", "jsonl", "parquet")


@click.command()
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option(
    "--schema",
    metavar="SCHEMA",
    help="The messages are those of this schema: a built-in name, or a .toml file.",
)
@definition_options
@click.option(
    "--from", "form", type=click.Choice(_FORMS), help="Format of IN.  [default: by its name; pb for stdin]"
)
@click.option(
    "--to",
    "target",
    type=click.Choice(_FORMS),
    help="Format of OUT.  [default: by its name; jsonl for stdout]",
)
@click.option("--names", type=click.Choice(["json", "original"]), default="json", show_default=True,
              help="JSON: write names in lowerCamelCase, or as in the definition.")  # fmt: skip
@click.option("--enums", type=click.Choice(["name", "number"]), default="name", show_default=True,
              help="JSON: write enums as names or numbers.")  # fmt: skip
@click.option(
    "--defaults", is_flag=True, help="JSON: write fields without presence that are zero or empty, too."
)
@click.option(
    "--ignore-unknown", is_flag=True, help="JSON: skip fields and enum members that are not defined."
)
@click.option("--times", type=click.Choice(["ns", "us"]), default="ns", show_default=True,
              help="Parquet: write Timestamp and Duration in nanoseconds (years 1678 to 2261), or in "
              "microseconds (years 1 to 9999, finer digits are cut).")  # fmt: skip
@force_option
def convert(
    source: str,
    output: str,
    schema: str | None,
    proto: str | None,
    message: str | None,
    include: tuple[str, ...],
    form: str | None,
    target: str | None,
    names: str,
    enums: str,
    defaults: bool,
    ignore_unknown: bool,
    times: str,
    force: bool,
) -> None:
    """Convert messages between Protocol Buffers, JSON lines and Parquet.

    IN and OUT are .pb (each message after its length as a varint), .jsonl or .parquet files; .gz and .zst
    after .pb and .jsonl compress. - is stdin (.pb) or stdout (.jsonl), unless --from or --to says otherwise.

    The messages may have any type. JSON follows the canonical mapping of Protocol Buffers; the JSON lines of
    flowbuf read have other names and values. In Parquet, nested messages are structs, and times have
    nanoseconds. Years before 1678 and after 2261 are errors, unless --times us chooses microseconds. Parquet
    is read with any unit of its times. Messages from Parquet are equivalent, but may have other bytes.

    The first damaged message or line ends the command with an error that names its place. OUT appears whole
    or not at all.

    \b
    Examples:
      flowbuf convert orders.pb orders.jsonl --proto shop/order.proto --message Order --include protos
      flowbuf convert orders.jsonl.gz orders.pb --proto orders.desc --message shop.Order
      flowbuf convert telemetry.pb telemetry.parquet --schema telemetry
      flowbuf convert orders.pb orders.parquet --proto order.proto --times us
      flowbuf convert orders.pb - --proto order.proto --names original | jq .total
    """
    forms = form or _form_of(source, "--from"), target or _form_of(output, "--to")
    for path, each in zip((source, output), forms, strict=True):
        if each == "parquet" and path.endswith((".gz", ".zst")):
            raise UsageProblem(f"{path}: Parquet is compressed inside; leave out the suffix")
    if forms[1] != "jsonl" and (names != "json" or enums != "name" or defaults):
        raise UsageProblem("--names, --enums and --defaults apply only if OUT is JSON; leave them out")
    if forms[1] != "parquet" and times != "ns":
        raise UsageProblem("--times applies only if OUT is Parquet; leave it out")
    if forms[0] != "jsonl" and ignore_unknown:
        raise UsageProblem("--ignore-unknown applies only if IN is JSON; leave it out")
    check_inputs([source], output)
    check_overwrite(force, output)
    if "parquet" in forms:
        need("pyarrow", "arrow", "Parquet")
    if forms[0] == "parquet" and source == "-":
        raise UsageProblem("Parquet cannot be read from stdin; name a file")
    codec = _load(schema, proto, message, include, times)
    if "parquet" in forms:
        _check_columns(codec)
    options = {"names": names, "enums": enums, "defaults": defaults}
    count = 0
    unknown: list[int] = []
    report = Report()
    with ExitStack() as stack:
        file = stack.enter_context(open_output(output))
        if forms[1] != "jsonl":
            refuse_terminal(file, "messages")
        show = stack.enter_context(show_progress(total_size([source])))
        pieces = _read(stack, codec, source, forms[0], "ignore" if ignore_unknown else "error")
        try:
            count = _write(codec, pieces, file, forms, options, unknown.append, show)
        except (DecodeError, EncodeError) as error:
            raise Failure(f"{'<stdin>' if source == '-' else source}: {error}") from error
    report_unknown(report, source, unknown)
    if is_terminal(sys.stderr) and output != "-":
        report.add_note(count_things(count, "message"))
    sys.exit(report.status)


def _form_of(path: str, option: str) -> str:
    stem, suffix = os.path.splitext(path)
    if suffix in (".gz", ".zst"):
        suffix = os.path.splitext(stem)[1]
    form = _SUFFIXES.get(suffix.lower())
    if form is None and path == "-":
        form = "jsonl" if option == "--to" else "pb"
    if form is None:
        raise UsageProblem(
            f"{path}: {suffix or 'no suffix'} is not that of a format; choose one with {option}"
        )
    return form


def _load(
    schema: str | None, proto: str | None, message: str | None, include: tuple[str, ...], times: str
) -> Codec[Any]:
    definition = proto if schema is None else schema
    if definition is None:
        raise UsageProblem("define the messages with --proto FILE or with --schema NAME")
    if proto is not None and schema is not None:
        raise UsageProblem("--proto and --schema both define the messages; leave out one of them")
    return load_codec(definition, message, include, times)


def _check_columns(codec: Codec[Any]) -> None:
    """Raise UsageProblem if Parquet cannot hold the messages."""
    import pyarrow

    try:
        columns = pyarrow.schema(codec.read_columns(b""))
    except SchemaError as error:
        problem, column = error.problem, error.column
    else:
        problem = "has no fields, and Parquet has no empty structs"
        column = next((path for field in columns for path in _find_empty(field, field.name)), "")
        if columns and not column:
            return
    field = f"field {column!r}: " if column else ""
    problem = f"messages of {codec.message.name} have no columns for Parquet: {field}{problem}"
    raise UsageProblem(f"{problem}; convert them to JSON lines")


def _find_empty(field: Any, path: str) -> Iterator[str]:
    """Yield the paths of structs without fields in a field of Arrow."""
    import pyarrow

    if pyarrow.types.is_struct(field.type) and not field.type.num_fields:
        yield path
    for inner in map(field.type.field, range(field.type.num_fields)):
        named = pyarrow.types.is_struct(field.type) and not pyarrow.types.is_map(field.type)
        yield from _find_empty(inner, f"{path}.{inner.name}" if named else path)


def _read(
    stack: ExitStack, codec: Codec[Any], source: str, form: str, unknown: str
) -> Iterator[tuple[Piece, int]]:
    """Yield the messages, and the position in the file behind them."""
    from flowbuf.codec.convert import read_json_lines, read_parquet, read_stream

    if form == "parquet":
        return ((piece, 0) for piece in read_parquet(codec, source))
    with open_errors():
        try:
            content = stack.enter_context(Content(source, ends_at_error=True))
        except CaptureError as error:
            raise UsageProblem(str(error)) from error
    pieces = read_stream(content) if form == "pb" else read_json_lines(codec, content, unknown)
    return ((piece, content.position) for piece in pieces)


def _write(
    codec: Codec[Any],
    pieces: Iterator[tuple[Piece, int]],
    file: OutputFile,
    forms: tuple[str, str],
    options: dict[str, Any],
    left_out: Callable[[int], None],
    show: Show,
) -> int:
    """Write the messages, and return their number. `forms`: formats of the input and the output."""
    from flowbuf.codec.convert import to_json_lines

    count = 0

    def counted() -> Iterator[Piece]:
        nonlocal count
        for piece, position in pieces:
            count += piece[1]
            show(position, count)
            yield piece

    if forms[1] == "parquet":
        left_out(_write_columns(codec, counted(), file, has_offsets=forms[0] == "pb"))
        return count
    chunks = to_json_lines(codec, counted(), left_out, **options) if forms[1] == "jsonl" else counted()
    for chunk, _ in chunks:
        file.write(chunk)
    return count


def _write_columns(codec: Codec[Any], pieces: Iterator[Piece], file: OutputFile, has_offsets: bool) -> int:
    """Write the messages as Parquet, and return the number of unknown fields.

    `has_offsets`: offsets in the messages are those in the input.
    """
    import pyarrow

    from flowbuf.codec.convert import to_batches

    stream = to_batches(codec, pieces)
    rows = 0
    with open_sink("parquet", file, pyarrow.schema(stream)) as sink:
        try:
            for batch in stream:
                sink.write(batch.to_arrow())
                rows += len(batch)
        except DecodeError as error:
            raise _located(error, rows, has_offsets) from error
    return stream.counters.get("unknown_field", 0)


def _located(error: DecodeError, row: int, has_offsets: bool) -> DecodeError:
    """Return an error of a message with its number. Other errors have a place in the input."""
    origin, _, problem = str(error).partition(": ")
    if origin != JoinedPieces.name:
        return error
    if not has_offsets:
        problem = problem.partition(": ")[2]
    return DecodeError(f"[{row}]: {problem.replace('use microseconds', 'add --times us')}")
