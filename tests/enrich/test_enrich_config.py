"""Errors in files of static data name the file, the place and the fix."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowbuf import Schema
from flowbuf.enrich import load_enrichments
from flowbuf.enrich.records import EXPORTER, INTERFACE, NETWORK
from flowbuf.errors import EnrichmentError
from tests.support.enriching import flows, ip, load

EXPORTER_1 = '[[exporter]]\naddress = "192.0.2.1"\n'
RULE = "[[interface_rule]]\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = ]", "net.toml:1: is not TOML: "),
        ('networks = "a\\u0000.csv"', r"net.toml: has a NUL character in 'a\x00.csv'; remove it"),
        ("exporter_rules = []", "unknown key 'exporter_rules'; did you mean exporter_rule"),
        ("[exporter]\naddress = '192.0.2.1'", "exporter is not a list of tables; write [[exporter]]"),
        (
            "[[interface]]\nindex = 1",
            "[[interface]] has no exporter; write [[exporter.interface]] below its",
        ),
        ("[[exporter]]\nname = 'x'", "[[exporter]] 1: has no address; add address = …"),
        (EXPORTER_1 + "nmae = 'x'", "[[exporter]] 1: unknown key 'nmae'; did you mean name"),
        (EXPORTER_1 + "name = 5", "[[exporter]] 1: name is 5; write a string"),
        (EXPORTER_1 + "derive = ['packet_size']", "unknown key 'derive'; move it above the first table"),
        (
            "[[exporter]]\naddress = 5",
            "[[exporter]] 1: address is 5; write an address or a network as a string",
        ),
        (
            "[[exporter]]\naddress = 'r1'",
            "[[exporter]] 1: address: 'r1' is not a network; write an address, or a",
        ),
        (
            "[[exporter]]\naddress = '192.0.2.1/24'",
            "address: '192.0.2.1/24' has bits set beyond its prefix length; did you",
        ),
        (EXPORTER_1 * 2, "[[exporter]] 2: 192.0.2.1/32 occurs twice; merge them into one"),
        (
            EXPORTER_1 + "interface = 5",
            "[[exporter]] 1 (192.0.2.1/32): exporter.interface is not a list of tables; write",
        ),
        (
            EXPORTER_1 + "[[exporter.interface]]\nname = 'x'",
            "[[exporter]] 1 (192.0.2.1/32): [[exporter.interface]] 1: has no index;",
        ),
        (
            EXPORTER_1 + "[[exporter.interface]]\nindex = 0",
            "index is 0; write the ifIndex, a whole number from 1 to",
        ),
        (
            EXPORTER_1 + "[[exporter.interface]]\nindex = 1\nspeed = '10G'",
            "speed is '10G'; write Mb/s, a whole number",
        ),
        (
            EXPORTER_1 + "[[exporter.interface]]\nindex = 1\nboundary = 'out'",
            "boundary is 'out'; write external or",
        ),
        (
            EXPORTER_1 + "[[exporter.interface]]\nindex = 1\n" * 2,
            "interface 1 of 192.0.2.1/32 occurs twice; merge",
        ),
        (
            "[[network]]\nprefix = '10.0.0.0/8'\ncountry = 'Germany'",
            "[[network]] 1: country is 'Germany'; write the two",
        ),
        (
            "[[network]]\nprefix = '10.0.0.0/8'\nasn = -1",
            "asn is -1; write the number of an autonomous system, a whole",
        ),
        ("[[network]]\nprefix = '10.0.0.0/8'\n" * 2, "[[network]] 2: 10.0.0.0/8 occurs twice"),
        ("exporters = 5", "exporters is 5; write the path of a file"),
        ("exporters = 'none.csv'", "none.csv: cannot be read: No such file or directory"),
        ("geo = 5", 'geo is 5; write [geo] and below it country = "…"'),
        ("[geo]\nas = 'x.mmdb'", "unknown key of [geo]: 'as'; did you mean asn"),
        ("[geo]\nasn = 5", "geo.asn is 5; write the path of a file"),
        ("derive = 'packet_size'", "derive is 'packet_size'; write a list of columns"),
        ("derive = ['packet_sise']", "derive: 'packet_sise' cannot be derived; did you mean packet_size"),
        (RULE, "[[interface_rule]] 1: has no set; add set = { connectivity = … }"),
        (
            RULE + "set = { name = 'x' }",
            "unknown key of set: 'name'; choose from connectivity, provider, boundary",
        ),
        (RULE + "set = {}", "set is {}; write set = { connectivity = … }"),
        (RULE + "set = { provider = 5 }", "set.provider is 5; write a string"),
        (RULE + "set = { boundary = 'outside' }", "set.boundary is 'outside'; write external or internal"),
        (
            RULE + "set = { provider = '{x}' }",
            "set.provider is '{x}', but match has no group 'x'; "
            "name a group of match, for example (?P<name>…)",
        ),
        (RULE + "set = { provider = '}' }", "set.provider is '}'; write a literal brace as }}"),
        (
            RULE + "match = { name = '(?P<pop>x)' }\nset = { provider = '{pip}' }",
            "no group 'pip'; did you mean pop?",
        ),
        (
            RULE + "match = { name = '(x)' }\nset = { provider = '{2}' }",
            "no group '2'; groups of match are 1",
        ),
        (
            RULE + "match = { name = '(x)', description = '(y)' }\nset = { provider = '{1}' }",
            "no group '1'; name a group of match",
        ),
        (
            RULE + "match = { name = '(?P<a>x)', description = '(?P<a>y)' }\nset = { provider = '{a}' }",
            "match has two groups with the same name; rename one",
        ),
        (RULE + "match = 'x'\nset = { provider = 'y' }", "match is 'x'; write match = { name = '…' }"),
        (
            RULE + "match = { name = 5 }\nset = { provider = 'y' }",
            "match.name is 5; write a regular expression as a",
        ),
        (
            RULE + "match = { name = '(' }\nset = { provider = 'y' }",
            "match.name is not a regular expression: missing )",
        ),
        (
            RULE + "match = { speed = '1' }\nset = { provider = 'y' }",
            "unknown key of match: 'speed'; choose from name,",
        ),
        (
            RULE + "name = { match = 'x' }\nset = { provider = 'y' }",
            "write a regular expression as match = { name = …",
        ),
        (
            RULE + "speed = '10G'\nset = { provider = 'y' }",
            "speed is ['10G']; write a number, or a list of them",
        ),
        (
            RULE + "speed = { from = 1 }\nset = { provider = 'y' }",
            "unknown key of speed: 'from'; choose from min, max",
        ),
        (
            RULE + "speed = { min = 'x' }\nset = { provider = 'y' }",
            "write { min = 1000 }, { max = 9999 } or both",
        ),
        (RULE + "speed = { min = 5, max = 4 }\nset = { provider = 'y' }", "exchange min and max"),
        (RULE + "index = []\nset = { provider = 'y' }", "index is []; write a number, or a list of them"),
        (
            RULE + "address = 'x'\nset = { provider = 'y' }",
            "[[interface_rule]] 1: 'x' is not a network; write an address",
        ),
        (
            RULE + "address = 5\nset = { provider = 'y' }",
            "address is 5; write an address or a network as a string",
        ),
        (
            "[[exporter_rule]]\nspeed = 5\nset = { role = 'y' }",
            "[[exporter_rule]] 1: unknown key 'speed'; choose from",
        ),
    ],
)
def test_invalid_toml_files_are_refused(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(EnrichmentError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path))
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "",
            "x.csv:1: has no column 'prefix'; write the column names in the first line: prefix, name, role,",
        ),
        ("prefix,nam\n", "x.csv:1: unknown column 'nam'; did you mean name"),
        ("prefix,name,name\n", "x.csv:1: has a column twice; remove one"),
        ("prefix,name\n10.0.0.0/8,a\n10.0.0.0/99,b\n", "x.csv:3: prefix: '10.0.0.0/99' is not a network"),
        ("prefix,name\n,a\n", "x.csv:2: has no prefix; add prefix = …"),
        ("prefix,name\n10.0.0.0/8,a\n10.0.0.0/8,b", "x.csv:3: 10.0.0.0/8 occurs twice; merge them into one"),
        ("prefix,name\n10.0.0.0/8", "x.csv:2: has 1 cells, the header has 2; write empty cells too"),
        (
            "prefix,name\n10.0.0.0/8,a,b\n",
            "x.csv:2: has 3 cells, the header has 2; quote cells that contain commas",
        ),
        ("prefix,asn\n10.0.0.0/8," + "9" * 5000, "x.csv:2: asn is '999"),
        ("prefix,asn\n10.0.0.0/8,AS1\n", "x.csv:2: asn is 'AS1'; write the number of an autonomous system"),
        ('prefix,name\n10.0.0.0/8,"a\nb"\n10.0.0.0/8,c\n', "x.csv:4: 10.0.0.0/8 occurs twice"),
        ('prefix,name\n10.0.0.0/8,"a"b\n', "x.csv:2: is not CSV: "),
        ("prefix,name\n10.0.0.0/8,\udcff\n", "x.csv: is not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_invalid_csv_files_are_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "x.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(EnrichmentError) as caught:
        load(tmp_path, "networks = 'x.csv'")
    assert str(caught.value).startswith(str(tmp_path))
    assert error in str(caught.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EnrichmentError, match=r"none\.toml: cannot be read: No such file"):
        load_enrichments([tmp_path / "none.toml"], Schema.load())
    (tmp_path / "x.toml").write_bytes(b"\xff")
    with pytest.raises(
        EnrichmentError, match=r"x\.toml: is not UTF-8 text; write static data as a TOML file"
    ):
        load_enrichments([tmp_path / "x.toml"], Schema.load())


def test_schemas_without_the_filled_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(EXPORTER_1 + "name = 'x'")
    with pytest.raises(
        EnrichmentError, match=r"net\.toml: fills columns that schema 'goflow2' does not have: no column"
    ):
        load_enrichments([tmp_path / "net.toml"], Schema.load("goflow2"))


def own_schema(**types: str) -> Schema:
    """Return a schema that does not extend another one. A type may end in [] for a list."""
    types = {
        "src_addr": "ip",
        "dst_addr": "ip",
        "src_net_prefix": "string",
        "dst_net_prefix": "string",
    } | types
    columns = (
        f'[[column]]\nname = "{name}"\nnumber = {number}\ntype = "{type.removesuffix("[]")}"\n'
        + ("repeated = true\n" if type.endswith("[]") else "")
        + ("values = { none = 0, AT = 1 }\n" if type == "enum" else "")
        for number, (name, type) in enumerate(types.items(), start=1)
    )
    return Schema.from_toml('[schema]\nname = "own"\n' + "".join(columns))


@pytest.mark.parametrize(
    ("name", "type", "problem"),
    [
        (
            "src_as",
            "uint16",
            "column 'src_as': is uint16 in schema 'own' and cannot be filled; make it uint32",
        ),
        (
            "src_as",
            "double",
            "column 'src_as': is double in schema 'own' and cannot be filled; make it uint32",
        ),
        ("dst_as", "uint32[]", "column 'dst_as': is a list of uint32 in schema 'own' and cannot be filled;"),
        ("src_net_prefix", "bytes", "is bytes in schema 'own' and cannot be filled; make it string"),
        ("src_addr", "bytes", "column 'src_addr': is bytes in schema 'own' and cannot be read; make it ip"),
    ],
)
def test_columns_of_other_types_are_refused(tmp_path: Path, name: str, type: str, problem: str) -> None:
    (tmp_path / "net.toml").write_text("[[network]]\nprefix = '0.0.0.0/0'\nasn = 70000")
    load_enrichments([tmp_path / "net.toml"], own_schema(src_as="uint64", dst_as="fixed32"))
    schema = own_schema(**{"src_as": "uint32", "dst_as": "uint32", name: type})
    with pytest.raises(EnrichmentError, match=r"net\.toml: .*" + re.escape(problem)):
        load_enrichments([tmp_path / "net.toml"], schema)


def test_texts_that_an_enum_lacks_are_refused_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text("[[network]]\nprefix = '0.0.0.0/0'\ncountry = 'DE'")
    schema = own_schema(src_country="enum", dst_country="string")
    pipeline = load_enrichments([tmp_path / "net.toml"], schema)
    with pytest.raises(EnrichmentError, match=r"net\.toml: column 'src_country': row 0 is 'DE'; "):
        pipeline(flows(src_addr=[ip("192.0.2.1")]))


def test_every_enrichment_column_can_be_filled() -> None:
    """The columns are named after the keys of static data."""
    names = {f"exporter_{key}" for key in EXPORTER.keys} | {f"in_if_{key}" for key in INTERFACE.keys}
    names |= {f"src_net_{key}" for key in NETWORK.keys} | {"src_country", "src_geo_state", "src_geo_city"}
    groups = ("exporter_info", "interface_info", "net", "geo")
    columns = {column.name for column in Schema.load() if column.group in groups}
    assert {name for name in columns if not name.startswith(("out_", "dst_"))} <= names
