"""Enrichments may be functions of users, which take a batch and return one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from flowbuf import read_capture
from flowbuf.enrich import load_enrichments
from flowbuf.errors import EnrichmentError
from tests.support.enriching import FLOW, flows, ip, said

SFLOW = Path(__file__).parents[1] / "data" / "generated-sflow.pcap"
MODULE = """
import pyarrow as pa

def name(batch):
    i = batch.schema.get_field_index("exporter_name")
    arrays = list(batch.columns)
    arrays[i] = pa.array(["edge1"] * batch.num_rows)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

name.provides = ("exporter_name",)

class Tools:
    @staticmethod
    def same(batch):
        return batch

number = 5
"""
BATCH = flows(exporter_address=["192.0.2.1", None], bytes=[1, 2], src_addr=["10.0.0.1", "::1"])


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write a module `enrichment_of_a_test` into the current directory and return its path."""
    path = tmp_path / "enrichment_of_a_test.py"
    path.write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield path
    sys.modules.pop("enrichment_of_a_test", None)


def load_module(name: str) -> Any:
    return load_enrichments([f"enrichment_of_a_test:{name}"], FLOW)


def test_functions_are_found_in_the_current_directory(module: Path) -> None:
    pipeline = load_module("name")
    assert pipeline.provides == ("exporter_name",)
    assert said(pipeline(BATCH), "exporter_name", "bytes") == [("edge1", 1), ("edge1", 2)]
    assert load_module("Tools.same")(BATCH).equals(BATCH)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            "enrichment_of_a_test:nam",
            "enrichment_of_a_test:nam: enrichment_of_a_test has no 'nam'; did you mean name",
        ),
        ("enrichment_of_a_test:Tools.x", "enrichment_of_a_test has no 'x'; correct the name"),
        (
            "enrichment_of_a_test:number",
            "is 5, not a function; name a function that takes a batch and returns one",
        ),
        (
            "no_such_module:name",
            "module 'no_such_module' was not found; flowbuf searches Python's module path and ",
        ),
        (
            "no_such_module.deep:name",
            "module 'no_such_module' was not found; flowbuf searches Python's module path and ",
        ),
        (
            "enrichment",
            "'enrichment': is not an enrichment; name MODULE:FUNCTION, or a file that ends in .toml",
        ),
        (":name", "is not an enrichment"),
        ("x:", "is not an enrichment"),
    ],
)
def test_missing_functions_are_refused(module: Path, spec: str, error: str) -> None:
    with pytest.raises(EnrichmentError) as caught:
        load_enrichments([spec], FLOW)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "import no_such_thing",
            "importing enrichment_of_a_test failed: No module named 'no_such_thing'; install it",
        ),
        ("1 / 0", "importing enrichment_of_a_test failed: ZeroDivisionError: division by zero"),
    ],
)
def test_failing_modules_are_reported(module: Path, text: str, error: str) -> None:
    module.write_text(text)
    with pytest.raises(EnrichmentError) as caught:
        load_module("name")
    assert str(caught.value) == f"enrichment_of_a_test:name: {error}"


# Results ----------------------------------------------------------------------------------------------------


def replaced(name: str, values: Any) -> Any:
    """Return an enrichment that sets one column and names it in `provides`."""

    def function(batch: Any) -> Any:
        arrays = {**dict(zip(batch.schema.names, batch.columns, strict=True)), name: pa.array(values)}
        return pa.RecordBatch.from_pydict(arrays)

    function.provides = (name,)  # type: ignore[attr-defined]
    return function


def run(function: Any, batch: Any = BATCH) -> Any:
    return load_enrichments([function], FLOW)(batch)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("exporter_name", ["a", None], ["a", None]),
        ("exporter_name", pa.array(["a", None], pa.large_string()), ["a", None]),
        ("exporter_name", pa.array(["a", None]).dictionary_encode(), ["a", None]),
        ("exporter_name", pa.nulls(2), [None, None]),
        ("in_if_speed", pa.array([1000, None], pa.int64()), [1000, 0]),
        ("in_if_speed", pa.array([1e3, 2e3]), [1000, 2000]),
        ("in_if_speed", pa.nulls(2), [0, 0]),
        ("in_if_boundary", ["internal", None], ["internal", None]),
        ("in_if_boundary", pa.array(["undefined", "external"]).dictionary_encode(), [None, "external"]),
        ("in_if_boundary", ["7", "external"], ["7", "external"]),
        ("in_if_boundary", pa.array(["7", None]).dictionary_encode(), ["7", None]),
        ("in_if_boundary", pa.nulls(2), [None, None]),
        ("next_hop", [ip("192.0.2.1"), None], [ip("192.0.2.1"), None]),
        ("dst_as_path", [[1, 2], None], [[1, 2], []]),
        ("dst_as_path", pa.nulls(2), [[], []]),
        ("flow_duration", pa.array([5, None], pa.duration("ms")), [timedelta(milliseconds=5), timedelta(0)]),
        ("flow_duration", pa.nulls(2), [timedelta(0), timedelta(0)]),
    ],
)
def test_values_are_converted_to_the_type_of_their_column(
    name: str, values: Any, expected: list[Any]
) -> None:
    batch = run(replaced(name, values))
    assert said(batch, name) == expected
    assert batch.column(name).type == run(replaced(name, pa.nulls(2))).column(name).type


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("in_if_speed", [1, -2], "column 'in_if_speed': row 1 is -2; the column is of type uint32"),
        (
            "in_if_speed",
            [1 << 40, 2],
            "column 'in_if_speed': row 0 is 1099511627776; the column is of type uint32",
        ),
        ("in_if_speed", [0.5, 2], "column 'in_if_speed': row 0 is 0.5; the column is of type uint32"),
        ("in_if_speed", ["1", "fast"], "column 'in_if_speed': row 1 is 'fast'; the column is of type uint32"),
        ("in_if_speed", [[1], [2]], "column 'in_if_speed': is of type list<"),
        (
            "in_if_boundary",
            ["internal", "extern"],
            "column 'in_if_boundary': row 1 is 'extern'; did you mean external",
        ),
        (
            "in_if_boundary",
            ["internal", "1"],
            "column 'in_if_boundary': row 1 is '1'; members are undefined, external",
        ),
        ("in_if_boundary", ["x", None], "row 0 is 'x'; members are undefined, external, internal"),
        (
            "next_hop",
            [None, b"1234"],
            "column 'next_hop': row 1 is b'1234'; an address has 16 bytes, IPv4 as",
        ),
        ("next_hop", [1, 2], "column 'next_hop': is of type int64; an address has 16 bytes"),
        (
            "next_hop",
            ["2001:db8::1:2:34", None],
            "column 'next_hop': is of type string; an address has 16 bytes",
        ),
    ],
)
def test_values_that_do_not_fit_their_column_are_refused(name: str, values: Any, error: str) -> None:
    with pytest.raises(EnrichmentError) as caught:
        run(replaced(name, values))
    assert "replaced.<locals>.function: " in str(caught.value)
    assert error in str(caught.value)


def test_functions_may_drop_rows() -> None:
    batch = run(lambda batch: batch.filter(pa.array([False, True])))
    assert said(batch, "bytes") == [2]
    nothing = load_enrichments([lambda batch: batch.slice(0, 0), lambda batch: 1 / 0], FLOW)(BATCH)
    assert nothing.num_rows == 0
    assert nothing.schema == BATCH.schema


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (
            lambda batch: None,
            "returned NoneType, not a batch; return a pyarrow.RecordBatch, or an object that Arrow can read",
        ),
        (lambda batch: [1], "returned list, not a batch"),
        (lambda batch: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (
            lambda batch: pa.Table.from_arrays([*batch.columns, batch[0]], [*batch.schema.names, "bytes"]),
            "two columns with the same name",
        ),
        (
            lambda batch: pa.concat_tables([pa.Table.from_batches([batch])] * 2),
            "returned 4 rows for 2; leave rows out, but do not add",
        ),
        (
            lambda batch: batch.select(["bytes"]),
            "left out column 'exporter_address'; return all columns, with nulls",
        ),
        (replaced("bites", [1, 2]), "provides: no column 'bites'; did you mean bytes?"),
    ],
)
def test_invalid_results_are_refused(function: Any, error: str) -> None:
    with pytest.raises(EnrichmentError) as caught:
        run(function)
    assert str(caught.value).startswith(f"{__name__}:")
    assert error in str(caught.value)


def test_columns_outside_the_schema_are_refused() -> None:
    function = replaced("exporter_nam", ["a", "b"])
    del function.provides
    with pytest.raises(
        EnrichmentError,
        match="returned column 'exporter_nam', which schema 'flow' does not have; did you mean",
    ):
        run(function)


def test_disabled_columns_are_dropped_and_reported_once() -> None:
    function = replaced("exporter_name", ["a", "b"])
    del function.provides
    reported: list[str] = []
    pipeline = load_enrichments([function], FLOW, on_problem=reported.append)
    assert pipeline(BATCH).equals(BATCH)
    assert pipeline(BATCH).equals(BATCH)
    (problem,) = pipeline.problems
    assert reported == [problem]
    assert (
        "column 'exporter_name' is left out, because it is not enabled; "
        "enable it, or set the attribute provides" in problem
    )


@pytest.mark.parametrize("attribute", ["provides", "needs"])
def test_provides_and_needs_must_be_tuples(attribute: str) -> None:
    def function(batch: Any) -> Any:
        return batch

    setattr(function, attribute, "exporter_name")
    with pytest.raises(EnrichmentError, match=f"{attribute} is 'exporter_name'; write a tuple"):
        load_enrichments([function], FLOW)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_functions_may_return_data_frames(library: str) -> None:
    frames = importlib.import_module(library)

    def function(batch: Any) -> Any:
        if library == "polars":
            return frames.DataFrame(pa.Table.from_batches([batch])).filter(frames.col("bytes") > 1)
        frame = batch.to_pandas()
        return frame[frame["bytes"] > 1]

    batch = run(function)
    assert batch.schema == BATCH.schema
    assert said(batch, "bytes", "src_addr", "exporter_address") == [(2, ip("::1"), None)]


def test_data_frames_keep_addresses() -> None:
    """Polars keeps the name of an extension type but changes its storage type."""

    def function(batch: Any) -> Any:
        frame = pl.DataFrame(batch)
        assert frame.schema["src_addr"] != pl.Binary
        return frame.with_columns(src_net_name=pl.lit("polars"))

    function.provides = ("src_net_name",)  # type: ignore[attr-defined]
    original = next(iter(read_capture(SFLOW)))
    enriched = run(function, original)
    assert set(said(enriched, "src_net_name")) == {"polars"}
    assert enriched.select(original.to_arrow().schema.names).equals(original.to_arrow())
    same = run(lambda batch: batch, pl.DataFrame(original))
    assert said(same, "src_addr") == said(enriched, "src_addr")


def test_addresses_as_text_are_refused() -> None:
    with pytest.raises(EnrichmentError) as caught:
        run(lambda batch: batch, next(iter(read_capture(SFLOW, ip="text"))))
    assert str(caught.value).endswith(
        "column 'exporter_address': has addresses as text, but enrichments need bytes; "
        'read flows with ip="binary"'
    )


def test_unreadable_results_are_reported() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            raise pa.ArrowInvalid("no buffers")

    with pytest.raises(
        EnrichmentError, match="returned Broken, which cannot be used: ArrowInvalid: no buffers"
    ):
        run(lambda batch: Broken())
