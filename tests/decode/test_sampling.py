"""Sampling rates, and columns that are derived from several elements."""

from __future__ import annotations

import struct

import pytest

from tests.support.datagrams import (
    VARIABLE,
    data_set,
    ip,
    ipfix,
    netflow9,
    options_template,
    options_template9,
    options_template_set,
    options_template_set9,
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
    Decode,
    both_decoders,
    both_protocols,
    columns,
    ipfix_record,
    message,
    templates,
)

pytestmark = both_decoders

BYTES = template(256, (1, 4))


# Sampling ---------------------------------------------------------------------------------------------------

RATE = columns("sampling_rate")


def double(value: float) -> bytes:
    return struct.pack(">d", value)


@pytest.mark.parametrize(
    ("fields", "record", "rate"),
    [
        ([(34, 4)], u32(512), 512),
        ([(50, 2)], u16(512), 512),
        ([(34, 8)], uint(512, 8), 512),
        ([(305, 2), (306, 8)], u16(1) + uint(999, 8), 1000),
        ([(34, 4), (50, 2)], u32(0) + u16(512), 512),
        ([(50, 2), (34, 4)], u16(512) + u32(100), 100),
        ([(309, 4), (310, 4)], u32(3) + u32(1000), 333),
        ([(309, 4), (310, 4), (34, 4)], u32(0) + u32(1000) + u32(5), 5),
        ([(309, 4), (34, 4)], u32(1) + u32(5), 5),
        ([(305, 4), (306, 4)], u32(1) + u32(999), 1000),
        ([(305, 4), (306, 4)], u32(10) + u32(95), 10),
        ([(305, 4)], u32(10), 1),
        ([(306, 4), (50, 2)], u32(999) + u16(7), 7),
        ([(305, 4), (306, 4), (309, 4), (310, 4)], u32(1) + u32(9) + u32(1) + u32(256), 256),
        ([(311, 8)], double(0.01), 100),
        ([(311, 4)], struct.pack(">f", 0.01), 100),
        ([(311, 8)], double(0.3), 3),
        ([(311, 8)], double(0.4), 3),
        ([(311, 8), (34, 4)], double(0.25) + u32(5), 4),
        ([(311, 8), (34, 4)], double(-1.0) + u32(5), 5),
        ([(311, 8), (34, 4)], double(1.5) + u32(5), 5),
        ([(311, 8), (34, 4)], double(float("nan")) + u32(5), 5),
        ([(311, 8), (34, 4)], double(5e-324) + u32(5), 5),
    ],
)
def test_sampling_rates_are_read_from_records_and_options(
    decode: Decode, fields: list[tuple[int, int]], record: bytes, rate: int
) -> None:
    in_record = ipfix(template_set(template(256, *fields)), data_set(256, record))
    assert decode(in_record, schema=RATE).flow == {"sampling_rate": rate}
    options = options_template_set(options_template(257, [(149, 4)], fields))
    in_options = ipfix(options, data_set(257, u32(1) + record), template_set(BYTES), data_set(256, u32(1)))
    assert decode(in_options, schema=RATE).flow == {"sampling_rate": rate}


# The rules for a rate, best first: fields, and a record that gives the rate 2, 3, ...
RULES: list[tuple[list[tuple[int, int]], bytes]] = [
    ([(309, 4), (310, 4)], u32(5) + u32(10)),
    ([(305, 4), (306, 4)], u32(5) + u32(10)),
    ([(311, 8)], double(0.25)),
    ([(34, 4)], u32(5)),
    ([(50, 1)], u8(6)),
]
NAMES = [None, 48, 302]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("chosen", range(1, 32))
def test_the_best_rule_is_used(decode: Decode, chosen: int, backwards: bool) -> None:
    """Every subset of the elements is tested in either order, in the record and in options.

    A scope, an option or no field names the sampler of the options.
    """
    rules = [rule for bit, rule in enumerate(RULES) if chosen >> bit & 1]
    rate = 2 + next(bit for bit in range(5) if chosen >> bit & 1)
    rules = rules[::-1] if backwards else rules
    fields, record_bytes = (
        [field for rule, _ in rules for field in rule],
        b"".join(record_bytes for _, record_bytes in rules),
    )
    assert decode(ipfix_record(fields, record_bytes), schema=RATE).flow == {"sampling_rate": rate}
    for scope in NAMES:
        for option in NAMES if scope is None else [None]:
            scopes = [(149, 4), *([(scope, 2)] if scope else [])]
            options = [*([(option, 2)] if option else []), *fields]
            record = u32(1) + (u16(7) if scope or option else b"") + record_bytes
            learn = [options_template_set(options_template(257, scopes, options)), data_set(257, record)]
            flow = [template_set(template(256, (scope or option or 1, 2))), data_set(256, u16(7))]
            assert decode(ipfix(*learn, *flow), schema=RATE).flow == {"sampling_rate": rate}
    for option in NAMES:  # scopes of NetFlow v9 are not elements
        options = [*([(option, 2)] if option else []), *fields]
        record = u32(1) + (u16(7) if option else b"") + record_bytes
        learn = [options_template_set9(options_template9(257, [(1, 4)], options)), data_set(257, record)]
        flow = [template_set9(template(256, (option or 1, 2))), data_set(256, u16(7))]
        assert decode(netflow9(*learn, *flow), schema=RATE).flow == {"sampling_rate": rate}


@pytest.mark.parametrize("defined", [48, 302])
@pytest.mark.parametrize("used", [48, 302])
@pytest.mark.parametrize("scoped", [False, True])
def test_sampler_id_and_selector_id_identify_the_same_sampler(
    decode: Decode, defined: int, used: int, scoped: bool
) -> None:
    """Two samplers exclude the rule of a single sampler. selectorId replaced samplerId (RFC 7270)."""
    scopes, options = [(defined, 1)] if scoped else [(149, 1)], [] if scoped else [(defined, 1)]
    learn = options_template_set(options_template(257, scopes, [*options, (34, 4)]))
    numbers = [u8(number) + (b"" if scoped else u8(number)) + u32(100 * number) for number in (1, 2)]
    flows = data_set(256, u8(2), u8(1), u8(3))
    outcome = decode(
        ipfix(learn, data_set(257, *numbers), template_set(template(256, (used, 1))), flows), schema=RATE
    )
    assert outcome.flows == [{"sampling_rate": 200}, {"sampling_rate": 100}, {}]


@both_protocols
def test_a_rate_does_not_apply_to_earlier_sets_of_its_datagram(decode: Decode, protocol: str) -> None:
    options = {
        "netflow9": options_template_set9(options_template9(257, [(1, 4)], [(34, 4)])),
        "ipfix": options_template_set(options_template(257, [(149, 4)], [(34, 4)])),
    }[protocol]
    flows = data_set(256, u32(9))
    sets = [templates(protocol, BYTES), flows, options, data_set(257, u32(1) + u32(100)), flows]
    assert decode(message(protocol, *sets), schema=RATE).flows == [{}, {"sampling_rate": 100}]


def test_an_unknown_sampling_rate_is_absent(decode: Decode) -> None:
    assert decode(ipfix(template_set(BYTES), data_set(256, u32(1))), schema=RATE).flow == {}


SAMPLER9 = options_template_set9(options_template9(257, [(1, 4)], [(48, 1), (34, 4)]), padding=2)
SAMPLER_SCOPE = options_template_set(options_template(257, [(302, 4)], [(309, 4), (310, 4)]))
BY_SAMPLER = template(256, (48, 1), (1, 4))
BY_SELECTOR = template(256, (302, 4), (1, 4))


def test_netflow9_records_name_their_sampler(decode: Decode) -> None:
    samplers = data_set(257, u32(0) + u8(1) + u32(100), u32(0) + u8(2) + u32(200))
    flows = data_set(256, u8(2) + u32(9), u8(1) + u32(9), u8(3) + u32(9))
    outcome = decode(netflow9(SAMPLER9, samplers, template_set9(BY_SAMPLER), flows), schema=RATE)
    assert outcome.flows == [{"sampling_rate": 200}, {"sampling_rate": 100}, {}]
    assert outcome.counters == {}


def test_netflow9_scope_fields_are_not_elements(decode: Decode) -> None:
    # Scope type 34 is not samplingInterval.
    options = options_template_set9(options_template9(257, [(34, 4)], [(48, 1)]), padding=2)
    outcome = decode(netflow9(options, data_set(257, u32(100) + u8(1))))
    assert outcome.counters == {"options_ignored": 1}


def test_ipfix_scope_fields_are_elements(decode: Decode) -> None:
    samplers = data_set(257, u32(1) + u32(1) + u32(256), u32(2) + u32(1) + u32(512))
    flows = data_set(256, u32(2) + u32(9), u32(1) + u32(9))
    outcome = decode(ipfix(SAMPLER_SCOPE, samplers, template_set(BY_SELECTOR), flows), schema=RATE)
    assert outcome.flows == [{"sampling_rate": 512}, {"sampling_rate": 256}]


def test_a_single_sampler_applies_to_records_without_a_known_sampler(
    decode: Decode,
) -> None:
    start = ipfix(
        SAMPLER_SCOPE,
        data_set(257, u32(1) + u32(1) + u32(256)),
        template_set(BY_SELECTOR, template(258, (1, 4))),
    )
    flows = ipfix(data_set(258, u32(9)), data_set(256, u32(7) + u32(9)))
    second = ipfix(data_set(257, u32(2) + u32(1) + u32(512)))
    outcome = decode(start, flows, second, flows, schema=RATE)
    assert outcome.flows == [{"sampling_rate": 256}, {"sampling_rate": 256}, {}, {}]


TIME_BASED = options_template_set(options_template(259, [(302, 4)], [(304, 2), (307, 4), (308, 4)]))


@pytest.mark.parametrize(
    "again",
    [
        data_set(259, u32(2) + u16(2) + u32(10) + u32(90)),
        data_set(257, u32(2) + u32(0) + u32(256)),
        data_set(257, u32(2) + u32(1) + u32(0)),
    ],
)
def test_a_sampler_that_is_described_without_a_rate_has_none(decode: Decode, again: bytes) -> None:
    """Neither its earlier rate applies, nor that of the only other sampler."""
    flows = ipfix(data_set(256, u32(2) + u32(9), u32(1) + u32(9), u32(3) + u32(9)))
    outcome = decode(
        ipfix(SAMPLER_SCOPE, TIME_BASED, template_set(BY_SELECTOR)),
        ipfix(data_set(257, u32(2) + u32(1) + u32(512))),
        flows,
        ipfix(again),
        flows,
        ipfix(data_set(257, u32(1) + u32(1) + u32(256))),
        flows,
        schema=RATE,
    )
    rate = {"sampling_rate": 512}
    assert outcome.flows == [rate, rate, rate, {}, {}, {}, {}, {"sampling_rate": 256}, {}]
    assert outcome.counters == {}


@pytest.mark.parametrize("algorithm", [0, 1, 3, 8])
def test_a_description_without_fields_of_rates_keeps_the_rate(decode: Decode, algorithm: int) -> None:
    outcome = decode(
        ipfix(SAMPLER_SCOPE, TIME_BASED, template_set(BY_SELECTOR)),
        ipfix(data_set(257, u32(2) + u32(1) + u32(512))),
        ipfix(data_set(259, u32(2) + u16(algorithm) + u32(10) + u32(90))),
        ipfix(data_set(256, u32(2) + u32(9))),
        schema=RATE,
    )
    assert outcome.flow == {"sampling_rate": 512}
    assert outcome.counters == {"options_ignored": 1}


def test_the_only_sampler_may_have_no_rate(decode: Decode) -> None:
    described = data_set(257, u32(2) + u32(0) + u32(0))
    flows = data_set(256, u32(2) + u32(9), u32(7) + u32(9))
    outcome = decode(ipfix(SAMPLER_SCOPE, described, template_set(BY_SELECTOR), flows), schema=RATE)
    assert outcome.flows == [{}, {}]
    assert outcome.counters == {}


def test_a_rate_applies_to_later_records_of_its_domain(decode: Decode) -> None:
    learn = ipfix(SAMPLER_SCOPE, data_set(257, u32(1) + u32(1) + u32(256)), domain=1)
    start, flows = template_set(BYTES), data_set(256, u32(9))
    outcome = decode(
        ipfix(start, flows, domain=1),
        learn,
        ipfix(flows, domain=1),
        ipfix(start, flows, domain=2),
        schema=RATE,
    )
    assert outcome.flows == [{}, {"sampling_rate": 256}, {}]


def test_a_rate_of_scope_system_applies_only_to_its_source_id(decode: Decode) -> None:
    """RFC 3954 section 6.1: System is a scope.

    Exporters send separate rates for their other source ids.
    """
    options = options_template_set9(options_template9(257, [(1, 4)], [(34, 4)]))
    outcome = decode(
        netflow9(options, data_set(257, u32(1) + u32(100)), source_id=0),
        netflow9(template_set9(BYTES), data_set(256, u32(9)), source_id=5),
        netflow9(template_set9(BYTES), data_set(256, u32(9)), source_id=0),
        schema=RATE,
    )
    assert outcome.flows == [{}, {"sampling_rate": 100}]


def test_a_rate_of_one_version_does_not_apply_to_the_other(decode: Decode) -> None:
    options = options_template_set9(options_template9(257, [(1, 4)], [(34, 4)]))
    flows = ipfix(template_set(BYTES), data_set(256, u32(9)))
    assert decode(netflow9(options, data_set(257, u32(1) + u32(100))), flows, schema=RATE).flows == [{}]


def test_ignored_options_are_counted(decode: Decode) -> None:
    options = options_template_set(options_template(257, [(10, 4)], [(82, VARIABLE)]))
    outcome = decode(ipfix(options, data_set(257, u32(1) + variable(b"eth0"), u32(2) + variable(b"eth1"))))
    assert outcome.flows == []
    assert outcome.counters == {"options_ignored": 2}


@pytest.mark.parametrize(
    "options",
    [
        options_template9(257, [(1, 4)], [(34, 4)], scope_length=3),
        options_template9(257, [(1, 4)], [(34, 4)], option_length=6),
        options_template9(257, [(1, 4)], [(34, 4)], option_length=400),
        u16(257) + u16(4),
        options_template9(255, [(1, 4)], [(34, 4)]),
    ],
)
def test_invalid_netflow9_options_templates_are_counted(decode: Decode, options: bytes) -> None:
    outcome = decode(netflow9(options_template_set9(options), data_set(257, u32(0) + u32(100))))
    assert outcome.counters == {"bad_template": 1, "early_data": 1}


def test_an_ipfix_options_template_with_too_many_scopes_is_invalid(decode: Decode) -> None:
    options = options_template(257, [(149, 4)], [(34, 4)], scope_count=3)
    outcome = decode(ipfix(options_template_set(options), data_set(257, u32(0) + u32(100))))
    assert outcome.counters == {"bad_template": 1, "early_data": 1}


# Derived columns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "record", "flow"),
    [
        ([(32, 2)], u16(0x0301), {"icmp_type": 3, "icmp_code": 1}),
        ([(139, 2)], u16(0x8700), {"icmp_type": 135}),
        ([(32, 2), (139, 2)], u16(0) + u16(0x8700), {"icmp_type": 135}),
        ([(176, 1), (177, 1)], b"\x08\x01", {"icmp_type": 8, "icmp_code": 1}),
        ([(176, 1), (32, 2)], b"\x05" + u16(0x0301), {"icmp_type": 5, "icmp_code": 1}),
        ([(4, 1), (11, 2)], u8(1) + u16(0x0801), {"icmp_type": 8, "icmp_code": 1}),
        ([(4, 1), (7, 2), (11, 2)], u8(58) + u16(0) + u16(0x8700), {"icmp_type": 135}),
        # a bare ICMPv6 type, as some exporters send it
        ([(4, 1), (7, 2), (11, 2)], u8(58) + u16(0) + u16(135), {}),
        ([(4, 1), (7, 2), (11, 2)], u8(1) + u16(0) + u16(5), {"icmp_code": 5}),
        ([(4, 1), (7, 2), (11, 2)], u8(1) + u16(9) + u16(0x0301), {}),
        ([(4, 1), (7, 2), (11, 2)], u8(6) + u16(0) + u16(0x0301), {}),
    ],
)
def test_icmp_type_and_code_are_derived(
    decode: Decode, fields: list[tuple[int, int]], record: bytes, flow: dict[str, int]
) -> None:
    datagram = ipfix(template_set(template(256, *fields)), data_set(256, record))
    assert decode(datagram, schema=columns("icmp_type", "icmp_code")).flow == flow


@pytest.mark.parametrize(
    ("fields", "record", "etype"),
    [
        ([(60, 1)], u8(6), 0x86DD),
        ([(60, 1), (256, 2)], u8(5) + u16(0x0806), 0x0806),
        ([(60, 1), (12, 4)], u8(6) + ip("10.0.0.1"), 0x0800),
        ([(28, 16), (12, 4)], bytes(16) + ip("10.0.0.1"), 0x0800),
        ([(28, 16), (12, 4)], ip("2001:db8::1") + ip("10.0.0.1"), 0x86DD),
    ],
)
def test_etype_is_derived(decode: Decode, fields: list[tuple[int, int]], record: bytes, etype: int) -> None:
    datagram = ipfix(template_set(template(256, *fields)), data_set(256, record))
    assert decode(datagram, schema=columns("etype")).flow == {"etype": etype}


def section(label: int, bottom: bool = False) -> bytes:
    return uint(label << 4 | bottom, 3)


@pytest.mark.parametrize(
    ("sections", "labels"),
    [
        ([section(16), section(17, True), section(18)], [16, 17]),
        ([section(16), section(17), bytes(3)], [16, 17]),
        ([section(16), section(0, True), bytes(3)], [16, 0]),
        ([section(16), bytes(3), section(17, True)], [16, 0, 17]),
        ([section(0, True), bytes(3), bytes(3)], [0]),
        ([bytes(3), bytes(3), bytes(3)], None),
    ],
)
def test_mpls_labels_come_from_label_sections(
    decode: Decode, sections: list[bytes], labels: list[int] | None
) -> None:
    datagram = ipfix(
        template_set(template(256, (70, 3), (71, 3), (72, 3), (1, 1))),
        data_set(256, *[b"".join(sections) + b"\x01"]),
    )
    assert decode(datagram, schema=columns("mpls_labels")).flow == ({"mpls_labels": labels} if labels else {})


def test_mpls_label_sections_are_ordered_by_element(decode: Decode) -> None:
    datagram = ipfix(
        template_set(template(256, (71, 3), (70, 3))), data_set(256, section(17, True) + section(16))
    )
    assert decode(datagram, schema=columns("mpls_labels")).flow == {"mpls_labels": [16, 17]}


@pytest.mark.parametrize(
    ("properties", "status"),
    [
        ([u16(0x0800)], 64),
        ([u16(0x08C3)], 128),
        ([u16(0x0C00)], None),
        # each occurrence is a separate property
        ([u32(0x04000000), u16(0x08C3), u16(0x1000)], 128),
    ],
)
def test_juniper_common_properties_give_a_forwarding_status(
    decode: Decode, properties: list[bytes], status: int | None
) -> None:
    fields = template(256, *[(137, len(record_bytes), 2636) for record_bytes in properties])
    datagram = ipfix(template_set(fields), data_set(256, b"".join(properties)))
    flow = decode(datagram, schema=columns("forwarding_status")).flow
    assert flow == ({"forwarding_status": status} if status else {})
