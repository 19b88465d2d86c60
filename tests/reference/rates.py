"""Sampling rates that the user configures, and a limit on the flows of an exporter.

The documentation of `sampling` and `rate_limit` leaves these points open:

- The ingress interface is ingressInterface (10), or ingressPhysicalInterface (252) if that is 0 or absent.
  0 and numbers above 32 bits are no interface. A reverse flow has its own, else that of the record.
- A rate of 0 is unknown.
- The credit of an exporter grows with the time of reception, up to the flows of one second. A datagram is
  decoded while there is credit. Its flows are subtracted, down to the flows of a minute below zero before the
  next datagram.
- A time less than a second before the latest one is out of order, and changes nothing. An earlier time is a
  new clock, and adds no credit.
- The flows of a decoded datagram stand for the flows skipped before it: each has the weight
  1 + owed / average. `owed` is the number of skipped flows, less the weights above 1 of decoded flows. The
  average is that of the flows of decoded datagrams, moved by an eighth of the difference for each. It is at
  least 1.
- Rates are rounded down, and the remainder is added to the next rate of the exporter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_network
from typing import Any

from .columns import Refused, fit
from .datagram import Datagram, wide
from .values import Flow, Number, unsigned

SECOND = 10**9
ONE = 1 << 32
MINUTE = 60
INGRESS_INTERFACES = (10, 252)
MAX_INTERFACE = 2**32 - 1
FIXED_INTERFACES = ("netflow5:input", "sflow:flow_sample.input")


def read_interface(flow: Flow) -> int:
    """Return the index of the ingress interface, or 0."""
    for name in FIXED_INTERFACES:
        value = flow.values.get(name)
        if isinstance(value, Number):
            return int(value.value)
    for element in INGRESS_INTERFACES:
        octets = flow.field(element)
        if octets is None and flow.shared is not None:
            octets = flow.shared.field(element)
        number = unsigned(octets or b"")
        if number:
            return number if number <= MAX_INTERFACE else 0
    return 0


@dataclass
class Limit:
    """The limit of one exporter. `credit` is in billionths of a flow, `owed` in units of 2**-32 flows."""

    rate: int
    time: int = 0
    credit: int = 0
    owed: int = 0
    average: int = 0  # times 16
    remainder: int = 0

    def admit(self, time: int) -> bool:
        self.credit = max(self.credit, -self.rate * SECOND * MINUTE)
        if not time:
            return True
        elapsed = time - self.time
        if not self.time:
            self.credit = self.rate * SECOND
        elif elapsed > 0:
            self.credit = min(self.credit + elapsed * self.rate, self.rate * SECOND)
        if elapsed >= 0 or -elapsed >= SECOND:
            self.time = time
        return self.credit > 0

    @property
    def weight(self) -> int:
        if self.owed <= 0 or not self.average:
            return ONE
        return ONE + self.owed // max(self.average, 16) * 16

    def account(self, weight: int, decoded: int, skipped: int) -> None:
        self.owed += (skipped << 32) - decoded * (weight - ONE)
        self.credit -= decoded * SECOND
        if decoded and not self.average:
            self.average = 16 * decoded
        elif decoded:
            self.average += int((16 * decoded - self.average) / 8)

    def multiply(self, rate: int, weight: int) -> int:
        product = rate * weight + self.remainder
        self.remainder = product % ONE
        return product // ONE


class Rates:
    """Rates of all exporters.

    `rules` are objects with the fields `exporter`, `rate`, `interface` and `override`.
    """

    def __init__(self, columns: list[Any], rules: Any, default: int | None, limit: int) -> None:
        self.column = next((column for column in columns if column.scale == "rate"), None)
        self.rules = [(ip_network(rule.exporter), rule) for rule in rules]
        self.default = default
        self.limit = limit
        self.limits: dict[tuple[int, bool], Limit] = {}

    def limit_of(self, datagram: Datagram) -> Limit:
        """Return the limit of an exporter. An sFlow agent is another one than the source of NetFlow."""
        key = id(datagram.exporter), datagram.version == "sflow"
        return self.limits.setdefault(key, Limit(self.limit))

    def configured(self, exporter: bytes, flow: Flow) -> tuple[int, bool]:
        """Return the configured rate, and whether it replaces another one. A rate of 0 is none."""
        whole = IPv6Address(wide(exporter))
        address, interface = whole.ipv4_mapped or whole, read_interface(flow)
        matching = [
            (network.prefixlen, rule.interface is not None, rule)
            for network, rule in self.rules
            if address in network and rule.interface in (None, interface)
        ]
        if not matching:
            return self.default or 0, False
        *_, rule = max(matching, key=lambda match: match[:2])
        return rule.rate, rule.override


class DatagramRates:
    """Rates of the flows of a datagram. The limit decides when the exporter is known."""

    def __init__(self, rates: Rates, datagram: Datagram) -> None:
        self.rates = rates
        self.datagram = datagram
        self.limit: Limit | None = None
        self.admitted = True
        self.weight = ONE

    def admits(self) -> bool:
        """Return whether the flows of the datagram are decoded."""
        if self.limit is None:
            self.limit = self.rates.limit_of(self.datagram)
            if self.rates.limit:
                self.admitted = self.limit.admit(self.datagram.received)
                self.weight = self.limit.weight
        return self.admitted

    def account(self, decoded: int, skipped: int) -> None:
        """Account for the flows of the whole datagram."""
        self.admits()
        assert self.limit
        self.limit.account(self.weight, decoded, skipped)

    def configure(self, flow: Flow, message: dict[str, Any]) -> None:
        """Give a message the configured rate, if it has no other or that is replaced."""
        column = self.rates.column
        if column is None:
            return
        rate, replaces = self.rates.configured(self.datagram.exporter_address, flow)
        if rate and (replaces or not message.get(column.name)):
            message[column.name] = rate

    def weigh(self, message: dict[str, Any], notes: Counter[str]) -> None:
        """Multiply the rate of a message by its weight. A rate that exceeds its column is absent."""
        column = self.rates.column
        if column is None or not (self.rates.rules or self.rates.limit):
            return
        if self.weight != ONE:
            assert self.limit
            message[column.name] = self.limit.multiply(message.get(column.name) or 1, self.weight)
        try:
            fit(column, message.get(column.name, 0))
        except Refused as refused:
            notes[refused.args[0]] += 1
            del message[column.name]
