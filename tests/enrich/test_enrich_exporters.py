"""Static data, CSV files and rules describe exporters and interfaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.enriching import flows, load, said

ROUTERS = """
[[exporter]]
address = "192.0.2.0/24"
site = "fra"
region = "eu"

[[exporter]]
address = "192.0.2.1"
name = "edge1"
region = "eu-central"

[[exporter]]
address = "2001:db8::/32"
name = "six"

[[exporter.interface]]
index = 7
name = "xe-0/0/7"
description = "Transit: carrier1 #42"
speed = 10000
connectivity = "transit"
provider = "carrier1"
boundary = "external"

[[exporter.interface]]
index = 8
name = "xe-0/0/8"
"""
FIELDS = ("name", "description", "speed", "connectivity", "provider", "boundary")
XE7 = ("xe-0/0/7", "Transit: carrier1 #42", 10000, "transit", "carrier1", "external")
NOTHING = (None, None, 0, None, None, None)


def test_longer_networks_have_precedence_over_shorter_ones(tmp_path: Path) -> None:
    batch = flows(exporter_address=["192.0.2.1", "192.0.2.9", "198.51.100.1", None, "192.0.2.1"])
    batch = load(tmp_path, ROUTERS)(batch)
    edge = ("edge1", "fra", "eu-central")
    assert said(batch, "exporter_name", "exporter_site", "exporter_region") == [
        edge,
        (None, "fra", "eu"),
        (None, None, None),
        (None, None, None),
        edge,
    ]


def test_only_columns_named_in_the_data_are_filled(tmp_path: Path) -> None:
    pipeline = load(tmp_path, ROUTERS)
    assert [name for name in pipeline.provides if name.startswith("exporter")] == [
        "exporter_name",
        "exporter_site",
        "exporter_region",
    ]
    assert pipeline.needs == ("exporter_address", "in_if", "out_if")
    assert load(tmp_path, "").provides == ()


def test_interfaces_of_both_directions_are_filled(tmp_path: Path) -> None:
    six = "2001:db8::1"
    batch = flows(
        exporter_address=[six, six, six, "192.0.2.1", None], in_if=[7, 0, 9, 7, 7], out_if=[8, 7, 0, 8, 8]
    )
    batch = load(tmp_path, ROUTERS)(batch)
    assert said(batch, *(f"in_if_{field}" for field in FIELDS)) == [XE7, *[NOTHING] * 4]
    assert said(batch, *(f"out_if_{field}" for field in FIELDS)) == [
        ("xe-0/0/8", *NOTHING[1:]),
        XE7,
        NOTHING,
        NOTHING,
        NOTHING,
    ]


def test_interfaces_belong_to_their_exporters(tmp_path: Path) -> None:
    text = "".join(
        f'[[exporter]]\naddress = "10.0.0.{i}"\n'
        + "".join(f'[[exporter.interface]]\nindex = {j}\nname = "{i}-{j}"\n' for j in (1, 2, 4294967295))
        for i in range(20)
    )
    pairs = [(f"10.0.0.{i}", j, k) for i in range(25) for j in (1, 2, 3, 4294967295) for k in (0, 2, 1)]
    addresses, ins, outs = zip(*pairs, strict=True)
    batch = load(tmp_path, text)(flows(exporter_address=addresses, in_if=ins, out_if=outs))

    def name(address: str, index: int) -> str | None:
        i = int(address.rpartition(".")[2])
        return f"{i}-{index}" if i < 20 and index in (1, 2, 4294967295) else None

    assert said(batch, "in_if_name", "out_if_name") == [(name(a, i), name(a, o)) for a, i, o in pairs]


def test_batches_may_lack_the_needed_columns(tmp_path: Path) -> None:
    batch = load(tmp_path, ROUTERS)(flows(bytes=[1, 2]))
    assert said(batch, "exporter_name", "in_if_name", "out_if_speed") == [(None, None, 0)] * 2


def test_existing_values_are_kept(tmp_path: Path) -> None:
    batch = flows(
        exporter_address=["192.0.2.1"] * 2,
        exporter_name=["mine", None],
        exporter_site=[None, "muc"],
    )
    assert said(load(tmp_path, ROUTERS)(batch), "exporter_name", "exporter_site") == [
        ("mine", "fra"),
        ("edge1", "muc"),
    ]


def test_csv_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/exporters.csv").write_text(
        "address,name,site\n192.0.2.1,edge1,fra\n\n192.0.2.2, edge2 ,\n"
    )
    (tmp_path / "data/interfaces.csv").write_text(
        '\ufeffaddress,index,name,speed,boundary\n192.0.2.1,7,"a, b",100000,external\n192.0.2.0/24,8,c,,\n'
    )
    pipeline = load(tmp_path, 'exporters = "data/exporters.csv"\ninterfaces = ["data/interfaces.csv"]\n')
    batch = pipeline(flows(exporter_address=["192.0.2.1", "192.0.2.2"], in_if=[7, 8], out_if=[8, 7]))
    assert said(batch, "exporter_name", "exporter_site") == [("edge1", "fra"), ("edge2", None)]
    assert said(batch, "in_if_name", "in_if_speed", "in_if_boundary") == [
        ("a, b", 100000, "external"),
        ("c", 0, None),
    ]
    assert said(batch, "out_if_name") == ["c", None]


# Rules ------------------------------------------------------------------------------------------------------

NAMES = """
[[exporter]]
address = "192.0.2.1"
name = "fra-edge1"
[[exporter]]
address = "192.0.2.2"
name = "muc-core1"
role = "backbone"
[[exporter]]
address = "198.51.100.1"
name = "other"
"""


def test_the_first_rule_that_matches_sets_a_column(tmp_path: Path) -> None:
    rules = """
[[exporter_rule]]
match = { name = '^(?P<site>[a-z]+)-(?P<role>edge|core)' }
set = { site = "{site}", role = "{role}" }
[[exporter_rule]]
address = ["192.0.2.0/24", "203.0.113.0/24"]
set = { role = "never", group = "{{lab}}" }
[[exporter_rule]]
name = "other"
set = { role = "odd" }
[[exporter_rule]]
set = { region = "eu" }
"""
    batch = load(tmp_path, NAMES + rules)(
        flows(exporter_address=["192.0.2.1", "192.0.2.2", "198.51.100.1", "203.0.113.1", None])
    )
    assert said(batch, "exporter_site", "exporter_role", "exporter_group", "exporter_region") == [
        ("fra", "edge", "{lab}", "eu"),
        ("muc", "backbone", "{lab}", "eu"),
        (None, "odd", None, "eu"),
        (None, "never", "{lab}", "eu"),
        (None, None, None, None),
    ]


def test_interface_rules_apply_to_both_directions(tmp_path: Path) -> None:
    interfaces = "".join(
        f"[[exporter.interface]]\nindex = {index}\nspeed = {speed}\ndescription = '{text}'\n"
        for index, speed, text in [
            (1, 100000, "Transit: carrier1"),
            (2, 10000, "IX: de-cix"),
            (3, 1000, "core"),
        ]
    )
    rules = """
[[interface_rule]]
exporter_name = "other"
match = { description = '^(Transit|IX): (\\S+)' }
set = { connectivity = "{1}", provider = "{2}", boundary = "external" }
[[interface_rule]]
speed = { max = 1000 }
set = { connectivity = "slow" }
[[interface_rule]]
index = [2, 9]
set = { provider = "never", boundary = "internal" }
[[interface_rule]]
speed = { min = 5000, max = 50000 }
set = { connectivity = "never" }
"""
    address = "198.51.100.1"
    batch = flows(exporter_address=[address] * 4, in_if=[1, 2, 3, 9], out_if=[9, 3, 0, 1])
    batch = load(tmp_path, NAMES + interfaces + rules)(batch)
    one = ("Transit", "carrier1", "external")
    three, nine = ("slow", None, None), (None, "never", "internal")
    names = ("connectivity", "provider", "boundary")
    assert said(batch, *(f"in_if_{name}" for name in names)) == [
        one,
        ("IX", "de-cix", "external"),
        three,
        nine,
    ]
    assert said(batch, *(f"out_if_{name}" for name in names)) == [nine, three, (None, None, None), one]


def test_rules_use_values_that_were_filled_before(tmp_path: Path) -> None:
    """For example, a function can fill them with values that it queries from routers."""
    rules = """
[[exporter_rule]]
match = { name = 'edge' }
set = { role = "edge" }
[[interface_rule]]
exporter_role = "edge"
match = { name = '^xe', description = 'T' }
speed = 10
set = { boundary = "external" }
"""
    batch = flows(
        exporter_address=["192.0.2.1"] * 4,
        exporter_name=["edge", "core", None, "edge"],
        in_if=[1, 1, 1, 1],
        in_if_name=["xe1", "xe1", "xe1", "ge1"],
        in_if_description=["T", "T", "T", "T"],
        in_if_speed=[10, 10, 10, 10],
        out_if=[1, 1, 1, 1],
    )
    batch = load(tmp_path, rules)(batch)
    assert said(batch, "exporter_role") == ["edge", None, None, "edge"]
    assert said(batch, "in_if_boundary") == ["external", None, None, None]
    assert said(batch, "out_if_boundary") == [None] * 4


def test_unmatched_groups_set_nothing(tmp_path: Path) -> None:
    rules = """
[[exporter_rule]]
match = { name = '^(?P<role>edge)?' }
set = { role = "{role}" }
[[exporter_rule]]
set = { role = "unknown" }
"""
    batch = load(tmp_path, NAMES + rules)(flows(exporter_address=["198.51.100.1"]))
    assert said(batch, "exporter_role") == ["unknown"]


@pytest.mark.parametrize(
    "condition", ["name = 'x'", "match = { name = '' }", "exporter_name = 'x'", "speed = 0"]
)
def test_conditions_on_absent_values_are_false(tmp_path: Path, condition: str) -> None:
    batch = load(tmp_path, f"[[interface_rule]]\n{condition}\nset = {{ provider = 'p' }}")(
        flows(exporter_address=["192.0.2.1"], in_if=[1], out_if=[2])
    )
    assert said(batch, "in_if_provider", "out_if_provider") == [(None, None)]
