"""Lifetime of templates: early data, conflicting ports, expiry and withdrawal.

RFC 3954 section 9, RFC 7011 section 8.
"""

from __future__ import annotations

import pytest

from tests.reference.early import BESIDES
from tests.support.datagrams import (
    data_set,
    ipfix,
    netflow9,
    options_template,
    options_template_set,
    template,
    template_set,
    template_set9,
    u8,
    u32,
    withdrawal,
)
from tests.support.decoding import Decode, both_decoders, both_protocols, columns, message, templates

pytestmark = both_decoders

BYTES, PACKETS = template(256, (1, 4)), template(256, (2, 4))
SCHEMA = columns("bytes", "packets")
SECOND = 1_000_000_000


def at(
    payload: bytes, port: int = 1, seconds: int = 1, address: str = "192.0.2.1"
) -> tuple[bytes, tuple[str, int], int]:
    return payload, (address, port), seconds * SECOND


# Early data -------------------------------------------------------------------------------------------------


@both_protocols
def test_early_data_is_decoded_with_the_datagram_of_its_template(decode: Decode, protocol: str) -> None:
    early = [message(protocol, data_set(256, u32(value))) for value in (1, 2)]
    sets = [data_set(256, u32(3)), templates(protocol, BYTES), data_set(256, u32(4))]
    outcome = decode(*early, message(protocol, *sets), schema=SCHEMA)
    assert outcome.datagrams == [[], [], [{"bytes": 1}, {"bytes": 2}, {"bytes": 3}, {"bytes": 4}]]
    assert outcome.counters == {"early_data": 3}
    assert outcome.waiting == {"192.0.2.1": {"sets": 0, "bytes": 0}}


def test_early_data_keeps_the_header_of_its_own_datagram(decode: Decode) -> None:
    schema = columns("bytes", "time_received", "time_flow_start", "sequence_number", "source_port")
    fields, data = template(256, (1, 4), (22, 4)), data_set(256, u32(1) + u32(700))
    outcome = decode(
        at(netflow9(data, uptime=1000, seconds=100, sequence=5), port=10, seconds=1),
        at(netflow9(template_set9(fields), data, uptime=9000, seconds=200, sequence=6), port=20, seconds=2),
        schema=schema,
    )
    own = {"time_received": 1000, "time_flow_start": 99_700, "sequence_number": 5, "source_port": 10}
    assert outcome.flows == [
        {"bytes": 1, **own},
        {
            "bytes": 1,
            "time_received": 2000,
            "time_flow_start": 191_700,
            "sequence_number": 6,
            "source_port": 20,
        },
    ]


def test_early_data_uses_options_received_before_its_template(decode: Decode) -> None:
    """Waiting flows are written later, with the current sampling rate and system start."""
    options = options_template(257, [(144, 4)], [(34, 4), (160, 8)])
    learn = data_set(257, u32(1) + u32(100) + (50_000).to_bytes(8, "big"))
    data = data_set(256, u32(1) + u32(700))
    outcome = decode(
        ipfix(data, learn, export_time=60),
        ipfix(template_set(template(256, (1, 4), (22, 4))), data, export_time=70),
        ipfix(options_template_set(options), data, export_time=80),
        schema=columns("bytes", "sampling_rate", "time_flow_start"),
    )
    # The rate arrived after the first template had released these flows.
    assert outcome.flows == [
        {"bytes": 1},
        {"bytes": 1},
        {"bytes": 1, "sampling_rate": 100, "time_flow_start": 50_700},
    ]
    together = decode(
        ipfix(data, learn, export_time=60),
        ipfix(options_template_set(options), template_set(template(256, (1, 4), (22, 4))), export_time=70),
        schema=columns("bytes", "sampling_rate", "time_flow_start"),
    )
    assert together.flows == [{"bytes": 1, "sampling_rate": 100, "time_flow_start": 50_700}]


def test_data_that_waits_at_the_end_is_a_loss(decode: Decode) -> None:
    data = [at(ipfix(data_set(256, u32(1))), address=f"192.0.2.{number}") for number in (1, 1, 2)]
    outcome = decode(*data, finish=True)
    assert outcome.counters == {"early_data": 3, "template_missing": 3}
    assert outcome.stats["192.0.2.2"]["counters"] == {"early_data": 1, "template_missing": 1}
    assert decode(*data).waiting["192.0.2.1"] == {"sets": 2, "bytes": 2 * (BESIDES + 8)}


def test_the_oldest_waiting_data_of_an_exporter_is_dropped(decode: Decode) -> None:
    data = [ipfix(data_set(256, u32(value))) for value in range(1, 6)]
    outcome = decode(*data, ipfix(template_set(BYTES)), schema=SCHEMA, early_data_limit=3 * (BESIDES + 8))
    assert outcome.flows == [{"bytes": 3}, {"bytes": 4}, {"bytes": 5}]
    assert outcome.counters == {"early_data": 5, "template_missing": 2}


def test_the_oldest_waiting_data_of_all_exporters_is_dropped(decode: Decode) -> None:
    data = [at(ipfix(data_set(256, u32(value))), address=f"192.0.2.{value}") for value in range(1, 6)]
    outcome = decode(*data, early_data_total=3 * (BESIDES + 8))
    missing = {
        exporter for exporter, stats in outcome.stats.items() if "template_missing" in stats["counters"]
    }
    assert missing == {"192.0.2.1", "192.0.2.2"}
    assert outcome.counters == {"early_data": 5, "template_missing": 2}


def test_a_set_larger_than_the_limit_does_not_wait(decode: Decode) -> None:
    small, large = ipfix(data_set(256, u32(1))), ipfix(data_set(256, bytes(300)))
    outcome = decode(small, large, ipfix(template_set(BYTES)), schema=SCHEMA, early_data_limit=BESIDES + 8)
    assert outcome.flows == [{"bytes": 1}]
    assert outcome.counters == {"early_data": 1, "template_missing": 1}


@pytest.mark.parametrize("last", [template(256, (1, 0)), template(256)])
def test_a_template_set_is_applied_as_a_whole(decode: Decode, last: bytes) -> None:
    """An id that the set defines and undefines releases no data."""
    outcome = decode(
        netflow9(data_set(256, u32(1))),
        netflow9(template_set9(BYTES, last)),
        netflow9(template_set9(PACKETS)),
        schema=SCHEMA,
    )
    assert outcome.datagrams == [[], [], [{"packets": 1}]]
    assert outcome.counters == {"early_data": 1, "empty_template": 1}


def test_a_redefinition_does_not_change_earlier_data(decode: Decode) -> None:
    outcome = decode(
        ipfix(data_set(256, u32(1)), template_set(BYTES), template_set(PACKETS), data_set(256, u32(2))),
        schema=SCHEMA,
    )
    assert outcome.flows == [{"bytes": 1}, {"packets": 2}]
    assert outcome.counters == {"early_data": 1, "template_redefined": 1}


# Ports ------------------------------------------------------------------------------------------------------


@both_protocols
def test_ports_that_alternately_redefine_an_id_are_separated(decode: Decode, protocol: str) -> None:
    first, second = (
        message(protocol, templates(protocol, BYTES)),
        message(protocol, templates(protocol, PACKETS)),
    )
    data = message(protocol, data_set(256, u32(7)))
    outcome = decode(
        at(first, 1), at(second, 2), at(first, 1), at(data, 1), at(data, 2), at(data, 3), schema=SCHEMA
    )
    assert outcome.flows == [{"bytes": 7}, {"packets": 7}]
    assert outcome.counters == {"template_redefined": 1, "port_in_key": 1, "early_data": 1}
    more = decode(
        *[at(first, 1), at(second, 2), at(first, 1), at(second, 2)],
        *[at(data, 3), at(first, 3), at(data, 1), at(data, 2)],
        schema=SCHEMA,
    )
    assert more.flows == [{"bytes": 7}, {"bytes": 7}, {"packets": 7}]
    assert more.counters == {"template_redefined": 1, "port_in_key": 1, "early_data": 1}


def test_random_ports_with_equal_templates_are_one_exporter(decode: Decode) -> None:
    datagrams = []
    for number in range(30):
        fields = BYTES if number < 15 else PACKETS  # reconfigured once
        datagrams += [
            at(ipfix(template_set(fields)), number * 7 % 5),
            at(ipfix(data_set(256, u32(7))), number * 3 % 7),
        ]
    outcome = decode(*datagrams, schema=SCHEMA)
    assert outcome.flows == [{"bytes": 7}] * 15 + [{"packets": 7}] * 15
    assert outcome.counters == {"template_redefined": 1}


def test_a_restart_on_another_port_separates_no_ports(decode: Decode) -> None:
    outcome = decode(
        at(ipfix(template_set(BYTES)), 1),
        at(ipfix(template_set(PACKETS)), 2),
        at(ipfix(data_set(256, u32(7))), 3),
        schema=SCHEMA,
    )
    assert outcome.flows == [{"packets": 7}]
    assert outcome.counters == {"template_redefined": 1}


SPLIT = [at(ipfix(template_set(fields)), port) for fields, port in [(BYTES, 1), (PACKETS, 2), (BYTES, 1)]]


def test_separating_ports_keeps_earlier_state(decode: Decode) -> None:
    """Undisputed templates, sampling rates and waiting data stay valid."""
    schema = columns("src_port", "dst_port", "sampling_rate")
    options = options_template_set(options_template(300, [(302, 4)], [(34, 4)]))
    data = ipfix(data_set(257, u32(80)))
    outcome = decode(
        at(ipfix(template_set(template(257, (7, 4))), options, data_set(300, u32(1) + u32(100))), 2),
        at(ipfix(data_set(258, u32(53))), 1),
        at(ipfix(data_set(258, u32(54))), 2),
        *SPLIT,
        at(data, 1),
        at(ipfix(template_set(template(258, (11, 4)))), 1),
        at(ipfix(options, data_set(300, u32(1) + u32(200))), 2),
        *[at(data, port) for port in (1, 2, 3)],
        schema=schema,
    )
    assert outcome.flows == [
        {"src_port": 80, "sampling_rate": 100},
        {"dst_port": 53, "sampling_rate": 100},
        {"src_port": 80, "sampling_rate": 100},
        {"src_port": 80, "sampling_rate": 200},
        {"src_port": 80, "sampling_rate": 100},
    ]
    assert outcome.waiting["192.0.2.1"]["sets"] == 1


def test_ports_of_other_domains_are_not_separated(decode: Decode) -> None:
    outcome = decode(
        *SPLIT,
        at(ipfix(template_set(BYTES), domain=5), 1),
        at(ipfix(data_set(256, u32(7)), domain=5), 9),
        schema=SCHEMA,
    )
    assert outcome.flows == [{"bytes": 7}]


# Age and withdrawal -----------------------------------------------------------------------------------------


@both_protocols
def test_a_template_without_refresh_expires_on_request(decode: Decode, protocol: str) -> None:
    fields, data = message(protocol, templates(protocol, BYTES)), message(protocol, data_set(256, u32(7)))
    datagrams = [at(fields, seconds=100), at(data, seconds=110), at(data, seconds=111), at(data, seconds=112)]
    kept = decode(*datagrams, schema=SCHEMA)
    assert (len(kept.flows), kept.counters) == (3, {})
    expired = decode(*datagrams, at(fields, seconds=200), schema=SCHEMA, template_expiry=10 * SECOND)
    assert [len(flows) for flows in expired.datagrams] == [0, 1, 0, 0, 2]
    assert expired.counters == {"template_expired": 1, "early_data": 2}


@pytest.mark.parametrize(("defined", "used"), [(100, 50), (0, 1000), (100, 0)])
def test_templates_do_not_expire_if_clocks_go_back_or_are_missing(
    decode: Decode, defined: int, used: int
) -> None:
    datagrams = [
        at(ipfix(template_set(BYTES)), seconds=defined),
        at(ipfix(data_set(256, u32(7))), seconds=used),
    ]
    assert decode(*datagrams, schema=SCHEMA, template_expiry=SECOND).flows == [{"bytes": 7}]


OPTIONS = options_template_set(options_template(257, [(149, 4)], [(34, 4)]))
KNOWN = ipfix(template_set(BYTES, template(258, (2, 4))), OPTIONS)


@pytest.mark.parametrize(
    ("withdrawn", "left"),
    [
        (template_set(withdrawal(256)), {257, 258}),
        (template_set(withdrawal(257)), {256, 257, 258}),  # is an options template
        (options_template_set(withdrawal(256)), {256, 257, 258}),
        (options_template_set(withdrawal(257)), {256, 258}),
        (template_set(withdrawal(2)), {257}),
        (options_template_set(withdrawal(3)), {256, 258}),
        (template_set(withdrawal(999)), {256, 257, 258}),
    ],
)
def test_withdrawals_are_obeyed_on_request(decode: Decode, withdrawn: bytes, left: set[int]) -> None:
    """RFC 7011 section 8.1: a withdrawal removes one template, or all templates of the kind of its set."""
    data = [ipfix(data_set(template_id, u32(1) + u32(1))) for template_id in (256, 257, 258)]
    outcome = decode(KNOWN, ipfix(withdrawn), *data, obey_withdrawals=True)
    assert outcome.counters == {"withdrawal": 1, **({"early_data": 3 - len(left)} if len(left) < 3 else {})}
    assert decode(KNOWN, ipfix(withdrawn), *data).counters == {"withdrawal": 1}


def test_data_after_a_withdrawal_waits_for_the_next_template(decode: Decode) -> None:
    datagrams = [
        KNOWN,
        ipfix(template_set(withdrawal(256)), data_set(256, u32(7))),
        ipfix(template_set(PACKETS)),
    ]
    outcome = decode(*datagrams, schema=SCHEMA, obey_withdrawals=True)
    assert outcome.flows == [{"packets": 7}]
    assert outcome.counters == {"withdrawal": 1, "early_data": 1}


@pytest.mark.parametrize(
    "nothing", [netflow9(template_set9(template(256))), ipfix(template_set(withdrawal(256)))]
)
def test_data_after_an_empty_template_is_bounded(decode: Decode, nothing: bytes) -> None:
    """Send 65,000 bytes of data repeatedly."""
    body = data_set(256, u8(1) * 65000)
    data = netflow9(body) if nothing[1] == 9 else ipfix(body)
    outcome = decode(nothing, *[data] * 200, early_data_limit=300_000)
    assert outcome.flows == []
    assert outcome.waiting["192.0.2.1"] == {"sets": 4, "bytes": 4 * (BESIDES + 65004)}
    assert outcome.counters["template_missing"] == 196
