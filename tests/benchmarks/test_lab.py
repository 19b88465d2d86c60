"""The serialization lab (benchmarks/lab): every format returns exactly the records that it encoded.

The data are the same on every machine.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowbuf
from benchmarks.lab import FAMILIES, FORMATS, Coder, Family, Format, select_formats
from benchmarks.lab.families import EPOCH, LATEST, Field, Record
from tests.strategies.basics import register_profiles
from tests.support.cases import slow, slow_after

register_profiles()
ROOT = Path(__file__).parents[2]
DIGESTS = {
    "telemetry": "5b272f03cb09b738",
    "record": "39f566cf894a11e4",
    "client_message": "bd79c3f5a1644bcc",
}
PAIRS = [(each, family) for each in FORMATS for family in FAMILIES.values()]
each_pair = pytest.mark.parametrize(("form", "family"), PAIRS, ids=lambda part: part.name)
each_family = pytest.mark.parametrize("family", slow_after(1, FAMILIES.values()), ids=lambda part: part.name)
each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda part: part.name)


def open_coder(form: Format, family: Family) -> Coder:
    if reason := form.absent():
        pytest.skip(f"{form.name} is {reason}")
    return form.open(family)


def typed(value: Any) -> Any:
    """Return the value with its types, so that True differs from 1, 1 from 1.0, and times from texts."""
    if isinstance(value, dict):
        return {key: typed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [typed(each) for each in value]
    return (type(value), value.utcoffset() if isinstance(value, datetime) else None, value)


# The data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_data_are_the_same_on_every_machine(name: str) -> None:
    text = json.dumps(FAMILIES[name].records, default=datetime.isoformat)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_records_are_distinct_and_rotated(family: Family) -> None:
    assert len({repr(record) for record in family.records}) == 256
    longer = family.rotate(600, start=250)
    assert longer[:8] == [*family.records[250:], *family.records[:2]]
    assert longer[:344] == longer[256:]
    strings = [value for record in longer for value in record.values() if isinstance(value, str)]
    assert len({id(value) for value in strings}) == len(strings)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_the_fields_of_their_schemas(name: str) -> None:
    """Compare names, order and types, including those of sub-records."""
    pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install protobuf")
    described = flowbuf.Schema.load(name).message_class().DESCRIPTOR
    assert list(read_fields(FAMILIES[name].fields)) == list(read_descriptor(described))


def read_fields(fields: Sequence[Field]) -> Iterator[tuple[str, str, object]]:
    """Yield name, Protocol Buffers type and inner fields of each field."""
    for field in fields:
        kind = {"int16": "int32", "uint8": "uint32", "time": "Timestamp"}.get(field.kind, field.kind)
        yield field.name, kind, list(read_fields(field.fields))


def read_descriptor(message: Any) -> Iterator[tuple[str, str, object]]:
    types = {
        getattr(message.fields[0], name): name[5:].lower()
        for name in dir(message.fields[0])
        if name[:5] == "TYPE_"
    }
    for field in sorted(message.fields, key=lambda field: field.number):
        inner = field.message_type
        if inner and inner.full_name == "google.protobuf.Timestamp":
            yield field.name, "Timestamp", []
        else:
            kind = types[field.type] + "s" * (inner is not None and field.is_repeated)
            yield field.name, kind, list(read_descriptor(inner)) if inner else []


def test_kinds_of_fields_of_the_families() -> None:
    kinds = {name: [field.kind for field in family.fields] for name, family in FAMILIES.items()}
    assert sorted(kinds["telemetry"]) == sorted(
        ["string"] * 4 + ["double"] * 4 + ["uint64"] * 2 + ["uint32"] * 2
    )
    assert kinds["client_message"] == ["string", "string", "int64"]
    assert kinds["record"] == [
        *(
            "string",
            "bool",
            "sint64",
            "int16",
            "int64",
            "uint64",
            "uint8",
            "uint32",
            "time",
            "message",
            "messages",
        )
    ]
    assert {len(record["children"]) for record in FAMILIES["record"].records} == {10}
    assert FAMILIES["record"].batches == (1, 10, 100, 1000, 10_000)


@pytest.mark.parametrize(("name", "size"), [("protobuf-upb", 104), ("avro-fastavro", 93), ("orjson", 310)])
def test_mean_size_of_encoded_telemetry(name: str, size: int) -> None:
    family = FAMILIES["telemetry"]
    coder = open_coder(*select_formats(name), family)
    assert sum(len(coder.encode(record)) for record in family.records) / 256 == pytest.approx(size, rel=0.02)


# Round trips ------------------------------------------------------------------------------------------------


@each_format
@each_family
def test_a_record_comes_back_exactly(form: Format, family: Family) -> None:
    """Records at the limits of their types are included."""
    coder = open_coder(form, family)
    for record in (*family.records, *family.extremes):
        data = coder.encode(coder.prepare(record))
        assert type(data) is bytes
        assert typed(coder.restore(coder.decode(data))) == typed(record)


@each_pair
@pytest.mark.parametrize("count", [0, 10, *slow(1, 1000)])
def test_a_batch_comes_back_exactly(form: Format, family: Family, count: int) -> None:
    coder = open_coder(form, family)
    records = [*family.rotate(count), *family.extremes[: count and 3]]
    data = coder.encode_batch([coder.prepare(record) for record in records])
    assert typed([coder.restore(each) for each in coder.decode_batch(data)]) == typed(records)


@each_pair
def test_preparation_changes_only_the_shape_of_a_record(form: Format, family: Family) -> None:
    """All work of a format is timed: its inputs and outputs have plain values."""
    coder = open_coder(form, family)
    record = family.records[0]
    prepared = coder.prepare(record)
    if form.shape == "dict":
        assert prepared is record
        assert coder.restore(record) is record
    elif form.shape == "tuple":
        assert typed(prepared) == typed(family.to_values(record))
    else:
        assert form.shape == "Struct"
        first = [getattr(prepared, field.name) for field in family.fields if not field.fields]
        assert typed(first) == typed([record[field.name] for field in family.fields if not field.fields])


def values_of(field: Field) -> st.SearchStrategy[Any]:
    if field.fields:
        one = st.fixed_dictionaries({each.name: values_of(each) for each in field.fields})
        return st.none() | one if field.kind == "message" else st.lists(one, max_size=3)
    if field.bounds:
        return st.integers(*field.bounds)
    return {
        "string": st.text(max_size=40),
        "bool": st.booleans(),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "time": st.integers(0, (LATEST - EPOCH) // timedelta(microseconds=1)).map(
            lambda microseconds: EPOCH + timedelta(microseconds=microseconds)
        ),
    }[field.kind]


@pytest.mark.slow
@each_pair
@settings(max_examples=min(60, settings.default.max_examples), deadline=None)
@given(data=st.data())
def test_any_record_comes_back_exactly(form: Format, family: Family, data: st.DataObject) -> None:
    coder = open_coder(form, family)
    record: Record = {field.name: data.draw(values_of(field)) for field in family.fields}
    assert typed(coder.restore(coder.decode(coder.encode(coder.prepare(record))))) == typed(record)


# Properties of formats --------------------------------------------------------------------------------------


def test_names_are_unique_and_can_be_selected() -> None:
    names = [form.name for form in FORMATS]
    assert len(set(names)) == len(names)
    assert [form.name for form in select_formats("struct, json")] == ["struct", "json"]
    assert select_formats() == list(FORMATS)
    with pytest.raises(ValueError, match="unknown format morse; choose from flowbuf, "):
        select_formats("json,morse")


@each_pair
def test_only_keyed_formats_write_names_of_fields(form: Format, family: Family) -> None:
    """Formats with names as keys write them even for empty values. Only text formats are valid JSON."""
    coder = open_coder(form, family)
    _, empty, _ = family.extremes
    data = coder.encode(coder.prepare(empty))
    assert (form.keys != "positional") == form.keyed
    if form.keys != "numbers":
        assert all((field.name.encode() in data) == form.keyed for field in family.fields)
    if form.text:
        json.loads(data.decode())
    else:
        with pytest.raises(ValueError, match=r"."):
            json.loads(data.decode())


@each_pair
def test_strings_are_copies_or_views_as_documented(form: Format, family: Family) -> None:
    """Decoded views keep the message alive. Copies do not."""
    coder = open_coder(form, family)
    data = coder.encode(coder.prepare(family.records[0]))
    batch = coder.encode_batch([coder.prepare(record) for record in family.records])
    before = [sys.getrefcount(each) for each in (data, batch)]
    decoded = coder.decode(data), coder.decode_batch(batch)
    after = [sys.getrefcount(each) for each in (data, batch)]
    assert [now > then for now, then in zip(after, before, strict=True)] == [form.strings == "views"] * 2
    assert form.strings in ("copies", "views")
    assert typed(coder.restore(decoded[0])) == typed(family.records[0])


def test_generated_and_dynamic_messages_are_the_same() -> None:
    dynamic, generated = select_formats("protobuf-upb,protobuf-upb-generated")
    for family in FAMILIES.values():
        one, other = open_coder(dynamic, family), open_coder(generated, family)
        assert [one.encode(record) for record in family.records] == [
            other.encode(record) for record in family.records
        ]


def test_a_missing_library_is_reported() -> None:
    """The lab can be imported without any library."""
    modules = [
        "google.protobuf",
        "grpc_tools",
        "orjson",
        "msgspec",
        "fastavro",
        "msgpack",
        "ormsgpack",
        "cbor2",
    ]
    script = f"""
import sys
sys.modules.update(dict.fromkeys({modules}))
from benchmarks.lab import FORMATS
for form in FORMATS:
    print(form.name, form.absent(), sep="|")
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    said = dict(line.split("|") for line in done.stdout.splitlines())
    assert said["protobuf-upb-generated"] == "not installed: pip install protobuf grpcio-tools"
    assert said["avro-fastavro"] == "not installed: pip install fastavro"
    own = ["flowbuf", "flowbuf-tuple", "flowbuf-reference", "json", "pickle", "pickle-array", "struct"]
    assert [name for name, reason in said.items() if reason == "None"] == own
