"""Pipelines run enrichments in order, keep the types of columns, and reload changed files."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbuf import Schema
from flowbuf.enrich import load_enrichments, lookup
from flowbuf.enrich.config import Config, read_config
from flowbuf.errors import EnrichmentError
from tests.support.enriching import FLOW, Clock, absent_column, flows, ip, load, said

EVERYTHING = """
derive = ["packet_size", "packet_size_bucket", "icmp_name"]
[[exporter]]
address = "192.0.2.0/24"
site = "fra"
[[exporter]]
address = "192.0.2.1"
name = "edge1"
[[exporter.interface]]
index = 1
name = "xe1"
description = "Transit: a"
speed = 1000
[[exporter.interface]]
index = 2
description = "core"
[[network]]
prefix = "10.0.0.0/8"
name = "ten"
asn = 64500
[[network]]
prefix = "10.1.0.0/16"
role = "lab"
country = "DE"
[[exporter_rule]]
match = { name = '(\\w)\\d' }
set = { role = "{1}", site = "x" }
[[exporter_rule]]
set = { group = "rest" }
[[interface_rule]]
exporter_group = "rest"
match = { description = 'Transit: (?P<who>.*)' }
set = { provider = "{who}", boundary = "external" }
[[interface_rule]]
speed = { max = 1000 }
set = { connectivity = "slow" }
[[interface_rule]]
match = { name = 'x' }
set = { boundary = "internal" }
"""


def test_extend_enables_filled_and_needed_columns(tmp_path: Path) -> None:
    pipeline = load(tmp_path, '[[exporter]]\naddress = "192.0.2.1"\nname = "x"\n')
    assert (pipeline.provides, pipeline.needs) == (("exporter_name",), ("exporter_address",))
    schema = pipeline.extend(Schema.load("flow").only("bytes"))
    assert [column.name for column in schema.enabled] == ["exporter_address", "bytes", "exporter_name"]


def test_columns_keep_their_order_and_new_ones_follow(tmp_path: Path) -> None:
    batch = flows(bytes=[1], exporter_name=[None], exporter_address=["192.0.2.1"])
    batch = batch.replace_schema_metadata({"made": "by hand"})
    result = load(tmp_path, EVERYTHING)(batch)
    assert result.schema.names[:3] == ["bytes", "exporter_name", "exporter_address"]
    assert result.schema.metadata == {b"made": b"by hand"}
    assert result.schema.names[3:6] == ["exporter_group", "exporter_role", "exporter_site"]


def test_every_batch_has_the_same_columns(tmp_path: Path) -> None:
    pipeline = load(tmp_path, EVERYTHING)
    full = pipeline(flows(exporter_address=["192.0.2.1"], in_if=[1], src_addr=["10.1.1.1"]))
    none = pipeline(flows(exporter_address=[None], in_if=[0], src_addr=["::1"]))
    assert full.schema == none.schema == pipeline(none.slice(0, 0)).schema
    assert set(pipeline.provides) <= set(full.schema.names)


class Address(pa.ExtensionType):
    """Extension type of addresses that is not the one of flowbuf."""

    def __init__(self) -> None:
        super().__init__(pa.binary(16), "flowbuf.test.address")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Address:
        return cls()


def test_addresses_may_have_another_extension_type(tmp_path: Path) -> None:
    def next_hop(batch: Any) -> Any:
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        return pa.RecordBatch.from_pydict(
            {**arrays, "next_hop": pa.array([ip("192.0.2.9")] * 2, pa.binary(16))}
        )

    storage = pa.array([ip("192.0.2.1"), None], pa.binary(16))
    array = pa.ExtensionArray.from_storage(Address(), storage)
    batch = pa.RecordBatch.from_pydict({"exporter_address": array, "src_addr": array, "next_hop": array})
    (tmp_path / "net.toml").write_text(EVERYTHING)
    result = load_enrichments([tmp_path / "net.toml", next_hop], FLOW)(batch)
    assert said(result, "exporter_name") == ["edge1", None]
    assert [result.schema.field(name).type for name in batch.schema.names] == [Address()] * 3
    assert result.column("next_hop").storage.to_pylist() == [ip("192.0.2.9")] * 2


@pytest.mark.parametrize("partly", [False, True])
@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_types_of_other_libraries_are_kept(tmp_path: Path, partly: bool, text: Any) -> None:
    name = pa.array(["mine", None] if partly else [None, None], pa.string())
    old = {
        "exporter_address": pa.array([ip("192.0.2.1")] * 2, pa.large_binary()),
        "exporter_name": (name.dictionary_encode() if pa.types.is_dictionary(text) else name).cast(text),
        "in_if": pa.array([1, None], pa.int64()),
        "in_if_speed": pa.array([None, 7 if partly else None], pa.int64()),
        "in_if_boundary": pa.array([None, "internal" if partly else None], pa.large_string()),
    }
    batch = pa.RecordBatch.from_pydict(old)
    result = load(tmp_path, EVERYTHING)(batch)
    assert said(result, "exporter_name") == ["mine" if partly else "edge1", "edge1"]
    assert said(result, "in_if_speed") == [1000, 7 if partly else 0]
    assert said(result, "in_if_boundary") == ["external", "internal" if partly else None]
    assert [result.schema.field(name).type for name in old] == batch.schema.types


def test_enums_have_the_same_dictionary_in_every_batch(tmp_path: Path) -> None:
    """Batches with different dictionaries could not be written to one file."""
    pipeline = load(tmp_path, EVERYTHING)
    kinds = {"exporter_address": ["192.0.2.1", "192.0.2.1"], "in_if": [3, 3], "out_if": [1, 0]}
    batches = [
        pipeline(flows(**kinds)),
        pipeline(flows(**{**kinds, "in_if": [1, 1]})),
        pipeline(flows(**kinds)),
    ]
    batches.append(pipeline(flows(**kinds, in_if_boundary=["internal", None])))
    for side in ("in", "out"):
        found = {tuple(batch.column(f"{side}_if_boundary").dictionary.to_pylist()) for batch in batches}
        assert found == {("undefined", "external", "internal")}


def test_earlier_enrichments_have_precedence(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.toml" for name in ("one", "other")]
    for path in paths:
        path.write_text(f'[[exporter]]\naddress = "192.0.2.1"\nname = "{path.stem}"\n')
    paths[1].write_text(paths[1].read_text() + 'site = "muc"\n')
    batch = load_enrichments(paths, FLOW)(flows(exporter_address=["192.0.2.1"]))
    assert said(batch, "exporter_name", "exporter_site") == [("one", "muc")]


def test_an_enrichment_of_another_kind_of_rows_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text('[[exporter]]\naddress = "192.0.2.1"\nname = "edge1"\n')
    counters = Schema.load("sflow_counters")
    with pytest.raises(EnrichmentError, match="fills columns that schema 'sflow_counters' does not have"):
        load_enrichments([path], counters, others=[Schema.load("options")])
    pipeline = load_enrichments([path, lambda batch: batch], counters, others=[Schema.load("options"), FLOW])
    assert (len(pipeline.enrichments), pipeline.provides) == (1, ())
    assert pipeline.left_out[0].startswith(
        f"{path}: fills columns that schema 'sflow_counters' does not have"
    )
    assert load_enrichments([path], FLOW, others=[counters]).left_out == ()


def test_tables_are_enriched_like_batches(tmp_path: Path) -> None:
    pipeline = load(tmp_path, EVERYTHING)
    batch = flows(exporter_address=["192.0.2.1", "192.0.2.2"])
    table = pa.concat_tables(
        [pa.Table.from_batches([batch.slice(0, 1)]), pa.Table.from_batches([batch.slice(1)])]
    )
    assert pipeline(table).equals(pipeline(batch))
    with pytest.raises(EnrichmentError):
        pipeline(5)


def test_empty_pipelines_return_the_batch() -> None:
    batch = flows(bytes=[1])
    pipeline = load_enrichments([], FLOW)
    assert pipeline(batch) is batch
    assert repr(pipeline) == "<Pipeline of nothing>"


EXPORTERS = st.sampled_from(["192.0.2.1", "192.0.2.2", "198.51.100.1", None])
NAMES = st.sampled_from([None, None, "edge7", "core", "xe9", "Transit: z"])
ENDS = st.sampled_from(["10.1.0.1", "10.2.0.1", "::1", "10.3.4.5", None])
ROWS = {
    "exporter_address": EXPORTERS,
    "in_if": st.sampled_from([0, 1, 2, 3]),
    "out_if": st.sampled_from([0, 1, 2, 3]),
    "src_addr": ENDS,
    "dst_addr": ENDS,
    "src_as": st.sampled_from([0, 0, 65001]),
    "bytes": st.integers(0, 10**6),
    "packets": st.integers(0, 10),
    "proto": st.sampled_from([1, 6]),
    "icmp_type": st.sampled_from([0, 3, 8]),
    "icmp_code": st.sampled_from([0, 3]),
}
FILLED = {
    "exporter_name": NAMES,
    "exporter_role": NAMES,
    "in_if_name": NAMES,
    "in_if_description": NAMES,
    "in_if_speed": st.sampled_from([0, 0, 1000, 10000]),
    "out_if_boundary": st.sampled_from([None, None, "internal"]),
    "src_net_name": NAMES,
    "dst_country": NAMES,
    "packet_size_bucket": NAMES,
}
BATCHES = st.builds(
    lambda rows, kept: flows(**{name: [row[name] for row in rows] for name in [*ROWS, *sorted(kept)]}),
    st.lists(st.fixed_dictionaries({**ROWS, **FILLED}), min_size=1, max_size=20),
    st.sets(st.sampled_from(sorted(FILLED))),
)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tmp_path_factory.mktemp("everything"), EVERYTHING)


@settings(deadline=None)
@given(BATCHES)
def test_enriching_twice_changes_nothing(everything: Any, batch: Any) -> None:
    once = everything(batch)
    twice = everything(once)
    assert [name for name in once.schema.names if not once[name].equals(twice[name])] == []
    for name in batch.schema.names:  # existing values are kept
        assert all(
            old in (None, 0, new) for old, new in zip(said(batch, name), said(once, name), strict=True)
        )


@settings(deadline=None)
@given(BATCHES)
def test_flows_are_enriched_independently(everything: Any, batch: Any) -> None:
    together = everything(batch).to_pylist()
    assert together == [
        row for i in range(batch.num_rows) for row in everything(batch.slice(i, 1)).to_pylist()
    ]


def test_a_full_cache_does_not_change_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "KEYS", 10)
    pipeline = load(
        tmp_path, "".join(f'[[network]]\nprefix = "10.0.{i}.0/24"\nname = "{i}"\n' for i in range(256))
    )
    for start in (0, 5, 100, 0):
        addresses = [f"10.0.{start + i}.1" for i in range(8)]
        assert said(pipeline(flows(src_addr=addresses)), "src_net_name") == [str(start + i) for i in range(8)]


# Changed files ----------------------------------------------------------------------------------------------


def exporter(name: str) -> str:
    return f'exporters = "list.csv"\n[[exporter]]\naddress = "192.0.2.1"\nname = "{name}"\n'


class Reloading:
    """A pipeline of a TOML file and a CSV file, with a clock that the test advances."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.age = 0
        self.write("list.csv", "address,name\n192.0.2.2,two\n")
        self.pipeline = load(folder, exporter("one"), clock=self.clock)

    def write(self, name: str, text: str) -> None:
        """Write a file with a new modification time, independent of the clock of the file system."""
        self.age += 1
        (self.folder / name).write_text(text)
        os.utime(self.folder / name, ns=(self.age, self.age))

    def names(self, seconds: float = 2) -> list[str | None]:
        self.clock.now += seconds
        return said(self.pipeline(flows(exporter_address=["192.0.2.1", "192.0.2.2"])), "exporter_name")


@pytest.fixture
def reloading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reloading:
    monkeypatch.setattr("flowbuf.enrich.static.PATIENCE", 60)  # so that a busy machine changes nothing
    return Reloading(tmp_path)


def test_changed_files_are_reloaded(reloading: Reloading) -> None:
    assert reloading.names() == ["one", "two"]
    reloading.write("net.toml", exporter("eins"))
    assert reloading.names() == ["eins", "two"]
    reloading.write("list.csv", "address,name\n192.0.2.2,zwei\n")
    assert reloading.names() == ["eins", "zwei"]
    assert list(reloading.pipeline.problems) == []


def test_files_are_checked_once_per_second(reloading: Reloading) -> None:
    assert reloading.names() == ["one", "two"]
    reloading.write("net.toml", exporter("eins"))
    assert reloading.names(0.5) == ["one", "two"]
    assert reloading.names(0.4) == ["one", "two"]
    assert reloading.names(0.2) == ["eins", "two"]


def test_flows_do_not_wait_for_files_that_take_long(
    reloading: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are filled with the previous data meanwhile. A change during that time is seen afterwards."""
    begun, may_end = threading.Event(), threading.Event()

    def look_late(config: Config) -> None:
        read_config(config)
        begun.set()
        assert may_end.wait(60)

    monkeypatch.setattr("flowbuf.enrich.static.read_config", look_late)
    monkeypatch.setattr("flowbuf.enrich.static.PATIENCE", 0.1)
    reloading.write("list.csv", "address,name\n192.0.2.2,zwei\n")
    assert reloading.names() == ["one", "two"]
    assert begun.wait(60)
    reloading.write("list.csv", "address,name\n192.0.2.2,deux\n")
    assert reloading.names() == ["one", "two"]
    may_end.set()
    seen = [["one", "two"]]
    for _ in range(600):
        seen.append(reloading.names())
        if seen[-1] == ["one", "deux"]:
            break
        time.sleep(0.1)
    changes = [after for before, after in itertools.pairwise(seen) if before != after]
    assert changes == [["one", "zwei"], ["one", "deux"]]


def test_invalid_changes_keep_the_previous_data(reloading: Reloading) -> None:
    reloading.write("list.csv", "address,name\n192.0.2.300,two\n")
    assert reloading.names() == ["one", "two"]
    (problem,) = reloading.pipeline.problems
    assert "list.csv:2: address: '192.0.2.300' is not a network" in problem
    assert problem.endswith("(the data that was read before stays in use)")
    assert reloading.names() == ["one", "two"]
    assert len(reloading.pipeline.problems) == 1, "the problem is reported once, not at every check"
    reloading.write("list.csv", "address,name\n192.0.2.2,zwei\n")
    assert reloading.names() == ["one", "zwei"]


@pytest.mark.parametrize("name", ["list.csv", "net.toml"])
def test_files_may_disappear_and_return(reloading: Reloading, name: str) -> None:
    (reloading.folder / name).rename(reloading.folder / "away")
    assert reloading.names() == ["one", "two"]
    assert [name in problem for problem in reloading.pipeline.problems] == [True]
    reloading.write(
        name, (reloading.folder / "away").read_text().replace("one", "eins").replace("two", "zwei")
    )
    assert reloading.names() == (["one", "zwei"] if name == "list.csv" else ["eins", "two"])


def test_files_that_are_missing_are_watched(reloading: Reloading) -> None:
    reloading.write("net.toml", exporter("one").replace("list.csv", "new.csv"))
    assert reloading.names() == ["one", "two"]
    reloading.write("new.csv", "address,name\n192.0.2.2,zwei\n")
    assert reloading.names() == ["one", "zwei"]


def test_new_columns_are_filled_after_a_restart(reloading: Reloading) -> None:
    reloading.write("net.toml", exporter("eins") + 'site = "fra"\n')
    assert reloading.names() == ["eins", "two"]
    assert [
        "new columns exporter_site are filled after a restart" in each for each in reloading.pipeline.problems
    ] == [True]
    batch = reloading.pipeline(flows(exporter_address=["192.0.2.1"]))
    assert "exporter_site" not in batch.schema.names


def test_columns_that_are_no_longer_filled_become_absent(reloading: Reloading) -> None:
    reloading.write("net.toml", "")
    batch = flows(exporter_address=["192.0.2.1"])
    reloading.clock.now += 2
    assert reloading.pipeline(batch).column("exporter_name").equals(absent_column("exporter_name", 1))


# Optional dependencies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "command", "expected"),
    [
        (
            "pyarrow",
            "import flowbuf.enrich",
            "ImportError: enrichment needs pyarrow; run pip install 'flowbuf[arrow]'",
        ),
        (
            "maxminddb",
            "import flowbuf; from flowbuf.enrich import *; "
            "load_enrichments(['geo.toml'], flowbuf.Schema.load())",
            "flowbuf.errors.EnrichmentError: geo.toml: [geo] needs maxminddb; run pip install 'flowbuf[geo]'",
        ),
    ],
)
def test_missing_dependencies_are_reported(tmp_path: Path, missing: str, command: str, expected: str) -> None:
    (tmp_path / "geo.toml").write_text("[geo]\ncountry = 'country.mmdb'\n")
    code = f"import sys; sys.modules[{missing!r}] = None; {command}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == expected


def test_flowbuf_does_not_import_pyarrow() -> None:
    code = "import sys, flowbuf, flowbuf.cli.main; assert 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
