"""CSV output: readers restore every value, no value forges a row, and --spreadsheet leaves no formulas."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import flowbuf, pcap, write
from tests.support.datagrams import VARIABLE, data_set, ipfix, template, template_set, u32

CONTROLS = [chr(code) for code in (*range(1, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0x202E)]
TEXTS = [f"a{control}b" for control in CONTROLS] + [
    *CONTROLS,
    ",",
    '"',
    'a"b,c',
    "\r\n",
    " x ",
    "NA",
    "é",
    "#x",
    "'",
    ";",
]
FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "|1", "%1"]
FORMULAS += ["\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]  # the full-width forms
# Characters that a spreadsheet may remove: white space, byte order mark, controls, format characters, quotes.
REMOVED = [
    " ",
    "  ",
    "\xa0",
    "\u2003",
    "\u3000",
    "\ufeff",
    "\u200b",
    "\u2060",
    "\xad",
    "\v",
    "\x1f",
    "\x7f",
    '"',
]
FORMULAS += [f"{removed}{sign}1" for removed in [*REMOVED, "".join(REMOVED)] for sign in "=+-@\uff1d"]
HARMLESS = ["plain", "1-1", " 1", " a=1", "\ufeffx", '"x"', "\u3000x", "x =1"]
SCHEMA = """
[schema]
extends = "flow"
[[column]]
name = "label"
number = 1000
type = "string"
enabled = true
sources = ["ipfix:82"]
[[column]]
name = "signed"
number = 1001
type = "int64"
enabled = true
sources = ["ipfix:434"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "s.toml", SCHEMA.encode())
    return tmp_path


def capture(folder: Path, texts: list[str]) -> Path:
    records = [
        data_set(
            256, bytes([len(text.encode())]) + text.encode() + (-5).to_bytes(4, "big", signed=True) + u32(7)
        )
        for text in texts
    ]
    header = ipfix(template_set(template(256, (82, VARIABLE), (434, 4), (1, 4))))
    return write(folder / "a.pcap", pcap(header, *map(ipfix, records)))


def read(folder: Path, texts: list[str], *options: str) -> Path:
    output = folder / "x.csv"
    arguments = (capture(folder, texts), "--schema", folder / "s.toml", "--columns", "bytes,label,signed")
    assert flowbuf("read", *arguments, "-o", output, *options).exit_code == 0
    return output


def query(folder: Path, texts: list[str], *options: str) -> Path:
    output = folder / "x.csv"
    numbers = {"bytes": [7] * len(texts), "label": texts, "signed": [-5] * len(texts)}
    pq.write_table(pa.table(numbers), folder / "a.parquet")
    assert flowbuf("query", "FROM flows", folder / "a.parquet", "-o", output, *options).exit_code == 0
    return output


WRITERS = pytest.mark.parametrize("write_rows", [read, query])


@WRITERS
def test_readers_restore_every_value(folder: Path, write_rows: type) -> None:
    path = write_rows(folder, TEXTS)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == TEXTS
    assert {(row["bytes"], row["signed"]) for row in rows} == {("7", "-5")}
    frame = pd.read_csv(path, keep_default_na=False, dtype=str)
    assert list(frame["label"]) == TEXTS
    dialect = "all_varchar = true, header = true, delim = ',', quote = '\"', escape = '\"'"
    found = duckdb.sql(f"SELECT label FROM read_csv('{path}', {dialect})").fetchall()
    assert [label for (label,) in found] == TEXTS


@WRITERS
def test_every_control_character_is_quoted(folder: Path, write_rows: type) -> None:
    texts = [f"a{control}b" for control in CONTROLS[:-1]]
    content = write_rows(folder, ["plain", *texts]).read_bytes().decode()
    assert '"plain"' not in content
    assert [text for text in texts if f'"{text}"' not in content] == []


@WRITERS
def test_a_carriage_return_forges_no_row(folder: Path, write_rows: type) -> None:
    content = write_rows(folder, ["x\r7,forged"]).read_bytes().decode()
    assert '"x\r7,forged"' in content
    assert len(list(csv.reader(io.StringIO(content, newline="")))) == 2


@WRITERS
def test_nul_is_replaced(folder: Path, write_rows: type) -> None:
    content = write_rows(folder, ["a\0b"]).read_bytes()
    assert b"\0" not in content
    assert '"a\ufffdb"' in content.decode()


@WRITERS
def test_spreadsheet_output_has_no_formulas(folder: Path, write_rows: type) -> None:
    with open(write_rows(folder, [*FORMULAS, *HARMLESS], "--spreadsheet"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [*("'" + text for text in FORMULAS), *HARMLESS]
    assert {(row["bytes"], row["signed"]) for row in rows} == {("7", "-5")}
    with open(write_rows(folder, FORMULAS), newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == FORMULAS


def test_headings_of_a_query_are_quoted_like_values(folder: Path) -> None:
    query(folder, ["x"])
    sql = 'SELECT label AS "=1+1", signed AS "a,b" FROM flows'
    result = flowbuf("query", sql, folder / "a.parquet", "-f", "csv", "--spreadsheet")
    assert result.stdout == '\'=1+1,"a,b"\nx,-5\n'


def test_a_single_empty_cell_is_a_row(folder: Path) -> None:
    query(folder, ["x"])
    result = flowbuf("query", "SELECT NULL AS a FROM flows", folder / "a.parquet", "-f", "csv")
    assert result.stdout == 'a\n""\n'


@pytest.mark.parametrize("command", [("read",), ("query", "FROM flows")])
def test_spreadsheet_requires_csv(folder: Path, command: tuple[str, ...]) -> None:
    result = flowbuf(*command, capture(folder, ["x"]), "-f", "jsonl", "--spreadsheet")
    assert result.exit_code == 2
    assert "--spreadsheet applies only to csv, not to jsonl; leave it out, or use -f csv" in result.stderr
