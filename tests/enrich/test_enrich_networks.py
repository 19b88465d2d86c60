"""Lists and MaxMind databases give the networks and places of source and destination."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flowbuf.enrich import load_enrichments
from flowbuf.errors import EnrichmentError
from tests.support import mmdb
from tests.support.documents import ROOT
from tests.support.enriching import FLOW, flows, load, said

LIST = """prefix,name,role,site,region,tenant,asn,country,state,city
10.0.0.0/8,corp,,,eu,acme,64500,,,
10.1.0.0/16,,lab,muc,,,,DE,BY,Munich
2001:db8::/32,six,,,,,64501,,,
"""


def end(batch: Any, side: str) -> list[Any]:
    names = ("net_name", "net_role", "net_site", "net_region", "net_tenant", "net_prefix", "as")
    return said(batch, *(f"{side}_{name}" for name in names))


def test_networks_of_both_ends_are_filled(tmp_path: Path) -> None:
    (tmp_path / "nets.csv").write_text(LIST)
    batch = load(tmp_path, 'networks = "nets.csv"')(
        flows(src_addr=["10.1.2.3", "2001:db8::1", None], dst_addr=["10.2.0.1", "192.0.2.1", "10.1.0.0"])
    )
    lab = ("corp", "lab", "muc", "eu", "acme", "10.1.0.0/16", 64500)
    nothing = (*[None] * 6, 0)
    assert end(batch, "src") == [lab, ("six", *[None] * 4, "2001:db8::/32", 64501), nothing]
    assert end(batch, "dst") == [("corp", None, None, "eu", "acme", "10.0.0.0/8", 64500), nothing, lab]
    assert said(batch, "src_country", "src_geo_state", "src_geo_city") == [
        ("DE", "BY", "Munich"),
        *[(None,) * 3] * 2,
    ]


def test_the_toml_file_may_contain_networks(tmp_path: Path) -> None:
    batch = load(tmp_path, '[[network]]\nprefix = "0.0.0.0/0"\nname = "all"\n')(
        flows(src_addr=["10.1.2.3", "::1"])
    )
    assert said(batch, "src_net_name", "src_net_prefix") == [("all", "0.0.0.0/0"), (None, None)]
    assert "src_net_role" not in batch.schema.names
    assert "src_as" not in batch.schema.names


def test_as_numbers_of_the_exporter_are_kept(tmp_path: Path) -> None:
    batch = load(tmp_path, '[[network]]\nprefix = "10.0.0.0/8"\nasn = 64500\n')(
        flows(src_addr=["10.1.2.3"] * 3, src_as=[0, 65001, 0])
    )
    assert said(batch, "src_as") == [64500, 65001, 64500]


# Databases --------------------------------------------------------------------------------------------------

CITY = {
    "10.1.0.0/16": {
        "country": {"iso_code": "DE", "names": {"en": "Germany"}},
        "subdivisions": [{"iso_code": "BY", "names": {"en": "Bavaria"}}],
        "city": {"names": {"de": "München", "en": "Munich"}},
    },
    "10.2.0.0/16": {"registered_country": {"iso_code": "FR"}},
    "2001:db8::/32": {"country": {"iso_code": "NL"}, "subdivisions": [{"names": {"en": "Noord-Holland"}}]},
}
ASN = {"10.0.0.0/8": {"autonomous_system_number": 4200000000, "autonomous_system_organization": "x" * 50}}
COUNTRY = {"10.1.0.0/16": {"country": {"iso_code": "AT"}}, "10.3.0.0/16": {"country": {"iso_code": "CH"}}}
ADDRESSES = ["10.1.2.3", "10.2.0.1", "2001:db8::1", "10.3.0.1", "192.0.2.1", None]


def write(folder: Path, **databases: bytes) -> str:
    for name, data in databases.items():
        (folder / f"{name}.mmdb").write_bytes(data)
    return "[geo]\n" + "".join(f'{name} = "{name}.mmdb"\n' for name in databases)


def test_databases_fill_places(tmp_path: Path) -> None:
    geo = write(tmp_path, city=mmdb.database(CITY, "GeoLite2-City"), asn=mmdb.database(ASN, "GeoLite2-ASN"))
    batch = load(tmp_path, geo)(flows(src_addr=ADDRESSES, dst_addr=ADDRESSES[::-1]))
    places = [
        ("DE", "BY", "Munich"),
        ("FR", None, None),
        ("NL", "Noord-Holland", None),
        *[(None, None, None)] * 3,
    ]
    assert said(batch, "src_country", "src_geo_state", "src_geo_city") == places
    assert said(batch, "dst_country", "dst_geo_state", "dst_geo_city") == places[::-1]
    assert said(batch, "src_as") == [4200000000, 4200000000, 0, 4200000000, 0, 0]


def test_the_country_database_has_precedence_for_countries(tmp_path: Path) -> None:
    geo = write(tmp_path, city=mmdb.database(CITY, "GeoLite2-City"), country=mmdb.database(COUNTRY))
    batch = load(tmp_path, geo)(flows(src_addr=ADDRESSES))
    assert said(batch, "src_country") == ["AT", "FR", "NL", "CH", None, None]


def test_lists_of_networks_have_precedence_over_databases(tmp_path: Path) -> None:
    geo = write(tmp_path, city=mmdb.database(CITY, "GeoLite2-City"), asn=mmdb.database(ASN, "GeoLite2-ASN"))
    own = '[[network]]\nprefix = "10.1.2.0/24"\nasn = 64500\ncity = "Garching"\n'
    batch = load(tmp_path, geo + own)(flows(src_addr=["10.1.2.3", "10.1.3.3"]))
    assert said(batch, "src_as", "src_country", "src_geo_city") == [
        (64500, "DE", "Garching"),
        (4200000000, "DE", "Munich"),
    ]


def test_the_key_country_fills_countries_only(tmp_path: Path) -> None:
    pipeline = load(tmp_path, write(tmp_path, country=mmdb.database(CITY, "GeoLite2-City")))
    assert pipeline.provides == ("src_country", "dst_country")


def test_ipv4_databases_leave_ipv6_addresses_absent(tmp_path: Path) -> None:
    data = mmdb.database({"10.1.0.0/16": {"country": {"iso_code": "AT"}}}, ip_version=4)
    batch = load(tmp_path, write(tmp_path, country=data))(flows(src_addr=ADDRESSES))
    assert said(batch, "src_country") == ["AT", *[None] * 5]


def test_databases_may_have_flat_records(tmp_path: Path) -> None:
    flat = {
        "10.0.0.0/8": {
            "country_code": "DE",
            "country": "Germany",
            "region": "Hesse",
            "city": "F",
            "asn": "AS65001",
        }
    }
    data = mmdb.database(flat, "ipinfo standard_location.mmdb")
    batch = load(tmp_path, write(tmp_path, city=data, asn=data))(flows(src_addr=["10.1.1.1"]))
    assert said(batch, "src_country", "src_geo_state", "src_geo_city", "src_as") == [
        ("DE", "Hesse", "F", 65001)
    ]


def test_records_of_other_shapes_are_ignored(tmp_path: Path) -> None:
    odd = {
        "10.0.0.0/9": {"country": ["x"], "city": {"names": ["y"]}, "subdivisions": [], "asn": "ASx"},
        "10.128.0.0/9": 5,
    }
    data = mmdb.database(odd, "odd")
    batch = load(tmp_path, write(tmp_path, city=data, asn=data))(flows(src_addr=["10.1.1.1", "10.200.1.1"]))
    assert (
        said(batch, "src_country", "src_geo_state", "src_geo_city", "src_as") == [(None, None, None, 0)] * 2
    )


def test_databases_of_another_kind_are_refused(tmp_path: Path) -> None:
    geo = write(tmp_path, country=mmdb.database(ASN, "GeoLite2-ASN"))
    with pytest.raises(
        EnrichmentError, match=r"country\.mmdb: geo\.country is a GeoLite2-ASN database; .* asn = "
    ):
        load(tmp_path, geo)


def test_files_that_are_not_databases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EnrichmentError, match=r"country\.mmdb: is not a MaxMind database"):
        load(tmp_path, write(tmp_path, country=b"hello"))
    (tmp_path / "country.mmdb").unlink()
    with pytest.raises(EnrichmentError, match=r"country\.mmdb: cannot be read: No such file"):
        load_enrichments([tmp_path / "net.toml"], FLOW)


@pytest.mark.parametrize("extension", [True, False])
@pytest.mark.parametrize("text", [b"made for a test", b"build_epoch", b""])
def test_databases_with_damaged_metadata_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, extension: bool
) -> None:
    if not extension:  # as if maxminddb was compiled without it
        monkeypatch.setattr("maxminddb._extension", None)
    data = mmdb.database(COUNTRY)
    damaged = data.replace(text, b"\xff" * len(text)) if text else b""
    with pytest.raises(EnrichmentError, match=r"country\.mmdb: is not a MaxMind database"):
        load(tmp_path, write(tmp_path, country=damaged))


def test_a_database_that_is_truncated_in_use_does_not_end_the_process(tmp_path: Path) -> None:
    """A download onto the file begins with this. The lookup runs in a process of its own."""
    places = {f"10.{i}.0.0/16": {"country": {"iso_code": "AT"}, "city": f"city-{i}" * 9} for i in range(256)}
    (tmp_path / "city.mmdb").write_bytes(mmdb.database(places, "GeoLite2-City"))
    assert (tmp_path / "city.mmdb").stat().st_size > 4 * 4096  # several pages
    (tmp_path / "net.toml").write_text("[geo]\ncity = 'city.mmdb'")
    program = (
        "import os, sys\n"
        "from flowbuf.enrich import load_enrichments\n"
        "from tests.support.enriching import FLOW, flows\n"
        "pipeline = load_enrichments([f'{sys.argv[1]}/net.toml'], FLOW)\n"
        "os.truncate(f'{sys.argv[1]}/city.mmdb', 0)\n"
        "batch = pipeline(flows(src_addr=['10.1.0.1', '10.255.0.1']))\n"
        "print(batch['src_country'].to_pylist(), list(pipeline.problems))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['AT', 'AT'] []\n", "")


def test_databases_are_read_without_a_folder_for_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = write(tmp_path, country=mmdb.database(COUNTRY))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    pipeline = load(tmp_path, text)
    assert said(pipeline(flows(src_addr=["10.1.2.3"])), "src_country") == ["AT"]


def test_damaged_databases_are_reported_once(tmp_path: Path) -> None:
    data = mmdb.database(COUNTRY)
    damaged = data.replace(b"\x42CH", b"\xff\xff\xff")  # 0x42: a string of two bytes
    assert damaged != data
    pipeline = load(tmp_path, write(tmp_path, country=damaged))
    batch = pipeline(flows(src_addr=["10.1.2.3", "10.3.0.1", "10.3.0.2"]))
    assert said(batch, "src_country") == ["AT", None, None]
    assert len(pipeline.problems) == 1
    assert "country.mmdb: " in pipeline.problems[0]
