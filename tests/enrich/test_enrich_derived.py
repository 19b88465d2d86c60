"""Derived columns are computed from other columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flowbuf.enrich.derived import DERIVED
from tests.support.enriching import FLOW, absent_column, flows, load, said


def test_packet_sizes_are_derived(tmp_path: Path) -> None:
    batch = flows(
        bytes=[40, 64, 3000, 1500, 1501, 10**12, 0, 9],
        packets=[1, 1, 3, 1, 1, 1, 0, 10],
    )
    batch = load(tmp_path, 'derive = ["packet_size_bucket", "packet_size"]')(batch)
    assert said(batch, "packet_size", "packet_size_bucket") == [
        (40, "0-63"),
        (64, "64-127"),
        (1000, "768-1023"),
        (1500, "1280-1500"),
        (1501, "1501-2047"),
        (10**12, "65536-inf"),
        (0, None),
        (0, None),
    ]


def test_names_of_icmp_messages_are_derived(tmp_path: Path) -> None:
    messages = {
        (1, 8, 0): "echo-request",
        (1, 0, 0): "echo-reply",
        (1, 3, 3): "port-unreachable",
        (1, 3, 99): "destination-unreachable",
        (58, 128, 0): "echo-request",
        (58, 135, 0): "neighbor-solicitation",
        (58, 1, 4): "port-unreachable",
        (58, 250, 0): None,
        (6, 0, 0): None,
    }
    proto, icmp_type, icmp_code = zip(*messages, strict=True)
    batch = flows(proto=proto, icmp_type=icmp_type, icmp_code=icmp_code)
    assert said(load(tmp_path, 'derive = ["icmp_name"]')(batch), "icmp_name") == list(messages.values())


def test_null_values_derive_nothing(tmp_path: Path) -> None:
    """Numbers in explicit columns may be null. Numbers derived from them are not."""
    batch = flows(
        bytes=[None, 3, 5],
        packets=[1, None, 5],
        proto=[1, 1, 1],
        icmp_type=[3, None, 8],
        icmp_code=[None] * 3,
    )
    batch = load(tmp_path, 'derive = ["packet_size", "packet_size_bucket", "icmp_name"]')(batch)
    assert said(batch, "packet_size", "packet_size_bucket") == [(0, None), (0, None), (1, "0-63")]
    assert said(batch, "icmp_name") == ["destination-unreachable", None, "echo-request"]


@pytest.mark.parametrize("offset", [0, 2])
def test_items_of_lists_are_derived(tmp_path: Path, offset: int) -> None:
    paths = [[9], None, [1, 2, 3, 4], [], [5], [6, 7]]
    batch = flows(dst_as_path=paths, mpls_labels=paths).slice(offset)
    batch = load(tmp_path, 'derive = ["dst_1st_as", "dst_3rd_as", "mpls_2nd_label", "mpls_4th_label"]')(batch)
    assert said(batch, "dst_1st_as") == [9, 0, 1, 0, 5, 6][offset:]
    assert said(batch, "dst_3rd_as") == [0, 0, 3, 0, 0, 0][offset:]
    assert said(batch, "mpls_2nd_label") == [0, 0, 2, 0, 0, 7][offset:]
    assert said(batch, "mpls_4th_label") == [0, 0, 4, 0, 0, 0][offset:]


@pytest.mark.parametrize("name", DERIVED)
def test_values_derived_from_absent_columns_are_absent(tmp_path: Path, name: str) -> None:
    pipeline = load(tmp_path, f'derive = ["{name}"]')
    batch = pipeline(flows(src_port=[1, 2]))
    assert batch.column(name).equals(absent_column(name, 2))
    empty = pa.RecordBatch.from_pydict({need: absent_column(need, 2) for need in pipeline.needs})
    assert pipeline(empty).column(name).equals(absent_column(name, 2))


def test_derived_columns_have_no_sources() -> None:
    """The columns that they are derived from have sources."""
    for name, recipe in DERIVED.items():
        assert not FLOW[name].sources
        assert all(FLOW[need].sources for need in recipe.needs)
