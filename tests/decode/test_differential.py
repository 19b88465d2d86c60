"""The core and the Python reference agree on all datagrams, for any schema and in any batches.

The datagrams are valid or broken. HYPOTHESIS_PROFILE=deep runs more examples.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from flowbuf import Decoder, encode_columns
from flowbuf.schema import Schema
from tests.reference.tunnel import TUNNELS
from tests.reference.wire import decode_message, split_delimited
from tests.strategies.basics import Sent
from tests.strategies.counters import counter_sequences
from tests.strategies.datagrams import (
    VALID,
    living_templates,
    mixed_sequences,
    mutated_sequences,
    policies,
    sampled_packet_sequences,
    tunnelled_sequences,
    valid_sequences,
)
from tests.strategies.schemas import Changes, everything, schema_changes
from tests.strategies.sequences import numbered_sequences
from tests.support.columnar import rows_expected, rows_of
from tests.support.core_adapter import sequences_of
from tests.support.datagrams import data_set, ipfix, template, template_set
from tests.support.decoding import FLOW, RECEIVED, SOURCE, VALUE_NOTES, Outcome, run_decoder

COUNTERS = Schema.load("sflow_counters")
COUNTERS = COUNTERS.enable(*(column.name for column in COUNTERS))
OPTIONS = Schema.load("options").enable("group:others")
# All kinds of tunnels, each kind alone, or none.
DECAPSULATIONS = [TUNNELS, TUNNELS, *((tunnel,) for tunnel in TUNNELS), ()]


def outcome_of(implementation: str, sequence: list[Sent], schema: Schema, **options: Any) -> Outcome:
    return run_decoder(implementation, sequence, schema, finish=True, **options)


def comparable(value: Any) -> Any:
    """Return a value that equals itself: NaN becomes a string."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def assert_agree(sequence: list[Sent], schema: Schema, **options: Any) -> None:
    expected, found = (outcome_of(name, sequence, schema, **options) for name in ("reference", "core"))
    for (payload, source), flows_expected, flows_found in zip(
        sequence, expected.datagrams, found.datagrams, strict=True
    ):
        note(f"{source[0]} {payload.hex()}")
        assert [by_name(flow) for flow in flows_found] == [by_name(flow) for flow in flows_expected]
    assert strict(found.counters) == strict(expected.counters)
    assert found.sequences == expected.sequences
    assert set(found.stats) == set(expected.stats)
    for exporter, stats in expected.stats.items():
        assert_counted(found.stats[exporter], stats, each=schema is everything)

    assert_columns_agree(sequence, schema, **options)


def assert_columns_agree(
    sequence: list[Sent], schema: Schema, override: dict[str, Any] | None = None, **options: Any
) -> None:
    """Columns have the values and counters of messages. Messages encoded from columns are equal."""
    payloads, sources = [payload for payload, _ in sequence], [source for _, source in sequence]
    rows, columns = Decoder(schema, **options), Decoder(schema, **options)
    messages = rows.encode_many(payloads, sources, RECEIVED, override=override)
    batch = columns.columns_many(payloads, sources, RECEIVED, override=override)
    expected = rows_expected(messages, schema)
    assert rows_of(batch) == expected
    assert rows_expected(encode_columns(batch, schema), schema) == expected
    assert (columns.flows, columns.counters) == (rows.flows, rows.counters)


def by_name(flow: dict[str, Any]) -> dict[str, Any]:
    return {name: comparable(flow[name]) for name in sorted(flow)}


def assert_counted(found: dict[str, Any], expected: dict[str, Any], each: bool = True) -> None:
    """Assert equal counters. The core may count more notes on values (see VALUE_NOTES).

    If `each` is false, the core may count fewer notes, but at least one. A schema may put a value that all
    flows of a datagram share into a column that is too small. The core counts this once, not per flow.
    """
    assert (found["flows"], found["datagrams"]) == (expected["flows"], expected["datagrams"])
    assert strict(found["counters"]) == strict(expected["counters"])
    for name in VALUE_NOTES & expected["counters"].keys():
        assert found["counters"].get(name, 0) >= (expected["counters"][name] if each else 1), name


def strict(counters: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counters.items() if name not in VALUE_NOTES}


@pytest.mark.parametrize("protocol", VALID)
@given(st.data())
def test_valid_datagrams_agree(protocol: str, data: st.DataObject) -> None:
    assert_agree(data.draw(VALID[protocol]), everything)


@given(sampled_packet_sequences)
def test_sampled_packets_agree(sequence: list[Sent]) -> None:
    assert_agree(sequence, everything)


@given(tunnelled_sequences(), st.sampled_from(DECAPSULATIONS))
def test_tunnels_agree(sequence: list[Sent], decapsulate: tuple[str, ...]) -> None:
    assert_agree(sequence, everything, decapsulate=decapsulate)


@given(tunnelled_sequences(), schema_changes(), st.sampled_from(DECAPSULATIONS))
def test_tunnels_agree_for_any_schema(
    sequence: list[Sent], changes: Changes, decapsulate: tuple[str, ...]
) -> None:
    assert_agree(sequence, changes.schema(), decapsulate=decapsulate)


@pytest.mark.parametrize("kind", ["string", "bytes"])
def test_an_empty_text_is_a_value_of_an_explicit_column(kind: str) -> None:
    """A field of variable length may have no bytes (RFC 7011 section 7)."""
    added = {"type": kind, "explicit": True, "one_way": True, "sources": ["ipfix:82"]}
    schema = Changes(only=["src_addr"], ranks={}, added=[added]).schema()
    payload = ipfix(
        template_set(template(256, (8, 4), (82, 0xFFFF))), data_set(256, bytes([192, 0, 2, 9, 0]))
    )
    for implementation in ("reference", "core"):
        (flow,) = outcome_of(implementation, [(payload, ("192.0.2.1", 9995))], schema).datagrams[0]
        assert by_name(flow)["added_0"] in ("", b"")


@given(mutated_sequences(), st.sampled_from(DECAPSULATIONS))
def test_mutated_datagrams_agree_with_opened_tunnels(
    sequence: list[Sent], decapsulate: tuple[str, ...]
) -> None:
    assert_agree(sequence, everything, decapsulate=decapsulate)


@pytest.mark.parametrize("protocol", numbered_sequences)
@given(st.data())
def test_sequence_numbers_agree(protocol: str, data: st.DataObject) -> None:
    assert_agree(data.draw(numbered_sequences[protocol]), FLOW)


@given(mutated_sequences())
def test_mutated_datagrams_agree(sequence: list[Sent]) -> None:
    assert_agree(sequence, everything)


@pytest.mark.parametrize("version", ["netflow9", "ipfix"])
@given(st.data(), policies())
def test_late_changed_and_expired_templates_agree(
    version: str, data: st.DataObject, policy: dict[str, Any]
) -> None:
    sequence = data.draw(living_templates(version == "ipfix"))
    for finish in (False, True):
        expected, found = (
            run_decoder(name, sequence, everything, finish, **policy) for name in ("reference", "core")
        )
        for flows_expected, flows_found in zip(expected.datagrams, found.datagrams, strict=True):
            assert [by_name(flow) for flow in flows_found] == [by_name(flow) for flow in flows_expected]
        assert found.waiting == expected.waiting
        assert found.sequences == expected.sequences
        for exporter, stats in expected.stats.items():
            assert_counted(found.stats[exporter], stats)


@given(valid_sequences, schema_changes())
def test_any_schema_agrees(sequence: list[Sent], changes: Changes) -> None:
    assert_agree(sequence, changes.schema())


@pytest.mark.slow
@given(mutated_sequences(), schema_changes())
def test_any_schema_agrees_on_mutated_datagrams(sequence: list[Sent], changes: Changes) -> None:
    assert_agree(sequence, changes.schema())


# Totals of many sizes, so that many overflow when they are scaled.
scaled = everything
for index, type in enumerate(["uint8", "uint16", "uint32", "uint64", "fixed32", "fixed64"]):
    sources = ["ipfix:postOctetDeltaCount", "ipfix:octetDeltaCount", "netflow5:dOctets", "packet:ip.length"]
    scaled = scaled.add(f"total_{index}", 1000 + index, type, sources, scale="count", explicit=index % 2 == 0)
overrides = st.none() | st.builds(dict, sampling_rate=st.sampled_from([1, 2, 1000, 2**32, 2**64 - 1]))


@given(valid_sequences | mutated_sequences(), overrides)
def test_scaled_totals_agree(sequence: list[Sent], override: dict[str, Any] | None) -> None:
    assert_agree(sequence, scaled, scale=True, override=override)


@pytest.mark.slow
@given(valid_sequences, schema_changes(), overrides)
def test_scaled_totals_agree_for_any_schema(
    sequence: list[Sent], changes: Changes, override: dict[str, Any] | None
) -> None:
    schema = changes.schema().enable("sampling_rate", "bytes")
    assert_agree(sequence, schema, scale=True, override=override)


@given(counter_sequences)
def test_counter_samples_agree(sequence: list[Sent]) -> None:
    assert_agree(sequence, COUNTERS)


@given(mutated_sequences(counter_sequences))
def test_mutated_counter_samples_agree(sequence: list[Sent]) -> None:
    assert_agree(sequence, COUNTERS)


@given(valid_sequences)
def test_flows_agree_if_rows_are_counters(sequence: list[Sent]) -> None:
    assert_agree(sequence, COUNTERS)


@given(counter_sequences)
def test_counter_samples_agree_if_rows_are_flows(sequence: list[Sent]) -> None:
    assert_agree(sequence, everything)


@pytest.mark.parametrize("protocol", ["netflow9", "ipfix"])
@given(st.data())
def test_options_agree(protocol: str, data: st.DataObject) -> None:
    assert_agree(data.draw(VALID[protocol]), OPTIONS)


@given(mutated_sequences(mixed_sequences()))
def test_mutated_options_agree(sequence: list[Sent]) -> None:
    assert_agree(sequence, OPTIONS)


@given(st.binary(max_size=80))
def test_any_bytes_agree(payload: bytes) -> None:
    assert_agree([(payload, SOURCE)], everything)


@given(mixed_sequences(), st.data())
def test_any_split_into_batches_agrees(sequence: list[Sent], data: st.DataObject) -> None:
    """encode_many gives the same messages and counters for any division of the datagrams into calls."""
    expected = outcome_of("reference", sequence, everything)
    decoder = Decoder(everything)
    columns = {column.number: column for column in everything.enabled}
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sequence)), max_size=3)))
    messages: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(sequence)], strict=True):
        payloads, sources = (
            [payload for payload, _ in sequence[start:end]],
            [source for _, source in sequence[start:end]],
        )
        messages += split_delimited(bytes(decoder.encode_many(payloads, sources, [RECEIVED] * len(payloads))))
    decoder.finish()
    flows = [by_name(decode_message(columns, message)) for message in messages]
    assert flows == [by_name(flow) for flow in expected.flows]
    assert sequences_of(decoder) == expected.sequences
    for exporter, stats in expected.stats.items():
        assert_counted(decoder.stats[exporter], stats)
