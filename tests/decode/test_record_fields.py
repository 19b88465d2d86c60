"""Fields of records: sizes, ranks of sources, types and times."""

from __future__ import annotations

import struct

import pytest

from tests.support.datagrams import (
    VARIABLE,
    data_set,
    ip,
    ipfix,
    mapped,
    netflow5,
    netflow9,
    options_template,
    options_template_set,
    record5,
    template,
    template_set,
    template_set9,
    u8,
    u16,
    u32,
    uint,
    variable,
)
from tests.support.decoding import (
    FLOW,
    Decode,
    Outcome,
    both_decoders,
    both_protocols,
    columns,
    ipfix_record,
    message,
    templates,
)

pytestmark = both_decoders


# Fields -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("long_form", [False, True])
@pytest.mark.parametrize("name", ["", "eth0", "x" * 254])
def test_variable_length_fields_have_short_and_long_lengths(
    decode: Decode, name: str, long_form: bool
) -> None:
    fields = template(256, (82, VARIABLE), (1, 2))
    record = variable(name.encode(), long_form) + u16(7)
    outcome = decode(
        ipfix(template_set(fields), data_set(256, record, record)), schema=columns("interface_name", "bytes")
    )
    flow = {"interface_name": name, "bytes": 7} if name else {"bytes": 7}
    assert outcome.flows == [flow, flow]
    assert outcome.counters == {}


def test_a_record_that_overruns_its_set_is_truncated(decode: Decode) -> None:
    fields = template(256, (1, 2), (82, VARIABLE))
    good, bad = u16(1) + variable(b"eth0"), u16(2) + u8(200) + b"eth0"
    outcome = decode(
        ipfix(template_set(fields), data_set(256, good, bad), data_set(256, good)), schema=columns("bytes")
    )
    assert outcome.flows == [{"bytes": 1}, {"bytes": 1}]
    assert outcome.counters == {"truncated_record": 1}


@pytest.mark.parametrize("size", range(1, 9))
@both_protocols
def test_integers_of_any_size_are_read(decode: Decode, protocol: str, size: int) -> None:
    sets = [templates(protocol, template(256, (1, size))), data_set(256, uint(200, size))]
    assert decode(message(protocol, *sets), schema=columns("bytes")).flow == {"bytes": 200}


@both_protocols
def test_an_integer_of_nine_bytes_is_ignored(decode: Decode, protocol: str) -> None:
    sets = [templates(protocol, template(256, (1, 9), (2, 1))), data_set(256, uint(200, 9) + u8(3))]
    outcome = decode(message(protocol, *sets), schema=columns("bytes", "packets"))
    assert outcome.flow == {"packets": 3}
    assert outcome.counters == {"bad_field_size": 1}


def test_a_value_out_of_range_falls_back_to_the_next_rank(decode: Decode) -> None:
    fields = template(256, (7, 4), (180, 2))
    outcome = decode(
        ipfix(template_set(fields), data_set(256, u32(65536) + u16(53))), schema=columns("src_port")
    )
    assert outcome.flow == {"src_port": 53}
    assert outcome.counters == {"out_of_range": 1}


def test_a_rank_is_used_if_all_before_it_are_zero(decode: Decode) -> None:
    fields = template(256, (23, 4), (1, 4))
    outcome = decode(
        ipfix(template_set(fields), data_set(256, u32(5) + u32(9), u32(5) + u32(0))), schema=columns("bytes")
    )
    assert outcome.flows == [{"bytes": 9}, {"bytes": 5}]


def test_the_first_nonzero_field_of_equal_rank_is_used(decode: Decode) -> None:
    fields = template(256, (27, 16), (8, 4))
    v6, v4 = ip("2001:db8::1"), ip("10.0.0.1")
    sets = [
        template_set(fields),
        data_set(256, v6 + v4, bytes(16) + v4, bytes(10) + b"\xff\xff" + bytes(4) + v4),
    ]
    outcome = decode(ipfix(*sets), schema=columns("src_addr", "etype"))
    inner = {"src_addr": mapped("10.0.0.1"), "etype": 0x0800}
    assert outcome.flows == [{"src_addr": v6, "etype": 0x86DD}, inner, inner]


@both_protocols
def test_the_first_occurrence_of_an_element_is_used(decode: Decode, protocol: str) -> None:
    fields = template(256, (7, 2), (7, 2))
    sets = [templates(protocol, fields), data_set(256, u16(1) + u16(2), u16(0) + u16(2))]
    assert decode(message(protocol, *sets), schema=columns("src_port")).flows == [{"src_port": 1}, {}]


def test_enterprise_elements_differ_from_iana_elements(decode: Decode) -> None:
    schema = columns("bytes").add("vendor", number=1001, type="uint32", sources=["ipfix:9999/1"])
    fields = template(256, (1, 4, 9999), (1, 4))
    outcome = decode(ipfix(template_set(fields), data_set(256, u32(5) + u32(9))), schema=schema)
    assert outcome.flow == {"vendor": 5, "bytes": 9}


def test_netflow9_has_no_enterprise_bit(decode: Decode) -> None:
    schema = columns("bytes").add("vendor", number=1001, type="uint32", sources=["netflow9:32769"])
    outcome = decode(
        netflow9(template_set9(template(256, (0x8001, 4), (1, 4))), data_set(256, u32(5) + u32(9))),
        schema=schema,
    )
    assert outcome.flow == {"vendor": 5, "bytes": 9}


def test_netflow9_sources_do_not_apply_to_ipfix(decode: Decode) -> None:
    schema = FLOW.only().add("both", number=1001, type="uint32", sources=["ipfix:95"])
    schema = schema.add("only_9", number=1002, type="uint32", sources=["netflow9:95"])
    fields, data = template(256, (95, 4)), data_set(256, u32(5))
    assert decode(netflow9(template_set9(fields), data), schema=schema).flow == {"both": 5, "only_9": 5}
    assert decode(ipfix(template_set(fields), data), schema=schema).flow == {"both": 5}


# Types ------------------------------------------------------------------------------------------------------


def one_value(decode: Decode, size: int, value: bytes, **column: object) -> Outcome:
    """Decode a record of one field, by default an enterprise element, into one column."""
    source = str(column.pop("source", "ipfix:9999/1"))
    enterprise, _, element = source.removeprefix("ipfix:").rpartition("/")
    field = (int(element), size, int(enterprise)) if enterprise else (int(element), size)
    schema = FLOW.only().add("value", number=1001, sources=[source], **column)  # type: ignore[arg-type]
    return decode(ipfix(template_set(template(256, field)), data_set(256, value)), schema=schema)


@pytest.mark.parametrize(
    ("type", "encoded", "value"),
    [
        ("uint8", b"\xff", 255),
        ("uint16", b"\xff\xff", 65535),
        ("uint32", b"\0\xff\xff\xff\xff", (1 << 32) - 1),
        ("uint64", b"\xff" * 8, (1 << 64) - 1),
        ("mac", b"\xff" * 6, (1 << 48) - 1),
        ("fixed32", b"\xff" * 4, (1 << 32) - 1),
        ("fixed64", b"\x01", 1),
        ("int32", b"\xff", -1),
        ("int64", b"\x80" + bytes(7), -(1 << 63)),
        ("sint32", b"\x80\0\0", -(1 << 23)),
        ("sint64", b"\x7f" * 8, 0x7F7F7F7F7F7F7F7F),
        ("bool", b"\x01", True),
        ("float", b"\x3f\xc0\0\0", 1.5),
        ("double", b"\x3f\xc0\0\0", 1.5),
        ("double", b"\x7f\xef" + b"\xff" * 6, 1.7976931348623157e308),
        ("string", "Zürich\0\0".encode(), "Zürich"),
        ("bytes", b"\0\x01\0", b"\0\x01\0"),
        ("ip", b"\x0a\0\0\x01", mapped("10.0.0.1")),
        ("ip", ip("2001:db8::1"), ip("2001:db8::1")),
    ],
)
def test_values_of_every_type_are_decoded(decode: Decode, type: str, encoded: bytes, value: object) -> None:
    outcome = one_value(decode, len(encoded), encoded, type=type)
    assert outcome.flow == {"value": value}
    assert outcome.counters == {}


@pytest.mark.parametrize(
    ("type", "encoded", "status"),
    [
        ("uint8", b"\x01\0", "out_of_range"),
        ("mac", b"\x01" + bytes(6), "out_of_range"),
        ("int32", b"\x80\0\0\0\0", "out_of_range"),
        ("sint32", b"\0\x80\0\0\0", "out_of_range"),
        ("fixed32", b"\x01\0\0\0\0", "out_of_range"),
        ("float", struct.pack(">d", 1e300), "out_of_range"),
        ("bool", b"\x03", "out_of_range"),
        ("double", b"\x01\x01", "bad_field_size"),
        ("ip", b"\x01\x02\x03", "bad_field_size"),
        ("uint64", bytes(8) + b"\x01", "bad_field_size"),
    ],
)
def test_values_that_do_not_fit_are_absent_and_counted(
    decode: Decode, type: str, encoded: bytes, status: str
) -> None:
    outcome = one_value(decode, len(encoded), encoded, type=type)
    assert outcome.flow == {}
    assert outcome.counters == {status: 1}


@pytest.mark.parametrize("type", ["uint32", "int64", "bool", "double", "string", "bytes", "ip"])
def test_zeros_are_absent(decode: Decode, type: str) -> None:
    encoded = b"" if type == "bytes" else bytes(4)
    outcome = one_value(decode, VARIABLE, variable(encoded), type=type)
    assert outcome.flow == {}
    assert outcome.counters == {}


def test_an_explicit_column_stores_a_received_zero(decode: Decode) -> None:
    assert one_value(decode, 4, u32(0), type="uint32", explicit=True).flow == {"value": 0}
    assert one_value(decode, VARIABLE, variable(b""), type="uint32", explicit=True).flow == {}


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x98x", "\ufffdx"),
        (b"\xc0\xaf\0", "\ufffd\ufffd"),
    ],
)
def test_invalid_utf8_is_replaced(decode: Decode, encoded: bytes, text: str) -> None:
    outcome = one_value(decode, len(encoded), encoded, type="string")
    assert outcome.flow == {"value": text}
    assert outcome.counters == {"invalid_utf8": 1}


@pytest.mark.parametrize(("encoded", "value"), [(u8(1), True), (u8(2), None)])
def test_booleans_are_1_and_2(decode: Decode, encoded: bytes, value: bool | None) -> None:
    # dataRecordsReliability
    outcome = one_value(decode, 1, encoded, type="bool", source="ipfix:276")
    assert outcome.flow == ({"value": True} if value else {})
    assert outcome.counters == {}


@pytest.mark.parametrize(
    ("form", "encoded", "value"),
    [
        ("native", ip("10.0.0.1"), ip("10.0.0.1")),
        ("native", mapped("10.0.0.1"), mapped("10.0.0.1")),
        ("mapped", mapped("10.0.0.1"), mapped("10.0.0.1")),
        ("native", bytes(4), None),
        ("native", mapped("0.0.0.0"), None),
        ("mapped", bytes(16), None),
    ],
)
def test_addresses_keep_or_change_their_form(
    decode: Decode, form: str, encoded: bytes, value: bytes | None
) -> None:
    outcome = one_value(decode, len(encoded), encoded, type="ip", ip=form)
    assert outcome.flow == ({} if value is None else {"value": value})


@pytest.mark.parametrize(
    ("wire", "value", "counters"),
    [(0, 7, {}), (3, None, {}), (5, 9, {}), (1, None, {"unmapped": 1}), (9, None, {"unmapped": 1})],
)
def test_an_enum_uses_its_map(decode: Decode, wire: int, value: int | None, counters: dict[str, int]) -> None:
    members = {"none": 0, "seven": 7, "nine": 9}
    outcome = one_value(decode, 1, u8(wire), type="enum", values=members, map={"0": 7, "3": 0, "5": 9})
    assert outcome.flow == ({} if value is None else {"value": value})
    assert outcome.counters == counters


def test_an_enum_without_a_map_uses_its_members(decode: Decode) -> None:
    members = {"none": 0, "seven": 7}
    assert one_value(decode, 1, u8(7), type="enum", values=members).flow == {"value": 7}
    assert one_value(decode, 1, u8(8), type="enum", values=members).counters == {"unmapped": 1}


# Times ------------------------------------------------------------------------------------------------------

NTP_1970 = 2_208_988_800


def ntp(seconds: int, fraction: int) -> bytes:
    return u32(seconds + NTP_1970) + u32(fraction)


@pytest.mark.parametrize(
    ("element", "encoded", "unit", "value"),
    [
        (150, u32(1_600_000_000), "ms", 1_600_000_000_000),
        (152, uint(1_600_000_000_123, 8), "s", 1_600_000_000),
        (152, uint(1_600_000_000_123, 8), "us", 1_600_000_000_123_000),
        (154, ntp(1_600_000_000, 1 << 31), "us", 1_600_000_000_500_000),
        # 492,060 microseconds, truncated to 2^-32 s like exporters do, are restored exactly.
        (154, ntp(1_600_000_000, (492_060 << 32) // 1_000_000), "us", 1_600_000_000_492_060),
        (154, ntp(1_600_000_000, (492_060 << 32) // 1_000_000 & ~0x7FF), "ns", 1_600_000_000_492_060_000),
        (154, ntp(1_600_000_000, 0xFFFFFFFF), "us", 1_600_000_001_000_000),
        (156, ntp(1_600_000_000, (123_456_789 << 32) // 1_000_000_000), "ns", 1_600_000_000_123_456_789),
        (158, u32(1_500_000), "ms", 1_599_999_998_500),
    ],
)
def test_times_are_converted_to_the_unit_of_the_column(
    decode: Decode, element: int, encoded: bytes, unit: str, value: int
) -> None:
    schema = FLOW.only().add("time", number=1001, type="timestamp", unit=unit, sources=[f"ipfix:{element}"])
    sets = [template_set(template(256, (element, len(encoded)))), data_set(256, encoded)]
    outcome = decode(ipfix(*sets, export_time=1_600_000_000), schema=schema)
    assert outcome.flow == {"time": value}


MOST = {"s": 9_223_372_036, "ms": 9_223_372_036_854, "us": 9_223_372_036_854_775, "ns": 2**63 - 1}


@pytest.mark.parametrize("unit", MOST)
def test_a_time_is_below_2_to_the_63_nanoseconds(decode: Decode, unit: str) -> None:
    """Arrow cannot store later times. The limit is the same time in every unit."""
    for source in ("ipfix:152", "ipfix:9999/1"):
        last = MOST["ms"] if source == "ipfix:152" else MOST[unit]
        held = one_value(decode, 8, uint(last, 8), type="timestamp", unit=unit, source=source)
        late = one_value(decode, 8, uint(last + 1, 8), type="timestamp", unit=unit, source=source)
        assert (held.flow.keys(), held.counters) == ({"value"}, {})
        assert (late.flow, late.counters) == ({}, {"out_of_range": 1})


@pytest.mark.parametrize("element", [154, 156])
@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        (NTP_1970, 500),
        (0xFFFFFFFF, (0xFFFFFFFF - NTP_1970) * 1000 + 500),  # 2036-02-07, the last second of the era
        (1, ((1 << 32) + 1 - NTP_1970) * 1000 + 500),  # two seconds later: era 1 (RFC 5905 section 6)
        (NTP_1970 - 1, ((1 << 32) - 1) * 1000 + 500),  # times before 1970 belong to era 1
    ],
)
def test_ntp_times_continue_in_the_next_era(
    decode: Decode, element: int, seconds: int, milliseconds: int
) -> None:
    datagram = ipfix_record([(element, 8)], u32(seconds) + u32(1 << 31))
    assert decode(datagram, schema=columns("time_flow_start")).flow == {"time_flow_start": milliseconds}


def test_the_low_bits_of_a_microsecond_fraction_are_ignored(decode: Decode) -> None:
    # With the lowest 11 bits (RFC 7011 section 6.1.9) this fraction would round to 2 microseconds.
    schema = FLOW.only().add("time", number=1001, type="timestamp", unit="us", sources=["ipfix:154"])
    fraction = next(bits for bits in range(6144, 8192) if round(bits * 1_000_000 / (1 << 32)) == 2)
    sets = [template_set(template(256, (154, 8))), data_set(256, ntp(0, fraction))]
    assert decode(ipfix(*sets), schema=schema).flow == {"time": 1}


@pytest.mark.parametrize("encoded", [bytes(9), b"\1" * 9, b"\xff" * 9])
@pytest.mark.parametrize("type", ["mac", "uint64"])
def test_a_mac_address_has_six_bytes(decode: Decode, type: str, encoded: bytes) -> None:
    """RFC 7011 section 6.2: only integers and floats have a reduced-size encoding.

    Zeros of a wrong size are also invalid.
    """
    for size in set(range(1, 10)) - {6}:
        outcome = one_value(decode, size, encoded[:size], type=type, source="ipfix:56")
        assert outcome.flow == {}
        assert outcome.counters == {"bad_field_size": 1}
    outcome = one_value(decode, 6, b"\2" * 6, type=type, source="ipfix:56")
    assert outcome.flow == {"value": 0x020202020202}


def test_mac_addresses_in_a_list_have_six_bytes(decode: Decode) -> None:
    schema = FLOW.only().add("value", number=1001, type="mac", repeated=True, sources=["ipfix:291"])
    members = [variable(encoded) for encoded in (bytes(3), b"\1" * 3, b"\2" * 6, bytes(7))]
    value = u8(3) + u16(56) + u16(VARIABLE) + b"".join(members)
    sent = ipfix(template_set(template(256, (291, VARIABLE))), data_set(256, variable(value)))
    outcome = decode(sent, schema=schema)
    assert outcome.flow == {"value": [0x020202020202]}
    assert outcome.counters == {"bad_field_size": 3}


def test_ntp_times_have_eight_bytes(decode: Decode) -> None:
    outcome = one_value(decode, 4, u32(1), type="timestamp", unit="ms", source="ipfix:154")
    assert outcome.flow == {}
    assert outcome.counters == {"bad_field_size": 1}


def test_durations_are_converted_to_the_unit_of_the_column(decode: Decode) -> None:
    # flowDurationMicroseconds, flowActiveTimeout (seconds)
    outcome = one_value(decode, 4, u32(1_999_999), type="duration", unit="ms", source="ipfix:162")
    assert outcome.flow == {"value": 1_999}
    assert one_value(decode, 2, u16(60), type="duration", unit="ms", source="ipfix:36").flow == {
        "value": 60_000
    }


UPTIMES = template(256, (22, 4), (21, 4))
FLOW_TIMES = columns("time_flow_start", "time_flow_end")


def test_ipfix_uptimes_use_the_system_start_of_options(decode: Decode) -> None:
    options = options_template(257, [(149, 4)], [(160, 8)])
    flows = data_set(256, u32(1_000) + u32(2_000))
    now = 1_600_000_060
    outcome = decode(
        ipfix(template_set(UPTIMES), options_template_set(options), flows, domain=1, export_time=now),
        ipfix(data_set(257, u32(1) + uint(1_600_000_000_000, 8)), domain=1, export_time=now),
        ipfix(flows, domain=1, export_time=now),
        ipfix(template_set(UPTIMES), flows, domain=2, export_time=now),
        schema=FLOW_TIMES,
    )
    known = {"time_flow_start": 1_600_000_001_000, "time_flow_end": 1_600_000_002_000}
    assert outcome.flows == [{}, known, {}]
    assert outcome.counters == {"no_system_start": 4}


STARTED = 1_600_000_000_000
DAY = 86_400


@pytest.mark.parametrize("after", [0, 60, DAY, 30 * DAY, 49 * DAY, -1, -DAY, -30 * DAY, -1_600_000_000])
def test_a_wrong_export_time_does_not_wrap_ipfix_uptimes(decode: Decode, after: int) -> None:
    """Flows are not observed before the exporter starts.

    The export time only determines how often the uptime has wrapped.
    """
    record = u32(3_600_000) + u32(7_200_000) + uint(STARTED, 8)
    datagram = ipfix_record([(22, 4), (21, 4), (160, 8)], record, export_time=STARTED // 1000 + after)
    assert decode(datagram, schema=FLOW_TIMES).flow == {
        "time_flow_start": STARTED + 3_600_000,
        "time_flow_end": STARTED + 7_200_000,
    }


@pytest.mark.parametrize(
    ("flow", "header", "moved"),
    [
        (1_000, 5_000, -4_000),
        (5_000, 5_000, 0),
        (3_605_000, 5_000, 3_600_000),  # clocks that disagree
        (3_605_001, 5_000, 3_600_001 - (1 << 32)),  # a wrap
        (0xFFFFFFFF, 5_000, -5_001),
        (0, 40 * DAY * 1000, -40 * DAY * 1000),  # a flow of 40 days
        (2_000, 0xFFFFFFFF, 2_001),
    ],
)
def test_an_uptime_ahead_of_the_header_has_wrapped_or_is_slightly_late(
    decode: Decode, flow: int, header: int, moved: int
) -> None:
    sets = [template_set9(template(256, (22, 4))), data_set(256, u32(flow))]
    for payload in (
        netflow9(*sets, uptime=header, seconds=1_600_000_000),
        netflow5(record5(first=flow), uptime=header, seconds=1_600_000_000),
    ):
        outcome = decode(payload, schema=columns("time_flow_start"))
        assert outcome.flow == {"time_flow_start": 1_600_000_000_000 + moved}


@pytest.mark.parametrize("wraps", [0, 1, 5])
def test_ipfix_uptimes_use_the_system_start_in_the_record(decode: Decode, wraps: int) -> None:
    """The uptime wraps after 49.7 days."""
    later = wraps << 32
    record = u32(1_000) + u32(2_000) + uint(1_600_000_000_000, 8)
    datagram = ipfix_record([(22, 4), (21, 4), (160, 8)], record, export_time=1_600_000_060 + later // 1000)
    assert decode(datagram, schema=FLOW_TIMES).flow == {
        "time_flow_start": 1_600_000_001_000 + later,
        "time_flow_end": 1_600_000_002_000 + later,
    }
