"""State files: what exporters said survives a restart, and nothing that lies there is a danger."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowbuf import Decoder, Schema, StateError, load_state, save_state
from tests.reference.wire import decode_message, split_delimited
from tests.strategies.datagrams import Sent, valid_sequences
from tests.support.datagrams import (
    VARIABLE,
    data_set,
    ipfix,
    netflow9,
    options_template,
    options_template9,
    options_template_set,
    options_template_set9,
    template,
    template_set,
    template_set9,
    u8,
    u16,
    u32,
    uint,
)

SCHEMA = Schema.load("flow").enable("time_flow_start", "sampler_id")
COUNTERS = {"datagrams", "bytes", "flows", "options_records", "templates", "counters", "lost"}

# What exporters tell: templates of every kind, samplers, the time when one was started.
TOLD = [
    (
        netflow9(
            template_set9(template(256, (8, 4), (1, 4), (48, 1)), template(300, (1, 4), (22, 4))),
            options_template_set9(options_template9(257, [(1, 4)], [(48, 1), (50, 4)])),
            data_set(257, u32(0) + u8(1) + u32(10), u32(0) + u8(2) + u32(1000)),
            source_id=7,
        ),
        "192.0.2.10",
    ),
    (
        ipfix(
            template_set(template(256, (1, 8), (82, VARIABLE), (137, 2, 2636), (22, 4))),
            options_template_set(options_template(400, [(149, 4)], [(34, 4), (160, 8)])),
            data_set(400, u32(1) + u32(64) + uint(1_700_000_000_000, 8)),
            domain=1,
            export_time=1_700_000_100,
        ),
        "2001:db8::7",
    ),
]
# What can be decoded by whoever knows that.
FLOWS = [
    (netflow9(data_set(256, u32(0x0A000001) + u32(60) + u8(2)), source_id=7), "192.0.2.10"),
    (
        ipfix(
            data_set(256, uint(99, 8) + u8(3) + b"eth" + u16(0x0800) + u32(5000)),
            domain=1,
            export_time=1_700_000_100,
        ),
        "2001:db8::7",
    ),
]


def fed(decoder: Decoder, sent: list[tuple[bytes, str]]) -> bytes:
    return b"".join(decoder.encode(payload, source, 1.0) for payload, source in sent)


def known(decoder: Decoder) -> list[dict[str, Any]]:
    """What a decoder knows of exporters, without counters."""
    exporters = [{k: v for k, v in each.items() if k not in COUNTERS} for each in decoder.read_exporters()]
    for domain in (domain for exporter in exporters for domain in exporter["domains"]):
        del domain["sequence"]
    return sorted(exporters, key=lambda exporter: str(exporter["address"]))


@pytest.fixture
def told() -> Decoder:
    decoder = Decoder(SCHEMA)
    assert fed(decoder, TOLD) == b""
    return decoder


@pytest.fixture
def path(tmp_path: Path, told: Decoder) -> Path:
    """A state file."""
    path = tmp_path / "exporters.state"
    save_state(told, path)
    return path


# What is kept -----------------------------------------------------------------------------------------------


def test_what_exporters_said_is_known_after_a_restart(told: Decoder, path: Path) -> None:
    decoder = Decoder(SCHEMA)
    assert load_state(decoder, path)
    assert known(decoder) == known(told)
    messages = [message for payload, source in FLOWS for message in decoder.messages(payload, source, 1.0)]
    columns = {column.number: column for column in SCHEMA}
    first, second = (decode_message(columns, message) for message in messages)
    assert (first["sampling_rate"], first["bytes"]) == (1000, 60)
    assert (second["sampling_rate"], second["bytes"]) == (64, 99)
    assert second["time_flow_start"] == 1_700_000_005_000, "5 s after its exporter was started"
    assert decoder.counters == {}
    assert decoder.stats["192.0.2.10"]["datagrams"] == 1, "counters begin anew"


def test_before_the_first_run_there_is_no_file(tmp_path: Path) -> None:
    decoder = Decoder()
    assert not load_state(decoder, tmp_path / "none.state")
    assert decoder.read_exporters() == []
    assert os.listdir(tmp_path) == []


def test_the_same_state_is_the_same_file(tmp_path: Path, path: Path) -> None:
    """Whatever order exporters were met in."""
    turned = Decoder(SCHEMA)
    fed(turned, TOLD[::-1])
    save_state(turned, tmp_path / "turned.state")
    again = Decoder(SCHEMA)
    load_state(again, path)
    save_state(again, tmp_path / "again.state")
    assert (tmp_path / "turned.state").read_bytes() == path.read_bytes()
    assert (tmp_path / "again.state").read_bytes() == path.read_bytes()


def test_the_file_is_json_with_an_exporter_a_line(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0] == '{"format": "flowbuf-state", "version": 1, "exporters": ['
    assert lines[-1] == "]}"
    assert [json.loads(line.rstrip(","))["address"] for line in lines[1:-1]] == ["192.0.2.10", "2001:db8::7"]
    first, _ = json.loads(path.read_text())["exporters"]
    (domain,) = first["domains"]
    assert (domain["version"], domain["id"]) == (9, 7)
    assert domain["samplers"] == {"1": 10, "2": 1000}
    assert domain["templates"]["300"]["fields"] == [[0, 1, 4], [0, 22, 4]]
    assert not COUNTERS & first.keys()


def test_exporters_of_which_nothing_is_known_are_left_out(tmp_path: Path) -> None:
    decoder = Decoder()
    decoder.encode(ipfix(data_set(256, bytes(8))), "192.0.2.1", 1.0)
    save_state(decoder, tmp_path / "a.state")
    assert (
        tmp_path / "a.state"
    ).read_text() == '{"format": "flowbuf-state", "version": 1, "exporters": [\n\n]}\n'
    assert load_state(Decoder(), tmp_path / "a.state")


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_state(tmp_path: Path, told: Decoder, suffix: str) -> None:
    path = tmp_path / f"exporters.state{suffix}"
    save_state(told, path)
    decoder = Decoder(SCHEMA)
    assert load_state(decoder, path)
    assert known(decoder) == known(told)
    assert not path.read_bytes().startswith(b"{")
    save_state(told, path)


@given(valid_sequences, st.data())
def test_a_restart_at_any_time_changes_no_flow(sequence: list[Sent], data: st.DataObject) -> None:
    """Data sets that wait for their templates are not kept. The fields of a message may have any order."""
    from tempfile import TemporaryDirectory

    whole, before, after = Decoder(SCHEMA), Decoder(SCHEMA), Decoder(SCHEMA)
    sent = [(payload, source[0]) for payload, source in sequence]
    cut = data.draw(st.integers(0, len(sent)))
    flows = fed(before, sent[:cut])
    if any(stats["waiting"]["sets"] for stats in before.stats.values()):
        return
    with TemporaryDirectory() as folder:
        save_state(before, f"{folder}/a")
        assert load_state(after, f"{folder}/a")
    columns = {column.number: column for column in SCHEMA}
    restarted, expected = split_delimited(flows + fed(after, sent[cut:])), split_delimited(fed(whole, sent))
    assert [decode_message(columns, each) for each in restarted] == [
        decode_message(columns, each) for each in expected
    ]


# What lies there --------------------------------------------------------------------------------------------


def refused(path: Path) -> StateError:
    """Why a file cannot be used. Nothing is known after it, and the decoder is as good as new."""
    decoder = Decoder(SCHEMA)
    with pytest.raises(StateError) as caught:
        load_state(decoder, path)
    assert str(caught.value).startswith(f"{path}: ")
    assert decoder.read_exporters() == []
    fed(decoder, TOLD)
    assert fed(decoder, FLOWS) != b""
    return caught.value


@pytest.mark.parametrize("size", [0, 30, 45, 60, 200, -4])
def test_a_file_that_is_cut_short_is_damaged(path: Path, told: Decoder, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    assert refused(path).replaceable
    save_state(told, path)
    assert load_state(Decoder(SCHEMA), path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"version": 1', '"version": 0'),
        ('"version": 1', '"version": true'),
        ('"version": 1', '"version": "1"'),
        ('"exporters": [', '"exporter": ['),
        ('"exporters": [', '"exporters": [[],'),
        ('"exporters": [', '"exporters": [' + "[" * 100_000),
        ('"192.0.2.10"', '"router1"'),
        ('"192.0.2.10"', "5"),
        ('"domains": [', '"domains": [[],'),
        ('"256": ', '"255": '),
        ('"256": ', '"70000": '),
        ('"256": ', '"-1": '),
        ('"256": ', '"x": '),
        ("1000", "0"),
        ("1000", "1e999"),
        ("1000", "9" * 5000),
        ("[0, 22, 4]", "[0, 22]"),
        ("[0, 22, 4]", "[0, 22, -4]"),
        ("[0, 22, 4]", "[0, 22, 65536]"),
        ("[0, 22, 4]", "null"),
    ],
)
def test_content_that_cannot_be_is_damage(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert refused(path).replaceable


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        b"[]",
        b"{}",
        b'{"format": "other", "version": 1}',
        b'{"version": 1, "format": "flowbuf-state"}',
        b"\0" * 9,
    ],
)
def test_what_is_no_state_file_is_never_written_over(tmp_path: Path, told: Decoder, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    error = refused(path)
    assert not error.replaceable
    assert "not a state file of flowbuf; move it, or name another file" in str(error)
    with pytest.raises(StateError, match="not a state file"):
        save_state(told, path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [2, 999999999, 99999999999999999999])
@pytest.mark.parametrize("rest", [', "exporters": []}', ', "exporters": [{'])
def test_the_state_of_a_newer_flowbuf_is_never_written_over(
    tmp_path: Path, told: Decoder, version: int, rest: str
) -> None:
    path = tmp_path / "a.state"
    path.write_text(f'{{"format": "flowbuf-state", "version": {version}{rest}')
    error = refused(path)
    assert not error.replaceable
    assert "which a newer flowbuf wrote; name another file" in str(error)
    before = path.read_bytes()
    with pytest.raises(StateError, match="newer flowbuf"):
        save_state(told, path)
    assert path.read_bytes() == before


def test_a_state_is_a_regular_file(tmp_path: Path, told: Decoder) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null"), "-"):
        with pytest.raises(StateError, match="a regular file"):
            load_state(Decoder(), path)
        with pytest.raises(StateError, match="a regular file"):
            save_state(told, path)


def test_damaged_compression(tmp_path: Path, told: Decoder) -> None:
    path = tmp_path / "a.state.gz"
    save_state(told, path)
    octets = path.read_bytes()
    path.write_bytes(octets[:-12])
    error = refused(path)
    assert error.replaceable or "not a state file" in str(error)
    path.write_bytes(
        gzip.compress(b'{"format": "flowbuf-state", "version": 1, "exporters": [' + b" " * 10**6)[:-9]
    )
    assert "its gzip data is cut short" in str(refused(path))


# Values that JSON has, at every place of a state.
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([2**64, -1, "256"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [at, *(place for key, child in children for place in places(child, (*at, key)))]


def mutated(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place; a key that is a value is renamed."""
    if not place:
        return value
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    if isinstance(inner, dict) and isinstance(value, str):
        inner[value] = inner.pop(place[-1])
    else:
        inner[place[-1]] = value
    return copy


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_state_is_taken_or_refused(path: Path, data: st.DataObject) -> None:
    document = json.loads(path.read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        document = mutated(document, data.draw(st.sampled_from(places(document))), data.draw(json_values))
    check_any(path.with_name("mutated"), json.dumps(document).encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values)
def test_any_json_is_taken_or_refused(tmp_path: Path, value: Any) -> None:
    document = {"format": "flowbuf-state", "version": 1, "exporters": value}
    check_any(tmp_path / "any", json.dumps(document).encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_octets_are_taken_or_refused(tmp_path: Path, octets: bytes) -> None:
    check_any(tmp_path / "octets", octets)
    check_any(tmp_path / "octets", b'{"format": "flowbuf-state", "version": 1, ' + octets)


def check_any(path: Path, octets: bytes) -> None:
    """Whatever is in a file: it is used or refused, and the decoder is sound after it."""
    path.write_bytes(octets)
    decoder = Decoder(SCHEMA, memory_limit=64 << 20)
    try:
        assert load_state(decoder, path)
    except StateError:
        assert decoder.read_exporters() == []
    fed(decoder, FLOWS)
    fed(decoder, TOLD)
    assert fed(decoder, FLOWS) != b""


def test_of_several_writers_one_wins(tmp_path: Path, path: Path, told: Decoder) -> None:
    other = Decoder(SCHEMA)
    fed(other, TOLD[:1])
    possible = {path.read_bytes()}
    save_state(other, tmp_path / "other.state")
    possible.add((tmp_path / "other.state").read_bytes())

    def write(decoder: Decoder) -> None:
        for _ in range(50):
            save_state(decoder, path)

    threads = [threading.Thread(target=write, args=(decoder,)) for decoder in (told, other)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert path.read_bytes() in possible
    assert sorted(os.listdir(tmp_path)) == ["exporters.state", "other.state"]
