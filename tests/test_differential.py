"""The core and the plain Python reference agree: on valid datagrams, on broken ones, by any schema, in any batches.

HYPOTHESIS_PROFILE=deep looks longer.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from core_adapter import sequences_of
from decoding import FLOW, IMPLEMENTATIONS, RECEIVED, SOURCE, VALUE_NOTES, Outcome
from hypothesis import given, note
from hypothesis import strategies as st
from reference.wire import decode_message, split_delimited
from schema_strategies import Changes, everything, schema_changes
from sequence_strategies import numbered_sequences
from strategies import VALID, Sent, mixed_sequences, mutated_sequences, sampled_packet_sequences, valid_sequences

from flowbuf.schema import Schema


def outcome_of(implementation: str, sequence: list[Sent], schema: Schema) -> Outcome:
    decoder = IMPLEMENTATIONS[implementation](schema)
    flows = [decoder.decode(payload, source, RECEIVED) for payload, source in sequence]
    return Outcome(flows, decoder.stats, decoder.counters, decoder.sequences)


def comparable(value: Any) -> Any:
    """A value that equals itself."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def assert_agree(sequence: list[Sent], schema: Schema) -> None:
    expected, found = (outcome_of(name, sequence, schema) for name in ("reference", "core"))
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


def by_name(flow: dict[str, Any]) -> dict[str, Any]:
    return {name: comparable(flow[name]) for name in sorted(flow)}


def assert_counted(found: dict[str, Any], expected: dict[str, Any], each: bool = True) -> None:
    """The same counters; of notes on values the core may have more (see VALUE_NOTES). Not `each`: it may have fewer,
    but some. A schema may put what is the same for all flows of a datagram into a column too small for it, and the
    core counts that once, not for each flow.
    """
    assert (found["flows"], found["datagrams"]) == (expected["flows"], expected["datagrams"])
    assert strict(found["counters"]) == strict(expected["counters"])
    for name in VALUE_NOTES & expected["counters"].keys():
        assert found["counters"].get(name, 0) >= (expected["counters"][name] if each else 1), name


def strict(counters: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counters.items() if name not in VALUE_NOTES}


@pytest.mark.parametrize("protocol", VALID)
@given(st.data())
def test_valid_datagrams(protocol: str, data: st.DataObject) -> None:
    assert_agree(data.draw(VALID[protocol]), everything)


@given(sampled_packet_sequences)
def test_sampled_packets(sequence: list[Sent]) -> None:
    assert_agree(sequence, everything)


@pytest.mark.parametrize("protocol", numbered_sequences)
@given(st.data())
def test_sequence_numbers(protocol: str, data: st.DataObject) -> None:
    assert_agree(data.draw(numbered_sequences[protocol]), FLOW)


@given(mutated_sequences())
def test_mutated_datagrams(sequence: list[Sent]) -> None:
    assert_agree(sequence, everything)


@given(valid_sequences, schema_changes())
def test_any_schema(sequence: list[Sent], changes: Changes) -> None:
    assert_agree(sequence, changes.schema())


@given(mutated_sequences(), schema_changes())
def test_any_schema_on_mutated_datagrams(sequence: list[Sent], changes: Changes) -> None:
    assert_agree(sequence, changes.schema())


@given(st.binary(max_size=80))
def test_any_octets(payload: bytes) -> None:
    assert_agree([(payload, SOURCE)], everything)


@given(mixed_sequences(), st.data())
def test_batches_split_anywhere(sequence: list[Sent], data: st.DataObject) -> None:
    """encode_many gives the same messages and counters for any division of the datagrams into calls."""
    from flowbuf import Decoder

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
    flows = [by_name(decode_message(columns, message)) for message in messages]
    assert flows == [by_name(flow) for flow in expected.flows]
    assert sequences_of(decoder) == expected.sequences
    for exporter, stats in expected.stats.items():
        assert_counted(decoder.stats[exporter], stats)
