"""A common interface to decode datagrams with the core or the reference, and to look at the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from flowbuf.schema import Schema
from tests.reference import Decoder as ReferenceDecoder
from tests.support.core_adapter import CoreDecoder
from tests.support.datagrams import data_set, ipfix, netflow9, template, template_set, template_set9

IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {"reference": ReferenceDecoder, "core": CoreDecoder}

FLOW = Schema.load("flow")
SOURCE = ("192.0.2.1", 9995)
RECEIVED = 1_700_000_000_123_456_789

# Counted only when a value is examined. The implementations examine different candidates of a column before
# they find its value: the core may count more than the reference, never less.
VALUE_NOTES = {
    "out_of_range",
    "unmapped",
    "invalid_utf8",
    "bad_field_size",
    "bad_list",
    "opaque_value",
    "no_system_start",
}


@dataclass
class Outcome:
    """The flows of each datagram, the counters in total and per exporter, and the waiting data sets per
    exporter.
    """

    datagrams: list[list[dict[str, Any]]]
    stats: dict[str, dict[str, Any]]
    counters: dict[str, int]
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    sequences: dict[str, dict[tuple[str, int], dict[str, Any]]] = field(default_factory=dict)

    @property
    def sequence(self) -> dict[str, Any]:
        """Return the sequence numbering state of the only domain of the only exporter."""
        ((sequence,),) = (domains.values() for domains in self.sequences.values())
        return sequence

    @property
    def flows(self) -> list[dict[str, Any]]:
        return [flow for flows in self.datagrams for flow in flows]

    @property
    def flow(self) -> dict[str, Any]:
        """Return the only flow."""
        (flow,) = self.flows
        return flow


Given = bytes | tuple[bytes, tuple[str, int]] | tuple[bytes, tuple[str, int], int]


class Decode(Protocol):
    """Decode datagrams with a new decoder of one implementation.

    A datagram is a payload, a pair with its source (default SOURCE), or a triple with its time of reception
    in ns (default RECEIVED). `finish` ends the input. `policy` are options of the decoder; template_expiry is
    in ns.
    """

    def __call__(
        self, *datagrams: Given, schema: Schema = FLOW, finish: bool = False, **policy: Any
    ) -> Outcome: ...


def run_decoder(
    implementation: str, sequence: Iterable[Given], schema: Schema, finish: bool, **policy: Any
) -> Outcome:
    decoder = IMPLEMENTATIONS[implementation](schema, **policy)
    triples = [
        (given, SOURCE, RECEIVED) if isinstance(given, bytes) else (*given, RECEIVED)[:3]
        for given in sequence
    ]
    flows = [decoder.decode(*triple) for triple in triples]
    if finish:
        decoder.finish()
    return Outcome(flows, decoder.stats, decoder.counters, decoder.waiting, decoder.sequences)


def decode_with(implementation: str) -> Decode:
    def decode(*datagrams: Given, schema: Schema = FLOW, finish: bool = False, **policy: Any) -> Outcome:
        return run_decoder(implementation, datagrams, schema, finish, **policy)

    return decode


# With this mark, every test of a module runs against both implementations.
both_decoders = pytest.mark.parametrize(
    "decode", [pytest.param(decode_with(name), id=name) for name in IMPLEMENTATIONS]
)


def short_id(value: object) -> str | None:
    """Return the id of a test case that consists of bytes: the first of them in hexadecimal."""
    return f"{len(value)} octets {value[:8].hex()}" if isinstance(value, bytes) else None


def columns(*names: str) -> Schema:
    """Return the default schema with only these columns."""
    return FLOW.only(*names)


def ipfix_record(fields: list[Any], record: bytes, **header: int) -> bytes:
    """Build an IPFIX datagram with a template and one record of it."""
    return ipfix(template_set(template(256, *fields)), data_set(256, record), **header)


# With this mark, a test runs for both protocols that have templates.
both_protocols = pytest.mark.parametrize("protocol", ["netflow9", "ipfix"])


def message(protocol: str, *sets: bytes, domain: int = 0) -> bytes:
    """Build a datagram of NetFlow v9 or IPFIX."""
    return netflow9(*sets, source_id=domain) if protocol == "netflow9" else ipfix(*sets, domain=domain)


def templates(protocol: str, *templates: bytes, padding: int = 0) -> bytes:
    """Build a template set of NetFlow v9 or IPFIX."""
    return (template_set9 if protocol == "netflow9" else template_set)(*templates, padding=padding)
