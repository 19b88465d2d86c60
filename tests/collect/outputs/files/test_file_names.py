"""Names of files sort by time, are unique, and are recognized exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowbuf.collect.outputs.files.file_names import FileNames
from tests.collect.outputs.files.batches import NOON


def new_names(prefix: str = "flows", suffix: str = ".parquet", spool: str = "") -> FileNames:
    return FileNames(prefix, suffix, (suffix,), suffix == ".pb", spool)


def test_a_name_has_the_time_in_utc_and_a_sequence_number() -> None:
    names = new_names()
    path = names.path(names.new(NOON + 901.9))
    partition, _, name = path.rpartition("/")
    assert partition == "date=2026-11-25/hour=12"
    start, time, instance, end = name.split("-")
    assert (start, time, len(instance), end) == ("flows", "20261125T121501Z", 12, "000001.parquet")


def test_names_of_processes_that_open_files_in_the_same_second_differ() -> None:
    paths = {names.path(names.new(NOON)) for names in [new_names() for _ in range(50)] for _ in range(3)}
    assert len(paths) == 150


def test_names_sort_by_time_and_sequence() -> None:
    names = new_names()
    created = [names.path(names.new(NOON + seconds)) for seconds in (0, 0, 1, 59, 3600, 86400)]
    assert created == sorted(created)


def test_a_name_is_parsed_again_with_its_spool_entry() -> None:
    names = new_names()
    name = names.new(NOON)
    spooled = replace(name, spool="ab12", number=42)
    assert names.parse(names.path(name)) == name
    assert names.parse(names.path(spooled)) == spooled
    assert names.path(spooled).endswith("-000001-ab12-42.parquet")
    assert names.is_temporary(f".{names.of(spooled)}.tmp")


@pytest.mark.parametrize(
    "path",
    [
        "flows-20261125T120000Z-0123456789ab-000001.parquet",
        "date=2026-11-25/hour=13/flows-20261125T120000Z-0123456789ab-000001.parquet",
        "more/date=2026-11-25/hour=12/flows-20261125T120000Z-0123456789ab-000001.parquet",
        "date=2026-11-25/hour=12/other-20261125T120000Z-0123456789ab-000001.parquet",
        "date=2026-11-25/hour=12/flows-x-20261125T120000Z-0123456789ab-000001.parquet",
        "date=2026-11-25/hour=12/flows-20261125T120000Z-0123456789ab-000001.pb",
        "date=2026-11-25/hour=12/flows-20261125T120000Z-0123456789ab-000001.parquet.bak",
        "date=2026-11-25/hour=12/flows-20261125T120000Z-0123456789ab-000001.parquet.proto",
        "date=2026-11-25/hour=12/flows-20261125T120000Z-0123456789ab-1.parquet",
        "date=2026-11-25/hour=12/flows-20261125T120000Z-0123456789AB-000001.parquet",
        "date=2026-11-25/hour=12/flows-20261345T120000Z-0123456789ab-000001.parquet",
        "date=2026-11-25/hour=12/flows-20261125T120000Z-0123456789ab-000001.parquet\n",
        "date=2026-11-25/hour=12/.flows-20261125T120000Z-0123456789ab-000001.parquet.tmp",
    ],
)
def test_other_paths_are_not_files_of_the_output(path: str) -> None:
    assert new_names().parse(path) is None
    assert new_names().parse_owner(path) is None


def test_a_proto_belongs_to_its_file() -> None:
    names = new_names(suffix=".pb")
    name = names.new(NOON)
    assert names.parse_owner(f"{names.path(name)}.proto") == name
    assert names.parse(f"{names.path(name)}.proto") is None
    assert names.is_temporary(f".{names.of(name)}.proto.tmp")


@pytest.mark.parametrize("prefix", ["", ".flows", "_flows", "a/b", "flows*", "flöws", "-x"])
def test_a_prefix_that_hides_or_moves_files_is_an_error(prefix: str) -> None:
    with pytest.raises(ValueError, match=r"file prefix .* is invalid; use letters"):
        new_names(prefix)


@pytest.mark.parametrize("spool", ["A", "a-b", "a/b", "x" * 33])
def test_the_name_of_a_spool_is_checked(spool: str) -> None:
    with pytest.raises(ValueError, match=r"spool name .* is invalid"):
        new_names(spool=spool)
