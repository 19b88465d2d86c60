"""The examples in docs/how-to/enrichment.md work, and the page names every key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flowbuf.enrich import load_enrichments
from flowbuf.enrich.config import TOP
from flowbuf.enrich.derived import DERIVED
from flowbuf.enrich.records import EXPORTER, LISTED_INTERFACE, NETWORK
from flowbuf.enrich.rules import EXPORTER_RULE, INTERFACE_RULE
from tests.support.documents import read_blocks
from tests.support.enriching import FLOW, flows, said, write_databases

PAGE = (Path(__file__).parents[2] / "docs/how-to/enrichment.md").read_text()


BLOCKS = {block.title: block.code for block in read_blocks(PAGE)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the example, without comments, and the CSV files and databases that it names."""
    write_databases(tmp_path)
    text = re.sub(r"^#(?! )", "", BLOCKS["network.toml"], flags=re.MULTILINE)
    (tmp_path / "network.toml").write_text(text.replace("/var/lib/GeoIP/", ""))
    for name in ("exporters.csv", "interfaces.csv", "networks.csv"):
        (tmp_path / name).write_text(BLOCKS[name])
    return tmp_path


def test_the_example_file_fills_columns(folder: Path) -> None:
    batch = load_enrichments([folder / "network.toml"], FLOW)(
        flows(
            exporter_address=["192.0.2.1"],
            in_if=[335],
            out_if=[450],
            src_addr=["203.0.113.5"],
            dst_addr=["198.51.100.7"],
            bytes=[3000],
            packets=[2],
        )
    )
    (flow,) = batch.to_pylist()
    expected: dict[str, Any] = {
        **{"exporter_name": "fra-edge1", "exporter_role": "edge", "exporter_site": "fra"},
        **{"exporter_region": "europe", "exporter_tenant": "backbone"},
        **{"in_if_name": "et-0/0/1", "in_if_speed": 100000, "in_if_connectivity": "transit"},
        **{"in_if_provider": "carrier1", "in_if_boundary": "external"},
        **{"out_if_name": "et-0/0/2", "out_if_connectivity": "backbone", "out_if_boundary": "internal"},
        **{"src_as": 65001, "src_country": "FR", "src_geo_city": "Lyon", "src_net_name": None},
        **{"dst_as": 64500, "dst_net_name": "customers", "dst_net_prefix": "198.51.100.0/24"},
        "packet_size_bucket": "1280-1500",
    }
    assert {name: flow[name] for name in expected} == expected


def test_the_csv_files_fill_columns(folder: Path) -> None:
    batch = load_enrichments([folder / "network.toml"], FLOW)(
        flows(exporter_address=["192.0.2.3"], in_if=[17], src_addr=["10.1.2.3"], dst_addr=["2001:db8:2::1"])
    )
    names = ("exporter_name", "in_if_provider", "src_net_name", "src_geo_city", "dst_country")
    assert said(batch, *names) == [("ber-edge1", "carrier2", "offices", "Munich", "FR")]


def test_the_example_function_fills_a_column(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS["mymodule.py"], names)
    pipeline = load_enrichments([names["tag_customers"]], FLOW)
    assert pipeline.extend(FLOW)["src_net_tenant"].enabled
    batch = pipeline(flows(dst_port=[179, 80, 80], in_if=[335, 335, 1]))
    assert said(batch, "src_net_tenant") == ["customer", None]


def test_the_page_names_every_key() -> None:
    words = set(re.findall(r"\w+", PAGE))
    for keys in (TOP, EXPORTER.keys, LISTED_INTERFACE.keys, NETWORK.keys):
        assert set(keys) <= words
    for kind in (EXPORTER_RULE, INTERFACE_RULE):
        assert {*kind.texts, *kind.numbers, *kind.sets} <= words
    assert {name for name in DERIVED if name[-5:] != "label" and name[-2:] != "as"} <= words
