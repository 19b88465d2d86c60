"""NetFlow v9 and IPFIX datagrams built by hand: versions, templates, sets and exporters.

The expected flows follow the specifications. Each case runs against the Python reference and the core.
"""

from __future__ import annotations

import pytest

from tests.support.datagrams import (
    VARIABLE,
    any_set,
    data_set,
    ip,
    ipfix,
    mapped,
    netflow5,
    netflow9,
    options_template,
    options_template9,
    options_template_set,
    options_template_set9,
    record5,
    template,
    template_set,
    template_set9,
    u8,
    u16,
    u32,
    uint,
    variable,
    withdrawal,
)
from tests.support.decoding import (
    Decode,
    both_decoders,
    both_protocols,
    columns,
    message,
    short_id,
    templates,
)

pytestmark = both_decoders


# Versions and headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"", "other_packet"),
        (b"\x00", "other_packet"),
        (b"\x05", "other_packet"),
        (b"\x00\x00\x00", "other_packet"),
        (u16(1) + bytes(60), "other_packet"),
        (u16(7) + u16(2) + bytes(60), "other_packet"),
        (u32(2) + u32(3) + bytes(60), "other_packet"),
        (u16(6) + bytes(60), "other_packet"),
        (u32(6) + bytes(60), "other_packet"),
        (b"GET / HTTP/1.1\r\n\r\n", "other_packet"),
    ],
    ids=short_id,
)
def test_foreign_payloads_are_counted_without_an_exporter(
    decode: Decode, payload: bytes, status: str
) -> None:
    outcome = decode(payload)
    assert outcome.counters == {status: 1}
    assert outcome.stats == {}


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (u16(5) + bytes(21), "truncated_header"),
        (u16(9) + bytes(17), "truncated_header"),
        (u16(10) + bytes(13), "truncated_header"),
        (u32(5), "truncated_header"),
        (u32(5) + u32(1) + ip("192.0.2.9") + bytes(15), "truncated_header"),
        (u32(5) + u32(2) + bytes(15), "truncated_header"),
        (u32(5) + u32(3) + bytes(60), "bad_header"),
        (u16(1) + u16(2) + bytes(12 + 2 * 56), "unsupported_version"),
        (u16(7) + u16(1) + bytes(20 + 48), "unsupported_version"),
        (u32(2) + u32(1) + bytes(60), "unsupported_version"),
        (u32(4) + u32(2) + bytes(60), "unsupported_version"),
    ],
    ids=short_id,
)
def test_invalid_headers_are_counted_for_their_exporter(decode: Decode, payload: bytes, status: str) -> None:
    outcome = decode(payload)
    assert outcome.stats == {"192.0.2.1": {"counters": {status: 1}, "flows": 0, "datagrams": 1}}


# Templates of both versions ---------------------------------------------------------------------------------


def test_netflow9_data_is_decoded_with_its_template(decode: Decode) -> None:
    fields = template(260, (8, 4), (12, 4), (1, 4), (2, 4), (22, 4), (21, 4), (10, 2))
    record = ip("10.0.0.1") + ip("10.0.0.2") + u32(1500) + u32(3) + u32(900_000) + u32(950_000) + u16(9)
    datagram = netflow9(
        template_set9(fields),
        data_set(260, record, padding=2),
        uptime=1_000_000,
        seconds=1_600_000_000,
        sequence=5,
        source_id=42,
    )
    names = [
        "flow_type",
        "sequence_number",
        "observation_domain_id",
        "src_addr",
        "dst_addr",
        "etype",
        "bytes",
        "packets",
        "time_flow_start",
        "time_flow_end",
        "time_exported",
        "in_if",
    ]
    outcome = decode(datagram, schema=columns(*names))
    assert outcome.flow == {
        "flow_type": 3,
        "sequence_number": 5,
        "observation_domain_id": 42,
        "src_addr": mapped("10.0.0.1"),
        "dst_addr": mapped("10.0.0.2"),
        "etype": 0x0800,
        "bytes": 1500,
        "packets": 3,
        "time_flow_start": 1_599_999_900_000,
        "time_flow_end": 1_599_999_950_000,
        "time_exported": 1_600_000_000_000,
        "in_if": 9,
    }
    assert outcome.counters == {}


def test_ipfix_data_is_decoded_with_its_template(decode: Decode) -> None:
    fields = template(256, (27, 16), (28, 16), (1, 8), (152, 8), (61, 1), (7, 2))
    record = (
        ip("2001:db8::1")
        + ip("2001:db8::2")
        + uint(1 << 40, 8)
        + uint(1_600_000_000_123, 8)
        + u8(0)
        + u16(53)
    )
    datagram = ipfix(
        template_set(fields), data_set(256, record, record), export_time=1_600_000_060, sequence=9, domain=7
    )
    names = [
        "flow_type",
        "sequence_number",
        "observation_domain_id",
        "time_exported",
        "src_addr",
        "dst_addr",
        "etype",
        "bytes",
        "time_flow_start",
        "flow_direction",
        "src_port",
    ]
    flow = {
        "flow_type": 4,
        "sequence_number": 9,
        "observation_domain_id": 7,
        "time_exported": 1_600_000_060_000,
        "src_addr": ip("2001:db8::1"),
        "dst_addr": ip("2001:db8::2"),
        "etype": 0x86DD,
        "bytes": 1 << 40,
        "time_flow_start": 1_600_000_000_123,
        "flow_direction": 1,
        "src_port": 53,
    }
    assert decode(datagram, schema=columns(*names)).flows == [flow, flow]


BYTES = template(256, (1, 4))
BYTES_AND_PORT = template(256, (1, 4), (7, 2))
PORT = template(300, (7, 2))


@both_protocols
def test_a_template_applies_to_later_datagrams(decode: Decode, protocol: str) -> None:
    outcome = decode(
        message(protocol, templates(protocol, BYTES)),
        message(protocol, data_set(256, u32(10), u32(20))),
        schema=columns("bytes"),
    )
    assert outcome.datagrams == [[], [{"bytes": 10}, {"bytes": 20}]]


@both_protocols
def test_templates_are_kept_by_domain(decode: Decode, protocol: str) -> None:
    outcome = decode(
        message(protocol, templates(protocol, BYTES), domain=1),
        message(protocol, templates(protocol, template(256, (2, 4))), domain=2),
        message(protocol, data_set(256, u32(10)), domain=1),
        message(protocol, data_set(256, u32(20)), domain=2),
        schema=columns("bytes", "packets"),
    )
    assert outcome.flows == [{"bytes": 10}, {"packets": 20}]
    assert outcome.counters == {}


def test_netflow9_templates_do_not_apply_to_ipfix(decode: Decode) -> None:
    outcome = decode(netflow9(template_set9(BYTES)), ipfix(data_set(256, u32(10))), schema=columns("bytes"))
    assert outcome.flows == []
    assert outcome.counters == {"early_data": 1}


@both_protocols
def test_early_data_waits_and_the_rest_is_decoded(decode: Decode, protocol: str) -> None:
    sets = [data_set(256, u32(1)), templates(protocol, BYTES), data_set(256, u32(2)), data_set(257, u32(3))]
    outcome = decode(message(protocol, *sets), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}, {"bytes": 2}]
    assert outcome.counters == {"early_data": 2}


@both_protocols
def test_a_set_may_have_several_templates_and_padding(decode: Decode, protocol: str) -> None:
    sets = [
        templates(protocol, BYTES, PORT, padding=3),
        data_set(300, u16(80)),
        data_set(256, u32(1), padding=3),
    ]
    outcome = decode(message(protocol, *sets), schema=columns("bytes", "src_port"))
    assert outcome.flows == [{"src_port": 80}, {"bytes": 1}]
    assert outcome.counters == {}


@both_protocols
def test_a_repeated_template_is_counted_only_if_it_differs(decode: Decode, protocol: str) -> None:
    outcome = decode(
        message(protocol, templates(protocol, BYTES)),
        message(protocol, templates(protocol, BYTES)),
        message(protocol, data_set(256, u32(1))),
        message(protocol, templates(protocol, BYTES_AND_PORT)),
        message(protocol, data_set(256, u32(2) + u16(80))),
        schema=columns("bytes", "src_port"),
    )
    assert outcome.flows == [{"bytes": 1}, {"bytes": 2, "src_port": 80}]
    assert outcome.counters == {"template_redefined": 1}


@both_protocols
def test_a_template_without_bytes_is_never_used(decode: Decode, protocol: str) -> None:
    sets = [templates(protocol, template(256, (1, 0), (2, 0))), data_set(256, u32(1))]
    outcome = decode(message(protocol, *sets))
    assert outcome.flows == []
    assert outcome.counters == {"empty_template": 1, "early_data": 1}


@both_protocols
def test_an_empty_template_replaces_its_predecessor(decode: Decode, protocol: str) -> None:
    sets = [templates(protocol, BYTES, template(256, (1, 0))), data_set(256, u32(1))]
    outcome = decode(message(protocol, *sets), schema=columns("bytes"))
    assert outcome.flows == []
    assert outcome.counters == {"empty_template": 1, "early_data": 1}


def test_netflow9_template_without_fields_is_empty(decode: Decode) -> None:
    outcome = decode(
        netflow9(template_set9(template(256), BYTES), data_set(256, u32(1))), schema=columns("bytes")
    )
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"empty_template": 1}


def test_ipfix_withdrawals_are_counted_and_not_obeyed(decode: Decode) -> None:
    outcome = decode(
        ipfix(template_set(BYTES), options_template_set(options_template(257, [(149, 4)], [(34, 4)]))),
        ipfix(
            template_set(withdrawal(256), withdrawal(2)), options_template_set(withdrawal(257), withdrawal(3))
        ),
        ipfix(data_set(256, u32(1))),
        schema=columns("bytes"),
    )
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"withdrawal": 4}


@both_protocols
def test_a_wrong_field_count_loses_the_rest_of_its_set(decode: Decode, protocol: str) -> None:
    wrong = u16(257) + u16(100) + u16(1) + u16(4)
    sets = [templates(protocol, BYTES, wrong), data_set(257, u32(1)), data_set(256, u32(2))]
    outcome = decode(message(protocol, *sets), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 2}]
    assert outcome.counters == {"bad_template": 1, "early_data": 1}


@both_protocols
@pytest.mark.parametrize("padding", [1, 4, 7, 32])
def test_zeros_at_the_end_of_a_template_set_are_padding(decode: Decode, protocol: str, padding: int) -> None:
    sets = [templates(protocol, BYTES, padding=padding), data_set(256, u32(2))]
    outcome = decode(message(protocol, *sets), schema=columns("bytes"))
    assert (outcome.flows, outcome.counters) == ([{"bytes": 2}], {})


@both_protocols
def test_a_template_id_below_256_loses_the_rest_of_its_set(decode: Decode, protocol: str) -> None:
    sets = [templates(protocol, template(255, (1, 4)), BYTES), data_set(256, u32(2))]
    outcome = decode(message(protocol, *sets))
    assert outcome.flows == []
    assert outcome.counters == {"bad_template": 1, "early_data": 1}


# Sets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 3])
@both_protocols
def test_a_set_shorter_than_its_header_ends_the_datagram(decode: Decode, protocol: str, length: int) -> None:
    sets = [
        templates(protocol, BYTES),
        data_set(256, u32(1)),
        data_set(256, u32(2), length=length),
        data_set(256, u32(3)),
    ]
    outcome = decode(message(protocol, *sets), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"bad_set_length": 1}


@both_protocols
def test_a_set_longer_than_the_datagram_keeps_its_complete_records(decode: Decode, protocol: str) -> None:
    sets = [templates(protocol, BYTES), data_set(256, u32(1), u32(2), b"\0\0\0", length=100)]
    outcome = decode(message(protocol, *sets), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}, {"bytes": 2}]
    assert outcome.counters == {"bad_set_length": 1}


@both_protocols
def test_a_template_set_longer_than_the_datagram_keeps_its_complete_templates(
    decode: Decode, protocol: str
) -> None:
    cut = any_set(0 if protocol == "netflow9" else 2, BYTES, PORT[:-2], length=100)
    outcome = decode(
        message(protocol, cut), message(protocol, data_set(256, u32(1))), schema=columns("bytes")
    )
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"bad_set_length": 1, "bad_template": 1}


RECORD = bytes(range(1, 13))


@both_protocols
@pytest.mark.parametrize(
    ("rest", "cut"),
    [
        (b"", 0),
        (RECORD[:3], 0),  # some exporters pad with arbitrary memory contents
        (bytes(4), 0),
        (bytes(11), 0),
        (RECORD[:4], 1),
        (RECORD[:11], 1),
        (bytes(10) + u8(1), 1),
    ],
)
def test_the_rest_of_a_set_is_padding_or_a_truncated_record(
    decode: Decode, protocol: str, rest: bytes, cut: int
) -> None:
    """RFC 7011 section 3.3.1: padding is shorter than any record, and consists of zeros.

    Any other rest is counted, also in sets of options records.
    """
    counters = {"truncated_record": cut} if cut else {}
    fields = templates(protocol, template(256, (1, 4), (2, 8)))
    for records in ([], [RECORD] * 2):
        outcome = decode(message(protocol, fields, data_set(256, *records, rest)), schema=columns("bytes"))
        assert outcome.flows == [{"bytes": 0x01020304}] * len(records)
        assert outcome.counters == counters
    options = {
        "netflow9": options_template_set9(options_template9(257, [(1, 4)], [(34, 8)])),
        "ipfix": options_template_set(options_template(257, [(149, 4)], [(34, 8)])),
    }[protocol]
    assert decode(message(protocol, options, data_set(257, RECORD, rest))).counters == counters


@pytest.mark.parametrize(
    ("protocol", "set_id"), [("netflow9", 2), ("netflow9", 255), ("ipfix", 0), ("ipfix", 1), ("ipfix", 4)]
)
def test_a_reserved_set_id_is_skipped(decode: Decode, protocol: str, set_id: int) -> None:
    sets = [templates(protocol, BYTES), any_set(set_id, bytes(8)), data_set(256, u32(1))]
    outcome = decode(message(protocol, *sets), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"bad_set_id": 1}


@both_protocols
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 46, 1000])
def test_zeros_after_the_last_set_are_padding(decode: Decode, protocol: str, size: int) -> None:
    """Palo Alto firewalls and Cisco ACI send them."""
    sets = [templates(protocol, BYTES), data_set(256, u32(1))]
    outcome = decode(message(protocol, *sets, bytes(size)), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"padding": 1}
    for damaged in (u8(1) + bytes(size - 1), bytes(size - 1) + u8(1)):
        outcome = decode(message(protocol, *sets, damaged), schema=columns("bytes"))
        assert outcome.flows == [{"bytes": 1}]
        assert outcome.counters == {"bad_set_length": 1}


def test_an_invalid_rest_of_a_message_hides_losses(decode: Decode) -> None:
    """A set that is truncated in its header has an unknown number of records."""
    fields, one = template_set(BYTES), data_set(256, u32(1))
    sent = [ipfix(fields, one, u16(256) + u8(0), sequence=10), ipfix(one, sequence=15)]
    outcome = decode(*sent, schema=columns("bytes"))
    assert outcome.counters == {"bad_set_length": 1}
    assert outcome.sequence["lost"] == 0


def test_padding_of_a_message_hides_no_losses(decode: Decode) -> None:
    """The records of a message with padding are counted, so that a gap after it is a loss."""
    fields, one = template_set(BYTES), data_set(256, u32(1))
    sent = [ipfix(fields, one, bytes(8), sequence=10), ipfix(one, sequence=15)]
    outcome = decode(*sent, schema=columns("bytes"))
    assert outcome.counters == {"padding": 1, "sequence_gap": 1}
    assert outcome.sequence["lost"] == 4


@pytest.mark.parametrize(
    ("rest", "counter"),
    [(data_set(256, u32(2)), "excess_data"), (b"\1", "excess_data"), (bytes(3), "padding")],
)
def test_ipfix_bytes_beyond_the_message_are_counted(decode: Decode, rest: bytes, counter: str) -> None:
    outcome = decode(ipfix(template_set(BYTES), data_set(256, u32(1))) + rest, schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {counter: 1}


def test_an_ipfix_message_longer_than_its_datagram_is_truncated(decode: Decode) -> None:
    outcome = decode(ipfix(template_set(BYTES), data_set(256, u32(1)), length=1000), schema=columns("bytes"))
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"truncated_datagram": 1}


def test_an_ipfix_message_shorter_than_its_header_is_truncated(decode: Decode) -> None:
    outcome = decode(ipfix(template_set(BYTES), length=15))
    assert outcome.counters == {"truncated_header": 1}


@both_protocols
def test_a_field_of_length_65535_includes_its_length(decode: Decode, protocol: str) -> None:
    """RFC 7011 section 7; H3C NetStream does the same in NetFlow v9."""
    fields = template(256, (1, 4), (96, VARIABLE), (7, 2))
    records = [u32(1) + variable(b"alice") + u16(53), u32(2) + variable(b"", long_form=True) + u16(80)]
    cut = u32(3) + u8(200) + b"alice"
    sent = message(protocol, templates(protocol, fields), data_set(256, *records, cut))
    outcome = decode(sent, schema=columns("bytes", "src_port", "application_name"))
    assert outcome.flows == [
        {"bytes": 1, "application_name": "alice", "src_port": 53},
        {"bytes": 2, "src_port": 80},
    ]
    assert outcome.counters == {"truncated_record": 1}


# Exporters --------------------------------------------------------------------------------------------------


def test_state_is_kept_by_exporter_address_not_port(decode: Decode) -> None:
    data = ipfix(data_set(256, u32(1)))
    outcome = decode(
        (ipfix(template_set(BYTES)), ("192.0.2.1", 1000)),
        (data, ("192.0.2.1", 2000)),
        (data, ("2001:db8::1", 1000)),
        schema=columns("bytes"),
    )
    assert outcome.datagrams == [[], [{"bytes": 1}], []]
    assert outcome.stats == {
        "192.0.2.1": {"counters": {}, "flows": 1, "datagrams": 2},
        "2001:db8::1": {"counters": {"early_data": 1}, "flows": 0, "datagrams": 1},
    }


def test_a_native_exporter_address_keeps_its_size(decode: Decode) -> None:
    schema = columns("exporter_address").alter("exporter_address", ip="native")
    assert decode(netflow5(record5()), schema=schema).flow == {"exporter_address": ip("192.0.2.1")}
    assert decode((netflow5(record5()), ("2001:db8::1", 1)), schema=schema).flow == {
        "exporter_address": ip("2001:db8::1")
    }
