"""Several kinds of rows on the command line: `--rows flows,counters` of read, encode and collect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset
import pytest

from tests.cli.test_cli_collect import collecting
from tests.decode.test_row_kinds import MIXED
from tests.support.command import GOOD, flowbuf, json_lines, pcap, write
from tests.support.datagrams import (
    data_set,
    ipfix,
    options_template,
    options_template_set,
    template,
    template_set,
    u32,
)
from tests.support.live import send, wait_until

DATA = Path(__file__).parents[1] / "data"
CAPTURE, NETFLOW9 = DATA / "generated-sflow.pcap", DATA / "generated-netflow9.pcap"
ROWS = ("--rows", "flows,counters")


# read: each kind is written as if it was read alone ---------------------------------------------------------


def read_alone(kind: str, output: Path, *options: object, inputs: Sequence[Path] = (CAPTURE,)) -> bytes:
    """Return the output for one kind of rows."""
    assert flowbuf("read", *inputs, "--rows", kind, "-o", output, *options).exit_code == 0
    return output.read_bytes()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-n", 2),
        ("--where", "sequence_number % 2 = 1 or bytes > 500"),
        ("--where", "bytes is not null and in_net(exporter_address, '192.0.2.0/24')", "-n", 50),
        ("--enrich", "rows_of_a_test:drop_last"),
        ("--columns", "source_port,time_received", "--where", "source_port > 0", "-n", 1),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_read_writes_each_kind_to_a_file(
    form: str, options: Sequence[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "rows_of_a_test.py", b"def drop_last(batch):\n    return batch[:-1]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = flowbuf("read", CAPTURE, *ROWS, "-o", tmp_path / f"both-{{rows}}.{form}", *options)
    assert done.exit_code == 0
    for kind in ("flows", "counters"):
        alone = read_alone(kind, tmp_path / f"alone.{form}", *options)
        assert (tmp_path / f"both-{kind}.{form}").read_bytes() == alone


def test_tables_have_a_file_for_each_kind(tmp_path: Path) -> None:
    done = flowbuf("read", CAPTURE, *ROWS, "-f", "table", "-o", tmp_path / "both-{rows}")
    assert (done.exit_code, done.stderr) == (0, "")
    for kind in ("flows", "counters"):
        alone = read_alone(kind, tmp_path / "alone", "-f", "table", "--where", "true")
        assert (tmp_path / f"both-{kind}").read_bytes() == alone


def test_the_name_of_a_kind_is_also_in_the_output_of_one_kind(tmp_path: Path) -> None:
    assert flowbuf("read", CAPTURE, "--counters", "-o", tmp_path / "x-{rows}.csv").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x-counters.csv"]


@pytest.mark.parametrize(("limit", "counters"), [(1, 1), (3, 3), (200, 3), (1000, 3)])
def test_a_limit_applies_to_each_kind(limit: int, counters: int) -> None:
    kinds = [row["rows"] for row in json_lines(flowbuf("read", CAPTURE, *ROWS, "-n", limit))]
    assert (kinds.count("flows"), kinds.count("counters")) == (min(limit, 300), counters)


@pytest.mark.parametrize(("limit", "status"), [(3, 0), (4, 1)])
def test_reading_ends_when_every_kind_has_its_limit(limit: int, status: int, tmp_path: Path) -> None:
    damaged = write(tmp_path / "no.pcap", b"this is no capture")
    done = flowbuf("read", CAPTURE, damaged, *ROWS, "-n", limit)
    assert (done.exit_code, str(damaged) in done.stderr) == (status, bool(status))


def test_kinds_without_rows_are_noted(tmp_path: Path) -> None:
    output = ("-o", tmp_path / "{rows}.csv")
    done = flowbuf("read", CAPTURE, *ROWS, *output, "--where", "bytes > 1000")
    assert (done.exit_code, done.stderr) == (0, "flowbuf: none of 3 counter samples matches --where\n")
    assert [len((tmp_path / f"{kind}.csv").read_text().splitlines()) for kind in ("flows", "counters")] == [
        107,
        1,
    ]
    done = flowbuf("read", CAPTURE, *ROWS, *output, "--where", "false")
    assert done.stderr == (
        "flowbuf: none of 300 flows matches --where\nflowbuf: none of 3 counter samples matches --where\n"
    )
    path = write(tmp_path / "a.pcap", pcap(GOOD))
    done = flowbuf("read", path, "--rows", "flows,counters,options", *output)
    assert done.stderr == "flowbuf: no counter samples\nflowbuf: no options records\n"


def test_a_failure_leaves_no_file_of_any_kind(tmp_path: Path) -> None:
    condition = "bytes < 0 or exporter_address::INTEGER > 1"  # fails at the first flow
    done = flowbuf("read", CAPTURE, *ROWS, "-o", tmp_path / "{rows}.csv", "--where", condition)
    assert (done.exit_code, "Conversion Error" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


NETWORK = b"""
[[exporter]]
address = "192.0.2.1"
name = "edge1"
"""


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_enrichment_applies_to_kinds_with_its_columns(form: str, tmp_path: Path) -> None:
    network = write(tmp_path / "net.toml", NETWORK)
    options = ("--enrich", network)
    done = flowbuf("read", CAPTURE, *ROWS, "-o", tmp_path / f"both-{{rows}}.{form}", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    flows = read_alone("flows", tmp_path / f"flows.{form}", *options)
    assert b"edge1" in flows
    assert (tmp_path / f"both-flows.{form}").read_bytes() == flows
    counters = read_alone("counters", tmp_path / f"counters.{form}")
    assert (tmp_path / f"both-counters.{form}").read_bytes() == counters
    done = flowbuf("read", CAPTURE, *ROWS, *options, "-v", "-n", 1)
    assert (
        f"flowbuf: --enrich: left out for counters: {network}: fills columns that schema 'sflow_counters' "
        "does not have: no column 'exporter_name'"
    ) in done.stderr


def test_columns_of_an_enrichment_are_chosen_for_each_kind(tmp_path: Path) -> None:
    network = write(tmp_path / "net.toml", NETWORK)
    columns = "if_index,exporter_name,bytes"
    done = flowbuf("read", CAPTURE, *ROWS, "--enrich", network, "--columns", columns, "-n", 1)
    assert json_lines(done) == [
        {"rows": "flows", "exporter_name": "edge1", "bytes": 58},
        {"rows": "counters", "if_index": 1},
    ]


def test_each_capture_has_a_file_for_each_kind(tmp_path: Path) -> None:
    """An existing folder needs no slash at its end."""
    (tmp_path / "x/flows").mkdir(parents=True)
    for output, form in ((f"{tmp_path}/new/{{rows}}/", "parquet"), (f"{tmp_path}/x/{{rows}}", "csv")):
        options = ("-f", form, "--where", "sequence_number % 3 = 0")
        done = flowbuf("read", CAPTURE, NETFLOW9, *ROWS, "-o", output, *options)
        assert done.exit_code == 0
        assert done.stderr.splitlines()[-1] == f"flowbuf: {NETFLOW9}: no counter samples"
        for capture in (CAPTURE, NETFLOW9):
            for kind in ("flows", "counters"):
                alone = read_alone(kind, tmp_path / "alone", *options, inputs=[capture])
                written = Path(output.replace("{rows}", kind), f"{capture.stem}.{form}")
                assert written.read_bytes() == alone
    done = flowbuf("read", CAPTURE, *ROWS, "-f", "jsonl", "-o", f"{tmp_path}/json/")
    assert [path.name for path in (tmp_path / "json").iterdir()] == [f"{CAPTURE.stem}.jsonl"]
    assert (tmp_path / f"json/{CAPTURE.stem}.jsonl").read_text() == flowbuf("read", CAPTURE, *ROWS).stdout


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_each_kind_has_files_of_limited_size(form: str, tmp_path: Path) -> None:
    options = ("--rows-per-file", 2, "-n", 5, "-f", form, "-o", f"{tmp_path}/{{rows}}/")
    done = flowbuf("read", CAPTURE, *ROWS, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    for kind, sizes in (("flows", [2, 2, 1]), ("counters", [2, 1])):
        parts = [pyarrow.dataset.dataset(path, format=form) for path in sorted((tmp_path / kind).iterdir())]
        assert [part.count_rows() for part in parts] == sizes
        output = tmp_path / f"alone.{form}"
        read_alone(kind, output, "-n", 5)
        alone = pyarrow.dataset.dataset(output, format=form).to_table()
        assert pyarrow.concat_tables([part.to_table() for part in parts]).equals(alone)
    again = flowbuf("read", CAPTURE, *ROWS, *options)
    assert f"{tmp_path}/flows/part-00000.{form}: exists already; empty the folder" in again.stderr


def test_the_state_of_exporters_is_kept(tmp_path: Path) -> None:
    names = options_template_set(options_template(257, [(10, 4)], [(82, 4)]))
    first = write(tmp_path / "1.pcap", pcap(ipfix(template_set(template(256, (1, 4))), names)))
    data = ipfix(data_set(256, u32(7), u32(8)), data_set(257, u32(9) + b"eth0"))
    second = write(tmp_path / "2.pcap", pcap(data))
    options = ("--rows", "flows,options", "--state", tmp_path / "state", "-o", tmp_path / "{rows}.csv")
    assert flowbuf("read", first, *options).exit_code == 0
    done = flowbuf("read", second, *options, "--where", "exporter_address = '192.0.2.1'", "-n", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    assert len((tmp_path / "flows.csv").read_text().splitlines()) == 2
    assert "eth0" in (tmp_path / "options.csv").read_text()
    refused = flowbuf("read", second, *options[:2], "-o", "x-{rows}.csv", "--state", "x-options.csv")
    assert "x-options.csv: is also the output; write the state to another file" in refused.stderr


# read: one output for several kinds -------------------------------------------------------------------------


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
        (
            ["read", "-o", "x/"],
            "parquet cannot hold several kinds of rows in one output; write -o 'x/{rows}/', or use -f jsonl",
        ),
        (["read", "-o", "{rows}/", "-n", "1"], "-n cannot be combined with a folder; leave it out"),
        (["read", "-o", "{rows}/", "--state", "s"], "--state cannot be combined with a folder"),
        (["read", "-o", "{rows}/", "-f", "table"], "a table cannot be written to a folder"),
        (
            ["read", "-o", "{rows}.parquet", "--rows-per-file", "9"],
            "--rows-per-file needs a folder; write -o {rows}.parquet/",
        ),
        (
            ["read", "--where", "packets > 1"],
            "Error: --where: counters have no column 'packets', which flows have; use columns that all kinds "
            "have, or filter each kind in a command or output of its own",
        ),
        (
            ["read", "--where", "if_index = 1"],
            "--where: flows have no column 'if_index', which counters have",
        ),
        (["read", "--where", "byts > 1"], 'column "byts" not found in FROM clause!\ndid you mean bytes?'),
        (["read", "--enrich", "none.toml"], "--enrich: none.toml: cannot be read: No such file"),
        (
            ["collect", "-o", "{rows}/", "--where", "packets > 1"],
            "output counters/, where: counters have no column 'packets', which flows have; use columns",
        ),
        (["read", "--counters"], "--counters is the same as --rows counters; leave out one of them"),
        (["encode", "-o", "x.pb"], "x.pb: flows and counters need an output each; write {rows} in its name"),
        (["encode", "-o", "{rows}.pb", "--enable", "nothing"], "have no column or group 'nothing'"),
    ],
)
def test_problems_of_several_kinds(arguments: list[str], problem: str) -> None:
    command, *options = arguments
    inputs = ["--listen", "127.0.0.1:0"] if command == "collect" else [CAPTURE]
    done = flowbuf(command, *inputs, *ROWS, *options)
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


def test_encode_reports_each_kind_without_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD))
    done = flowbuf("encode", path, "--rows", "flows,counters,options", "-o", tmp_path / "{rows}.pb")
    assert done.stderr == "flowbuf: no counter samples\nflowbuf: no options records\n"


def test_messages_have_one_kind_of_rows(tmp_path: Path) -> None:
    stream = tmp_path / "flows.pb"
    flowbuf("encode", CAPTURE, "-o", stream)
    problem = "is not a capture, and has one kind of rows; leave out --rows"
    assert f"{stream}: {problem}" in flowbuf("read", stream, *ROWS).stderr
    assert f"<stdin>: {problem}" in flowbuf("read", "-", *ROWS, stdin=stream.read_bytes()).stderr


def test_collect_writes_each_kind_to_a_folder(tmp_path: Path) -> None:
    options = (*ROWS, "-o", f"{tmp_path}/{{rows}}/", "--interval", "50ms")
    with collecting(tmp_path, *options) as running:
        send([MIXED] * 2, running.address)
        wait_until(lambda: len(list(tmp_path.rglob("*.parquet*"))) >= 2, "both files")
    assert "flows=6 counters=4" in running.log.read_text()
    for kind, count in (("flows", 6), ("counters", 4)):
        assert pyarrow.dataset.dataset(tmp_path / kind).count_rows() == count


def test_collect_leaves_out_enrichments_of_another_kind(tmp_path: Path) -> None:
    write(tmp_path / "net.toml", NETWORK.replace(b"192.0.2.1", b"192.0.2.0/24"))
    options = (*ROWS, "-o", f"{tmp_path}/{{rows}}/", "--interval", "50ms", "--enrich", "net.toml")
    with collecting(tmp_path, *options) as running:
        send([MIXED], running.address)
        wait_until(lambda: len(list(tmp_path.rglob("*.parquet*"))) >= 2, "both files")
    assert "enrichment left out for counters: net.toml: fills columns" in running.log.read_text()
    tables = {kind: pyarrow.dataset.dataset(tmp_path / kind).to_table() for kind in ("flows", "counters")}
    assert tables["flows"].column("exporter_name").to_pylist() == ["edge1"] * 3
    assert "exporter_name" not in tables["counters"].column_names
