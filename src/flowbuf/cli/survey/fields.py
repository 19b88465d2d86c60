"""Fields of the templates of a capture, as sources of columns, each with a value from the capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from flowbuf._core import MAX_COLUMNS, MessageReader
from flowbuf.decoder import Decoder
from flowbuf.errors import CaptureError
from flowbuf.io.capture import CaptureReader
from flowbuf.io.encode import decode_batches
from flowbuf.io.message_stream import read_in_steps
from flowbuf.schema import Column, Schema, elements
from flowbuf.schema.derived import DERIVED
from flowbuf.schema.plan import compile_plan
from flowbuf.schema.source import Source
from flowbuf.targets.flow_text import text_renderer

__all__ = ["survey_fields"]

FIRST_NUMBER = 1000
SAMPLED_FLOWS = 10_000
"""Most flows that are searched for a value of each field."""

# Types of columns by the data types of RFC 7012. Lists of records have no column type of their own.
_TYPES: dict[str, dict[str, str]] = {
    **{f"unsigned{bits}": {"type": "uint64"} for bits in (8, 16, 32, 64)},
    **{f"signed{bits}": {"type": "sint64"} for bits in (8, 16, 32, 64)},
    **{f"float{bits}": {"type": "double"} for bits in (32, 64)},
    **{"boolean": {"type": "bool"}, "macAddress": {"type": "mac"}, "string": {"type": "string"}},
    **{"ipv4Address": {"type": "ip"}, "ipv6Address": {"type": "ip"}, "octetArray": {"type": "bytes"}},
    "dateTimeSeconds": {"type": "timestamp", "unit": "s"},
    "dateTimeMilliseconds": {"type": "timestamp", "unit": "ms"},
    "dateTimeMicroseconds": {"type": "timestamp", "unit": "us"},
    "dateTimeNanoseconds": {"type": "timestamp", "unit": "ns"},
}
_WHOLE_SIZES = (1, 2, 4, 8)


def survey_fields(
    survey: dict[str, Any], path: str | None, port: int | None, new_decoder: Callable[[Schema], Decoder]
) -> list[dict[str, Any]]:
    """Return the fields of all data templates, each once.

    Args:
        survey: Result of `survey_capture`.
        path: The capture, to be read again for values. None: values are unknown.
        port: Read only datagrams to this UDP port.
        new_decoder: Returns a decoder for a schema.

    Returns:
        list: Objects with `source` (for the key `sources` of a column), `sample` (text, or None), and
            `columns` (columns of the schema `flow` with this source, otherwise those calculated from it).
            Fields beyond the largest number of columns of a schema have no sample.
    """
    fields = _find_fields(survey)
    samples = _find_samples(fields, path, port, new_decoder) if path and fields else {}
    columns = _columns_by_source()
    return [
        {"source": text, "sample": samples.get(text), "columns": columns.get(Source.parse(text).key, [])}
        for text in fields
    ]


def _find_fields(survey: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of data templates by their sources, in the order of their first occurrence."""
    fields: dict[str, dict[str, Any]] = {}
    for exporter in survey["exporters"]:
        for domain in exporter["domains"]:
            for template in domain["templates"]:
                if template["kind"] == "data":
                    for each in template["fields"]:
                        if each["id"] or each["pen"]:  # no element has the id 0 (RFC 7012)
                            fields.setdefault(_source_of(each, domain["protocol"]), each)
    return fields


def _source_of(field: dict[str, Any], protocol: str) -> str:
    if field["pen"]:
        return f"ipfix:{field['pen']}/{field['id']}"
    if field["name"]:
        return f"ipfix:{field['name']}"
    return f"{'netflow9' if protocol == 'NetFlow v9' else 'ipfix'}:{field['id']}"


def _columns_by_source() -> dict[Any, list[str]]:
    direct: dict[Any, list[str]] = {}
    calculated: dict[Any, list[str]] = {}
    for column in Schema.load("flow"):
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
    known = elements.by_id(field["id"]) if not field["pen"] else None
    if known:
        return dict(_TYPES.get(known.data_type, {}))
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
