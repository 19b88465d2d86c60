"""Several kinds of rows in one pass: flows and counter samples of sFlow, each in an output of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st

import flowbuf
from flowbuf import Decoder
from flowbuf._core import pack_datagrams
from flowbuf.io.capture import CaptureReader
from flowbuf.schema import Schema
from flowbuf.schema.row_kinds import choose_schemas, switch_each
from tests.reference.decoder import Decoder as Reference
from tests.reference.wire import decode_message, split_delimited
from tests.strategies.basics import Sent, sources
from tests.strategies.counters import counter_samples
from tests.strategies.datagrams import mutated_sequences
from tests.strategies.schemas import everything
from tests.strategies.sflow import sflow_samples
from tests.support import datagrams as d
from tests.support.columnar import rows_expected, rows_of
from tests.support.core_adapter import sequences_of
from tests.support.decoding import RECEIVED, SOURCE, VALUE_NOTES

DATA = Path(__file__).parents[1] / "data"
COUNTERS = Schema.load("sflow_counters")
BOTH = ["flow", "sflow_counters"]
SKIPPED = {"counter_sample", "drop_sample", "flows_left_out"}
"""Statuses of samples that have no row in a pass for one kind."""


def counter_record(value: int) -> bytes:
    return d.counters(1, "iihiihiiiiiihiiiiii", *[value] * 19)


MIXED = d.sflow(
    d.counters_sample(counter_record(1), sequence=1, source=(0, 7)),
    d.flow_sample(sequence=1, rate=10),
    d.flow_sample(sequence=2, rate=20),
    d.counters_sample(counter_record(2), sequence=2, source=(0, 7)),
    d.flow_sample(sequence=3, rate=30),
)
"""A datagram in which both kinds of samples alternate."""


def messages_of(schema: Schema, stream: bytes) -> list[dict[str, Any]]:
    columns = {column.number: column for column in schema.enabled}
    return [decode_message(columns, message) for message in split_delimited(stream)]


def strict(counters: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counters.items() if name not in VALUE_NOTES and count}


def payloads_of(path: Path) -> list[bytes]:
    with CaptureReader(path) as reader:
        return [batch[i][0] for batch in reader.batches() for i in range(len(batch))]


def test_each_kind_has_its_own_messages() -> None:
    decoder = Decoder(schemas=BOTH)
    rows = decoder.encode_rows([MIXED], SOURCE, RECEIVED)
    assert list(rows) == ["flows", "counters"]
    assert rows["flows"] == Decoder("flow").encode(MIXED, SOURCE, RECEIVED)
    assert rows["counters"] == Decoder("sflow_counters").encode(MIXED, SOURCE, RECEIVED)
    assert decoder.rows == {"flows": 3, "counters": 2}
    assert (decoder.flows, decoder.counters) == (5, {})
    (stats,) = decoder.stats.values()
    assert (stats["datagrams"], stats["flows"], stats["rows"]) == (1, 5, {"flows": 3, "counters": 2})


def test_each_kind_has_its_own_columns() -> None:
    decoder = Decoder(schemas=reversed(BOTH))
    batches = decoder.column_rows([MIXED], SOURCE, RECEIVED, ip="text")
    assert [(rows, batch.schema.rows, len(batch)) for rows, batch in batches.items()] == [
        ("flows", "flows", 3),
        ("counters", "counters", 2),
    ]
    assert [schema.name for schema in decoder.schemas] == BOTH
    expected = Decoder("sflow_counters").columns(MIXED, SOURCE, RECEIVED, ip="text")
    assert rows_of(batches["counters"]) == rows_of(expected)


@pytest.mark.parametrize(
    ("schemas", "problem"),
    [
        ([], "schemas is empty; pass at least one schema"),
        (["flow", "goflow2"], "schemas flow and goflow2 both describe rows of flows; pass one of them"),
    ],
)
def test_schemas_have_different_kinds_of_rows(schemas: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Decoder(schemas=schemas)


def test_one_schema_in_a_list_is_like_a_schema() -> None:
    decoder = Decoder(schemas=["sflow_counters"])
    assert (
        decoder.encode(MIXED, SOURCE, RECEIVED) == decoder.encode_rows([MIXED], SOURCE, RECEIVED)["counters"]
    )
    assert decoder.counters == {"flows_left_out": 6}


def test_methods_for_one_kind_name_those_for_several() -> None:
    decoder = Decoder(schemas=BOTH)
    for call in (
        lambda: decoder.encode(MIXED, SOURCE),
        lambda: decoder.messages(MIXED, SOURCE),
        lambda: decoder.encode_many([MIXED], SOURCE),
        lambda: decoder.columns(MIXED, SOURCE),
    ):
        with pytest.raises(ValueError, match="this decoder has several schemas; use "):
            call()
    assert decoder.rows == {"flows": 0, "counters": 0}


def test_overrides_apply_to_each_schema_with_the_column() -> None:
    decoder = Decoder(schemas=BOTH)
    override = {"exporter_address": "203.0.113.9", "sampling_rate": 5}
    with pytest.raises(KeyError, match="no_column"):
        decoder.encode_rows([MIXED], SOURCE, override={"no_column": 1})
    for batches in (
        decoder.column_rows([MIXED], SOURCE, override=override, ip="text"),
        decoder.column_rows([MIXED], SOURCE, override=override, ip="text"),
    ):
        rows = {kind: rows_of(batch) for kind, batch in batches.items()}
        assert {row["exporter_address"] for kind in rows for row in rows[kind]} == {"203.0.113.9"}
        assert {row["sampling_rate"] for row in rows["flows"]} == {5}
    plain = rows_of(decoder.column_rows([MIXED], SOURCE, ip="text")["counters"])
    assert {row["exporter_address"] for row in plain} == {"192.0.2.200"}


def test_options_for_flows_do_not_change_counters() -> None:
    decoder = Decoder(schemas=BOTH, scale=True, time="flow-start", default_sampling_rate=7)
    rows = decoder.encode_rows([MIXED], SOURCE, RECEIVED)
    assert rows["counters"] == Decoder("sflow_counters").encode(MIXED, SOURCE, RECEIVED)
    assert rows["flows"] == Decoder("flow", scale=True, time="flow-start").encode(MIXED, SOURCE, RECEIVED)


@pytest.mark.parametrize("rows", range(2, 8))
def test_full_tables_of_any_kind_lose_nothing(rows: int) -> None:
    payloads = [MIXED, d.sflow(d.counters_sample(counter_record(3), sequence=3)), MIXED[:-20], MIXED]
    whole = Decoder(schemas=BOTH).column_rows(payloads, SOURCE, RECEIVED)
    decoder = Decoder(schemas=BOTH)
    builder = decoder.new_builder(rows)
    tables = builder.decode(pack_datagrams(payloads, SOURCE, RECEIVED))
    assert all(len(table) <= rows for table in tables)
    batches = [decoder.as_batch(table) for table in (*tables, *builder.finish_each())]
    for kind, expected in whole.items():
        found = [row for batch in batches if batch.schema.rows == kind for row in rows_of(batch)]
        assert found == rows_of(expected)
    assert decoder.rows == {kind: len(batch) for kind, batch in whole.items()}


@st.composite
def sflow_datagrams(draw: st.DrawFn) -> Sent:
    """Draw a datagram with samples of all kinds in any order."""
    samples = draw(st.lists(st.one_of(sflow_samples(), counter_samples()), max_size=5))
    return d.sflow(*samples, sub_agent=draw(st.integers(0, 1))), draw(sources)


sflow_sequences = st.lists(sflow_datagrams(), min_size=1, max_size=2)


def assert_passes_agree(sequence: list[Sent]) -> None:
    """One pass gives what the reference gives, and what a pass for each kind gives."""
    both = Decoder(schemas=[everything, COUNTERS])
    reference = Reference(everything, others=[COUNTERS])
    alone = {schema.rows: Decoder(schema) for schema in both.schemas}
    for payload, source in sequence:
        note(f"{source[0]} {payload.hex()}")
        rows = both.encode_rows([payload], source, RECEIVED)
        expected = reference.decode_rows(payload, source, RECEIVED)
        single = {kind: decoder.encode(payload, source, RECEIVED) for kind, decoder in alone.items()}
        for schema in both.schemas:
            assert sorted_names(messages_of(schema, rows[schema.rows])) == sorted_names(expected[schema.rows])
            assert rows[schema.rows] == single[schema.rows]
    both.finish()
    reference.finish()
    assert strict(both.counters) == strict(reference.counters)
    assert sequences_of(both) == reference.sequences
    assert not both.counters.keys() & SKIPPED


def sorted_names(messages: list[dict[str, Any]]) -> list[str]:
    return [repr(sorted(message.items())) for message in messages]


TAGGED = d.sampled_header(bytes(12) + 50 * bytes.fromhex("81000001") + bytes.fromhex("0800"))
LAYERS = [d.sflow(d.discarded_packet(TAGGED)), d.sflow(d.flow_sample(TAGGED, sequence=1, rate=10))]


@example([(payload, SOURCE) for payload in LAYERS])
@given(st.one_of(sflow_sequences, mutated_sequences(sflow_sequences)))
def test_flows_and_counter_samples_agree(sequence: list[Sent]) -> None:
    assert_passes_agree(sequence)


def test_notes_on_packets_belong_to_kinds_that_read_them() -> None:
    """Only flows list the layers of a packet, so only a flow sample has more of them than fit."""
    for payload, count in zip(LAYERS, (None, 1), strict=True):
        decoder = Decoder(schemas=[everything, COUNTERS])
        decoder.encode_rows([payload], SOURCE, RECEIVED)
        assert decoder.counters.get("layer_limit") == count


def test_every_prefix_and_corrupted_byte_agrees() -> None:
    cut = [(MIXED[:size], SOURCE) for size in range(0, len(MIXED), 3)]
    changed = [
        (MIXED[:at] + bytes([MIXED[at] ^ 0x41]) + MIXED[at + 1 :], SOURCE) for at in range(4, len(MIXED), 5)
    ]
    both, reference = Decoder(schemas=BOTH), Reference(Schema.load("flow"), others=[COUNTERS])
    for payload, source in (*cut, *changed):
        rows = both.encode_rows([payload], source, RECEIVED)
        expected = reference.decode_rows(payload, source, RECEIVED)
        for schema in both.schemas:
            found = messages_of(schema, rows[schema.rows])
            assert sorted_names(found) == sorted_names(expected[schema.rows]), payload.hex()
    assert strict(both.counters) == strict(reference.counters)


CAPTURES = [
    *sorted(DATA.glob("*.pcap")),
    *sorted(Path(os.environ.get("FLOWBUF_CORPUS", "no-corpus")).glob("sflow*.pcap")),
]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_capture_gives_the_rows_of_a_pass_for_each_kind(capture: Path) -> None:
    payloads = payloads_of(capture)
    both = Decoder(schemas=BOTH)
    rows = both.encode_rows(payloads, SOURCE, RECEIVED)
    columns = Decoder(schemas=BOTH).column_rows(payloads, SOURCE, RECEIVED)
    for schema in both.schemas:
        assert rows[schema.rows] == Decoder(schema).encode_many(payloads, SOURCE, RECEIVED)
        assert rows_of(columns[schema.rows]) == rows_expected(rows[schema.rows], schema)
    assert both.read_totals()["datagrams"] == len(payloads)


def test_schemas_follow_from_the_kinds_of_rows() -> None:
    assert [schema.name for schema in choose_schemas([])] == ["flow"]
    assert [schema.name for schema in choose_schemas(["counters"])] == ["sflow_counters"]
    assert [schema.name for schema in choose_schemas(["counters", "flows"], "goflow2")] == [
        "goflow2",
        "sflow_counters",
    ]
    assert [schema.name for schema in choose_schemas(["options", "flows"])] == ["flow", "options"]
    with pytest.raises(
        flowbuf.SchemaError, match="rows 'rates' do not exist; write flows, counters or options"
    ):
        choose_schemas(["flows", "rates"])
    with pytest.raises(flowbuf.SchemaError, match="schema akvorado describes rows of flows, not of counters"):
        choose_schemas(["flows", "counters"], "flow", "akvorado")


def test_names_of_columns_apply_to_the_schemas_that_have_them() -> None:
    flows, counters = switch_each(choose_schemas(["flows", "counters"]), only=["packets", "src_as"])
    assert [column.name for column in flows.enabled] == ["packets", "src_as"]
    assert counters == COUNTERS
    flows, counters = switch_each((flows, counters), disable=["if_index"], enable=["group:l2"])
    assert "src_mac" in {column.name for column in flows.enabled}
    assert "if_index" not in {column.name for column in counters.enabled}
    with pytest.raises(
        flowbuf.SchemaError, match="schemas flow and sflow_counters have no column or group 'x'"
    ):
        switch_each((flows, counters), enable=["x"])
