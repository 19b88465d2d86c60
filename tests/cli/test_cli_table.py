"""The table of `flowbuf read`: its content, and its layout in narrow terminals."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest
from rich.cells import cell_len

from flowbuf.cli.output.table import FlowTable, Heading, importance
from flowbuf.schema import Schema

FLOW = Schema.load("flow")


def mapped(text: str) -> bytes:
    return bytes(10) + b"\xff\xff" + ip_address(text).packed


def flow(**values: Any) -> dict[str, Any]:
    base = {
        "time_received": 1_700_000_000_000,
        "exporter_address": mapped("192.0.2.1"),
        "flow_type": 4,
        "etype": 0x0800,
    }
    ends = {
        "src_addr": mapped("198.51.100.1"),
        "src_port": 443,
        "dst_addr": mapped("203.0.113.2"),
        "dst_port": 50000,
    }
    return {**base, **ends, "proto": 6, "tcp_flags": 0x12, "bytes": 1500, "packets": 3, **values}


FLOW6 = {
    "src_addr": ip_address("2001:db8:1111:2222:3333:4444:5555:6666").packed,
    "dst_addr": ip_address("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff").packed,
    "etype": 0x86DD,
}


Show = Callable[..., list[str]]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Return a function that prints blocks of flows and returns the lines of the table, without styles.

    `width` is the width of the terminal.
    """

    def show(
        *blocks: list[dict[str, Any]],
        width: int | None = None,
        schema: Schema = FLOW,
        order: tuple[str, ...] = (),
    ) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        file: Any = io.BytesIO()
        table = FlowTable(file, schema, to_terminal=width is not None, order=order)
        for block in blocks:
            table.write(block)
        table.finish()
        return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue().decode()).splitlines()

    return show


def test_only_columns_with_values_are_shown_and_numbers_align_right(show: Show) -> None:
    assert show([flow(), flow(bytes=12345678, proto=17, tcp_flags=0)]) == [
        "2023-11-14 · exporter 192.0.2.1 · IPFIX",
        "                                                          tcp_",
        "time          source            destination        proto  flags  packets       bytes",
        "22:13:20.000  198.51.100.1:443  203.0.113.2:50000  TCP    SA           3       1,500",
        "22:13:20.000  198.51.100.1:443  203.0.113.2:50000  UDP                 3  12,345,678",
    ]


def test_values_common_to_all_flows_are_shown_once(show: Show) -> None:
    assert show([flow(sampling_rate=1000), flow(sampling_rate=1000)])[0] == (
        "2023-11-14 · exporter 192.0.2.1 · sampling 1:1000 · IPFIX"
    )
    lines = show([flow(sampling_rate=1000), flow(exporter_address=mapped("192.0.2.9"), flow_type=3)])
    assert lines[0] == "2023-11-14"
    for word in ("192.0.2.1 ", "192.0.2.9 ", "1:1000", "IPFIX", "NETFLOW_V9"):
        assert any(word.strip() in line for line in lines[1:]), word


def test_headings_are_repeated_only_after_changes(show: Show) -> None:
    usual, wider = [flow(), flow()], [flow(bytes=10**12)]
    assert heading_count(show(usual, usual, usual)) == 1
    assert heading_count(show(usual, wider, usual, wider)) == 2
    assert heading_count(show(usual, [flow(exporter_address=mapped("192.0.2.9"))], usual)) == 2


def heading_count(lines: list[str]) -> int:
    return sum(line.startswith("time") for line in lines)


def test_columns_align_with_their_headings(show: Show) -> None:
    flows = [
        flow(src_port=port, bytes=7**i, in_if=i, out_if=i * 99)
        for i, port in enumerate((1, 22, 333, 4444, 55555))
    ]
    lines = [line for line in show(flows) if line]
    begins = [
        match.start()
        for match in re.finditer(r"\S+", next(line for line in lines if line.startswith("time")))
    ]
    for line in lines[-5:]:
        assert line.index("203.0.113.2") == begins[2]
        assert line[begins[3] - 2 : begins[3]] == "  "


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_no_line_is_wider_than_the_terminal(show: Show, width: int, family: str) -> None:
    one = flow(in_if=1, out_if=2, src_as=64500, dst_as=4200000000, **(FLOW6 if family == "ipv6" else {}))
    *lines, last = show([one], width=width)
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert "source" in text
    assert "destination" in text
    assert "1,500" in text
    assert last.startswith("1 flow")
    hidden = re.findall(r"\w+", last.partition("no room for ")[2])
    for name in hidden:
        assert name not in text
    assert hidden or width >= 140 or family == "ipv4"


def test_the_most_important_columns_are_removed_last(show: Show) -> None:
    schema = FLOW.enable("time_flow_start", "time_flow_end", "src_mac", "dst_mac")
    one = flow(time_flow_start=1, time_flow_end=2, src_mac=1, dst_mac=2, in_if=7)
    *_, last = show([one], width=100, schema=schema)
    assert last == (
        "1 flow, 3 packets, 1,500 bytes; no room for time_flow_start, time_flow_end, src_mac, dst_mac"
    )


def test_several_exporters_are_shown_in_80_columns(show: Show) -> None:
    flows = [flow(in_if=1), flow(in_if=2, exporter_address=mapped("192.0.2.9"))]
    for blocks in ([flows], [flows[:1], flows[1:]]):
        *lines, last = show(*blocks, width=80)
        assert max(map(cell_len, lines)) <= 80
        assert sum("192.0.2.9" in line for line in lines) == 1
        assert "exporter_address" not in last.partition("no room for")[2]
    assert show(flows[:1], width=80)[1].startswith("2023-11-14 · exporter 192.0.2.1 · ")


def test_named_columns_keep_their_order(show: Show) -> None:
    """Those without values are shown too. Addresses and ports have columns of their own."""
    order = ("bytes", "src_addr", "in_if", "src_port", "proto")
    assert show([flow(), flow(bytes=7)], schema=FLOW.only(*order), order=order) == [
        "bytes  src_addr      in_if  src_port  proto",
        "1,500  198.51.100.1              443  TCP",
        "    7  198.51.100.1              443  TCP",
    ]
    lines = show([flow()], schema=FLOW.only(*order, "packets"), order=(*order, "icmp_type"))
    assert lines[0].split() == [*order, "packets"]


def test_the_last_columns_are_removed_first_if_they_are_named(show: Show) -> None:
    order = ("packets", "src_addr", "dst_addr", "bytes")
    lines = show([flow()], schema=FLOW.only(*order), order=order, width=40)
    assert lines[1].split() == ["packets", "src_addr", "dst_addr"]
    assert lines[-1] == "1 flow, 3 packets, 1,500 bytes; no room for bytes"


def test_the_last_line_has_the_sums(show: Show) -> None:
    blocks = ([flow(), flow(bytes=998_500)], [flow(), {"proto": 6}])
    assert show(*blocks, width=200)[-1] == "4 flows, 9 packets, 1,001,500 bytes"
    assert show(*blocks, width=200, schema=FLOW.disable("packets"))[-1] == "4 flows, 1,001,500 bytes"
    assert show(*blocks, width=200, schema=FLOW.only("proto"))[-1] == "4 flows"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"proto": 1, "icmp_type": 8}, "203.0.113.2 echo-request"),
        ({"proto": 1, "icmp_type": 3, "icmp_code": 3}, "203.0.113.2 port-unreachable"),
        ({"proto": 1, "icmp_type": 3, "icmp_code": 77}, "203.0.113.2 unreachable 77"),
        ({"proto": 1, "icmp_type": 200, "icmp_code": 1}, "203.0.113.2 type 200, code 1"),
        ({"proto": 58, "icmp_type": 135}, "203.0.113.2 neighbor-solicitation"),
        ({"proto": 58, "icmp_type": 1, "icmp_code": 4}, "203.0.113.2 port-unreachable"),
        ({"proto": 58, "icmp_type": 128}, "203.0.113.2 echo-request"),
        # The convention of Cisco: type and code as destination port, beside source port 0.
        ({"proto": 1, "dst_port": 8 << 8}, "203.0.113.2 echo-request"),
        ({"proto": 1, "dst_port": 3 << 8 | 1}, "203.0.113.2 host-unreachable"),
        ({"proto": 58, "dst_port": 129 << 8}, "203.0.113.2 echo-reply"),
        ({"proto": 58, "dst_port": 129}, "203.0.113.2:129"),
        ({"proto": 1, "dst_port": 8 << 8, "src_port": 5}, "203.0.113.2:2048"),
        ({"proto": 6, "dst_port": 8 << 8}, "203.0.113.2:2048"),
        ({"proto": 1}, "203.0.113.2"),
    ],
)
def test_icmp_messages_have_names(show: Show, values: dict[str, int], text: str) -> None:
    one = {name: value for name, value in flow().items() if not name.endswith("_port")}
    begin = show([{**one, **values}])[-1].index("203.0.113.2")
    line = show([{**one, **values}])[-1]
    assert line[begin:].startswith(f"{text}  ")


def test_columns_of_presets_have_the_same_importance(show: Show) -> None:
    """Presets name these columns differently."""
    heading = {name: Heading(name, str) for name in ("Bytes", "SrcAddr", "SrcNetMask", "EType", "InIf")}
    assert sorted(heading, key=lambda name: importance(heading[name])) == [
        *("SrcAddr", "Bytes", "InIf", "SrcNetMask", "EType")
    ]


def test_long_addresses_are_stacked_in_narrow_terminals(show: Show) -> None:
    lines = show([flow(**FLOW6)], width=80)
    at = next(i for i, line in enumerate(lines) if line.startswith("[2001:db8:1111:"))
    assert lines[at + 1].startswith("→ [2001:db8:aaaa:")
    assert lines[at - 1] == "→ destination"
    wide = show([flow(**FLOW6)], width=200)
    assert any(
        "[2001:db8:1111:2222:3333:4444:5555:6666]:443" in line and ":ffff]:50000" in line for line in wide
    )


def test_statuses_protocols_and_flags_are_shown_as_words(show: Show) -> None:
    statuses = {48: 0, 49: 64, 50: 66, 51: 128, 52: 131, 53: 192}
    text = "\n".join(show([flow(forwarding_status=value, proto=proto) for proto, value in statuses.items()]))
    for word in ("forwarded", "forwarded 66", "dropped", "dropped 131", "consumed", "ESP", "AH", "48"):
        assert word in text
    assert "SA" in text


def test_an_ethertype_is_shown_only_without_addresses(show: Show) -> None:
    assert "0x0806" in "\n".join(show([flow(), {"etype": 0x0806, "bytes": 60}]))
    assert "0x0800" not in "\n".join(show([flow()]))


def test_control_characters_of_texts_are_replaced(show: Show) -> None:
    (line,) = show([{"interface_name": "eth0\x1b[2J\x9b\nx"}], schema=FLOW.only("interface_name"))[2:]
    assert line == "eth0\ufffd[2J\ufffd\ufffdx"


def test_wide_characters_take_two_cells(show: Show) -> None:
    schema = FLOW.only("interface_name", "bytes")
    *_, one, other = show(
        [{"interface_name": "接口", "bytes": 1}, {"interface_name": "abcd", "bytes": 1}], schema=schema
    )
    assert cell_len(one) == cell_len(other)


def test_known_names_may_have_other_types(show: Show) -> None:
    schema = FLOW.only()
    schema = schema.retire(*(column.name for column in schema))
    for number, name in enumerate(
        ("time_received", "src_addr", "bytes", "proto", "etype", "tcp_flags"), 1001
    ):
        schema = Schema("mine", schema.columns).add(name, number=number, type="string")
    assert show([{column.name: "x" for column in schema}], schema=schema)[-1].split() == ["x"] * 6


def test_any_schema_has_a_table(show: Show) -> None:
    schema = FLOW.only().add("colour", number=1001, type="string").add("weight", number=1002, type="double")
    assert show([{"colour": "red", "weight": 1.5}, {"weight": 10.25}], schema=schema) == [
        *("colour  weight", "red        1.5", "         10.25"),
    ]


def test_a_tunnel_is_one_column(show: Show) -> None:
    outer = {"tunnel_src_addr": mapped("192.0.2.7"), "tunnel_dst_addr": ip_address("2001:db8::1").packed}
    flows = [flow(**outer, tunnel_id=5000), flow(**outer), flow(), flow(tunnel_id=7)]
    lines = show(flows, schema=FLOW.enable("group:tunnel"))
    assert [line[line.index("1,500") + 5 :] for line in lines[3:]] == [
        "  192.0.2.7 → 2001:db8::1 #5000",
        "  192.0.2.7 → 2001:db8::1",
        "",
        "  #7",
    ]
    assert lines[2].endswith("bytes  tunnel")
    assert "tunnel" not in "".join(show([flow()], schema=FLOW.enable("group:tunnel")))
