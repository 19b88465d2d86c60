"""Several kinds of rows on the command line: `--rows flows,counters` of read, encode and collect."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset
import pytest

from tests.cli.test_cli_collect import collecting
from tests.decode.test_row_kinds import MIXED
from tests.support.command import flowbuf
from tests.support.live import send, wait_until

CAPTURE = Path(__file__).parents[1] / "data/generated-sflow.pcap"
ROWS = ("--rows", "flows,counters")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_read_writes_each_kind_to_a_file(form: str, tmp_path: Path) -> None:
    done = flowbuf("read", CAPTURE, *ROWS, "-o", tmp_path / f"both-{{rows}}.{form}")
    assert (done.exit_code, done.stderr) == (0, "")
    flowbuf("read", CAPTURE, "-o", tmp_path / f"flows.{form}")
    flowbuf("read", CAPTURE, "--counters", "-o", tmp_path / f"counters.{form}")
    for kind in ("flows", "counters"):
        one, both = tmp_path / f"{kind}.{form}", tmp_path / f"both-{kind}.{form}"
        assert one.read_bytes() == both.read_bytes()


def test_read_names_the_kind_in_json_lines() -> None:
    done = flowbuf("read", CAPTURE, *ROWS, "--columns", "bytes,if_index")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 303
    assert {tuple(row) for row in rows} == {("rows", "bytes"), ("rows", "if_index")}
    assert sum(row["rows"] == "counters" for row in rows) == 3


@pytest.mark.parametrize("output", ["-", "{rows}.jsonl"])
def test_each_kind_keeps_the_order_of_columns(output: str, tmp_path: Path) -> None:
    output = str(tmp_path / output) if output != "-" else output
    columns = "if_speed,dst_port,if_index,src_port"
    done = flowbuf("read", CAPTURE, *ROWS, "-f", "jsonl", "--columns", columns, "-o", output)
    assert done.exit_code == 0
    written = "".join(path.read_text() for path in sorted(tmp_path.iterdir())) or done.stdout
    orders = {tuple(json.loads(line)) for line in written.splitlines()}
    kinds = {tuple(name for name in order if name != "rows") for order in orders}
    assert ("dst_port", "src_port") in kinds
    assert kinds <= {("if_speed", "if_index"), ("if_index",), ("dst_port", "src_port"), ()}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["read", "-f", "csv"],
            "csv cannot hold several kinds of rows in one output; write -o '{rows}.csv'",
        ),
        (["read", "-f", "table"], "table cannot hold several kinds of rows in one output"),
        (["read", "--where", "bytes > 1"], "--where cannot be combined with several --rows; read each kind"),
        (["read", "--counters"], "--counters is the same as --rows counters; leave out one of them"),
        (["encode", "-o", "x.pb"], "x.pb: flows and counters need an output each; write {rows} in its name"),
        (["encode", "-o", "{rows}.pb", "--enable", "nothing"], "have no column or group 'nothing'"),
    ],
)
def test_problems_of_several_kinds(arguments: list[str], problem: str) -> None:
    command, *options = arguments
    done = flowbuf(command, CAPTURE, *ROWS, *options)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_encode_writes_each_kind_to_a_file(tmp_path: Path) -> None:
    done = flowbuf("encode", CAPTURE, *ROWS, "-o", tmp_path / "both-{rows}.pb")
    assert (done.exit_code, done.stderr) == (0, "")
    flowbuf("encode", CAPTURE, "-o", tmp_path / "flows.pb")
    flowbuf("encode", CAPTURE, "--rows", "counters", "-o", tmp_path / "counters.pb")
    for kind in ("flows", "counters"):
        for suffix in ("pb", "pb.proto"):
            one, both = tmp_path / f"{kind}.{suffix}", tmp_path / f"both-{kind}.{suffix}"
            assert one.read_bytes() == both.read_bytes()
    refused = flowbuf("read", tmp_path / "flows.pb", *ROWS)
    assert "is not a capture, and has one kind of rows; leave out --rows" in refused.stderr


def test_collect_writes_each_kind_to_a_folder(tmp_path: Path) -> None:
    options = (*ROWS, "-o", f"{tmp_path}/{{rows}}/", "--interval", "50ms")
    with collecting(tmp_path, *options) as running:
        send([MIXED] * 2, running.address)
        wait_until(lambda: len(list(tmp_path.rglob("*.parquet*"))) >= 2, "both files")
    assert "flows=6 counters=4" in running.log.read_text()
    for kind, count in (("flows", 6), ("counters", 4)):
        assert pyarrow.dataset.dataset(tmp_path / kind).count_rows() == count
