"""A full table of exporters: genuine exporters lose nothing, and new exporters are admitted.

Every datagram is counted.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowbuf import Decoder
from tests.support.cases import slow
from tests.support.datagrams import (
    data_set,
    flow_sample,
    ipfix,
    netflow9,
    sflow,
    template,
    template_set,
    template_set9,
    u32,
)

LIMIT = 200
SPOOFED = 10 * LIMIT
GENUINE = "192.0.2.1"
FIELDS = template(256, (1, 4))
DATA = data_set(256, u32(7))


def address_of(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def spoofed_ipfix(number: int) -> tuple[bytes, str]:
    return ipfix(template_set(FIELDS), DATA), address_of(number)


def spoofed_ipfix_without_template(number: int) -> tuple[bytes, str]:
    return ipfix(DATA), address_of(number)


def spoofed_netflow9(number: int) -> tuple[bytes, str]:
    return netflow9(template_set9(FIELDS), DATA), address_of(number)


def agents_of_one_source(number: int) -> tuple[bytes, str]:
    return sflow(flow_sample(), agent=address_of(number)), "203.0.113.1"


def sub_agents_of_one_source(number: int) -> tuple[bytes, str]:
    return sflow(flow_sample(), agent="203.0.113.1", sub_agent=number), "203.0.113.1"


def domains_of_one_source(number: int) -> tuple[bytes, str]:
    return ipfix(template_set(FIELDS), DATA, domain=number), "203.0.113.1"


SPOOFS = [
    spoofed_ipfix,
    spoofed_ipfix_without_template,
    spoofed_netflow9,
    agents_of_one_source,
    sub_agents_of_one_source,
    domains_of_one_source,
]


@pytest.mark.parametrize("repeats", [*slow(1), 2])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("spoof", SPOOFS)
def test_a_genuine_exporter_loses_nothing(
    spoof: Callable[[int], tuple[bytes, str]], late: bool, repeats: int
) -> None:
    decoder = Decoder(exporter_limit=LIMIT)
    sent = 0
    for number in range(2 * LIMIT if late else 0):
        for _ in range(repeats):
            decoder.encode(*spoof(SPOOFED + number))
            sent += 1
    flows = 0
    for number in range(SPOOFED):
        sets = (DATA,) if number % 1000 else (template_set(FIELDS), DATA)
        flows += len(decoder.messages(ipfix(*sets, domain=0), GENUINE))
        for _ in range(repeats):
            decoder.encode(*spoof(number))
            sent += 1
    assert flows == SPOOFED
    stats = decoder.stats
    assert stats[GENUINE]["flows"] == SPOOFED
    assert sum(each["datagrams"] for each in stats.values()) == SPOOFED + sent
    assert len(stats) <= LIMIT + 1
    assert "exporter_limit" not in decoder.counters


def test_a_full_table_admits_a_new_exporter() -> None:
    decoder = Decoder(exporter_limit=2)
    for number in range(4):
        assert len(decoder.messages(*spoofed_ipfix(number))) == 1
    assert len(decoder.messages(ipfix(DATA), address_of(3))) == 1
    assert decoder.counters == {"exporter_evicted": 2}
    assert decoder.stats["others"]["datagrams"] == 2
    assert decoder.stats["others"]["flows"] == 2


def test_evicted_agents_of_a_source_are_counted() -> None:
    decoder = Decoder(exporter_limit=4)
    for number in range(6):
        decoder.encode(*agents_of_one_source(number))
    assert decoder.counters["agent_evicted"] == 4
    assert decoder.stats["others"]["datagrams"] == 4


def test_a_new_domain_replaces_another_one_at_the_limit() -> None:
    decoder = Decoder()
    for domain in range(1030):
        assert len(decoder.messages(ipfix(template_set(FIELDS), DATA, domain=domain), GENUINE)) == 1
    assert decoder.counters == {"domain_evicted": 6}
    assert len(decoder.messages(ipfix(DATA, domain=1029), GENUINE)) == 1
    assert decoder.messages(ipfix(DATA, domain=0), GENUINE) == []
    assert decoder.counters["domain_evicted"] == 7


def test_statistics_of_an_address_add_up_both_protocols() -> None:
    decoder = Decoder()
    decoder.messages(sflow(flow_sample(), agent=GENUINE), ("203.0.113.1", 6343))
    decoder.messages(ipfix(template_set(FIELDS), DATA), GENUINE)
    (exporter,) = decoder.read_exporters()
    assert (exporter["datagrams"], exporter["flows"], exporter["templates"]) == (2, 2, 1)
    assert sorted(domain["version"] for domain in exporter["domains"]) == [0, 10]
