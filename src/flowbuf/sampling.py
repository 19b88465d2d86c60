"""Sampling rates that the user configures for exporters and their interfaces."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass

from flowbuf.networks import Network, Prefix, parse_network, to_prefix

__all__ = ["PackedRules", "SamplingRule", "pack_rules"]

MAX_RATE = 2**63 - 1
MAX_INTERFACE = 2**32 - 1

PackedRules = tuple[list[Prefix], list[tuple[int, int, int, bool]]]
"""Networks, and rules as (index of the network, interface or 0, rate, override), sorted."""


@dataclass(frozen=True)
class SamplingRule:
    """Sampling rate of exporters, for flows whose exporter does not report a rate.

    The rule with the longest matching network applies. For the same network, a rule for the interface of the
    flow has priority over one for all interfaces.

    Args:
        exporter: Address of the exporter, or network such as "192.0.2.0/24". The exporter is the source of
            the datagrams, for sFlow the agent.
        rate: Sampling rate N: one packet in N was sampled.
        interface: Index of the ingress interface of the flows. Default: all interfaces.
        override: Replace the rate that the exporter reports. Default: False.

    Raises:
        ValueError: the network is invalid, or a number is out of range.

    Example:
        rule = flowbuf.SamplingRule("192.0.2.0/24", 1000, override=True)
        decoder = flowbuf.Decoder("flow", sampling=[rule])
    """

    exporter: str
    rate: int
    interface: int | None = None
    override: bool = False

    def __post_init__(self) -> None:
        parse_network(self.exporter)
        if not 1 <= operator.index(self.rate) <= MAX_RATE:
            raise ValueError(f"sampling rate is {self.rate}; it may be 1 to {MAX_RATE:,}")
        if self.interface is not None and not 1 <= operator.index(self.interface) <= MAX_INTERFACE:
            raise ValueError(f"interface is {self.interface}; it may be 1 to {MAX_INTERFACE:,}")


def pack_rules(rules: Iterable[SamplingRule]) -> PackedRules:
    """Return rules for the core.

    Raises:
        ValueError: two rules have the same network and interface.
    """
    by_place: dict[tuple[Network, int], SamplingRule] = {}
    for rule in rules:
        network, interface = parse_network(rule.exporter), rule.interface or 0
        if (network, interface) in by_place:
            place = f"interface {interface}" if interface else "all interfaces"
            raise ValueError(f"exporter {rule.exporter!r} has two sampling rates for {place}; leave one out")
        by_place[network, interface] = rule
    networks = dict.fromkeys(network for network, _ in by_place)
    index = {network: i for i, network in enumerate(networks)}
    packed = sorted(
        (index[network], interface, rule.rate, rule.override)
        for (network, interface), rule in by_place.items()
    )
    return [to_prefix(network) for network in networks], packed
