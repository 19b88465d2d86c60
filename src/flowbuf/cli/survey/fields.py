"""Fields of the templates of a capture, as sources of columns, each with a value from the capture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from flowbuf._core import MAX_COLUMNS, MessageReader
from flowbuf.cli.output.report import REVERSE_PEN
from flowbuf.decoder import Decoder
from flowbuf.errors import CaptureError
from flowbuf.io.capture import CaptureReader
from flowbuf.io.encode import decode_batches
from flowbuf.io.message_stream import read_in_steps
from flowbuf.schema import Column, Schema, elements
from flowbuf.schema.derived import DERIVED, HELPERS
from flowbuf.schema.plan import compile_plan
from flowbuf.schema.source import Source
from flowbuf.schema.vendor_columns import column_type
from flowbuf.targets.flow_text import text_renderer

__all__ = ["find_fields", "survey_fields"]

FIRST_NUMBER = 1000
SAMPLED_FLOWS = 10_000
"""Most flows that are searched for a value of each field."""

PADDING = 210  # paddingOctets

_WHOLE_SIZES = (1, 2, 4, 8)


def survey_fields(
    survey: dict[str, Any],
    path: str | None,
    port: int | None,
    new_decoder: Callable[[Schema], Decoder],
    schema: Schema | None = None,
) -> list[dict[str, Any]]:
    """Return the fields of all data templates, each once, and mark their uses in the templates.

    Each field of a data template gets the key `used`.

    Args:
        survey: Result of `survey_capture`.
        path: The capture, to be read again for values. None: values are unknown.
        port: Read only datagrams to this UDP port.
        new_decoder: Returns a decoder for a schema.
        schema: Schema whose columns are named. Default: `flow`.

    Returns:
        list: Objects with `source` (for the key `sources` of a column), `sample` (text, or None), `columns`
            (columns of the schema with this source, otherwise those calculated from it), and `used` (True if
            there are columns, or if flowbuf uses the field in another way). Fields beyond the largest number
            of columns of a schema have no sample.
    """
    fields = find_fields(survey)
    samples = _find_samples(fields, path, port, new_decoder) if path and fields else {}
    columns = _columns_by_source(schema or Schema.load("flow"))
    found = []
    for text, each in fields.items():
        filled = columns.get(_key_of(text, each), [])
        used = bool(filled) or text in HELPERS or (each["id"] == PADDING and not each["pen"])
        found.append({"source": text, "sample": samples.get(text), "columns": filled, "used": used})
    used_sources = {each["source"] for each in found if each["used"]}
    for protocol, template in _data_templates(survey):
        for each in template["fields"]:
            each["used"] = _source_of(each, protocol) in used_sources
    return found


def _key_of(source: str, field: dict[str, Any]) -> Any:
    """Return the key of a source. A reverse element fills the columns of its counterpart."""
    if field["pen"] == REVERSE_PEN and field["id"]:
        return Source.parse(f"ipfix:{field['id']}").key
    return Source.parse(source).key


def find_fields(survey: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of data templates by their sources, in the order of their first occurrence."""
    fields: dict[str, dict[str, Any]] = {}
    for protocol, template in _data_templates(survey):
        for each in template["fields"]:
            if each["id"] or each["pen"]:  # no element has the id 0 (RFC 7012)
                fields.setdefault(_source_of(each, protocol), each)
    return fields


def _data_templates(survey: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the protocol of each data template, and the template."""
    for exporter in survey["exporters"]:
        for domain in exporter["domains"]:
            for template in domain["templates"]:
                if template["kind"] == "data":
                    yield domain["protocol"], template


def _source_of(field: dict[str, Any], protocol: str) -> str:
    element = elements.by_number(field["pen"], field["id"])
    if element and element.vendor:
        return f"{element.vendor}:{element.name}"
    if field["pen"]:
        return f"ipfix:{field['pen']}/{field['id']}"
    if element:
        return f"ipfix:{element.name}"
    return f"{'netflow9' if protocol == 'NetFlow v9' else 'ipfix'}:{field['id']}"


def _columns_by_source(schema: Schema) -> dict[Any, list[str]]:
    direct: dict[Any, list[str]] = {}
    calculated: dict[Any, list[str]] = {}
    for column in schema:
        for source in (source for equals in column.sources for source in equals):
            direct.setdefault(source.key, []).append(column.name)
            for part in DERIVED.get(str(source), "").split():
                key = Source.parse(part if ":" in part else f"ipfix:{part}").key
                calculated.setdefault(key, []).append(column.name)
    return {**calculated, **direct}


# Values -----------------------------------------------------------------------------------------------------


def _find_samples(
    fields: dict[str, dict[str, Any]],
    path: str,
    port: int | None,
    new_decoder: Callable[[Schema], Decoder],
) -> dict[str, str]:
    """Return a value of each field as text. A zero is used only if no other value is found."""
    sources: dict[str, str] = {}
    columns: list[Column] = []
    for number, (text, each) in enumerate(islice(fields.items(), MAX_COLUMNS - 1), FIRST_NUMBER):
        if type := _type_of(each):
            table = {"name": f"field_{number}", "number": number, "sources": [text], **type}
            columns.append(Column.from_table({**table, "explicit": True}, "inspect"))
            sources[columns[-1].name] = text
    base = Schema.load("flow")
    schema = replace(base, columns=(base["exporter_address"], *columns))
    renderers = {name: text_renderer(schema[name]) for name in sources}
    samples: dict[str, str] = {}
    waiting = set(sources)
    for flow in islice(_read_flows(path, port, schema, new_decoder), SAMPLED_FLOWS):
        for name in [name for name in waiting if name in flow]:
            value = flow[name]
            samples.setdefault(sources[name], renderers[name](value))
            if any(value) if isinstance(value, bytes) else value:
                samples[sources[name]] = renderers[name](value)
                waiting.remove(name)
        if not waiting:
            break
    return samples


def _type_of(field: dict[str, Any]) -> dict[str, Any]:
    """Return the type of a column for a field, as arguments of `Schema.add`. Empty: there is none."""
    known = elements.by_number(field["pen"], field["id"])
    if known and known.data_type:
        table = column_type(known.data_type)
        widest = re.sub("[0-9]+$", "64", table.get("type", ""))  # exporters may use another size
        return table and table | {"type": "double" if widest == "float" else widest}
    return {"type": "uint64" if field["size"] in _WHOLE_SIZES else "bytes"}


def _read_flows(
    path: str, port: int | None, schema: Schema, new_decoder: Callable[[Schema], Decoder]
) -> Iterator[dict[str, Any]]:
    """Yield the flows of a capture. The first pass has reported its damage."""
    decoder = new_decoder(schema)
    reader = MessageReader(compile_plan(schema))
    with suppress(CaptureError, OSError), CaptureReader(path, port) as capture:
        for _, messages in decode_batches(capture, decoder):
            for flows in read_in_steps(reader, messages):
                yield from flows
