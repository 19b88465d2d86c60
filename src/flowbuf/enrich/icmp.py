"""Names of ICMP and ICMPv6 messages in the IANA registries, in the spelling of packet filters."""

from __future__ import annotations

__all__ = ["icmp_name"]

ICMP, ICMPV6 = 1, 58

# (protocol, type) -> name
_TYPES: dict[tuple[int, int | None], str] = {
    **{(ICMP, 0): "echo-reply", (ICMP, 3): "destination-unreachable", (ICMP, 4): "source-quench"},
    **{(ICMP, 5): "redirect", (ICMP, 8): "echo-request", (ICMP, 9): "router-advertisement"},
    **{(ICMP, 10): "router-solicitation", (ICMP, 11): "time-exceeded", (ICMP, 12): "parameter-problem"},
    **{(ICMP, 13): "timestamp-request", (ICMP, 14): "timestamp-reply", (ICMP, 17): "address-mask-request"},
    **{
        (ICMP, 18): "address-mask-reply",
        (ICMP, 42): "extended-echo-request",
        (ICMP, 43): "extended-echo-reply",
    },
    **{(ICMPV6, 1): "destination-unreachable", (ICMPV6, 2): "packet-too-big", (ICMPV6, 3): "time-exceeded"},
    **{(ICMPV6, 4): "parameter-problem", (ICMPV6, 128): "echo-request", (ICMPV6, 129): "echo-reply"},
    **{(ICMPV6, 130): "multicast-listener-query", (ICMPV6, 131): "multicast-listener-report"},
    **{(ICMPV6, 132): "multicast-listener-done", (ICMPV6, 133): "router-solicitation"},
    **{(ICMPV6, 134): "router-advertisement", (ICMPV6, 135): "neighbor-solicitation"},
    **{(ICMPV6, 136): "neighbor-advertisement", (ICMPV6, 137): "redirect"},
    **{(ICMPV6, 143): "multicast-listener-report-v2"},
    **{(ICMPV6, 160): "extended-echo-request", (ICMPV6, 161): "extended-echo-reply"},
}

# (protocol, type) -> names of its codes, from 0
_CODES: dict[tuple[int, int | None], tuple[str, ...]] = {
    (ICMP, 3): (
        *("network-unreachable", "host-unreachable", "protocol-unreachable", "port-unreachable"),
        *(
            "fragmentation-needed",
            "source-route-failed",
            "network-unknown",
            "host-unknown",
            "source-host-isolated",
        ),
        *("network-prohibited", "host-prohibited", "network-unreachable-for-tos", "host-unreachable-for-tos"),
        *("communication-prohibited", "host-precedence-violation", "precedence-cutoff"),
    ),
    (ICMP, 5): ("network-redirect", "host-redirect", "tos-network-redirect", "tos-host-redirect"),
    (ICMP, 11): ("ttl-exceeded", "reassembly-time-exceeded"),
    (ICMP, 12): ("pointer-indicates-error", "required-option-missing", "bad-length"),
    (ICMPV6, 1): (
        *("no-route", "communication-prohibited", "beyond-scope", "address-unreachable", "port-unreachable"),
        *("source-address-failed-policy", "reject-route", "source-routing-error"),
    ),
    (ICMPV6, 3): ("hop-limit-exceeded", "reassembly-time-exceeded"),
    (ICMPV6, 4): ("bad-header", "unknown-next-header", "unknown-option"),
}


def icmp_name(proto: int, type: int | None, code: int | None) -> str | None:
    """Return the name of a message, or of its type if the code has none.

    None if the protocol is not ICMP or the type is unknown.
    """
    codes = _CODES.get((proto, type), ())
    return codes[code] if code is not None and code < len(codes) else _TYPES.get((proto, type))
