"""Write MaxMind databases (https://maxmind.github.io/MaxMind-DB/): a binary trie, data, metadata."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple

UINT16, UINT32, UINT64 = 5, 6, 9
MARKER = b"\xab\xcd\xefMaxMind.com"
Node = list[Any]  # two of: None, a Node, an offset into the data


class Uint(NamedTuple):
    """A number of one of the unsigned types. Plain integers are written as UINT32."""

    type: int
    value: int


def database(networks: Mapping[str, Any], type: str = "GeoLite2-Country", ip_version: int = 6) -> bytes:
    """Return a database with data of some networks. No network may be inside another."""
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
    """Return the path to a network in the trie. IPv4 is ::/96 in an IPv6 database."""
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
    """Number the nodes: identity -> (number, node)."""
    nodes: dict[int, tuple[int, Node]] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        nodes[id(node)] = (len(nodes), node)
        waiting += [side for side in node if isinstance(side, list)]
    return nodes


def pointer(side: Any, nodes: Mapping[int, tuple[int, Node]]) -> int:
    """Return the value of a record in the trie: a node, no data, or an offset of data."""
    if side is None:
        return len(nodes)
    return nodes[id(side)][0] if isinstance(side, list) else len(nodes) + 16 + side


def encode(value: Any) -> bytes:
    """Encode a value of the data section."""
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
    """Encode a control byte. Types above 7 and sizes from 29 on use additional bytes."""
    first = (0 if type > 7 else type) << 5 | min(size, 29)
    return (
        bytes([first])
        + (bytes([type - 7]) if type > 7 else b"")
        + (bytes([size - 29]) if size >= 29 else b"")
    )
