"""`flowbuf inspect` reports the content of a capture."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from flowbuf.cli.inspect import _share as share
from flowbuf.schema import Schema
from tests.support.command import EXPORTER, GOOD, WITHOUT_TEMPLATE, flowbuf, generated, pcap, write
from tests.support.datagrams import (
    data_set,
    flow_sample,
    ipfix,
    netflow1,
    netflow5,
    netflow7,
    netflow9,
    options_template,
    options_template9,
    options_template_set,
    options_template_set9,
    record1,
    record5,
    record7,
    sflow,
    template,
    template_set,
    template_set9,
    u8,
    u16,
    u32,
    uint,
    variable,
)

STARTS = options_template(257, [(149, 4)], [(160, 8)])


def inspect(path: Path, content: bytes) -> dict[str, Any]:
    survey: dict[str, Any] = json.loads(flowbuf("inspect", write(path, content), "--json").stdout)
    return survey


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.pcap"


NETFLOW9 = pcap(
    netflow9(
        options_template_set9(options_template9(257, [(1, 4)], [(48, 2), (34, 4)])),
        template_set9(template(256, (1, 4), (48, 1), (39000, 2))),
        source_id=5,
    ),
    netflow9(data_set(257, u32(0) + u16(3) + u32(1000)), source_id=5),
    netflow9(data_set(256, u32(1500) + u8(3) + u16(0)), source_id=5),
)


def test_inspect_describes_the_capture(path: Path) -> None:
    capture = inspect(path, pcap(GOOD, GOOD))["capture"]
    assert capture == {
        "name": str(path),
        "bytes": path.stat().st_size,
        "packets": 2,
        "link_types": ["raw IP"],
        "datagrams": 2,
        "first": "2023-11-14T22:13:20.500000000Z",
        "last": "2023-11-14T22:13:21.500000000Z",
        "ports": {"2055": 2},
        "counters": {},
    }


def block(kind: int, body: bytes) -> bytes:
    """Return a block of pcapng."""
    body += bytes(-len(body) % 4)
    size = u32le(12 + len(body))
    return u32le(kind) + size + body + size


def u32le(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


@pytest.mark.parametrize(
    ("times", "first", "last", "line"),
    [
        ([0, 1, 0, 2, 0], 1, 2, "1970-01-01 00:00:01.000 to 1970-01-01 00:00:02.000 UTC"),
        ([0, 0], None, None, ""),
    ],
)
def test_packets_without_a_time_do_not_count(
    path: Path, times: list[int], first: int | None, last: int | None, line: str
) -> None:
    """Simple packets of pcapng have no time."""
    packet = pcap(GOOD)[40:]
    content = block(0x0A0D0D0A, u32le(0x1A2B3C4D, 1, 0xFFFFFFFF, 0xFFFFFFFF)) + block(1, u32le(101, 0))
    for seconds in times:
        sizes = u32le(len(packet), len(packet))
        enhanced = u32le(0, 0, seconds * 1_000_000) + sizes + packet
        content += block(6, enhanced) if seconds else block(3, u32le(len(packet)) + packet)
    capture = inspect(path, content)["capture"]
    shown = [None if each is None else f"1970-01-01T00:00:0{each}.000000000Z" for each in (first, last)]
    assert [capture["datagrams"], capture["first"], capture["last"]] == [len(times), *shown]
    assert flowbuf("inspect", path).stdout.splitlines()[3] == line


def test_inspect_describes_exporters_and_templates(path: Path) -> None:
    (exporter,) = inspect(path, NETFLOW9)["exporters"]
    (domain,) = exporter.pop("domains")
    assert exporter == {
        "address": EXPORTER,
        "sub_agent": 0,
        "protocols": ["NetFlow v9"],
        "datagrams": 3,
        "bytes": sum(len(part) for part in (NETFLOW9,)) - 24 - 3 * (16 + 28),
        "flows": 1,
        "options_records": 1,
        "templates_received": 2,
        "sampling_rates": [1000],
        "counters": {},
    }
    assert domain == {
        "protocol": "NetFlow v9",
        "id": 5,
        "port": None,
        "sequence": {"unit": "packets", "expected": 3, "lost": 0, "late": 0, "restarts": 0},
        "system_init": None,
        "samplers": [{"id": 3, "rate": 1000}],
        "selection_sequences": [],
        "templates": [
            {
                "id": 256,
                "kind": "data",
                "record_size": 7,
                "fields": [
                    {"name": "octetDeltaCount", "pen": 0, "id": 1, "size": 4, "scope": False, "used": True},
                    {"name": "samplerId", "pen": 0, "id": 48, "size": 1, "scope": False, "used": True},
                    {"name": None, "pen": 0, "id": 39000, "size": 2, "scope": False, "used": False},
                ],
            },
            {
                "id": 257,
                "kind": "options",
                "record_size": 10,
                "fields": [
                    {"name": "System", "pen": 0, "id": 1, "size": 4, "scope": True},
                    {"name": "samplerId", "pen": 0, "id": 48, "size": 2, "scope": False},
                    {"name": "samplingInterval", "pen": 0, "id": 34, "size": 4, "scope": False},
                ],
            },
        ],
    }


def test_enterprise_and_variable_length_fields_are_shown(path: Path) -> None:
    content = pcap(
        ipfix(template_set(template(256, (1, 8), (137, 2, 2636), (82, 65535)))),
        ipfix(data_set(256, uint(9, 8) + u16(0) + variable(b"eth0"))),
    )
    (exporter,) = inspect(path, content)["exporters"]
    (described,) = exporter["domains"][0]["templates"]
    assert described["record_size"] is None
    assert described["fields"][1:] == [
        {"name": "commonPropertiesId", "pen": 2636, "id": 137, "size": 2, "scope": False, "used": True},
        {"name": "interfaceName", "pen": 0, "id": 82, "size": None, "scope": False, "used": True},
    ]
    text = flowbuf("inspect", path).stdout
    assert "octetDeltaCount:8, commonPropertiesId:2, interfaceName:variable" in text


def test_variable_length_fields_of_netflow9_are_shown(path: Path) -> None:
    content = pcap(netflow9(template_set9(template(256, (1, 8), (82, 65535)))))
    (exporter,) = inspect(path, content)["exporters"]
    (described,) = exporter["domains"][0]["templates"]
    assert described["record_size"] is None
    assert [field["size"] for field in described["fields"]] == [8, None]


def test_an_unknown_start_of_the_exporter_is_reported(path: Path) -> None:
    fields, start = template_set(template(256, (22, 4), (1, 4))), options_template_set(STARTS)
    datagrams = [ipfix(fields, data_set(256, u32(1000), u32(7)), domain=domain) for domain in (1, 2)]
    content = pcap(ipfix(start, data_set(257, u32(1) + uint(1_600_000_000_000, 8)), domain=2), *datagrams)
    result = flowbuf("inspect", write(path, content))
    assert result.exit_code == 0
    assert "domain 1; start unknown, no flow times" in result.stdout
    assert "domain 2; running since 2020-09-13 12:26:40.000 UTC" in result.stdout
    (counted,) = [line for line in result.stdout.splitlines() if "no_system_start" in line]
    assert EXPORTER in counted


def test_netflow1_and_netflow7_are_shown(path: Path) -> None:
    content = pcap(
        netflow1(record1(octets=7), record1(octets=8)),
        netflow7(record7(), sequence=1),
        netflow7(record7(), sequence=5),
    )
    (exporter,) = inspect(path, content)["exporters"]
    assert exporter["protocols"] == ["NetFlow v1", "NetFlow v7"]
    assert exporter["flows"] == 4
    (domain,) = exporter["domains"]
    assert (domain["protocol"], domain["sequence"]["unit"], domain["sequence"]["lost"]) == (
        "NetFlow v7",
        "flows",
        3,
    )


def test_every_protocol_is_listed(path: Path) -> None:
    exporters = inspect(path, generated("mixed", 2000, exporters=4))["exporters"]
    assert sorted(exporter["protocols"][0] for exporter in exporters) == [
        *("IPFIX", "NetFlow v5", "NetFlow v9", "sFlow v5"),
    ]
    assert sum(exporter["flows"] for exporter in exporters) == 2000
    assert all(exporter["sampling_rates"] == [1000] for exporter in exporters)


def test_tables_show_the_same_as_json(path: Path) -> None:
    write(path, NETFLOW9)
    result = flowbuf("inspect", path)
    assert (result.exit_code, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    assert (
        "3 packets (raw IP), 3 UDP datagrams to port 2055"
        " 2023-11-14 22:13:20.500 to 2023-11-14 22:13:22.500 UTC"
    ) in text
    assert f"{EXPORTER} NetFlow v9 3 " in text
    assert f"{EXPORTER}, NetFlow v9, domain 5; sampler 3 1:1000" in text
    assert "256 data 7 octetDeltaCount:4, samplerId:1, (39000:2)" in text
    assert "257 options 10 System:4 | samplerId:2, samplingInterval:4" in text
    assert "Counters" not in text


def test_domains_of_conflicting_ports_are_listed_separately(path: Path) -> None:
    payloads = [netflow9(template_set9(template(256, (element, 4)))) for element in (1, 2, 1)]
    content = pcap(*payloads, ports=[1000, 2000, 1000])
    (exporter,) = inspect(path, content)["exporters"]
    assert [domain["port"] for domain in exporter["domains"]] == [None, 1000]
    assert exporter["counters"] == {"template_redefined": 1, "port_in_key": 1}
    text = " ".join(flowbuf("inspect", path).stdout.split())
    assert f"{EXPORTER}, NetFlow v9, domain 0 template" in text
    assert f"{EXPORTER}, NetFlow v9, domain 0, port 1000 template" in text


LOSSY = pcap(
    *(netflow5(record5(), sequence=number, engine_type=1, engine_id=3) for number in (1, 2, 4, 3, 8)),
    *(netflow9(sequence=number, source_id=7) for number in range(100, 1300) if number != 200),
    *(ipfix(sequence=number, domain=9) for number in (0, 0)),
    *(sflow(flow_sample(sequence=10 * number), sequence=number) for number in (5, 6)),
)


def test_losses_are_shown_in_the_unit_of_each_protocol(path: Path) -> None:
    write(path, LOSSY)
    result = flowbuf("inspect", path)
    assert (result.exit_code, result.stderr) == (0, ""), (
        "losses in the network are not a fault of the capture"
    )
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "exporter protocol domain lost of share late restarts" in lines
    assert f"{EXPORTER} NetFlow v5 engine 1/3 3 8 flows 38% 1 0" in lines
    assert f"{EXPORTER} NetFlow v9 7 1 1,200 packets 0.08% 0 0" in lines
    assert "192.0.2.200 sFlow v5 9 11 samples 82% 0 0" in lines
    assert not any("IPFIX 9" in line or "datagrams 0" in line for line in lines), (
        "only domains with losses or reordering"
    )
    (exporters,) = (line for line in lines if line.startswith(f"{EXPORTER} IPFIX, NetFlow v5, NetFlow v9"))
    assert exporters.endswith(" 38% 0 unknown"), "the worst of its domains"
    (agent,) = (line for line in lines if line.startswith("192.0.2.200 sFlow v5 2 "))
    assert agent.endswith(" 82% 0 unknown")


def test_losses_are_not_shown_if_nothing_is_lost(path: Path) -> None:
    text = flowbuf("inspect", write(path, generated("mixed", 2000, exporters=4))).stdout
    assert "Sequence numbers" not in text
    assert [
        line.split()[-3:-1] for line in text.splitlines() if "1:1000" in line and "domain" not in line
    ] == [["0", "0"]] * 4


def test_json_has_the_losses_of_every_domain(path: Path) -> None:
    exporters = {exporter["address"]: exporter for exporter in inspect(path, LOSSY)["exporters"]}
    sequences = {domain["protocol"]: domain["sequence"] for domain in exporters[EXPORTER]["domains"]}
    assert sequences == {
        "NetFlow v5": {"unit": "flows", "expected": 8, "lost": 3, "late": 1, "restarts": 0},
        "NetFlow v9": {"unit": "packets", "expected": 1200, "lost": 1, "late": 0, "restarts": 0},
        "IPFIX": {"unit": "records", "expected": 0, "lost": 0, "late": 0, "restarts": 0},
    }
    (domain,) = exporters["192.0.2.200"]["domains"]
    assert domain["sequence"] == {
        **{"unit": "datagrams", "expected": 2, "lost": 0, "late": 0, "restarts": 0},
        "samples": {"expected": 11, "lost": 9, "late": 0, "restarts": 0},
    }


@pytest.mark.parametrize(("width", "shown"), [(160, {"protocol", "bytes"}), (80, {"protocol"}), (60, set())])
def test_columns_that_do_not_fit_are_omitted_instead_of_cut(
    path: Path, width: int, shown: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowbuf.cli.inspect.WIDTH_IN_A_PIPE", width)
    write(path, pcap(*(netflow5(record5(), sequence=number) for number in (1, 40, 20))))
    text = flowbuf("inspect", path).stdout
    assert "…" not in text
    (headings,) = (set(line.split()) for line in text.splitlines() if "sampling" in line)
    assert {"exporter", "flows", "lost", "errors", "sampling"} <= headings
    assert headings & {"protocol", "bytes"} == shown


@pytest.mark.parametrize("width", [60, 100, 200])
def test_tables_fit_any_width(path: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowbuf.cli.inspect.WIDTH_IN_A_PIPE", width)
    text = flowbuf("inspect", write(path, LOSSY)).stdout
    assert "Sequence numbers" in text
    assert max(len(line.rstrip()) for line in text.splitlines()[5:]) <= width


@pytest.mark.parametrize(
    ("lost", "expected", "text"),
    [
        *(
            (0, 0, "0"),
            (0, 5, "0"),
            (1, 10**6, "<0.01%"),
            (1, 1000, "0.10%"),
            (1, 40, "2.5%"),
            (143, 147, "97%"),
        ),
        *((999, 1000, ">99%"), (5, 5, "100%")),
    ],
)
def test_shares_are_short_and_distinguish_none_and_all(lost: int, expected: int, text: str) -> None:
    assert share(lost, expected) == text


def test_counters_are_explained_and_losses_exit_with_1(path: Path) -> None:
    write(path, pcap(GOOD, WITHOUT_TEMPLATE, b"nothing known"))
    result = flowbuf("inspect", path)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert f"{EXPORTER} 1 template_missing loss a data set that is given up" in text
    assert f"{EXPORTER} 1 early_data note a data set came before its template" in text
    assert "1 other_packet note not a UDP datagram, or not of a flow protocol" in text


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "it is empty"), (b"hello, world", "neither pcap, pcapng, IPFIX nor nfcapd")]
)
def test_a_foreign_file_prints_one_line(path: Path, content: bytes, reason: str) -> None:
    result = flowbuf("inspect", write(path, content))
    assert (result.exit_code, result.output) == (1, f"flowbuf: {path}: not a capture: {reason}\n")


def test_a_missing_file_is_a_usage_error() -> None:
    result = flowbuf("inspect", "missing.pcap")
    assert (result.exit_code, result.output) == (2, "Error: missing.pcap: No such file or directory\n")


# Fields -----------------------------------------------------------------------------------------------------

FIELDS = pcap(
    ipfix(template_set(template(256, (1, 8), (137, 2, 2636), (82, 65535), (8, 4), (999, 3), (291, 65535)))),
    ipfix(data_set(256, bytes(8) + u16(0) + variable(b"") + bytes(4) + bytes(3) + variable(b""))),
    ipfix(
        data_set(
            256, uint(9, 8) + u16(500) + variable(b"eth0") + bytes([192, 0, 2, 1]) + b"abc" + variable(b"")
        )
    ),
)


def fields_of(survey: dict[str, Any]) -> dict[str, tuple[str | None, list[str]]]:
    return {each["source"]: (each["sample"], each["columns"]) for each in survey["fields"]}


def test_fields_are_sources_with_a_value_and_columns(path: Path) -> None:
    """A value is preferred to a zero. Fields of lists have none."""
    fields = fields_of(inspect(path, FIELDS))
    assert fields == {
        "ipfix:octetDeltaCount": ("9", ["bytes"]),
        "juniper:commonPropertiesId": ("500", ["forwarding_status"]),  # calculated
        "ipfix:interfaceName": ("eth0", ["interface_name"]),
        "ipfix:sourceIPv4Address": ("192.0.2.1", ["src_addr"]),
        "ipfix:999": ("616263", []),
        "ipfix:basicList": (None, []),
    }
    schema = Schema.load("flow")
    for number, source in enumerate(fields, 1000):  # ready to copy
        schema = schema.add(f"field_{number}", number, "bytes", [source])
    text = flowbuf("inspect", path).stdout
    for source, (sample, columns) in fields.items():
        assert re.search(rf"^ {source} +{sample or ''} +{' '.join(columns)} *$", text, re.MULTILINE)


def test_fields_name_the_columns_that_are_calculated_from_them(path: Path) -> None:
    """A field with a column of its own, such as the protocol, names only that one."""
    fields = [(4, 1), (11, 2), (32, 2), (34, 4), (70, 3), (197, 1)]
    survey = inspect(path, pcap(ipfix(template_set(template(256, *fields)))))
    assert [each["columns"] for each in survey["fields"]] == [
        *(
            ["proto"],
            ["dst_port"],
            ["icmp_type", "icmp_code"],
            ["sampling_rate"],
            ["mpls_labels"],
            ["ip_flags"],
        ),
    ]


def test_a_zero_is_shown_if_there_is_no_other_value(path: Path) -> None:
    zeros = pcap(
        ipfix(template_set(template(256, (1, 8), (8, 4)))),
        ipfix(data_set(256, bytes(12))),
    )
    assert fields_of(inspect(path, zeros)) == {
        "ipfix:octetDeltaCount": ("0", ["bytes"]),
        "ipfix:sourceIPv4Address": (None, ["src_addr"]),  # an address of zeros is absent
    }


def test_fields_of_netflow9_have_its_own_numbers(path: Path) -> None:
    fields = fields_of(inspect(path, NETFLOW9))
    assert fields["netflow9:39000"] == ("0", [])
    assert fields["ipfix:samplerId"] == ("3", ["sampler_id"])


def test_long_values_are_cut_in_the_table(path: Path) -> None:
    long = pcap(
        ipfix(template_set(template(256, (82, 65535)))),
        ipfix(data_set(256, variable(b"x" * 100 + b"\x1b[31m"))),
    )
    assert fields_of(inspect(path, long))["ipfix:interfaceName"][0] == "x" * 100 + "\x1b[31m"
    assert f" {'x' * 39}… " in flowbuf("inspect", path).stdout


def test_standard_input_has_no_values() -> None:
    survey = json.loads(flowbuf("inspect", "-", "--json", stdin=FIELDS).stdout)
    assert fields_of(survey)["ipfix:octetDeltaCount"] == (None, ["bytes"])


def test_values_use_the_templates_of_a_state(path: Path, tmp_path: Path) -> None:
    first = write(tmp_path / "first.pcap", pcap(ipfix(template_set(template(256, (1, 8))))))
    state = tmp_path / "exporters.state"
    assert flowbuf("read", first, "--state", state).exit_code == 0
    write(path, pcap(ipfix(data_set(256, uint(9, 8)))))
    result = flowbuf("inspect", path, "--state", state, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert fields_of(json.loads(result.stdout)) == {"ipfix:octetDeltaCount": ("9", ["bytes"])}


def test_sflow_has_no_fields(path: Path) -> None:
    assert inspect(path, generated("sflow"))["fields"] == []
    assert "Fields" not in flowbuf("inspect", path).stdout


# Several captures -------------------------------------------------------------------------------------------


def test_several_captures_are_summarized_separately(path: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "b.pcap", pcap(GOOD))
    write(path, NETFLOW9)
    for arguments in ([path, other], [tmp_path / "*.pcap"]):
        surveys = json.loads(flowbuf("inspect", *arguments, "--json").stdout)
        alone = [json.loads(flowbuf("inspect", each, "--json").stdout) for each in (path, other)]
        assert surveys == alone
    text = flowbuf("inspect", path, other).stdout
    assert text == flowbuf("inspect", path).stdout + flowbuf("inspect", other).stdout


def test_the_worst_capture_decides_the_status(path: Path, tmp_path: Path) -> None:
    write(path, pcap(WITHOUT_TEMPLATE))
    good, foreign = write(tmp_path / "b.pcap", pcap(GOOD)), write(tmp_path / "c.pcap", b"no capture")
    assert flowbuf("inspect", good, path).exit_code == 1
    result = flowbuf("inspect", foreign, good, "--json")
    assert result.exit_code == 1
    assert f"{foreign}: not a capture" in result.stderr
    assert [survey["capture"]["name"] for survey in json.loads(result.stdout)] == [str(good)]
    missing = flowbuf("inspect", good, tmp_path / "none.pcap")
    assert (missing.exit_code, missing.stdout) == (2, "")


def test_a_field_with_id_0_is_left_out(path: Path) -> None:
    """No element has this id. The other fields keep their values."""
    content = pcap(
        netflow9(template_set9(template(256, (0, 4), (1, 4)))), netflow9(data_set(256, bytes(4) + u32(7)))
    )
    assert fields_of(inspect(path, content)) == {"ipfix:octetDeltaCount": ("7", ["bytes"])}


def test_more_fields_than_a_schema_can_have(path: Path) -> None:
    """Those beyond the limit have no value."""
    templates = [
        template(256 + i, *((id, 4, 99999) for id in range(1 + 300 * i, 301 + 300 * i))) for i in range(5)
    ]
    content = pcap(
        *(ipfix(template_set(each)) for each in templates),
        *(ipfix(data_set(256 + i, u32(i + 1) * 300)) for i in range(5)),
    )
    samples = [sample for sample, _ in fields_of(inspect(path, content)).values()]
    assert len(samples) == 1500
    assert samples[:1023] == [str(i // 300 + 1) for i in range(1023)]
    assert set(samples[1023:]) == {None}


def test_packets_without_an_exporter_are_one_row_of_the_counters() -> None:
    traffic = Path(__file__).parents[1] / "data" / "traffic.pcap.gz"
    rows = [
        line.split() for line in flowbuf("inspect", traffic).stdout.splitlines() if "other_packet" in line
    ]
    assert [row[:4] for row in rows] == [["capture", "1,932", "other_packet", "note"]]
