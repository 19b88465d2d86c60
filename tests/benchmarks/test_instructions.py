"""benchmarks/instructions.py accepts counts within its band and rejects others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import instructions
from benchmarks.instructions import (
    CODECS,
    DATASETS,
    RECORD,
    Record,
    Tools,
    compare,
    read_record,
    write_record,
)

TOOLS = Tools("gcc 12.2.0", "glibc 2.36", "x86_64", "bmi2", "3.13.0")
RECORDED = Record(TOOLS, {"one": 1000.0, "two": 500.0})


def counted(one: float, **tools: str) -> Record:
    return Record(TOOLS._replace(**tools), {"one": one, "two": 500.0})


@pytest.mark.parametrize("one", [1000, 1020, 980])
def test_counts_within_the_band_pass(one: float) -> None:
    _, right = compare(RECORDED, counted(one))
    assert right


def test_more_instructions_fail() -> None:
    lines, right = compare(RECORDED, counted(1040))
    assert not right
    assert [line for line in lines if "too many" in line and line.startswith("one") and "+4.0%" in line]


def test_fewer_instructions_must_be_recorded() -> None:
    lines, right = compare(RECORDED, counted(960))
    assert not right
    assert any("--update the file" in line for line in lines)


@pytest.mark.parametrize(
    "tools",
    [{"compiler": "gcc 14.2.0"}, {"libc": "glibc 2.41"}, {"machine": "aarch64"}, {"processor": "any"}],
)
def test_counts_of_other_tools_are_reported(tools: dict[str, str]) -> None:
    lines, right = compare(RECORDED, counted(2000, **tools))
    assert right
    assert [line for line in lines if "not compared" in line and line.startswith("one")]
    assert any("+100.0%" in line for line in lines)


def test_counts_of_codecs_depend_on_the_version_of_python() -> None:
    """Counts of decoders do not."""
    recorded = Record(TOOLS, {"generated-sflow": 1000.0, CODECS[0]: 1000.0})
    other = TOOLS._replace(python="3.10.13")
    assert compare(recorded, Record(other, {"generated-sflow": 1000.0, CODECS[0]: 2000.0}))[1]
    assert not compare(recorded, Record(other, {"generated-sflow": 2000.0, CODECS[0]: 1000.0}))[1]
    assert not compare(recorded, Record(TOOLS, {"generated-sflow": 1000.0, CODECS[0]: 2000.0}))[1]


def test_a_missing_dataset_fails() -> None:
    assert not compare(RECORDED, Record(TOOLS, {"one": 1000.0}))[1]
    assert not compare(Record(TOOLS, {"one": 1000.0}), RECORDED)[1]


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    write_record(tmp_path / "record.toml", RECORDED)
    assert read_record(tmp_path / "record.toml") == RECORDED


def test_a_missing_valgrind_fails_only_if_skips_are_forbidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FLOWBUF_FORBID_SKIPS", raising=False)
    assert instructions.main([]) == 0
    assert "valgrind is not installed" in capsys.readouterr().out
    monkeypatch.setenv("FLOWBUF_FORBID_SKIPS", "1")
    assert instructions.main([]) == 1


def test_the_file_has_all_datasets() -> None:
    assert list(read_record(RECORD).counts) == [*DATASETS, *CODECS]


@pytest.fixture(scope="module")
def taken() -> Record:
    """Return counts of this machine for the shortest dataset, with the real tools."""
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    return Record(instructions.find_tools(), {"generated-netflow5": instructions.count("generated-netflow5")})


@pytest.mark.expensive
def test_counts_are_the_same_in_every_run(taken: Record) -> None:
    assert taken.counts["generated-netflow5"] > 100
    assert instructions.count("generated-netflow5") == taken.counts["generated-netflow5"]


@pytest.mark.expensive
def test_the_guard_fails_until_the_file_is_updated(
    taken: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.toml"
    monkeypatch.setattr(instructions, "DATASETS", tuple(taken.counts))
    monkeypatch.setattr(instructions, "CODECS", ())
    for factor, status in ((1.02, 0), (1.04, 1), (0.96, 1)):
        write_record(
            path, Record(taken.tools, {name: count / factor for name, count in taken.counts.items()})
        )
        assert instructions.main(["--record", str(path)]) == status
    assert instructions.main(["--record", str(path), "--update"]) == 0
    assert read_record(path) == taken
    assert instructions.main(["--record", str(path)]) == 0


@pytest.mark.expensive
def test_counts_do_not_depend_on_the_passes(taken: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions outside the passes cancel out."""
    monkeypatch.setattr(instructions, "PASSES", 3)
    assert instructions.count("generated-netflow5") == pytest.approx(
        taken.counts["generated-netflow5"], rel=0.001
    )


@pytest.mark.expensive
def test_instructions_of_a_codec(taken: Record) -> None:
    """Most of them are Python's own. They vary by less than 0.3 % between runs."""
    del taken  # skips the test without valgrind
    first = instructions.count("telemetry-encode")
    assert 1000 < first < 20_000
    assert instructions.count("telemetry-encode") == pytest.approx(first, rel=0.003)
