"""Options data: rows of `--options`, and names that flows take from them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import flowbuf
from tests.support.command import flowbuf as run
from tests.support.command import pcap, write
from tests.support.datagrams import (
    VARIABLE,
    counters_sample,
    data_set,
    flow_sample,
    ipfix,
    netflow9,
    options_template,
    options_template9,
    options_template_set,
    options_template_set9,
    record,
    sflow,
    template,
    template_set,
    template_set9,
    u16,
    u32,
    variable,
)
from tests.support.exporters import need

NAMES = ipfix(
    options_template_set(
        options_template(256, [(10, 4)], [(82, 16), (83, VARIABLE)]),
        options_template(257, [(234, 4)], [(236, VARIABLE)]),
        options_template(258, [(302, 4)], [(335, VARIABLE), (305, 4), (306, 4)]),
    ),
    data_set(
        256,
        u32(335) + b"xe-0/0/1".ljust(16, b"\0") + variable(b"to Paris"),
        u32(4) + b"lo0".ljust(16, b"\0") + variable(b""),
    ),
    data_set(257, u32(7) + variable("bläu".encode())),
    data_set(258, u32(3) + variable(b"one in 100") + u32(1) + u32(99)),
)
FLOW_TEMPLATE = template(300, (1, 4), (10, 4), (14, 4), (234, 4), (302, 4))
FLOW = ipfix(template_set(FLOW_TEMPLATE), data_set(300, u32(100) + u32(335) + u32(4) + u32(7) + u32(3)))
COLUMNS = "bytes,in_if_name,in_if_description,out_if_name,ingress_vrf_name,sampler_name"
NAMED = {
    "bytes": 100,
    "in_if_name": "xe-0/0/1",
    "in_if_description": "to Paris",
    "out_if_name": "lo0",
    "ingress_vrf_name": "bläu",
    "sampler_name": "one in 100",
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture with a flow before its names, and one after them."""
    return write(tmp_path / "names.pcap", pcap(FLOW, NAMES, FLOW))


def rows(*arguments: Any) -> list[dict[str, Any]]:
    done = run("read", *arguments, "-f", "jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_options_record_is_a_row(capture: Path) -> None:
    kept = ("interface_name", "interface_description", "vrf_name", "sampler_name", "scope_elements")
    assert [{name: row[name] for name in kept if name in row} for row in rows(capture, "--options")] == [
        {
            "interface_name": "xe-0/0/1",
            "interface_description": "to Paris",
            "scope_elements": [10],
        },
        {"interface_name": "lo0", "scope_elements": [10]},
        {"vrf_name": "bläu", "scope_elements": [234]},
        {"sampler_name": "one in 100", "scope_elements": [302]},
    ]
    (sampler,) = (row for row in rows(capture, "--options") if "sampler_id" in row)
    assert (sampler["sampling_packet_interval"], sampler["sampling_packet_space"]) == (1, 99)


def test_tshark_reads_the_same_options(capture: Path) -> None:
    need("tshark")
    fields = {
        "cflow.if_name": "interface_name",
        "cflow.if_descr": "interface_description",
        "cflow.vrfname": "vrf_name",
        "cflow.selector_name": "sampler_name",
        "cflow.sampling_packet_space": "sampling_packet_space",
    }
    command = ["tshark", "-n", "-r", str(capture), "-d", "udp.port==9995,cflow", "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run([*command, "-E", "aggregator=|"], check=True, capture_output=True, text=True)
    (line,) = (line for line in done.stdout.splitlines() if "xe-0/0/1" in line)
    told = [[text for text in cell.split("|") if text] for cell in line.split("\t")]
    found = rows(capture, "--options")
    for name, texts in zip(fields.values(), told, strict=True):
        assert [str(row[name]) for row in found if name in row] == texts


def test_later_flows_have_names(capture: Path) -> None:
    assert rows(capture, "--columns", COLUMNS) == [{"bytes": 100}, NAMED]


def test_two_passes_name_all_flows(capture: Path) -> None:
    assert rows(capture, "--columns", COLUMNS, "--two-pass") == [NAMED, NAMED]
    counted = flowbuf.read_capture(capture, columns=COLUMNS.split(","))
    assert len(counted.to_arrow()) == 2


def test_two_passes_need_a_name_and_a_file(capture: Path) -> None:
    done = run("read", capture, "--columns", "bytes", "--two-pass")
    assert done.exit_code == 2
    assert "no enabled column is a name from options data; enable one, such as in_if_name" in done.stderr
    done = run("read", "-", "--columns", COLUMNS, "--two-pass", stdin=capture.read_bytes())
    assert done.exit_code == 2
    assert "--two-pass reads each input twice, which needs a file; write it to a file first" in done.stderr


def test_state_files_keep_names(capture: Path, tmp_path: Path) -> None:
    state = tmp_path / "exporters.state"
    rows(capture, "--columns", COLUMNS, "--state", state)
    later = write(tmp_path / "later.pcap", pcap(FLOW))
    assert rows(later, "--columns", COLUMNS, "--state", state) == [NAMED]
    assert rows(later, "--columns", COLUMNS, "--state", state) == [NAMED]  # saved again


def test_state_without_a_column_for_names_is_still_read(capture: Path, tmp_path: Path) -> None:
    state = tmp_path / "exporters.state"
    rows(capture, "--columns", COLUMNS, "--state", state)
    later = write(tmp_path / "later.pcap", pcap(ipfix(data_set(300, bytes(20)))))
    assert rows(later, "--columns", "bytes,exporter_address", "--state", state) == [
        {"exporter_address": "192.0.2.1"}
    ]


def test_kinds_of_rows_have_an_output_each(capture: Path, tmp_path: Path) -> None:
    done = run("read", capture, "--rows", "flows,options", "-o", tmp_path / "{rows}.parquet")
    assert (done.exit_code, done.stderr) == (0, "")
    options = pyarrow.parquet.read_table(tmp_path / "options.parquet")
    assert options["interface_name"].to_pylist() == ["xe-0/0/1", "lo0", None, None]
    assert len(pyarrow.parquet.read_table(tmp_path / "flows.parquet")) == 2


def test_sql_takes_options(capture: Path) -> None:
    done = run("query", "SELECT vrf_name FROM flows WHERE ingress_vrf_id = 7", capture, "--options")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"vrf_name": "bläu"}


def test_options_and_counters_exclude_each_other(capture: Path) -> None:
    done = run("read", capture, "--options", "--counters")
    assert done.exit_code == 2
    assert "--counters and --options exclude each other; write --rows counters,options" in done.stderr


def test_interfaces_of_a_file_take_precedence_if_they_should(capture: Path, tmp_path: Path) -> None:
    file = '[[exporter]]\naddress = "192.0.2.1"\n[[exporter.interface]]\nindex = 335\nname = "mine"\n'
    for replace, name in (("false", "xe-0/0/1"), ("true", "mine")):
        path = write(tmp_path / "network.toml", f"replace = {replace}\n{file}".encode())
        found = rows(capture, "--columns", COLUMNS, "--enrich", path)
        assert found == [{"bytes": 100, "in_if_name": "mine"}, NAMED | {"in_if_name": name}]


def test_netflow9_scopes_name_interfaces(tmp_path: Path) -> None:
    names = netflow9(
        options_template_set9(options_template9(256, [(2, 4)], [(82, 8)])),
        data_set(256, u32(9) + b"Gi0/9".ljust(8, b"\0")),
    )
    flow = netflow9(template_set9(template(300, (1, 4), (10, 2))), data_set(300, u32(7) + u16(9)))
    path = write(tmp_path / "nine.pcap", pcap(names, flow))
    assert rows(path, "--columns", "bytes,in_if_name") == [{"bytes": 7, "in_if_name": "Gi0/9"}]
    (row,) = rows(path, "--options", "--columns", "scope_interface,interface_name")
    assert row == {"scope_interface": 9, "interface_name": "Gi0/9"}


def test_counter_samples_of_sflow_name_interfaces(tmp_path: Path) -> None:
    generic = record(1, u32(7) + u32(6) + (10**10).to_bytes(8, "big") + bytes(72))
    port = record(1005, u32(4) + b"swp7")
    names = sflow(counters_sample(generic, port, source=(0, 7)))
    flow = sflow(flow_sample(input=7, output=8))
    path = write(tmp_path / "sflow.pcap", pcap(names, flow))
    assert rows(path, "--columns", "in_if,in_if_name,in_if_speed,out_if_name") == [
        {"in_if": 7, "in_if_name": "swp7", "in_if_speed": 10_000}
    ]


@pytest.mark.parametrize(("source", "counted"), [(1, 7), (7, 0)])
def test_the_index_in_the_counters_takes_precedence(source: int, counted: int, tmp_path: Path) -> None:
    """The data source of pmacct is always 1. Its counters and samples have the index of the interface."""
    generic = record(1, u32(counted) + u32(6) + (10**10).to_bytes(8, "big") + bytes(72))
    names = sflow(counters_sample(generic, source=(0, source)))
    flow = sflow(flow_sample(input=7, output=1))
    path = write(tmp_path / "sflow.pcap", pcap(names, flow))
    assert rows(path, "--columns", "in_if,in_if_speed,out_if,out_if_speed") == [
        {"in_if": 7, "in_if_speed": 10_000, "out_if": 1}
    ]


def test_elements_without_a_column_are_listed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "other.pcap",
        pcap(ipfix(template_set(template(300, (1, 4), (99, 2, 4711))), data_set(300, u32(5) + b"zz"))),
    )
    (row,) = rows(path, "--columns", "bytes", "--enable", "group:others")
    assert row == {"bytes": 5, "other_elements": [4711 << 16 | 99], "other_values": ["7a7a"]}


def test_a_part_of_the_columns_lists_the_same_elements(tmp_path: Path) -> None:
    """The columns that take an element are those that were read, not those that a query uses."""
    path = write(
        tmp_path / "other.pcap",
        pcap(ipfix(template_set(template(300, (1, 4), (99, 2, 4711))), data_set(300, u32(5) + b"zz"))),
    )
    enabled = flowbuf.Schema.load("flow").enable("other_elements")
    for whole in (
        flowbuf.read_capture(path, enabled),
        flowbuf.read_capture(path, columns=["other_elements", "bytes"]),
    ):
        assert whole.select("other_elements").to_arrow().to_pylist() == [
            {"other_elements": [4711 << 16 | 99]}
        ]
    assert flowbuf.scan(path, enabled).select("other_elements").collect().rows() == [([4711 << 16 | 99],)]
    found = run("query", "select other_elements from flows", path, "--enable", "other_elements")
    assert json.loads(found.stdout) == {"other_elements": [4711 << 16 | 99]}


def test_names_and_texts_stay_if_rates_are_overridden(tmp_path: Path) -> None:
    flow = ipfix(
        template_set(template(301, (1, 4), (10, 4), (96, 8))),
        data_set(301, u32(9) + u32(335) + b"youtube\0"),
    )
    path = write(tmp_path / "application.pcap", pcap(NAMES, flow))
    columns = "bytes,sampling_rate,in_if_name,application_name"
    assert rows(path, "--columns", columns, "--override-sampling", "7") == [
        {"bytes": 9, "sampling_rate": 7, "in_if_name": "xe-0/0/1", "application_name": "youtube"}
    ]


def test_the_name_is_that_of_the_interface_in_its_column(tmp_path: Path) -> None:
    flow = ipfix(template_set(template(301, (252, 4), (10, 4))), data_set(301, u32(4) + u32(335)))
    path = write(tmp_path / "physical.pcap", pcap(NAMES, flow))
    assert rows(path, "--columns", "in_if,in_if_name") == [{"in_if": 335, "in_if_name": "xe-0/0/1"}]


def test_a_reverse_flow_has_the_names_of_its_reverse_elements(tmp_path: Path) -> None:
    fields = [(1, 4), (10, 4), (14, 4), (1, 4, 29305), (10, 4, 29305)]
    flow = ipfix(
        template_set(template(301, *fields)),
        data_set(301, u32(1) + u32(335) + u32(5) + u32(2) + u32(4)),
    )
    path = write(tmp_path / "biflow.pcap", pcap(NAMES, flow))
    assert rows(path, "--columns", "bytes,in_if,in_if_name,out_if,out_if_name") == [
        {"bytes": 1, "in_if": 335, "in_if_name": "xe-0/0/1", "out_if": 5},
        {"bytes": 2, "in_if": 4, "in_if_name": "lo0", "out_if": 335, "out_if_name": "xe-0/0/1"},
    ]


def test_a_run_without_names_keeps_those_of_the_state(capture: Path, tmp_path: Path) -> None:
    state = tmp_path / "exporters.state"
    rows(capture, "--columns", COLUMNS, "--state", state)
    rows(capture, "--columns", "bytes", "--state", state)
    later = write(tmp_path / "later.pcap", pcap(FLOW))
    assert rows(later, "--columns", COLUMNS, "--state", state) == [NAMED]


def test_two_passes_know_the_templates_of_the_state(capture: Path, tmp_path: Path) -> None:
    state = tmp_path / "exporters.state"
    rows(capture, "--columns", COLUMNS, "--state", state)
    names = ipfix(data_set(256, u32(335) + b"new".ljust(16, b"\0") + variable(b"")))
    later = write(tmp_path / "later.pcap", pcap(FLOW, names))
    (row,) = rows(later, "--columns", "in_if_name", "--state", state, "--two-pass")
    assert row == {"in_if_name": "new"}


def test_queries_take_two_passes(capture: Path) -> None:
    done = run("query", "SELECT DISTINCT in_if_name FROM flows", capture, "--two-pass")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"in_if_name": "xe-0/0/1"}


def test_names_leave_memory_for_templates() -> None:
    decoder = flowbuf.Decoder(
        flowbuf.Schema.load("flow").only("bytes", "ingress_vrf_name"), memory_limit=4 << 20
    )
    options = options_template_set(options_template(256, [(234, 4)], [(236, 250)]))
    for domain in range(4):
        for first in range(0, 4000, 200):
            names = b"".join(u32(first + number) + b"n" * 250 for number in range(200))
            decoder.encode_many([ipfix(options, data_set(256, names), domain=domain)], [("192.0.2.1", 1)])
    later = [
        ipfix(template_set(template(300, (1, 4))), domain=9),
        ipfix(data_set(300, u32(5)), domain=9),
    ]
    decoder.encode_many(later, [("192.0.2.1", 1)] * 2)
    assert decoder.rows["flows"] == 1
    assert decoder.counters["name_evicted"] + decoder.counters.get("name_limit", 0) > 10_000


def test_a_state_with_a_name_of_the_wrong_type_is_damaged() -> None:
    decoder = flowbuf.Decoder("flow")
    for kind, value in (("interface", 7), ("interface_speed", "fast")):
        domain = {"version": 10, "id": 0, "names": {kind: {"1": value}}}
        with pytest.raises(ValueError, match=f"names of {kind}: {value!r} is not"):
            decoder.restore_exporters([{"address": "192.0.2.1", "domains": [domain]}])
