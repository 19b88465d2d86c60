"""Names of protocols, TCP flags and ICMP messages, from the registries of IANA."""

from __future__ import annotations

__all__ = ["describe_icmp", "describe_protocol", "describe_tcp_flags", "protocol_number"]

_PROTOCOLS = {
    **{1: "ICMP", 2: "IGMP", 4: "IPIP", 6: "TCP", 17: "UDP", 33: "DCCP", 41: "IPv6", 46: "RSVP", 47: "GRE"},
    **{50: "ESP", 51: "AH", 58: "ICMPv6", 88: "EIGRP", 89: "OSPF", 103: "PIM", 112: "VRRP", 115: "L2TP"},
    **{132: "SCTP", 136: "UDPLite"},
}
_TCP_FLAGS = "FSRPAUECN"
_ICMP = {
    **{0: "echo-reply", 3: "unreachable", 4: "source-quench", 5: "redirect", 8: "echo-request"},
    **{9: "router-advertisement", 10: "router-solicitation", 11: "time-exceeded", 12: "parameter-problem"},
    **{13: "timestamp", 14: "timestamp-reply", 17: "mask-request", 18: "mask-reply"},
    **{42: "extended-echo-request", 43: "extended-echo-reply"},
}
_ICMPV6 = {
    **{1: "unreachable", 2: "packet-too-big", 3: "time-exceeded", 4: "parameter-problem"},
    **{128: "echo-request", 129: "echo-reply", 130: "listener-query", 131: "listener-report"},
    **{132: "listener-done", 133: "router-solicitation", 134: "router-advertisement"},
    **{135: "neighbor-solicitation", 136: "neighbor-advertisement", 137: "redirect", 143: "listener-report"},
    **{160: "extended-echo-request", 161: "extended-echo-reply"},
}
_NAMES = {1: _ICMP, 58: _ICMPV6}
_UNREACHABLE = {
    1: {
        **{0: "net-unreachable", 1: "host-unreachable", 2: "protocol-unreachable", 3: "port-unreachable"},
        **{4: "fragmentation-needed", 9: "net-prohibited", 10: "host-prohibited", 13: "prohibited"},
    },
    58: {0: "no-route", 1: "prohibited", 3: "address-unreachable", 4: "port-unreachable"},
}
_UNREACHABLE_TYPE = {1: 3, 58: 1}


def protocol_number(name: str) -> int | None:
    """Return the number of an IP protocol, in upper or lower case; None for an unknown one."""
    return next((number for number, known in _PROTOCOLS.items() if known.lower() == name.lower()), None)


def describe_protocol(number: int) -> str:
    """Return the name of an IP protocol, or its number."""
    return _PROTOCOLS.get(number, str(number))


def describe_tcp_flags(flags: int) -> str:
    """Return a letter for each TCP flag that is set, the lowest bit first: SA for SYN and ACK."""
    return "".join(letter for bit, letter in enumerate(_TCP_FLAGS) if flags >> bit & 1)


def describe_icmp(protocol: int, both: int) -> str:
    """Return the name of an ICMP message, or "" if the protocol is neither ICMP nor ICMPv6.

    Args:
        protocol: IP protocol.
        both: Type and code: type << 8 | code.
    """
    if protocol not in _NAMES:
        return ""
    type, code = both >> 8, both & 0xFF
    name = _NAMES[protocol].get(type, "")
    if type == _UNREACHABLE_TYPE[protocol]:
        return _UNREACHABLE[protocol].get(code, f"{name} {code}")
    return name or (f"type {type}, code {code}" if code else f"type {type}")
