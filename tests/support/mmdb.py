"""Writes MaxMind databases, as https://maxmind.github.io/MaxMind-DB/ describes them: a binary trie, data,
metadata.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple

UINT16, UINT32, UINT64 = 5, 6, 9
MARKER = b"\xab\xcd\xefMaxMind.com"
Node = list[Any]  # two of: None, a Node, an offset into the data


class Uint(NamedTuple):
    """A number of one of the types; plain ones are of UINT32."""

    type: int
    value: int


def database(networks: Mapping[str, Any], type: str = "GeoLite2-Country", ip_version: int = 6) -> bytes:
    """A database of what is known of some networks, none of which is within another."""
    data = b""
    root: Node = [None, None]
    for text, record in networks.items():
        insert(root, bits_of(text, ip_version), len(data))
        data += encode(record)
    nodes = number(root)
    metadata = {
        "binary_format_major_version": Uint(UINT16, 2),
        "binary_format_minor_version": Uint(UINT16, 0),
        "build_epoch": Uint(UINT64, 1700000000),
        "database_type": type,
        "description": {"en": "made for a test"},
        "ip_version": Uint(UINT16, ip_version),
        "languages": ["en"],
        "node_count": len(nodes),
        "record_size": Uint(UINT16, 32),
    }
    tree = b"".join(pointer(side, nodes).to_bytes(4, "big") for node in nodes.values() for side in node[1])
    return tree + bytes(16) + data + MARKER + encode(metadata)


def bits_of(text: str, ip_version: int) -> str:
    """The path to a network. IPv4 is ::/96 in a database of IPv6."""
    network = ipaddress.ip_network(text)
    bits = f"{int(network.network_address):0{network.max_prefixlen}b}"[: network.prefixlen]
    return "0" * 96 + bits if network.version == 4 and ip_version == 6 else bits


def insert(root: Node, bits: str, offset: int) -> None:
    node = root
    for bit in bits[:-1]:
        if node[int(bit)] is None:
            node[int(bit)] = [None, None]
        node = node[int(bit)]
    node[int(bits[-1])] = offset


def number(root: Node) -> dict[int, tuple[int, Node]]:
    """Each node by its identity, with its place."""
    nodes: dict[int, tuple[int, Node]] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        nodes[id(node)] = (len(nodes), node)
        waiting += [side for side in node if isinstance(side, list)]
    return nodes


def pointer(side: Any, nodes: Mapping[int, tuple[int, Node]]) -> int:
    """What a record of the tree says: another node, nothing, or where the data is."""
    if side is None:
        return len(nodes)
    return nodes[id(side)][0] if isinstance(side, list) else len(nodes) + 16 + side


def encode(value: Any) -> bytes:
    """A value of the data section."""
    if isinstance(value, str):
        return control(2, len(value.encode())) + value.encode()
    if isinstance(value, dict):
        return control(7, len(value)) + b"".join(encode(key) + encode(item) for key, item in value.items())
    if isinstance(value, list):
        return control(11, len(value)) + b"".join(map(encode, value))
    type, number = value if isinstance(value, Uint) else Uint(UINT32, value)
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return control(type, len(octets)) + octets


def control(type: int, size: int) -> bytes:
    """Types above 7 take a second octet; sizes from 29 on, another."""
    first = (0 if type > 7 else type) << 5 | min(size, 29)
    return (
        bytes([first])
        + (bytes([type - 7]) if type > 7 else b"")
        + (bytes([size - 29]) if size >= 29 else b"")
    )
