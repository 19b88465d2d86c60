"""State files preserve the state of exporters across restarts.

A state file with any content is safe to load.
"""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowbuf import Decoder, Schema, StateError, load_state, save_state
from tests.reference.wire import decode_message, split_delimited
from tests.strategies.basics import Sent
from tests.strategies.datagrams import valid_sequences
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

# Templates of every kind, samplers, and the time at which an exporter started.
DEFINITIONS = [
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
            options_template_set(
                options_template(400, [(149, 4)], [(34, 4), (160, 8)]),
                options_template(401, [(301, 4)], [(302, 4), (302, 4)]),
            ),
            data_set(400, u32(1) + u32(64) + uint(1_700_000_000_000, 8)),
            data_set(401, u32(7) + u32(5) + u32(10)),
            domain=1,
            export_time=1_700_000_100,
        ),
        "2001:db8::7",
    ),
]
# Data that needs these definitions.
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


def encode(decoder: Decoder, sent: list[tuple[bytes, str]]) -> bytes:
    return b"".join(decoder.encode(payload, source, 1.0) for payload, source in sent)


def restorable_state(decoder: Decoder) -> list[dict[str, Any]]:
    """Return the state of the exporters, without counters."""
    exporters = [{k: v for k, v in each.items() if k not in COUNTERS} for each in decoder.read_exporters()]
    for domain in (domain for exporter in exporters for domain in exporter["domains"]):
        del domain["sequence"]
    return sorted(exporters, key=lambda exporter: str(exporter["address"]))


@pytest.fixture
def defined() -> Decoder:
    decoder = Decoder(SCHEMA)
    assert encode(decoder, DEFINITIONS) == b""
    return decoder


@pytest.fixture
def path(tmp_path: Path, defined: Decoder) -> Path:
    """A state file."""
    path = tmp_path / "exporters.state"
    save_state(defined, path)
    return path


# Saving and loading -----------------------------------------------------------------------------------------


def test_state_of_exporters_survives_a_restart(defined: Decoder, path: Path) -> None:
    decoder = Decoder(SCHEMA)
    assert load_state(decoder, path)
    assert restorable_state(decoder) == restorable_state(defined)
    messages = [message for payload, source in FLOWS for message in decoder.messages(payload, source, 1.0)]
    columns = {column.number: column for column in SCHEMA}
    first, second = (decode_message(columns, message) for message in messages)
    assert (first["sampling_rate"], first["bytes"]) == (1000, 60)
    assert (second["sampling_rate"], second["bytes"]) == (64, 99)
    assert second["time_flow_start"] == 1_700_000_005_000, "5 s after the start of its exporter"
    assert decoder.counters == {}
    assert decoder.stats["192.0.2.10"]["datagrams"] == 1, "counters start at zero"


def test_loading_a_missing_file_restores_nothing(tmp_path: Path) -> None:
    decoder = Decoder()
    assert not load_state(decoder, tmp_path / "none.state")
    assert decoder.read_exporters() == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("owner", [5, None, "exporters.state"])
def test_only_decoders_have_state(tmp_path: Path, owner: Any) -> None:
    for use in (load_state, save_state):
        with pytest.raises(
            TypeError, match=f"decoder is {owner!r}; pass a Decoder first, and the path after"
        ):
            use(owner, tmp_path / "nosuch")
    assert not list(tmp_path.iterdir())


def test_equal_states_are_equal_files(tmp_path: Path, path: Path) -> None:
    """The order in which exporters appeared does not matter."""
    turned = Decoder(SCHEMA)
    encode(turned, DEFINITIONS[::-1])
    save_state(turned, tmp_path / "turned.state")
    again = Decoder(SCHEMA)
    load_state(again, path)
    save_state(again, tmp_path / "again.state")
    assert (tmp_path / "turned.state").read_bytes() == path.read_bytes()
    assert (tmp_path / "again.state").read_bytes() == path.read_bytes()


def test_the_file_is_json_with_one_line_per_exporter(path: Path) -> None:
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


def test_exporters_without_state_are_omitted(tmp_path: Path) -> None:
    decoder = Decoder()
    decoder.encode(ipfix(data_set(256, bytes(8))), "192.0.2.1", 1.0)
    save_state(decoder, tmp_path / "a.state")
    assert (
        tmp_path / "a.state"
    ).read_text() == '{"format": "flowbuf-state", "version": 1, "exporters": [\n\n]}\n'
    assert load_state(Decoder(), tmp_path / "a.state")


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_state_files_can_be_compressed(tmp_path: Path, defined: Decoder, suffix: str) -> None:
    path = tmp_path / f"exporters.state{suffix}"
    save_state(defined, path)
    decoder = Decoder(SCHEMA)
    assert load_state(decoder, path)
    assert restorable_state(decoder) == restorable_state(defined)
    assert not path.read_bytes().startswith(b"{")
    save_state(defined, path)


@given(valid_sequences, st.data())
def test_a_restart_at_any_time_changes_no_flow(sequence: list[Sent], data: st.DataObject) -> None:
    """Data sets that wait for their templates are not saved. The order of fields in a message may differ."""
    from tempfile import TemporaryDirectory

    whole, before, after = Decoder(SCHEMA), Decoder(SCHEMA), Decoder(SCHEMA)
    sent = [(payload, source[0]) for payload, source in sequence]
    cut = data.draw(st.integers(0, len(sent)))
    flows = encode(before, sent[:cut])
    if any(stats["waiting"]["sets"] for stats in before.stats.values()):
        return
    with TemporaryDirectory() as folder:
        save_state(before, f"{folder}/a")
        assert load_state(after, f"{folder}/a")
    columns = {column.number: column for column in SCHEMA}
    restarted = split_delimited(flows + encode(after, sent[cut:]))
    expected = split_delimited(encode(whole, sent))
    assert [decode_message(columns, each) for each in restarted] == [
        decode_message(columns, each) for each in expected
    ]


# Invalid files ----------------------------------------------------------------------------------------------


def load_invalid(path: Path) -> StateError:
    """Return the error of loading a file. Check that the decoder has no state and still works."""
    decoder = Decoder(SCHEMA)
    with pytest.raises(StateError) as caught:
        load_state(decoder, path)
    assert str(caught.value).startswith(f"{path}: ")
    assert decoder.read_exporters() == []
    encode(decoder, DEFINITIONS)
    assert encode(decoder, FLOWS) != b""
    return caught.value


@pytest.mark.parametrize("size", [0, 30, 45, 60, 200, -4])
def test_a_truncated_file_is_damaged(path: Path, defined: Decoder, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    assert load_invalid(path).replaceable
    save_state(defined, path)
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
        ("1000", "-1"),
        ("1000", "1e999"),
        ("1000", "9" * 5000),
        ("[0, 22, 4]", "[0, 22]"),
        ("[0, 22, 4]", "[0, 22, -4]"),
        ("[0, 22, 4]", "[0, 22, 65536]"),
        ("[0, 22, 4]", "null"),
    ],
)
def test_invalid_content_is_damage(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert load_invalid(path).replaceable


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
def test_foreign_files_are_never_overwritten(tmp_path: Path, defined: Decoder, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    error = load_invalid(path)
    assert not error.replaceable
    assert "not a state file of flowbuf; move it, or name another file" in str(error)
    with pytest.raises(StateError, match="not a state file"):
        save_state(defined, path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("version", [2, 999999999, 99999999999999999999])
@pytest.mark.parametrize("rest", [', "exporters": []}', ', "exporters": [{'])
def test_state_of_a_newer_flowbuf_is_never_overwritten(
    tmp_path: Path, defined: Decoder, version: int, rest: str
) -> None:
    path = tmp_path / "a.state"
    path.write_text(f'{{"format": "flowbuf-state", "version": {version}{rest}')
    error = load_invalid(path)
    assert not error.replaceable
    assert "which a newer flowbuf wrote; name another file" in str(error)
    before = path.read_bytes()
    with pytest.raises(StateError, match="newer flowbuf"):
        save_state(defined, path)
    assert path.read_bytes() == before


def test_a_state_file_must_be_a_regular_file(tmp_path: Path, defined: Decoder) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null"), "-"):
        with pytest.raises(StateError, match="a regular file"):
            load_state(Decoder(), path)
        with pytest.raises(StateError, match="a regular file"):
            save_state(defined, path)


def test_damaged_compression_is_an_error(tmp_path: Path, defined: Decoder) -> None:
    path = tmp_path / "a.state.gz"
    save_state(defined, path)
    compressed = path.read_bytes()
    path.write_bytes(compressed[:-12])
    error = load_invalid(path)
    assert error.replaceable or "not a state file" in str(error)
    path.write_bytes(
        gzip.compress(b'{"format": "flowbuf-state", "version": 1, "exporters": [' + b" " * 10**6)[:-9]
    )
    assert "its gzip data is cut short" in str(load_invalid(path))


# JSON values, inserted at every place of a state.
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
    """Return the paths of all values in a document."""
    children: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    return [at, *(place for key, child in children for place in places(child, (*at, key)))]


def mutated(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return the document with another value at a path. If the value is a string, rename the key instead."""
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
def test_mutated_state_is_loaded_or_rejected(path: Path, data: st.DataObject) -> None:
    document = json.loads(path.read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        document = mutated(document, data.draw(st.sampled_from(places(document))), data.draw(json_values))
    check_loaded_or_rejected(path.with_name("mutated"), json.dumps(document).encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values)
def test_any_json_is_loaded_or_rejected(tmp_path: Path, value: Any) -> None:
    document = {"format": "flowbuf-state", "version": 1, "exporters": value}
    check_loaded_or_rejected(tmp_path / "any", json.dumps(document).encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_bytes_are_loaded_or_rejected(tmp_path: Path, content: bytes) -> None:
    check_loaded_or_rejected(tmp_path / "any", content)
    check_loaded_or_rejected(tmp_path / "any", b'{"format": "flowbuf-state", "version": 1, ' + content)


def check_loaded_or_rejected(path: Path, content: bytes) -> None:
    """Check that a file is loaded or rejected, and that the decoder works afterwards."""
    path.write_bytes(content)
    decoder = Decoder(SCHEMA, memory_limit=64 << 20)
    try:
        assert load_state(decoder, path)
    except StateError:
        assert decoder.read_exporters() == []
    encode(decoder, FLOWS)
    encode(decoder, DEFINITIONS)
    assert encode(decoder, FLOWS) != b""


def test_concurrent_writers_leave_a_complete_file(tmp_path: Path, path: Path, defined: Decoder) -> None:
    other = Decoder(SCHEMA)
    encode(other, DEFINITIONS[:1])
    possible = {path.read_bytes()}
    save_state(other, tmp_path / "other.state")
    possible.add((tmp_path / "other.state").read_bytes())

    def write(decoder: Decoder) -> None:
        for _ in range(50):
            save_state(decoder, path)

    threads = [threading.Thread(target=write, args=(decoder,)) for decoder in (defined, other)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert path.read_bytes() in possible
    assert sorted(os.listdir(tmp_path)) == ["exporters.state", "other.state"]
