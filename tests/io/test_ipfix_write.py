"""`flowbuf encode --format ipfix` writes IPFIX files, which are read back with equal values.

ext/tests/capture/test_ipfix_write.c has the bytes of messages.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowbuf.cli.main import main
from flowbuf.errors import SchemaError
from flowbuf.io.capture import CaptureReader
from flowbuf.io.ipfix_file import choose_elements
from flowbuf.schema import Schema
from tests.support.cases import slow
from tests.support.datagrams import data_set, ipfix, template, template_set, u32

DATA = Path(__file__).parents[1] / "data"
NETFLOW9, IPFIX, SFLOW = (DATA / f"generated-{name}.pcap" for name in ("netflow9", "ipfix", "sflow"))
ALL = ",".join(column.name for column in Schema.load("flow").columns if column.sources)
LEFT_OUT = "columns without an IPFIX element of their own: "


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


def rows_of(path: Path, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("read", path, "-f", "jsonl", *options).stdout.splitlines()]


def messages_of(path: Path) -> list[bytes]:
    with CaptureReader(path) as reader:
        return [payload for batch in reader for payload, *_ in batch]


@pytest.mark.parametrize(
    "capture",
    [NETFLOW9, IPFIX, *slow(*sorted(set(DATA.glob("*.pcap")) - {NETFLOW9, IPFIX}))],
    ids=lambda path: path.stem,
)
@pytest.mark.parametrize("options", [(), ("--enable", ALL)], ids=["default", "all"])
def test_values_are_read_back(tmp_path: Path, capture: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "flows"
    result = run("encode", capture, "-o", path, "--format", "ipfix", *options)
    (line,) = result.stderr.splitlines()
    left_out = line.partition(LEFT_OUT)[2].split(", ")
    written, found = rows_of(capture, *options), rows_of(path, *options)
    for row in [*written, *found]:
        for name in ["time_received", *left_out]:
            row.pop(name, None)
    assert found == written
    assert len(found) >= 60


def test_columns_without_an_element_are_named(tmp_path: Path) -> None:
    result = run("encode", IPFIX, "-o", tmp_path / "x.ipfix", "--columns", "proto,flow_type,src_vlan,vlan_id")
    assert result.stderr == f"flowbuf: {LEFT_OUT}flow_type, vlan_id\n"
    assert not (tmp_path / "x.ipfix.proto").exists()


def test_messages_have_sequence_numbers_and_times_and_fit_into_datagrams(tmp_path: Path) -> None:
    path = tmp_path / "x.ipfix"
    run("encode", IPFIX, "-o", path)
    messages = messages_of(path)
    assert max(map(len, messages)) <= 1400
    numbers = [int.from_bytes(message[8:12], "big") for message in messages]
    assert numbers[0] == 0
    assert numbers == sorted(numbers)
    survey = json.loads(run("inspect", "--json", path).stdout)
    (exporter,) = survey["exporters"]
    assert (exporter["flows"], exporter["counters"]) == (300, {})
    received = {row["time_received"][:19] for row in rows_of(IPFIX)}
    assert {row["time_received"][:19] for row in rows_of(path)} == received


def test_a_name_selects_the_format_and_the_compression(tmp_path: Path) -> None:
    path = tmp_path / "x.ipfix.gz"
    run("encode", IPFIX, "-o", path)
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert len(rows_of(path)) == 300
    run("encode", IPFIX, "-o", tmp_path / "y.ipfix", "--format", "pb")
    assert (tmp_path / "y.ipfix.proto").exists()


def test_a_schema_without_elements_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["encode", str(SFLOW), "-o", str(tmp_path / "x.ipfix"), "--schema", "sflow_counters"]
    )
    assert result.exit_code == 2
    assert "no enabled column has an IPFIX element; write --format pb" in result.stderr
    assert list(tmp_path.iterdir()) == []


def time_schema(unit: str, *sources: str) -> str:
    listed = ", ".join(f'"ipfix:{source}"' for source in sources)
    column = f'name = "start"\nnumber = 1\ntype = "timestamp"\nunit = "{unit}"\nsources = [{listed}]\n'
    return f'[schema]\nname = "test"\n[[column]]\n{column}'


@pytest.mark.parametrize(
    ("unit", "source", "elements"),
    [
        ("s", "flowStartSeconds", (150, 150)),
        ("ms", "flowStartMilliseconds", (152, 152)),
        ("us", "flowStartMicroseconds", (154, 154)),
        ("ns", "flowStartNanoseconds", (156, 156)),
        ("ns", "flowStartMilliseconds", None),
    ],
)
def test_times_need_an_element_of_their_unit(
    tmp_path: Path, unit: str, source: str, elements: tuple[int, int] | None
) -> None:
    path = tmp_path / "test.toml"
    path.write_text(time_schema(unit, source))
    if elements is None:
        with pytest.raises(SchemaError, match="no enabled column"):
            choose_elements(Schema.load(path))
    else:
        assert choose_elements(Schema.load(path)).columns[0][3] == elements


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_in_binary_fractions_are_read_back(tmp_path: Path, unit: str) -> None:
    schema, first, second = tmp_path / "test.toml", tmp_path / "first", tmp_path / "second.ipfix"
    schema.write_text(time_schema(unit, "flowStartMicroseconds", "flowStartNanoseconds"))
    chance = random.Random(1)
    times = [u32(3_900_000_000) + u32(chance.getrandbits(32)) for _ in range(300)]
    first.write_bytes(ipfix(template_set(template(256, (156, 8))), data_set(256, *times)))
    run("encode", first, "-o", second, "--schema", schema)
    found = rows_of(second, "--schema", str(schema))
    assert found == rows_of(first, "--schema", str(schema))
    assert len({row["start"] for row in found}) == 300


def test_scaled_totals_are_not_written(tmp_path: Path) -> None:
    output = str(tmp_path / "scaled.ipfix")
    result = CliRunner().invoke(main, ["encode", str(DATA / "generated-ipfix.pcap"), "-o", output, "--scale"])
    assert result.exit_code == 2
    assert "--scale: IPFIX does not state that totals are scaled; leave out --scale" in result.output
