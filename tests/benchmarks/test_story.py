"""The stages of benchmarks/bench_story.py do the same work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.utils import wrpcap

from benchmarks import bench_story
from benchmarks.bench_story import (
    STAGES,
    choose_data,
    find_difference,
    read_datagrams,
    read_messages,
    write_messages,
)
from benchmarks.core_programs import Failed, build, run
from flowbuf import Schema
from tests.reference import Decoder
from tests.reference.wire import decode_message, split_delimited
from tests.support.datagrams import data_set, netflow9, template, template_set9, uint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["generated-netflow9", "netflow9-data"])
def capture(request: pytest.FixtureRequest) -> Path:
    if request.param == "netflow9-data":
        request.getfixturevalue("corpus")
    found = bench_story.find_capture(request.param)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def messages(capture: Path) -> dict[str, bytes]:
    return {stage: write_messages(stage, capture) for stage in STAGES}


def test_all_stages_produce_the_same_messages(messages: dict[str, bytes]) -> None:
    assert find_difference({stage: read_messages(data) for stage, data in messages.items()}) == ""


def test_messages_equal_those_of_the_reference(capture: Path, messages: dict[str, bytes]) -> None:
    """The reference also reads the messages. It shares no code with the stages in C."""
    schema = Schema.load("flow")
    decoder, columns = Decoder(schema), {column.number: column for column in schema.enabled}
    datagrams = read_datagrams(capture)
    for datagram in datagrams:
        decoder.decode(*datagram)
    expected = [each for datagram in choose_data(datagrams) for each in decoder.decode(*datagram)]
    for stage in ("interpreted", "compiled"):
        assert [decode_message(columns, each) for each in split_delimited(messages[stage])] == expected


def test_the_first_difference_is_described() -> None:
    one = [{"bytes": 1, "proto": 6}, {"bytes": 2}]
    assert find_difference({"a": one, "b": [dict(each) for each in one]}) == ""
    assert find_difference({"a": one, "b": [one[0], {"bytes": 3}]}) == "flow 1, bytes: b 3, a 2"
    assert (
        find_difference({"a": one, "b": [one[0], {"bytes": 2, "proto": 6}]}) == "flow 1, proto: b 6, a None"
    )
    assert find_difference({"a": one, "b": one[:1]}) == "b: 1 flows, a: 2"
    assert find_difference({"a": [], "b": []}) == "a: no flows"


def test_a_failed_program_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").write_bytes(b"")
    with pytest.raises(Failed, match="no datagrams with only data"):
        tell_in_c(tmp_path / "empty.pcap")


def tell_in_c(capture: Path) -> dict[str, dict[str, Any]]:
    """Return the results of run_story for a capture, by stage."""
    programs = build()
    done = run(programs / "bench/run_story", "--repetitions", 1, programs / "flow.plan", capture)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return {result["stage"]: result for result in results}


def test_both_emitters_get_the_same_rows_and_nothing_is_allocated(capture: Path) -> None:
    for result in tell_in_c(capture).values():
        assert result["with"]["flows"] == result["without"]["flows"] > 1000
        assert result["with"]["bytes_per_flow"] == result["without"]["bytes_per_flow"] == 0


FIELDS = {1: 4, 2: 4, 8: 4, 12: 4, 4: 1, 7: 2, 11: 2, 10: 4, 14: 4, 16: 4, 17: 4, 9: 1, 13: 1, 6: 1}
"""Elements of the default columns, and their sizes."""


def capture_of_values(path: Path, first: int) -> Path:
    """Write a capture of a record whose fields are `first` and the numbers after it."""
    record = b"".join(uint(first + i, size) for i, size in enumerate(FIELDS.values()))
    payloads = (
        netflow9(template_set9(template(256, *FIELDS.items()))),
        netflow9(data_set(256, record), sequence=1),
    )
    packets = [
        IP(src="192.0.2.1", dst="203.0.113.1") / UDP(sport=50000, dport=2055) / each for each in payloads
    ]
    for packet in packets:
        packet.time = 1735689600
    wrpcap(str(path), packets)
    return path


def test_every_value_is_read_without_encoding(tmp_path: Path) -> None:
    """The compiler must not remove the decoding."""
    one, two = (tell_in_c(capture_of_values(tmp_path / f"{first}.pcap", first)) for first in (10, 13))
    for stage in one:
        change = two[stage]["folded"] - one[stage]["folded"]
        assert change == 3 * len(FIELDS) * one[stage]["without"]["flows"]


def test_the_program_prints_all_stages(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_story.main(["generated-netflow9", "--json", "--repetitions", "1"]) == 0
    story = json.loads(capsys.readouterr().out)
    assert story["capture"] == "generated-netflow9"
    assert [stage["stage"] for stage in story["stages"]] == list(STAGES)
    assert [stage["stage"] for stage in story["stages"] if "encoding" not in stage] == ["interpreted"]
    compiled = story["stages"][-1]
    difference = compiled["with"]["ns_per_flow"] - compiled["without"]["ns_per_flow"]
    assert compiled["encoding"]["ns_per_flow"] == pytest.approx(difference, abs=0.02)
    for stage in story["stages"]:
        for side in (stage["with"], stage["without"]):
            assert 0 < side["least"] <= side["ns_per_flow"] <= side["greatest"]
    assert all(stage["with"]["bytes_per_flow"] != 0 for stage in story["stages"][:3])
    bench_story.Console(width=120).print(bench_story.make_table(story["capture"], story["stages"]))
    table = capsys.readouterr().out
    assert all(stage in table for stage in STAGES)


def test_wide_numbers_do_not_break_the_names_of_stages(capsys: pytest.CaptureFixture[str]) -> None:
    side = {"ns_per_flow": 12345678.9, "least": 12345678.9, "bytes_per_flow": 12345678}
    results = [{"stage": stage, "with": side, "without": side, "encoding": side} for stage in STAGES]
    bench_story.Console(width=120).print(bench_story.make_table("a-capture", results))
    table = capsys.readouterr().out
    assert all(stage in table for stage in STAGES)
    assert table.count("12,345,679") == 5 * len(STAGES)


def test_a_missing_capture(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench_story.main(["no-such-capture"])
    assert ended.value.code == 2
    assert "no-such-capture is not a file or a capture in" in capsys.readouterr().err
