"""Sequence numbers: lost, late and restarted units of each protocol, in the core and in the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.datagrams import (
    data_set,
    expanded_flow_sample,
    flow_sample,
    ipfix,
    netflow5,
    netflow9,
    options_template,
    options_template_set,
    record5,
    sample,
    sflow,
    template,
    template_set,
    u32,
    variable,
)
from tests.support.decoding import SOURCE, Decode, Outcome, both_decoders

OTHER_PORT = (SOURCE[0], 50_000)
NOTES = ("sequence_gap", "sample_gap", "out_of_sequence", "exporter_restart")


def amounts(expected: int, lost: int = 0, late: int = 0, restarts: int = 0) -> dict[str, int]:
    return {"expected": expected, "lost": lost, "late": late, "restarts": restarts}


def notes(outcome: Outcome) -> dict[str, int]:
    return {name: outcome.counters[name] for name in NOTES if name in outcome.counters}


# Functions that return a datagram of each protocol with this many units, beginning at `number`.


def flows5(number: int, units: int = 1, uptime: int = 100_000, **header: Any) -> bytes:
    return netflow5(*[record5(octets=1)] * units, sequence=number, uptime=uptime, **header)


def packet9(number: int, uptime: int = 100_000, **header: Any) -> bytes:
    return netflow9(sequence=number, uptime=uptime, **header)


TEMPLATES = template_set(template(256, (1, 4)), template(257, (82, 65535)))
OPTIONS_TEMPLATE = options_template_set(options_template(258, [(149, 4)], [(34, 4)]))


def records(number: int, units: int = 1, export_time: int = 1000, domain: int = 0) -> bytes:
    return ipfix(data_set(256, *[u32(1)] * units), sequence=number, export_time=export_time, domain=domain)


def templates_of_ipfix(number: int = 0, **header: int) -> bytes:
    return ipfix(TEMPLATES, OPTIONS_TEMPLATE, sequence=number, export_time=1000, **header)


def datagram_s(number: int, *samples: bytes, uptime: int = 100_000, **header: Any) -> bytes:
    return sflow(*samples, sequence=number, uptime=uptime, **header)


UNITS: dict[str, tuple[str, Any, int]] = {
    "netflow5": ("flows", lambda number, **header: flows5(number, 3, **header), 3),
    "netflow9": ("packets", packet9, 1),
    "ipfix": ("records", lambda number, **header: records(number, 3, **header), 3),
    "sflow": ("datagrams", datagram_s, 1),
}
every_protocol = pytest.mark.parametrize("protocol", UNITS)


def in_order(protocol: str, *numbers: int) -> list[bytes]:
    """Return datagrams that begin at these numbers, counted in datagrams. IPFIX templates come first."""
    _, make, units = UNITS[protocol]
    datagrams = [make(number * units % (1 << 32)) for number in numbers]
    return (
        [templates_of_ipfix(numbers[0] * units % (1 << 32)), *datagrams] if protocol == "ipfix" else datagrams
    )


def check(decode: Decode, protocol: str, datagrams: list[bytes], **expected: int) -> Outcome:
    """Check the sequence. `expected` and `lost` are given in datagrams, and are multiplied by their units."""
    unit, _, units = UNITS[protocol]
    outcome = decode(*datagrams)
    sequence = dict(outcome.sequence)
    assert sequence.pop("unit") == unit
    sequence.pop("samples", None)
    wanted = amounts(**expected)
    assert sequence == {
        key: value * (units if key in ("expected", "lost") else 1) for key, value in wanted.items()
    }
    return outcome


@both_decoders
@every_protocol
class TestEveryProtocol:
    def test_consecutive_numbers_are_in_order(self, decode: Decode, protocol: str) -> None:
        assert notes(check(decode, protocol, in_order(protocol, 7, 8, 9), expected=3)) == {}

    def test_numbers_wrap_after_32_bits(self, decode: Decode, protocol: str) -> None:
        # Numbers wrap inside the next datagram, if it has 3 units.
        last = (1 << 32) // UNITS[protocol][2] - 1
        outcome = check(decode, protocol, in_order(protocol, last - 1, last), expected=2)
        assert notes(outcome) == {}
        _, make, units = UNITS[protocol]
        datagrams = [*in_order(protocol, last - 1, last), make((last + 1) * units % (1 << 32))]
        assert notes(check(decode, protocol, datagrams, expected=3)) == {}
        datagrams[-1] = make((last + 3) * units % (1 << 32))
        assert notes(check(decode, protocol, datagrams, expected=5, lost=2)) == {"sequence_gap": 1}

    def test_a_gap_is_lost(self, decode: Decode, protocol: str) -> None:
        outcome = check(decode, protocol, in_order(protocol, 7, 10, 11, 12, 20), expected=14, lost=9)
        assert notes(outcome) == {"sequence_gap": 2}

    def test_late_datagrams_are_not_lost(self, decode: Decode, protocol: str) -> None:
        outcome = check(decode, protocol, in_order(protocol, 7, 8, 11, 10, 12, 9), expected=6, late=2)
        assert notes(outcome) == {"sequence_gap": 1, "out_of_sequence": 2}

    def test_duplicates_fill_no_gap(self, decode: Decode, protocol: str) -> None:
        outcome = check(
            decode, protocol, in_order(protocol, 7, 7, 8, 7, 10, 8, 10), expected=4, lost=1, late=4
        )
        assert notes(outcome) == {"sequence_gap": 1, "out_of_sequence": 4}

    def test_a_duplicate_of_a_late_datagram_fills_no_second_gap(self, decode: Decode, protocol: str) -> None:
        check(decode, protocol, in_order(protocol, 7, 10, 9, 9), expected=4, lost=1, late=2)

    def test_the_last_eight_gaps_are_remembered(self, decode: Decode, protocol: str) -> None:
        numbers = [2 * i for i in range(10, 20)]  # nine gaps
        check(decode, protocol, in_order(protocol, *numbers, 23), expected=19, lost=8, late=1)
        check(decode, protocol, in_order(protocol, *numbers, 21), expected=19, lost=9, late=1)

    def test_an_exporter_without_sequence_numbers_loses_nothing(self, decode: Decode, protocol: str) -> None:
        assert notes(check(decode, protocol, in_order(protocol, 0, 0, 0), expected=3)) == {}

    def test_a_number_far_behind_is_a_restart(self, decode: Decode, protocol: str) -> None:
        outcome = check(decode, protocol, in_order(protocol, 100_000, 100_001, 5, 6), expected=4, restarts=1)
        assert notes(outcome) == {"exporter_restart": 1}

    def test_a_number_far_ahead_is_a_restart(self, decode: Decode, protocol: str) -> None:
        outcome = check(
            decode, protocol, in_order(protocol, 5, 5 + (1 << 21), 6 + (1 << 21)), expected=3, restarts=1
        )
        assert notes(outcome) == {"exporter_restart": 1}

    def test_losses_before_a_restart_stay_lost(self, decode: Decode, protocol: str) -> None:
        check(decode, protocol, in_order(protocol, 100_000, 100_002, 5, 6), expected=5, lost=1, restarts=1)

    def test_domains_are_numbered_separately(self, decode: Decode, protocol: str) -> None:
        unit, make, units = UNITS[protocol]
        key = {"netflow5": "engine_id", "netflow9": "source_id", "ipfix": "domain", "sflow": "sub_agent"}[
            protocol
        ]
        first = [templates_of_ipfix(units, domain=domain) for domain in (1, 2)] if protocol == "ipfix" else []
        both = [make(number * units, **{key: domain}) for number in (1, 2, 3) for domain in (1, 2)]
        del both[2]
        outcome = decode(*first, *both)
        found = {
            domain: each for domains in outcome.sequences.values() for (_, domain), each in domains.items()
        }
        assert {domain: (each["unit"], each["lost"]) for domain, each in found.items()} == {
            1: (unit, units),
            2: (unit, 0),
        }


@both_decoders
class TestRestarts:
    """The clock of an exporter distinguishes restarts from losses and from late datagrams."""

    @pytest.mark.parametrize("make", [flows5, packet9, datagram_s])
    def test_a_decreased_uptime_is_a_restart(self, decode: Decode, make: Any) -> None:
        outcome = decode(
            make(50, uptime=900_000), make(51, uptime=901_000), make(3, uptime=2_000), make(4, uptime=3_000)
        )
        assert notes(outcome) == {"exporter_restart": 1}
        outcome = decode(make(50, uptime=900_000), make(80, uptime=2_000), make(81, uptime=3_000))
        assert notes(outcome) == {"exporter_restart": 1}

    @pytest.mark.parametrize("make", [flows5, packet9, datagram_s])
    def test_a_slightly_decreased_uptime_is_a_late_datagram(self, decode: Decode, make: Any) -> None:
        outcome = decode(make(50, uptime=900_000), make(52, uptime=901_000), make(51, uptime=900_500))
        assert notes(outcome) == {"sequence_gap": 1, "out_of_sequence": 1}
        assert outcome.sequence["lost"] == 0

    @pytest.mark.parametrize("make", [flows5, packet9, datagram_s])
    def test_an_uptime_that_wraps_after_49_days_is_not_a_restart(self, decode: Decode, make: Any) -> None:
        outcome = decode(make(50, uptime=(1 << 32) - 500), make(53, uptime=500))
        assert notes(outcome) == {"sequence_gap": 1}

    @pytest.mark.parametrize("make", [flows5, packet9, datagram_s])
    def test_a_restarted_process_on_a_running_device_is_a_restart(self, decode: Decode, make: Any) -> None:
        """A datagram with a lower number that was sent later is not late."""
        outcome = decode(make(50, uptime=900_000), make(51, uptime=901_000), make(1, uptime=930_000))
        assert notes(outcome) == {"exporter_restart": 1}

    @pytest.mark.parametrize("make", [flows5, packet9, datagram_s])
    def test_a_large_gap_after_a_long_silence_is_a_loss(self, decode: Decode, make: Any) -> None:
        ahead = 1 << 22
        outcome = decode(make(50, uptime=0), make(51 + ahead, uptime=100_000))
        assert notes(outcome) == {"sequence_gap": 1}
        assert outcome.sequence["lost"] == ahead

    def test_ipfix_restarts_at_0(self, decode: Decode) -> None:
        datagrams = [
            templates_of_ipfix(40),
            records(40, 5),
            records(45, 5, 1001),
            records(0, 5, 1002),
            records(5, 5, 1003),
        ]
        outcome = decode(*datagrams)
        assert notes(outcome) == {"exporter_restart": 1}
        assert outcome.sequence == {"unit": "records", **amounts(20, restarts=1)}

    def test_the_first_message_of_ipfix_may_be_late(self, decode: Decode) -> None:
        outcome = decode(templates_of_ipfix(0), records(5, 3, 1002), records(0, 5, 1001), records(8, 4, 1003))
        assert notes(outcome) == {"sequence_gap": 1, "out_of_sequence": 1}
        assert outcome.sequence == {"unit": "records", **amounts(12, late=1)}

    def test_a_later_ipfix_message_with_a_lower_number_is_a_restart(self, decode: Decode) -> None:
        outcome = decode(templates_of_ipfix(40), records(40, 5), records(20, 5, 1030), records(25, 5, 1031))
        assert notes(outcome) == {"exporter_restart": 1}


@both_decoders
class TestRecords:
    """The sequence numbers of IPFIX count data records (RFC 7011 section 3.1)."""

    def test_options_records_count_and_templates_do_not(self, decode: Decode) -> None:
        options = ipfix(data_set(258, *[u32(0) + u32(100)] * 2), sequence=3, export_time=1000)
        outcome = decode(
            templates_of_ipfix(0), records(0, 3), options, templates_of_ipfix(5), records(5, 4), records(9)
        )
        assert notes(outcome) == {}
        assert outcome.sequence == {"unit": "records", **amounts(10)}

    def test_records_of_variable_length_count_and_padding_does_not(self, decode: Decode) -> None:
        names = ipfix(
            data_set(257, variable(b"a"), variable(b"bc"), variable(b"")), sequence=0, export_time=1000
        )
        padded = ipfix(
            data_set(256, u32(1), u32(2), padding=3), data_set(256, u32(3)), sequence=3, export_time=1000
        )
        outcome = decode(templates_of_ipfix(0), names, padded, records(6))
        assert notes(outcome) == {}
        assert outcome.sequence == {"unit": "records", **amounts(7)}

    @pytest.mark.parametrize(
        "message",
        [
            ipfix(data_set(300, bytes(12)), data_set(256, u32(1)), sequence=1, export_time=1000),
            ipfix(data_set(256, u32(1)), length=100, sequence=1, export_time=1000),
            ipfix(data_set(256, u32(1), length=20), sequence=1, export_time=1000),
            ipfix(data_set(256, u32(1)), data_set(256, length=3), sequence=1, export_time=1000),
            ipfix(data_set(256, u32(1)), data_set(257, b"\x09abc"), sequence=1, export_time=1000),
            ipfix(
                data_set(256, u32(1)), data_set(258, bytes(8)), data_set(300), sequence=1, export_time=1000
            ),
        ],
        ids=[
            "no template",
            "truncated message",
            "set too long",
            "set too short",
            "truncated record",
            "options",
        ],
    )
    def test_nothing_is_lost_after_an_uncountable_message(self, decode: Decode, message: bytes) -> None:
        before = [templates_of_ipfix(0), records(0)]
        outcome = decode(*before, message, records(30, 4), records(34, 2), records(40))
        assert notes(outcome) == {"sequence_gap": 1}, "34 and 35 end before 40"
        assert outcome.sequence == {"unit": "records", **amounts(41, lost=4)}

    def test_a_lower_number_after_an_uncountable_message_is_late(self, decode: Decode) -> None:
        unknown = ipfix(data_set(300, bytes(12)), sequence=20, export_time=1000)
        outcome = decode(templates_of_ipfix(0), records(0), unknown, records(8), records(30))
        assert outcome.sequence == {"unit": "records", **amounts(31, lost=19 - 1, late=1)}


@both_decoders
class TestConventions:
    """flowbuf adapts to IPFIX exporters whose sequence numbers do not follow the standard."""

    @staticmethod
    def messages(counts_own: bool, options: bool, counts: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return messages with these numbers of (flow records, options records)."""
        number, messages = 100, [templates_of_ipfix(100)]
        for flows, others in counts:
            units = flows + (others if options else 0)
            number += units
            sets = [data_set(256, *[u32(1)] * flows), data_set(258, *[u32(0) + u32(9)] * others)]
            header = {"sequence": number if counts_own else number - units, "export_time": 1000}
            messages.append(ipfix(*sets[: 1 if not others else 2], **header))
        return messages

    COUNTS = ((5, 0), (3, 1), (4, 0), (4, 2), (1, 0), (7, 3), (6, 0), (2, 0))

    @pytest.mark.parametrize("counts_own", [False, True])
    @pytest.mark.parametrize("options", [False, True])
    def test_every_convention_loses_nothing(self, decode: Decode, counts_own: bool, options: bool) -> None:
        outcome = decode(*self.messages(counts_own, options, self.COUNTS))
        assert notes(outcome) == {}

    @pytest.mark.parametrize("counts_own", [False, True])
    @pytest.mark.parametrize("options", [False, True])
    def test_later_gaps_are_lost(self, decode: Decode, counts_own: bool, options: bool) -> None:
        messages = self.messages(counts_own, options, self.COUNTS)
        del messages[6]  # with 7 flow records and 3 options records
        outcome = decode(*messages)
        assert notes(outcome) == {"sequence_gap": 1}
        assert outcome.sequence["lost"] == (10 if options else 7)

    def test_a_loss_does_not_change_an_established_convention(self, decode: Decode) -> None:
        messages = self.messages(False, True, [(5, 0), (3, 0), (4, 0), (2, 0), (2, 0), (4, 0)])
        del messages[5]  # 4 follows 2, as if the message itself counted
        outcome = decode(*messages)
        assert outcome.sequence["lost"] == 2


@both_decoders
class TestPorts:
    """Two processes of one address may share a domain: each port has its own sequence numbers."""

    def test_two_processes_are_numbered_separately(self, decode: Decode) -> None:
        pairs = [(packet9(number), SOURCE) for number in range(5, 10)]
        others = [(packet9(number), OTHER_PORT) for number in range(70_000, 70_005)]
        sequence = [datagram for pair in zip(pairs, others, strict=True) for datagram in pair]
        outcome = decode(*sequence)
        assert notes(outcome) == {}
        assert outcome.sequence == {"unit": "packets", **amounts(10)}
        del sequence[4]
        assert decode(*sequence).sequence == {"unit": "packets", **amounts(10, lost=1)}

    def test_one_process_may_change_its_port(self, decode: Decode) -> None:
        outcome = decode((packet9(5), SOURCE), (packet9(6), OTHER_PORT), (packet9(8), OTHER_PORT))
        assert outcome.sequence == {"unit": "packets", **amounts(4, lost=1)}

    def test_the_least_recently_used_port_is_evicted(self, decode: Decode) -> None:
        ports = [(SOURCE[0], port) for port in (1, 2, 3, 4)]
        known = [(packet9(1000 * port), (address, port)) for address, port in ports]
        again = (packet9(1001), ports[0])
        fifth = (packet9(9000), (SOURCE[0], 5))  # replaces the second
        forgotten = (packet9(2005), ports[1])
        outcome = decode(
            *known, again, fifth, forgotten, (packet9(1003), ports[0]), (packet9(4002), ports[3])
        )
        assert outcome.sequence["lost"] == 1 + 1

    def test_an_sflow_agent_is_identified_by_its_address(self, decode: Decode) -> None:
        outcome = decode((datagram_s(5), SOURCE), (datagram_s(7), OTHER_PORT))
        assert outcome.sequence["lost"] == 1


@both_decoders
class TestSamples:
    """Each data source of an sFlow agent numbers its flow samples, its counter samples and its drops."""

    @staticmethod
    def counters(sequence: int, source: int) -> bytes:
        return sample(2, u32(sequence) + u32(source) + u32(0))

    @staticmethod
    def expanded_counters(sequence: int, source: int) -> bytes:
        return sample(4, u32(sequence) + u32(0) + u32(source) + u32(0))

    @staticmethod
    def drop(sequence: int, source: int) -> bytes:
        return sample(5, u32(sequence) + u32(0) + u32(source) + bytes(20))

    def test_each_kind_and_source_is_numbered_separately(self, decode: Decode) -> None:
        first = [flow_sample(sequence=10, source_id=1), flow_sample(sequence=500, source_id=2)]
        first += [self.counters(70, 1), self.drop(3, 1)]
        second = [flow_sample(sequence=11, source_id=1), flow_sample(sequence=502, source_id=2)]
        second += [self.counters(71, 1), self.drop(6, 1)]
        outcome = decode(datagram_s(1, *first), datagram_s(2, *second))
        assert outcome.sequence == {
            "unit": "datagrams",
            **amounts(2),
            "samples": amounts(8 + 1 + 2, lost=1 + 2),
        }
        assert notes(outcome) == {"sample_gap": 2}

    def test_expanded_samples_share_the_numbers_of_their_source(self, decode: Decode) -> None:
        samples = [flow_sample(sequence=10, source_id=1), expanded_flow_sample(sequence=11, source=(0, 1))]
        samples += [self.counters(5, 1), self.expanded_counters(7, 1)]
        assert decode(datagram_s(1, *samples)).sequence["samples"] == amounts(5, lost=1)

    def test_sources_of_different_types_are_separate(self, decode: Decode) -> None:
        samples = [flow_sample(sequence=10, source_id=1), flow_sample(sequence=90, source_id=2 << 24 | 1)]
        samples += [expanded_flow_sample(sequence=91, source=(2, 1))]
        assert decode(datagram_s(1, *samples)).sequence["samples"] == amounts(3)

    def test_a_lost_datagram_counts_in_both_units_until_it_arrives(self, decode: Decode) -> None:
        datagrams = [
            datagram_s(n, *(flow_sample(sequence=2 * n + i, source_id=1) for i in range(2))) for n in range(5)
        ]
        late = datagrams.pop(2)
        outcome = decode(*datagrams)
        assert outcome.sequence == {"unit": "datagrams", **amounts(5, lost=1), "samples": amounts(10, lost=2)}
        assert notes(outcome) == {"sequence_gap": 1, "sample_gap": 1}
        assert decode(*datagrams, late).sequence == {
            "unit": "datagrams",
            **amounts(5, late=1),
            "samples": amounts(10, late=2),
        }

    def test_a_source_may_restart_alone(self, decode: Decode) -> None:
        samples = [flow_sample(sequence=n, source_id=1) for n in (50_000, 50_001, 1, 2)]
        assert decode(datagram_s(1, *samples)).sequence["samples"] == amounts(4, restarts=1)

    def test_all_sources_restart_with_their_agent(self, decode: Decode) -> None:
        before = datagram_s(
            900, *(flow_sample(sequence=50_000, source_id=i) for i in range(3)), uptime=900_000
        )
        after = datagram_s(1, *(flow_sample(sequence=1, source_id=i) for i in range(3)), uptime=5_000)
        outcome = decode(before, after)
        assert outcome.sequence == {"unit": "datagrams", **amounts(2, restarts=1), "samples": amounts(6)}
        assert notes(outcome) == {"exporter_restart": 1}

    def test_unnumbered_and_unknown_samples_are_ignored(self, decode: Decode) -> None:
        samples = [sample(2, u32(5)), sample(6, u32(5) + u32(1) + u32(0)), sample(2, bytes(12), enterprise=9)]
        assert decode(datagram_s(1, *samples)).sequence["samples"] == amounts(0)


@both_decoders
def test_truncated_headers_have_no_number(decode: Decode) -> None:
    whole = [flows5(1, 0), packet9(1), ipfix(sequence=1), datagram_s(1)]
    outcome = decode(*(datagram[:-1] for datagram in whole))
    assert outcome.sequences == {SOURCE[0]: {}}


@both_decoders
def test_netflow5_uses_the_flow_count_of_the_header(decode: Decode) -> None:
    """A truncated datagram was sent with all its flows."""
    cut = netflow5(record5(octets=1), count=5, sequence=10)
    assert decode(cut, flows5(15, uptime=0)).sequence == {"unit": "flows", **amounts(6)}


@both_decoders
def test_engines_are_identified_by_type_and_id(decode: Decode) -> None:
    outcome = decode(flows5(5, engine_type=1, engine_id=3))
    assert outcome.sequences == {SOURCE[0]: {("netflow5", 0x0103): {"unit": "flows", **amounts(1)}}}
