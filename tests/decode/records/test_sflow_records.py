"""Less common records of sFlow samples: each field fills its source, and faults are counted.

Values are built by hand from the structures on sflow.org.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowbuf import Schema
from tests.reference.sflow_fields import STRUCTURES
from tests.support.datagrams import (
    counters_sample,
    discarded_packet,
    ethernet,
    expanded_flow_sample,
    extended_switch,
    flow_sample,
    ip,
    ipv4,
    mac,
    mapped,
    opaque,
    record,
    sampled_header,
    sflow,
    sflow_address,
    tcp,
    u32,
    words,
)
from tests.support.decoding import Decode, both_decoders, columns

pytestmark = both_decoders

FLOW = Schema.load("flow")
COUNTERS = Schema.load("sflow_counters")


def decode_records(decode: Decode, *records: bytes, names: str) -> dict[str, Any]:
    outcome = decode(sflow(flow_sample(*records)), schema=columns(*names.split()))
    assert outcome.counters == {}
    return outcome.flow


# Fields -----------------------------------------------------------------------------------------------------


def wide(address: str) -> bytes:
    """Return an address as columns have it."""
    return ip(address) if ":" in address else mapped(address)


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_users_and_urls(decode: Decode) -> None:
    """sFlow Version 5: extended_user (1004), extended_url (1005). MIBenum 106 is UTF-8."""
    user = record(1004, u32(106) + opaque("Zoë".encode()) + u32(3) + opaque(b"root"))
    url = record(1005, u32(2) + opaque(b"/index.html") + opaque(b"www.example.com"))
    names = "src_user dst_user src_user_charset dst_user_charset url_direction url url_host"
    assert decode_records(decode, user, url, names=names) == {
        "src_user": "Zoë",
        "src_user_charset": 106,
        "dst_user": "root",
        "dst_user_charset": 3,
        "url_direction": 2,
        "url": "/index.html",
        "url_host": "www.example.com",
    }


def test_translated_addresses_and_ports(decode: Decode) -> None:
    """sFlow Version 5: extended_nat (1007). sFlow Port NAT Structures: extended_nat_port (1020)."""
    nat = record(1007, sflow_address("192.0.2.7") + sflow_address("2001:db8::7"))
    names = "src_addr_nat dst_addr_nat src_port_nat dst_port_nat"
    assert decode_records(decode, nat, record(1020, u32(1024) + u32(443)), names=names) == {
        "src_addr_nat": mapped("192.0.2.7"),
        "dst_addr_nat": ip("2001:db8::7"),
        "src_port_nat": 1024,
        "dst_port_nat": 443,
    }
    nat = record(1007, sflow_address(None) + sflow_address("192.0.2.8"))
    assert decode_records(decode, nat, names=names) == {"dst_addr_nat": mapped("192.0.2.8")}


def test_label_stacks_and_removed_tags(decode: Decode) -> None:
    """sFlow Version 5: extended_mpls (1006), extended_vlantunnel (1012)."""
    mpls = record(1006, sflow_address("192.0.2.9") + words([0x0006413F, 0x0006513F]) + words([0x00065200]))
    vlans = record(1012, words([0x88A80064, 0x81000065]))
    names = "mpls_top_addr mpls_in_stack mpls_out_stack vlan_tunnel_stack"
    assert decode_records(decode, mpls, vlans, names=names) == {
        "mpls_top_addr": mapped("192.0.2.9"),
        "mpls_in_stack": [0x0006413F, 0x0006513F],
        "mpls_out_stack": [0x00065200],
        "vlan_tunnel_stack": [0x88A80064, 0x81000065],
    }
    empty = record(1006, sflow_address(None) + words([]) + words([]))
    assert decode_records(decode, empty, record(1012, words([])), names=names) == {}


def tunnel(source: str, destination: str, first: int) -> bytes:
    """Build sampled_ipv4 or sampled_ipv6 with the numbers from `first` on."""
    numbers = [u32(first + offset) for offset in range(6)]
    return b"".join([*numbers[:2], ip(source), ip(destination), *numbers[2:]])


@pytest.mark.parametrize(
    ("ingress", "egress", "ends"),
    [(1024, 1023, ("192.0.2.1", "192.0.2.2")), (1026, 1025, ("2001:db8::1", "2001:db8::2"))],
)
def test_outer_packets_of_tunnels(decode: Decode, ingress: int, egress: int, ends: tuple[str, str]) -> None:
    """sFlow Tunnel Structures: the outer IP header (1023 to 1026) and the VNI (1029, 1030)."""
    records = [
        record(egress, tunnel(*ends, 21)),
        record(ingress, tunnel(*ends, 11)),
        record(1029, u32(5000)),
        record(1030, u32(6000)),
    ]
    fields = ["length", "proto", "src_port", "dst_port", "tcp_flags", "tos"]
    names = [f"{side}{field}" for side in ("tunnel_", "egress_tunnel_") for field in fields]
    names += ["tunnel_src_addr", "tunnel_dst_addr", "egress_tunnel_src_addr", "egress_tunnel_dst_addr"]
    flow = decode_records(decode, *records, names=" ".join([*names, "tunnel_id", "egress_tunnel_id"]))
    source, destination = map(wide, ends)
    assert flow == {
        **{f"tunnel_{field}": 11 + offset for offset, field in enumerate(fields)},
        **{f"egress_tunnel_{field}": 21 + offset for offset, field in enumerate(fields)},
        "tunnel_src_addr": source,
        "tunnel_dst_addr": destination,
        "egress_tunnel_src_addr": source,
        "egress_tunnel_dst_addr": destination,
        "tunnel_id": 6000,
        "egress_tunnel_id": 5000,
    }


def test_outer_frames_of_tunnels(decode: Decode) -> None:
    """sFlow Tunnel Structures: extended_L2_tunnel_egress (1021), extended_L2_tunnel_ingress (1022)."""
    source, destination = "02:00:00:00:00:01", "02:00:00:00:00:02"
    egress = record(1021, u32(1518) + mac(source) + bytes(2) + mac(destination) + bytes(2) + u32(0x0800))
    ingress = record(1022, u32(1500) + mac(destination) + bytes(2) + mac(source) + bytes(2) + u32(0x86DD))
    names = [f"tunnel_{field}" for field in ("length", "src_mac", "dst_mac", "etype")]
    names += [f"egress_{name}" for name in names]
    flow = decode_records(decode, egress, ingress, names=" ".join(names))
    assert [flow[name] for name in names] == [
        *(1500, 0x020000000002, 0x020000000001, 0x86DD),
        *(1518, 0x020000000001, 0x020000000002, 0x0800),
    ]


def test_delay_and_queue_of_a_packet(decode: Decode) -> None:
    """sFlow Transit Delay Structures (1039, 1040), and the queue (1036). Zero is a value."""
    records = [record(1036, u32(0)), record(1039, u32(0xFFFFFFFF)), record(1040, u32(0))]
    names = "egress_queue transit_delay queue_depth"
    assert decode_records(decode, *records, names=names) == {
        "egress_queue": 0,
        "transit_delay": 0xFFFFFFFF,
        "queue_depth": 0,
    }


@pytest.mark.parametrize(("prefix", "first"), [("socket", 2100), ("proxy_socket", 2102)])
def test_sockets(decode: Decode, prefix: str, first: int) -> None:
    """sFlow Host Structures (2100, 2101) and HTTP Structures (2102, 2103)."""
    names = [
        f"{prefix}_{field}" for field in ("proto", "local_addr", "remote_addr", "local_port", "remote_port")
    ]
    for offset, (local, remote) in enumerate((("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2"))):
        socket = record(first + offset, u32(6) + ip(local) + ip(remote) + u32(80) + u32(50000))
        flow = decode_records(decode, socket, names=" ".join(names))
        assert flow == dict(zip(names, [6, wide(local), wide(remote), 80, 50000], strict=True))


def test_operations_of_applications(decode: Decode) -> None:
    """sFlow Application Structures: 2202 to 2205. Status 8 is NOT_FOUND; 0 is SUCCESS."""
    context = opaque(b"payment") + opaque(b"get.customer") + opaque(b"cc=visa&loc=mobile")
    operation = context + opaque(b"no such card") + u64(1 << 40) + u64(0) + u32(2500) + u32(8)
    parent = opaque(b"web") + opaque(b"checkout") + opaque(b"")
    records = [
        record(2202, operation),
        record(2203, parent),
        record(2204, opaque(b"alice")),
        record(2205, opaque(b"bob")),
    ]
    names = [column.name for column in FLOW if column.group == "app"]
    assert decode_records(decode, *records, names=" ".join(names)) == {
        "app_name": "payment",
        "app_operation": "get.customer",
        "app_attributes": "cc=visa&loc=mobile",
        "app_status": 8,
        "app_status_descr": "no such card",
        "app_req_bytes": 1 << 40,
        "app_resp_bytes": 0,
        "app_duration": 2500,
        "app_parent_name": "web",
        "app_parent_operation": "checkout",
        "app_initiator": "alice",
        "app_target": "bob",
    }


def test_http_requests(decode: Decode) -> None:
    """sFlow HTTP Structures: http_request (2206), extended_proxy_request (2207)."""
    texts = (b"/a?b=c", b"example.com", b"http://x/", b"curl/8", b"192.0.2.1", b"alice", b"text/html")
    body = u32(2) + u32(1001) + b"".join(map(opaque, texts)) + u64(10) + u64(5000) + u32(1234)
    records = [
        record(2206, body + u32(200)),
        record(2207, opaque(b"/inner") + opaque(b"backend")),
    ]
    names = [column.name for column in FLOW if column.group == "http"]
    names += ["url", "url_host", "app_req_bytes", "app_resp_bytes", "app_duration"]
    assert decode_records(decode, *records, names=" ".join(names)) == {
        "http_method": 2,
        "http_version": 1001,
        "url": "/a?b=c",
        "url_host": "example.com",
        "http_referer": "http://x/",
        "http_user_agent": "curl/8",
        "http_xff": "192.0.2.1",
        "http_auth_user": "alice",
        "http_mime_type": "text/html",
        "app_req_bytes": 10,
        "app_resp_bytes": 5000,
        "app_duration": 1234,
        "http_status": 200,
        "proxy_uri": "/inner",
        "proxy_host": "backend",
    }
    negative = decode_records(decode, record(2206, body + u32(0xFFFFFFFF)), names="http_status")
    assert negative == {"http_status": -1}


def test_memcache_operations(decode: Decode) -> None:
    """sFlow Memcache Structures: memcache_operation (2200)."""
    body = u32(1) + u32(7) + opaque(b"user:7") + u32(3) + u32(0) + u32(90) + u32(1)
    names = [column.name for column in FLOW if column.group == "memcache"]
    assert decode_records(decode, record(2200, body), names=" ".join([*names, "app_duration"])) == {
        "memcache_protocol": 1,
        "memcache_cmd": 7,
        "memcache_key": "user:7",
        "memcache_nkeys": 3,
        "memcache_value_bytes": 0,
        "memcache_status": 1,
        "app_duration": 90,
    }


def test_round_trip_time_of_a_connection(decode: Decode) -> None:
    """extended_tcp_info (2209): the round-trip time is its eighth word."""
    body = b"".join(map(u32, range(1, 13)))
    assert decode_records(decode, record(2209, body), names="tcp_rtt") == {"tcp_rtt": 8}


BSSID = mac("02:00:00:00:00:03") + bytes(2)


@pytest.mark.parametrize(
    ("record_format", "body", "values"),
    [
        (1008, opaque(b"lsp") + u32(7) + u32(5), {"tunnel_lsp_name": "lsp", "tunnel_id": 7, "tunnel_cos": 5}),
        (
            1009,
            opaque(b"vc") + u32(8) + u32(6),
            {"vc_instance_name": "vc", "vll_vc_id": 8, "vc_label_cos": 6},
        ),
        (1010, opaque(b"fec") + u32(9), {"mpls_ftn_descr": "fec", "mpls_ftn_mask": 9}),
        (1011, u32(24), {"mpls_fec_addr_prefix_length": 24}),
        (
            1014,
            opaque(b"lobby") + BSSID + u32(3) + u32(11) + u64(54_000_000) + u32(40) + u32(90) + u32(250),
            {
                "ssid": "lobby",
                "bssid": 0x020000000003,
                "version": 3,
                "channel": 11,
                "speed": 54_000_000,
                "rsni": 40,
                "rcpi": 90,
                "packet_duration": 250,
            },
        ),
        (
            1015,
            opaque(b"lobby")
            + BSSID
            + u32(4)
            + u32(2)
            + u32(90)
            + u32(80)
            + u32(36)
            + u64(300_000_000)
            + u32(63),
            {
                "ssid": "lobby",
                "bssid": 0x020000000003,
                "version": 4,
                "transmissions": 2,
                "packet_duration": 90,
                "retrans_duration": 80,
                "channel": 36,
                "speed": 300_000_000,
                "power": 63,
            },
        ),
        (1027, u32(50), {"inner_header_offset": 50}),
        (1028, u32(54), {"inner_header_offset": 54}),
        (1034, words([0x81000064]), {"stack": [0x81000064]}),
        (1035, words([0x88A80065, 0x81000064]), {"stack": [0x88A80065, 0x81000064]}),
        (1037, u32(7) + opaque(b"drop-ssh") + u32(1), {"number": 7, "name": "drop-ssh", "direction": 1}),
        (
            1041,
            opaque(b"l2_drops") + opaque(b"vlan_tag_mismatch"),
            {"group": "l2_drops", "trap": "vlan_tag_mismatch"},
        ),
        (1042, opaque(b"NO_SOCKET"), {"reason": "NO_SOCKET"}),
        (
            2209,
            b"".join(map(u32, [2, 1448, 536, 3, 1, 4, 1500, 20_000, 5_000, 10, 6, 18_000])),
            {
                "dir": 2,
                "snd_mss": 1448,
                "rcv_mss": 536,
                "unacked": 3,
                "lost": 1,
                "retrans": 4,
                "pmtu": 1500,
                "rtt": 20_000,
                "rttvar": 5_000,
                "snd_cwnd": 10,
                "reordering": 6,
                "min_rtt": 18_000,
            },
        ),
        (
            2210,
            u32(3) + u32(100_001) + u32(2) + u32(1),
            {"src_ds_class": 3, "src_ds_index": 100_001, "dst_ds_class": 2, "dst_ds_index": 1},
        ),
    ],
)
def test_records_with_fields_that_no_column_reads(
    decode: Decode, record_format: int, body: bytes, values: dict[str, Any]
) -> None:
    """Structures in the order of the wire, from the sources of ext/core/plan/sflow_record_fields.h."""
    name, _ = STRUCTURES[record_format]
    outcome = decode(sflow(flow_sample(record(record_format, body))), schema=ALL)
    expected = {f"{name}_{field}": value for field, value in values.items()}
    assert (outcome.flow, outcome.counters) == (expected, {})


# Samples ----------------------------------------------------------------------------------------------------

PACKET = sampled_header(ethernet(ipv4(tcp(80, 443))), frame_length=60)


def test_records_around_a_packet_in_any_order(decode: Decode) -> None:
    user = record(1004, u32(106) + opaque(b"a") + u32(106) + opaque(b"b"))
    for build in (flow_sample, expanded_flow_sample):
        for records in (
            (user, PACKET, extended_switch(1, 0, 2, 0)),
            (extended_switch(1, 0, 2, 0), PACKET, user),
        ):
            samples = [build(*records)] * 8
            outcome = decode(sflow(*samples), schema=columns("src_port", "src_vlan", "src_user", "dst_user"))
            expected = {"src_port": 80, "src_vlan": 1, "src_user": "a", "dst_user": "b"}
            assert (outcome.flows, outcome.counters) == ([expected] * 8, {})


def test_the_first_record_of_a_format_is_used(decode: Decode) -> None:
    records = record(1029, u32(5)), record(1029, u32(6))
    outcome = decode(sflow(flow_sample(*records)), schema=columns("egress_tunnel_id"))
    assert outcome.flow == {"egress_tunnel_id": 5}
    assert outcome.counters == {"unknown_sample_record": 1}


def test_drop_samples_have_these_records_too(decode: Decode) -> None:
    mine = Schema.from_toml(
        '[schema]\nname = "mine"\nextends = "sflow_counters"\nonly = ["egress_queue", "user"]\n'
        '[[column]]\nname = "user"\nnumber = 1000\ntype = "string"\n'
        'sources = ["sflow:extended_user.src_user"]\n',
        "mine.toml",
    )
    user = record(1004, u32(106) + opaque(b"a") + u32(106) + opaque(b"b"))
    outcome = decode(sflow(discarded_packet(record(1036, u32(3)), user)), schema=mine)
    assert (outcome.flow, outcome.counters) == ({"egress_queue": 3, "user": "a"}, {})


# Faults -----------------------------------------------------------------------------------------------------


def build_body(fields: str) -> bytes:
    sizes = {"": 4, "int": 4, "hyper": 8, "mac": 8, "ip_v4": 4, "ip_v6": 16}
    variable = {"string": opaque(b"abc"), "words": words([1]), "address": sflow_address("192.0.2.1")}
    kinds = [word.partition(":")[2] for word in fields.split()]
    return b"".join(variable[kind] if kind in variable else b"\1" * sizes[kind] for kind in kinds)


def all_sources() -> Schema:
    """Return a schema with a column for each field of STRUCTURES."""
    types = {
        "string": "string",
        "words": "uint32",
        "address": "ip",
        "ip_v4": "ip",
        "ip_v6": "ip",
        "int": "int32",
    }
    lines = ['[schema]\nname = "all"']
    for name, fields in STRUCTURES.values():
        for word in fields.split():
            field, _, kind = word.partition(":")
            lines += [f'[[column]]\nname = "{name}_{field}"\nnumber = {1000 + len(lines)}']
            lines += [f'type = "{types.get(kind, "uint64")}"\nsources = ["sflow:{name}.{field}"]']
            lines += ["repeated = true"] if kind == "words" else []
    return Schema.from_toml("\n".join(lines), "all.toml")


ALL = all_sources()


@pytest.mark.parametrize("record_format", STRUCTURES)
def test_a_truncated_record_gives_no_values(decode: Decode, record_format: int) -> None:
    name, fields = STRUCTURES[record_format]
    body = build_body(fields)
    whole = decode(sflow(flow_sample(record(record_format, body))), schema=ALL)
    assert set(whole.flow) == {f"{name}_{word.partition(':')[0]}" for word in fields.split()}
    least = len(body) - 1 if fields.endswith(("string", "mac")) else len(body)
    for size in range(least):
        outcome = decode(sflow(flow_sample(record(record_format, body[:size]))), schema=ALL)
        assert (outcome.flows, outcome.counters) == ([{}], {"bad_sample_record": 1}), size


@pytest.mark.parametrize("length", [4, 0x7FFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF])
def test_lengths_beyond_the_record(decode: Decode, length: int) -> None:
    texts = record(1038, u32(length) + b"abc")
    lists = record(1012, u32(length) + u32(7))
    address = record(1007, u32(length) + bytes(36))
    outcome = decode(sflow(flow_sample(texts, lists, address)), schema=ALL)
    assert (outcome.flows, outcome.counters) == ([{}], {"bad_sample_record": 3})


def test_records_without_a_column_are_neither_read_nor_unknown(decode: Decode) -> None:
    broken = record(1004, u32(106) + u32(99))
    samples = [flow_sample(broken, PACKET, record(1018, bytes(16)))] * 8
    outcome = decode(sflow(*samples), schema=columns("src_port"))
    assert (outcome.flows, outcome.counters) == ([{"src_port": 80}] * 8, {"unknown_sample_record": 8})


def test_invalid_texts_are_counted(decode: Decode) -> None:
    user = record(1004, u32(4) + opaque(b"Zo\xeb") + u32(0) + opaque(b""))
    outcome = decode(sflow(flow_sample(user)), schema=columns("src_user", "dst_user"))
    assert (outcome.flow, outcome.counters) == ({"src_user": "Zo\ufffd"}, {"invalid_utf8": 1})


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (("derived:in_if_name", "sflow:extended_user.src_user"), "swp7"),
        (("sflow:extended_user.src_user", "derived:in_if_name"), "alice"),
        (("derived:in_if_speed", "packet:ip.ttl"), 10000),
        (("packet:ip.ttl", "derived:in_if_speed"), 64),
    ],
)
def test_names_of_interfaces_keep_their_rank(decode: Decode, sources: tuple[str, str], expected: Any) -> None:
    """The best source fills a column, whether a name or a record has it."""
    kind = "string" if isinstance(expected, str) else "uint32"
    schema = Schema.from_toml(
        f'[schema]\nname = "x"\n[[column]]\nname = "x"\nnumber = 1\ntype = "{kind}"\n'
        f"sources = {list(sources)}\n"
    )
    counters = counters_sample(
        record(1, u32(7) + u32(6) + (10**10).to_bytes(8, "big") + bytes(72)),
        record(1005, opaque(b"swp7")),
        source=(0, 7),
    )
    user = record(1004, u32(106) + opaque(b"alice") + u32(3) + opaque(b""))
    flow = flow_sample(user, sampled_header(ethernet(ipv4(tcp(1, 2)))), input=7)
    assert decode(sflow(counters, flow), schema=schema).flow == {"x": expected}
