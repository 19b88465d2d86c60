"""Data sets that wait for their template move to another decoder, and each of them is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf import Decoder, StateError, load_state, save_state
from tests.exporter.test_restore import SCHEMA, Sent, feed
from tests.strategies.datagrams import living_templates, policies
from tests.strategies.schemas import everything
from tests.support.datagrams import data_set, ipfix, netflow9, template, template_set, template_set9, u32

A, B = ("192.0.2.1", 1000), ("2001:db8::1", 2000)
TEMPLATE = template(256, (1, 4))
COST = 192 + 8
"""Bytes that a set of one record is charged."""

DATA: list[Sent] = [
    (netflow9(data_set(256, u32(1)), source_id=5, seconds=1000, uptime=1, sequence=7), A, 40),
    (ipfix(data_set(256, u32(2)), domain=6, export_time=1001, sequence=8), B, 50),
    (ipfix(data_set(256, u32(3)), domain=6, export_time=1002, sequence=9), B, 60),
]
TEMPLATES: list[Sent] = [
    (netflow9(template_set9(TEMPLATE), source_id=5), A, 100),
    (ipfix(template_set(TEMPLATE), domain=6), B, 110),
]


def move(first: Decoder, second: Decoder) -> None:
    """Move the state of a decoder to another one, as a takeover does."""
    second.restore_exporters(first.read_exporters())
    second.restore_exporters(first.read_early_data())
    first.finish(handed_over=True)


def waiting_in(decoder: Decoder) -> int:
    return sum(exporter["waiting"]["sets"] for exporter in decoder.read_exporters())


def test_early_data_moves_to_another_decoder() -> None:
    alone, first, second = Decoder(SCHEMA), Decoder(SCHEMA), Decoder(SCHEMA)
    feed(alone, DATA)
    feed(first, DATA)
    move(first, second)
    assert (waiting_in(first), waiting_in(second)) == (0, 3)
    output = feed(second, TEMPLATES)
    assert output == feed(alone, TEMPLATES)
    assert all(output)
    assert first.counters == {"early_data": 3, "early_data_handed_over": 3}
    assert second.counters == {"early_data_inherited": 3}
    assert second.flows == 3


def test_reading_early_data_changes_nothing() -> None:
    decoder = Decoder(SCHEMA)
    feed(decoder, DATA)
    assert decoder.read_early_data() == decoder.read_early_data()
    assert {exporter["address"] for exporter in decoder.read_early_data()} == {A[0], B[0]}
    assert all(feed(decoder, TEMPLATES))
    assert decoder.read_early_data() == []
    assert decoder.counters["early_data"] == 3
    assert "template_missing" not in decoder.counters


def test_the_limits_of_the_new_decoder_apply() -> None:
    first, second = Decoder(SCHEMA), Decoder(SCHEMA, early_data_limit=COST)
    feed(first, DATA)
    move(first, second)
    assert second.counters == {"early_data_inherited": 3, "template_missing": 1}
    feed(second, TEMPLATES)
    assert second.flows == 2
    full = Decoder(SCHEMA, exporter_limit=1)
    full.restore_exporters([{"address": "192.0.2.9", "domains": [{"version": 9, "id": 1}]}])
    feed(first, DATA)
    move(first, full)
    assert (full.counters["early_data_inherited"], full.counters["template_missing"]) == (3, 3)


@pytest.mark.parametrize("version", ["netflow9", "ipfix"])
@given(st.data(), policies())
def test_a_decoder_continues_anywhere(version: str, data: st.DataObject, policy: dict[str, Any]) -> None:
    """Two decoders give the flows that one gives, wherever the second one takes over.

    Output may differ once ports are part of the key, because earlier definers of ids are not moved. Sets of
    several exporters do not keep their common order, so the limit on all of them is left out.
    """
    policy["template_expiry"] = policy["template_expiry"] / 1e9 or None
    del policy["early_data_total"]
    sequence = data.draw(living_templates(version == "ipfix"))
    cut = data.draw(st.integers(0, len(sequence)))
    alone, first, second = (Decoder(everything, **policy) for _ in range(3))
    before, expected = feed(first, sequence[:cut]), feed(alone, sequence)
    move(first, second)
    after = feed(second, sequence[cut:])
    if "port_in_key" not in alone.counters:
        assert before + after == expected
    for decoder in (first, second):
        decoder.finish()
        assert waiting_in(decoder) == 0
    both = [first.counters, second.counters, alone.counters]
    handed_over = [each.get("early_data_handed_over", 0) for each in both]
    assert [each.get("early_data_inherited", 0) for each in both] == [0, handed_over[0], 0]
    assert handed_over[1:] == [0, 0]


# Bad forms --------------------------------------------------------------------------------------------------


def form_of(sets: bytes, version: int = 1) -> bytes:
    return version.to_bytes(2, "big") + sets


def set_at(time: int) -> bytes:
    """Return the form of a set that was received at this time, in ns since 1970."""
    one = data_set(256, u32(1))
    return u32(6) + bytes([0, 10, 0, 0]) + time.to_bytes(8, "big") + bytes(12) + u32(len(one)) + one


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ("AAE=", "early_data is str, not bytes"),
        (7, "early_data is int, not bytes"),
        (b"", "early_data is damaged, or not of version 1"),
        (form_of(b"", version=2), "early_data is damaged, or not of version 1"),
        (form_of(bytes(31)), "early_data is damaged, or not of version 1"),
        (form_of(bytes(40)), "early_data is damaged, or not of version 1"),
        (form_of(set_at(2**63)), "early_data is damaged, or not of version 1"),
    ],
)
def test_bad_forms_are_rejected_completely(form: Any, complaint: str) -> None:
    good = Decoder(SCHEMA)
    feed(good, DATA)
    decoder = Decoder(SCHEMA)
    with pytest.raises(ValueError, match=complaint):
        decoder.restore_exporters([*good.read_early_data(), {"address": "192.0.2.1", "early_data": form}])
    assert decoder.read_exporters() == []
    decoder.restore_exporters([{"address": "192.0.2.1", "early_data": form_of(b"")}])
    assert decoder.counters == {}
    decoder.restore_exporters([{"address": "192.0.2.1", "early_data": form_of(set_at(2**63 - 1))}])
    assert decoder.counters == {"early_data_inherited": 1}


# State files ------------------------------------------------------------------------------------------------


def test_state_files_have_no_early_data(tmp_path: Path) -> None:
    """A file is written while its process continues. After a crash, its sets would be decoded twice."""
    path = tmp_path / "exporters.state"
    decoder = Decoder(SCHEMA)
    feed(decoder, DATA)
    save_state(decoder, path)
    assert "early_data" not in path.read_text()
    document = json.loads(path.read_text())
    document["exporters"] = [{"address": "192.0.2.1", "early_data": "AAE="}]
    path.write_text(json.dumps(document))
    with pytest.raises(StateError, match="early_data is str, not bytes") as raised:
        load_state(Decoder(SCHEMA), path)
    assert raised.value.replaceable
