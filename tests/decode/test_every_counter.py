"""Each counter is incremented by a minimal input.

The tests of each protocol check the other effects of such input.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable
from typing import Any

import pytest

from flowbuf import STATUSES, DecodeError, Decoder, Schema, wire
from flowbuf.io.capture import CaptureReader
from tests.io.test_capture import pcap, split, udp_packet
from tests.support.datagrams import (
    VARIABLE,
    any_set,
    data_set,
    ethernet,
    flow_sample,
    ipfix,
    ipv4,
    netflow5,
    options_template,
    options_template_set,
    record,
    record5,
    sample,
    sampled_header,
    sflow,
    sub_template_list,
    tagged,
    template,
    template_set,
    u8,
    u16,
    u32,
)
from tests.support.decoding import FLOW, RECEIVED, SOURCE, Given, columns, decode_with, ipfix_record

BYTES = template_set(template(256, (1, 4)))
PACKETS = template_set(template(256, (2, 4)))
SEVEN = data_set(256, u32(7))
EMPTY_LIST_CUT_SHORT = u8(3) + u16(7)
Case = tuple[list[Given], dict[str, Any]]


def case(*datagrams: Given, **options: Any) -> Case:
    """Return datagrams, and the options to decode them."""
    return list(datagrams), options


def packet(frame: bytes, protocol: int = 1, **options: Any) -> Case:
    return case(sflow(flow_sample(sampled_header(frame, protocol))), **options)


def field(element: int, content: bytes, type: str, **keys: Any) -> Case:
    """Return a record of one field, and a schema with a column for it."""
    schema = columns().add("v", 1000, type, [f"ipfix:{element}"], **keys)
    return case(ipfix_record([(element, len(content))], content), schema=schema)


def structure(content: bytes, source: str) -> Case:
    """Return a record with a list, the templates of the list and of a port, and a schema with one column."""
    templates = template_set(template(257, (7, 2)), template(256, (292, len(content))))
    return case(ipfix(templates, data_set(256, content)), schema=columns().add("v", 1000, "uint16", [source]))


def nested(levels: int) -> bytes:
    inner = ipv4()
    for _ in range(levels):
        inner = ipv4(inner, 4)
    return inner


def tags(count: int) -> bytes:
    payload, ethertype = ipv4(), 0x0800
    for _ in range(count):
        payload, ethertype = tagged(payload, 1, ethertype), 0x8100
    return ethernet(payload, ethertype)


def numbered(*numbers: int) -> Case:
    return case(*(netflow5(record5(), sequence=number) for number in numbers))


def from_port(payload: bytes, port: int) -> Given:
    return payload, (SOURCE[0], port)


DATAGRAMS: dict[str, Case] = {
    # faults: the input violates its protocol
    "truncated_header": case(netflow5()[:23]),
    "bad_header": case(u32(5) + u32(3) + bytes(60)),
    "truncated_datagram": case(netflow5(record5(), count=2)),
    "excess_data": case(netflow5(record5(), record5(octets=1), count=1)),
    "bad_set_length": case(ipfix(any_set(256, bytes(8), length=3))),
    "bad_set_id": case(ipfix(any_set(4, bytes(8)))),
    "bad_template": case(ipfix(template_set(template(255, (1, 4))))),
    "empty_template": case(ipfix(template_set(template(256, (1, 0))))),
    "truncated_record": case(ipfix_record([(82, VARIABLE)], u8(9) + bytes(4))),
    "bad_sample": case(sflow(count=1)),
    "bad_sample_record": case(sflow(flow_sample(record(1, bytes(15))))),
    # losses: the input is valid, but gives no output
    "template_missing": case(ipfix(SEVEN), finish=True),
    "unsupported_version": case(u32(4) + u32(1) + bytes(60)),
    "unknown_sample": case(sflow(sample(6, bytes(4)))),
    # notes
    "other_packet": case(b"hello"),
    "padding": case(ipfix(BYTES, bytes(4))),
    "no_system_start": case(ipfix_record([(22, 4)], u32(1000)), schema=columns("time_flow_start")),
    "withdrawal": case(ipfix(template_set(template(256)))),
    "early_data": case(ipfix(SEVEN)),
    "template_redefined": case(ipfix(BYTES), ipfix(PACKETS)),
    "template_expired": case(
        ipfix(BYTES), (ipfix(SEVEN), SOURCE, RECEIVED + 11 * 10**9), template_expiry=10 * 10**9
    ),
    "port_in_key": case(
        *(from_port(ipfix(fields), port) for fields, port in ((BYTES, 1), (PACKETS, 2), (BYTES, 1)))
    ),
    "options_ignored": case(
        ipfix(
            options_template_set(options_template(257, [(10, 4)], [(83, 4)])), data_set(257, u32(1) + b"eth0")
        )
    ),
    "counter_sample": case(sflow(sample(2, bytes(12)))),
    "drop_sample": case(sflow(sample(5, bytes(28)))),
    "flows_left_out": case(sflow(flow_sample()), schema=Schema.load("sflow_counters")),
    "unknown_sample_record": case(sflow(flow_sample(record(1018, bytes(8))))),
    "unknown_header": packet(ethernet(bytes(28), 0x0806)),
    "not_encapsulated": packet(ethernet(ipv4()), decapsulate=("gre",)),
    "tunnel_depth": packet(ethernet(nested(5)), decapsulate=("ipip",)),
    "layer_limit": packet(tags(32), schema=columns("layer_stack")),
    "bad_packet": packet(ethernet(ipv4(header_words=4))),
    "out_of_range": field(10, u32(1 << 16), "uint16"),
    "unmapped": field(61, u8(7), "enum", values={"none": 0, "one": 1}),
    "invalid_utf8": field(82, b"\xff", "string"),
    "bad_field_size": field(1, bytes(9), "uint64"),
    "bad_list": field(291, EMPTY_LIST_CUT_SHORT, "uint32", repeated=True),
    "list_template_missing": structure(sub_template_list(999, u16(80)), "ipfix:7"),
    "list_element_ignored": structure(sub_template_list(257, u16(80)), "ipfix:11"),
    "opaque_value": field(292, b"abc", "bytes"),
    "biflow": case(ipfix_record([(232, 4)], u32(7))),
    "sequence_gap": numbered(1, 5),
    "sample_gap": case(sflow(flow_sample(sequence=1), flow_sample(sequence=5))),
    "out_of_sequence": numbered(5, 6, 5),
    "exporter_restart": numbered(1_000_000, 1),
    "rate_limited": case(netflow5(record5()), netflow5(record5(), sequence=1), rate_limit=1),
}


def vrf_names(first: int, count: int) -> bytes:
    """Return a message with names of VRFs."""
    names = b"".join(u32(number) + u8(1) + b"n" for number in range(first, first + count))
    options = options_template(256, [(234, 4)], [(236, VARIABLE)])
    return ipfix(options_template_set(options), data_set(256, names))


# Limits of the core. The reference has none.
LIMITS: dict[str, Case] = {
    "exporter_evicted": case(
        (ipfix(BYTES), ("192.0.2.1", 1)), (ipfix(BYTES), ("192.0.2.2", 1)), exporter_limit=1
    ),
    "domain_evicted": case(*(ipfix(domain=domain) for domain in range(1025))),
    "agent_evicted": case(sflow(agent="198.51.100.1"), sflow(agent="198.51.100.2"), exporter_limit=2),
    "template_limit": case(ipfix(template_set(template(256, *[(element, 4) for element in range(1, 1100)])))),
    "name_evicted": case(
        vrf_names(0, 10000), vrf_names(10000, 6385), schema=columns("bytes", "ingress_vrf_name")
    ),
}


def of_other_link_type() -> bytes:
    return struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 999) + pcap(udp_packet(b"x"))[24:]


def pcapng_without_interface() -> bytes:
    """Return a section with a packet of an interface that is not described."""
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    return section + struct.pack("<II", 6, 32) + bytes(20) + struct.pack("<I", 32)


def nfcapd(block_type: int) -> bytes:
    header = struct.pack("<HHIQBBHIQII", 0xA50C, 2, 0x01070101, 0, 0, 0, 0, 0, 0, 0, 1)
    return header + struct.pack("<IIHH", 0, 8, block_type, 0) + bytes(8)


FRAGMENTED = split(udp_packet(bytes(64)))
CAPTURES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "bad_capture_record": (pcapng_without_interface(), {}),
    "damaged_capture": (pcap() + struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30) + bytes(100), {}),
    "truncated_capture": (pcap(udp_packet(b"x"))[:-1], {}),
    "damaged_compression": (gzip.compress(pcap())[:-4], {}),
    "truncated_packet": (pcap(udp_packet(b"x")[:-1]), {}),
    "unsupported_link_type": (of_other_link_type(), {}),
    "fragment_dropped": (pcap(FRAGMENTED[0]), {}),
    "other_packet": (pcap(b"\x45" + bytes(19)), {}),
    "other_port": (pcap(udp_packet(b"x")), {"port": 6343}),
    "other_capture_record": (nfcapd(block_type=4), {}),
}
# Raised instead of counted, because the caller reads the message.
RAISED: dict[str, Callable[[], object]] = {"bad_message": lambda: wire.read_varint(b"\x80", 0)}

# Incremented by restored state that exceeds the limit. Datagrams evict an exporter instead, unless an
# allocation fails.
RESTORED = {"exporter_limit"}

# Incremented if waiting data sets go from one decoder to another.
MOVED = {"early_data_inherited", "early_data_handed_over"}

# Incremented if an allocation fails after all names are evicted (ext/tests/decode/test_options.c).
UNALLOCATED = {"name_limit"}

# Losses that the user has asked for. Strict decoders do not allow them.
REQUESTED = {"rate_limited"}

# Counters that always follow others.
PRECEDED = {
    "template_missing": {"early_data"},
    "template_expired": {"early_data"},
    "port_in_key": {"template_redefined"},
}
COUNTED = {name for name, (kind, _) in STATUSES.items() if kind != "control"}


def test_every_counter_has_a_case() -> None:
    cases = DATAGRAMS.keys() | LIMITS.keys() | CAPTURES.keys() | RAISED.keys()
    assert cases | RESTORED | MOVED | UNALLOCATED == COUNTED
    assert len(COUNTED) > 40


@pytest.mark.parametrize("implementation", ["core", "reference"])
@pytest.mark.parametrize("name", DATAGRAMS)
def test_datagrams_increment_their_counter(name: str, implementation: str) -> None:
    datagrams, options = DATAGRAMS[name]
    counters = decode_with(implementation)(*datagrams, **options).counters
    assert counters[name] == 1
    assert counters.keys() - {name} <= PRECEDED.get(name, set())


@pytest.mark.parametrize("name", CAPTURES)
def test_captures_increment_their_counter(name: str) -> None:
    content, options = CAPTURES[name]
    with CaptureReader(io.BytesIO(content), **options) as reader:
        assert sum(map(len, reader)) == 0
        assert reader.counters == {name: 1}


@pytest.mark.parametrize("name", RAISED)
def test_errors_have_the_raised_status(name: str) -> None:
    with pytest.raises(DecodeError) as error:
        RAISED[name]()
    assert error.value.status == name


def test_restoring_too_many_exporters_is_counted() -> None:
    decoder = Decoder(exporter_limit=1)
    domains = [{"version": 10, "id": 0, "templates": {256: {"fields": [(0, 1, 4)]}}}]
    decoder.restore_exporters([{"address": f"192.0.2.{i}", "domains": domains} for i in range(2)])
    assert decoder.counters == {"exporter_limit": 1}


def test_data_sets_that_move_to_another_decoder_are_counted_in_both() -> None:
    first, second = Decoder(), Decoder()
    first.encode(ipfix(SEVEN), SOURCE)
    second.restore_exporters(first.read_early_data())
    first.finish(handed_over=True)
    assert first.counters == {"early_data": 1, "early_data_handed_over": 1}
    assert second.counters == {"early_data_inherited": 1}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", sorted((DATAGRAMS.keys() | LIMITS.keys()) - REQUESTED))
def test_strict_decoders_raise_for_faults_and_losses_but_not_for_notes(name: str, strict: bool) -> None:
    datagrams, case_options = {**DATAGRAMS, **LIMITS}[name]
    options = dict(case_options)
    finish, expiry = options.pop("finish", False), options.pop("template_expiry", 0) / 1e9 or None
    decoder = Decoder(options.pop("schema", FLOW), strict=strict, template_expiry=expiry, **options)

    def decode() -> None:
        for each in datagrams:
            payload, source, received = (
                (each, SOURCE, RECEIVED) if isinstance(each, bytes) else (*each, RECEIVED)[:3]
            )
            decoder.encode(payload, source, received)
        if finish:
            decoder.finish()

    # A payload that is not flow data raises too, unless it is a packet of a capture.
    if strict and (STATUSES[name][0] in ("fault", "loss") or name == "other_packet"):
        with pytest.raises(DecodeError) as error:
            decode()
        assert error.value.status == name
    else:
        decode()
    assert decoder.counters[name] == 1
