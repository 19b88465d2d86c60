"""Restore the state of exporters from one decoder into another."""

from __future__ import annotations

import copy
import json
import socket
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowbuf import Decoder, _core
from tests.strategies.datagrams import Received, living_templates, policies
from tests.strategies.schemas import everything
from tests.support.datagrams import (
    data_set,
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
    u32,
    uint,
    variable,
)
from tests.support.decoding import columns

SCHEMA = columns("bytes", "packets", "sampling_rate", "time_flow_start", "observation_domain_id")
Sent = tuple[bytes, tuple[str, int], int]
A, B = ("192.0.2.1", 1000), ("2001:db8::1", 2000)

DEFINITIONS: list[Sent] = [
    (
        netflow9(
            options_template_set9(options_template9(257, [(1, 4)], [(48, 1), (34, 4)]), padding=2),
            template_set9(template(256, (1, 4), (48, 1))),
            data_set(257, u32(0) + u8(1) + u32(100), u32(0) + u8(2) + u32(200)),
            source_id=5,
        ),
        A,
        10,
    ),
    (
        ipfix(
            options_template_set(options_template(300, [(144, 4)], [(160, 8)])),
            template_set(template(256, (1, 4), (82, 65535), (22, 4)), template(258, (1, 4), (7, 2, 9))),
            data_set(300, u32(1) + uint(50_000, 8)),
            domain=6,
        ),
        B,
        20,
    ),
    (ipfix(template_set(template(256, (1, 4)))), ("192.0.2.9", 1), 30),
    (ipfix(template_set(template(256, (2, 4)))), ("192.0.2.9", 2), 30),
    (ipfix(template_set(template(256, (1, 4)))), ("192.0.2.9", 1), 30),
]
DATA: list[Sent] = [
    (netflow9(data_set(256, u32(7) + u8(1), u32(8) + u8(2)), source_id=5), A, 40),
    (ipfix(data_set(256, u32(9) + variable(b"eth0") + u32(700)), domain=6, export_time=60), B, 50),
    (ipfix(data_set(256, u32(1))), ("192.0.2.9", 1), 60),
    (ipfix(data_set(256, u32(2))), ("192.0.2.9", 2), 60),
]


def feed(decoder: Decoder, sequence: list[Sent] | list[Received]) -> list[bytes]:
    return [decoder.encode(payload, source, received) for payload, source, received in sequence]


def decoder_with_state() -> Decoder:
    decoder = Decoder(SCHEMA)
    feed(decoder, DEFINITIONS)
    return decoder


def restorable_state(decoder: Decoder) -> list[Any]:
    """Return the state to restore, sorted. Sequence numbers are not restored."""
    exporters = [
        {key: exporter[key] for key in ("address", "sub_agent")}
        | {
            "domains": [
                {k: v for k, v in domain.items() if k != "sequence"} for domain in exporter["domains"]
            ]
        }
        for exporter in decoder.read_exporters()
    ]
    return sorted(exporters, key=lambda exporter: (exporter["address"], exporter["sub_agent"]))


def test_a_restored_decoder_decodes_the_data_that_follows() -> None:
    first, second = decoder_with_state(), Decoder(SCHEMA)
    second.restore_exporters(first.read_exporters())
    assert restorable_state(second) == restorable_state(first)
    output = feed(first, DATA)
    assert all(output)
    assert feed(second, DATA) == output
    assert second.counters == {}


def test_state_survives_json() -> None:
    """JSON turns dictionary keys into strings and tuples into lists."""
    first, second = decoder_with_state(), Decoder(SCHEMA)
    second.restore_exporters(json.loads(json.dumps(first.read_exporters())))
    assert restorable_state(second) == restorable_state(first)


def test_state_lists_domains_samplers_and_templates() -> None:
    (exporter,) = (each for each in decoder_with_state().read_exporters() if each["address"] == A[0])
    assert (exporter["sub_agent"], exporter["waiting"]) == (0, {"sets": 0, "bytes": 0})
    assert exporter["domains"] == [
        {
            "version": 9,
            "id": 5,
            "port": None,
            "sequence": {"unit": "packets", "expected": 1, "lost": 0, "late": 0, "restarts": 0},
            "system_init": 0,
            "samplers": {1: 100, 2: 200},
            "selection_sequences": {},
            "templates": {
                256: {
                    "options": False,
                    "scope_count": 0,
                    "fields": [(0, 1, 4), (0, 48, 1)],
                    "port": 1000,
                    "time": 10,
                    "contested": False,
                },
                257: {
                    "options": True,
                    "scope_count": 1,
                    "fields": [(0, 1, 4), (0, 48, 1), (0, 34, 4)],
                    "port": 1000,
                    "time": 10,
                    "contested": False,
                },
            },
            "names": {},
        }
    ]


def test_domains_of_different_ports_stay_separate() -> None:
    first = decoder_with_state()
    (exporter,) = (each for each in first.read_exporters() if each["address"] == "192.0.2.9")
    assert [domain["port"] for domain in exporter["domains"]] == [None, 1]
    assert exporter["domains"][0]["templates"][256]["contested"]


@pytest.mark.parametrize("version", ["netflow9", "ipfix"])
@given(st.data(), policies())
def test_any_restored_state_decodes_the_same_flows(
    version: str, data: st.DataObject, policy: dict[str, Any]
) -> None:
    """State contains neither waiting data nor earlier definers of template ids.

    Output may differ once ports are part of the key.
    """
    sequence = data.draw(living_templates(version == "ipfix"))
    policy["template_expiry"] = policy["template_expiry"] / 1e9 or None
    first, second = Decoder(everything, **policy), Decoder(everything, **policy)
    feed(first, sequence)
    first.finish()
    second.restore_exporters(first.read_exporters())
    assert restorable_state(second) == restorable_state(first)
    later = [
        (payload, source, time)
        for payload, source, time in sequence
        if payload[16 if version == "ipfix" else 20 :]
    ]
    outputs = [(first.encode(*sent), second.encode(*sent)) for sent in later]
    if "port_in_key" not in first.counters:
        assert [found for found, _ in outputs] == [found for _, found in outputs]


# Bad state --------------------------------------------------------------------------------------------------

GOOD_STATE = [
    {
        "address": "192.0.2.1",
        "domains": [{"version": 10, "id": 1, "templates": {256: {"fields": [(0, 1, 4)]}}}],
    }
]


def test_omitted_keys_have_defaults() -> None:
    decoder = Decoder(SCHEMA)
    decoder.restore_exporters(GOOD_STATE)
    assert decoder.messages(ipfix(data_set(256, u32(7)), domain=1), "192.0.2.1")
    decoder.restore_exporters([])
    decoder.restore_exporters([{"address": "others", "domains": []}])


def changed(path: list[Any], value: Any) -> list[Any]:
    state = copy.deepcopy(GOOD_STATE)
    place: Any = state
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return state


DOMAIN: list[Any] = [0, "domains", 0]
TEMPLATE: list[Any] = [*DOMAIN, "templates", 256]


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        ({}, "exporters is dict, not a list"),
        ([5], "exporter 0 is int, not a dict"),
        ([{}], "exporter 0: address is None, not text"),
        (changed([0, "address"], "router"), r"exporter 0 \(router\): 'router' is not an IP address"),
        (changed([0, "sub_agent"], -1), r"sub_agent is -1, not an integer from 0 to 4294967295"),
        (changed([0, "domains"], None), "domains is NoneType, not a list"),
        (
            changed([*DOMAIN, "version"], 8),
            r"exporter 0 \(192.0.2.1\), domain 0: version is 8, not an integer from 9 to 10",
        ),
        (changed([*DOMAIN, "version"], True), "version is True"),
        (changed([*DOMAIN, "id"], "1"), "id is '1'"),
        (changed([*DOMAIN, "port"], 65536), "port is 65536"),
        (changed([*DOMAIN, "system_init"], 1 << 64), "system_init is 18446744073709551616"),
        (changed([*DOMAIN, "samplers"], {"one": 1}), "sampler is 'one'"),
        (changed([*DOMAIN, "samplers"], {1: -1}), "sampling rate is -1, not an integer from 0"),
        (changed([*DOMAIN, "samplers"], {1: 1.5}), "sampling rate is 1.5"),
        (changed([*DOMAIN, "selection_sequences"], {7: 1}), "selection sequence 7 is int, not a list"),
        (changed([*DOMAIN, "selection_sequences"], {7: [-1]}), "selection sequence 7: selector is -1"),
        (changed([*DOMAIN, "selection_sequences"], {7: [1] * 9}), "number of selectors is 9"),
        (changed([*DOMAIN, "templates"], {255: {}}), "template is 255, not an integer from 256"),
        (changed([*DOMAIN, "templates"], {"9" * 30: {}}), "template is '9999"),
        (changed([*DOMAIN, "templates"], {256: []}), "template 256 is list, not a dict"),
        (changed([*TEMPLATE, "fields"], None), "template 256: fields is NoneType, not a list"),
        (changed([*TEMPLATE, "fields"], [(1, 2)]), r"template 256: field \(1, 2\) is not"),
        (changed([*TEMPLATE, "fields"], [(0, 1, 70000)]), "size is 70000"),
        (changed([*TEMPLATE, "fields"], [(0, 1, 4)] * 65536), "the number of fields is 65536"),
        (changed([*TEMPLATE, "scope_count"], 1), "scope_count is 1, not an integer from 0 to 0"),
        (changed([*TEMPLATE, "options"], 1), "options is 1, not True or False"),
        (changed([*TEMPLATE, "time"], None), "time is None"),
        (changed([*TEMPLATE, "contested"], "no"), "contested is 'no'"),
    ],
)
def test_bad_state_is_rejected_completely(state: Any, complaint: str) -> None:
    decoder = Decoder(SCHEMA)
    good = {"address": "192.0.2.7", "domains": []}
    with pytest.raises(ValueError, match=complaint):
        decoder.restore_exporters([*state, good] if isinstance(state, list) else state)
    with pytest.raises(ValueError, match=complaint):
        decoder.restore_exporters(state)
    assert decoder.read_exporters() == []


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_system_init_that_overflows_times_is_not_restored(beyond: int) -> None:
    """Earlier versions wrote such values into their state. The rest of such a state stays usable."""
    last = (2**63 // 1_000_000 - (2**32 - 1)) * 1_000_000
    decoder = Decoder(SCHEMA)
    decoder.restore_exporters(changed([*DOMAIN, "system_init"], last + beyond))
    (exporter,) = decoder.read_exporters()
    assert exporter["domains"][0]["system_init"] == (0 if beyond else last)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(JSON, st.data())
def test_garbage_is_rejected_or_harmless(value: Any, data: st.DataObject) -> None:
    """Replace any value of a state with any JSON value."""
    state: Any = copy.deepcopy(restorable_state(decoder_with_state()))
    place: Any = state
    while isinstance(place, (list, dict)) and place:
        step = data.draw(
            st.sampled_from(range(len(place)) if isinstance(place, list) else sorted(place, key=str))
        )
        if not isinstance(place[step], (list, dict)) or data.draw(st.integers(0, 3)) == 0:
            place[step] = value
            break
        place = place[step]
    decoder = Decoder(SCHEMA)
    try:
        decoder.restore_exporters(state)
    except ValueError:
        assert decoder.read_exporters() == []
    feed(decoder, DATA)


# Limits -----------------------------------------------------------------------------------------------------


def test_restoring_respects_the_exporter_limit() -> None:
    decoder = Decoder(SCHEMA, exporter_limit=2)
    decoder.restore_exporters(decoder_with_state().read_exporters())
    assert len([each for each in decoder.read_exporters() if each["address"] != "others"]) == 2
    assert decoder.counters["exporter_limit"] >= 1


def test_invalid_and_excess_templates_are_not_restored() -> None:
    fields = [(0, number, 4) for number in range(1, 1100)]
    templates: dict[int, Any] = {256: {"fields": fields}, 257: {"fields": []}, 258: {"fields": [(0, 1, 4)]}}
    templates |= {300 + number: {"fields": [(0, 1, 4)]} for number in range(5000)}
    decoder = Decoder(SCHEMA)
    decoder.restore_exporters(
        [{"address": "192.0.2.1", "domains": [{"version": 10, "id": 0, "templates": templates}]}]
    )
    (exporter,) = decoder.read_exporters()
    assert len(exporter["domains"][0]["templates"]) == 4096
    assert exporter["counters"] == {"template_limit": 5003 - 1 - 4096, "empty_template": 1}


def test_templates_may_evict_the_agent_of_their_address() -> None:
    """If memory is short, the templates of a domain evict other exporters. One of them is the sFlow agent in
    the same entry of the state.
    """

    def templates(first: int) -> dict[int, Any]:
        return {256 + i: {"fields": [(0, 1, 4), (first, i, 4)]} for i in range(1500)}

    def netflow(first: int) -> dict[str, Any]:
        return {"version": 9, "id": 0, "templates": templates(first)}

    def agent(number: int) -> dict[str, Any]:
        return {"version": 0, "id": number, "names": {"interface": {"1": "eth0"}}}

    decoder = Decoder(SCHEMA, memory_limit=1 << 21)
    decoder.restore_exporters([{"address": f"192.0.2.{i}", "domains": [netflow(i)]} for i in range(1, 9)])
    domains = [agent(0), netflow(9), agent(1), agent(2)]
    decoder.restore_exporters([{"address": "192.0.2.9", "domains": domains}])
    (restored,) = (each for each in decoder.read_exporters() if each["address"] == "192.0.2.9")
    assert {(domain["version"], domain["id"]) for domain in restored["domains"]} == {(9, 0), (0, 1), (0, 2)}
    feed(decoder, DATA)


def test_domains_past_the_limit_are_counted() -> None:
    domains = [{"version": 9, "id": 0, "port": port, "samplers": {1: 1}} for port in range(2000)]
    decoder = Decoder(SCHEMA)
    decoder.restore_exporters([{"address": "192.0.2.1", "domains": domains}])
    (exporter,) = decoder.read_exporters()
    assert len(exporter["domains"]) == 1024
    assert exporter["counters"] == {"template_limit": 2000 - 1023}
    assert not exporter["domains"][0]["samplers"], "the samplers of other ports are not merged into it"


def test_state_can_be_restored_while_a_set_that_waited_is_decoded() -> None:
    """Its template becomes another one, or none. It waits again."""
    fields = [(1, 4), (7, 2)]
    for others in ([], [(0, 1, 4)], [(0, 82, 65535), (0, 1, 4)]):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inward,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward,
        ):
            inward.bind(("127.0.0.1", 0))
            outward.connect(inward.getsockname())
            decoder = Decoder(SCHEMA)
            builder = decoder.new_builder(2)
            receiver = _core.Receiver([(inward.fileno(), inward.getsockname()[1])])
            outward.send(ipfix(data_set(256, *(u32(i) + b"\0\1" for i in range(20)))))
            outward.send(ipfix(template_set(template(256, *fields)), sequence=20))
            full: list[_core.Table] = []
            builder.receive(receiver, time.monotonic_ns() + 10**10, full)
            assert (len(full), receiver.interrupted) == (1, True)
            state = {"version": 10, "id": 1, "templates": {256: {"fields": others}}}
            decoder.restore_exporters([{"address": "127.0.0.1", "domains": [state]}])
            rest: list[_core.Table] = []
            builder.receive(receiver, time.monotonic_ns() + 10**8, rest)
            assert (len(rest), receiver.waiting) == (0, 0)
            (exporter, *_) = decoder.read_exporters()
            assert exporter["waiting"]["sets"] == 1
