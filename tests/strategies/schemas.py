"""Hypothesis strategies for schemas: flow.toml with changed columns, ranks of sources, and more columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from flowbuf.schema import Schema, elements

FLOW = Schema.load("flow")
FILLED = [column.name for column in FLOW if column.sources]
everything = FLOW.only(*FILLED)

# Elements that flow.toml reads, and some others.
READ = sorted(
    {source.id for column in FLOW for rank in column.sources for source in rank if source.kind == "ipfix"}
)
OTHERS = [3, 19, 36, 95, 97, 161, 204, 232, 233, 276, 291, 292, 299, 373, 500, 515, 32767]

INTEGERS = [
    "uint8", "uint16", "uint32", "uint64", "mac", "int32", "int64", "sint32", "sint64", "fixed32", "fixed64"
]  # fmt: skip
TIMES = ("dateTimeSeconds", "dateTimeMilliseconds", "dateTimeMicroseconds", "dateTimeNanoseconds")
TYPES_OF = {
    **dict.fromkeys(("unsigned8", "unsigned16", "unsigned32", "unsigned64", "signed32"), INTEGERS),
    **{data_type: ["timestamp"] for data_type in TIMES},
    "ipv4Address": ["ip"],
    "ipv6Address": ["ip"],
    "macAddress": ["mac", "uint64"],
    "boolean": ["bool"],
    "float64": ["float", "double"],
    "string": ["string", "bytes"],
    "octetArray": ["bytes", "string", "ip", "uint64"],
    "subTemplateList": ["bytes"],
    "unsigned256": ["bytes"],
}
OF_ENTERPRISES = [*INTEGERS, "bool", "float", "double", "string", "bytes", "ip", "timestamp", "duration"]
FIXED_NUMBERS = [
    "meta:sequence_number", "meta:observation_domain_id", "netflow5:dOctets", "netflow5:tos",
    "sflow:flow_sample.input", "sflow:flow_sample.sampling_rate", "sflow:extended_gateway.src_as",
    "sflow:sampled_ip.length", "sflow:sampled_ip.tos", "derived:sampling_rate", "derived:etype",
    "derived:icmp_type", "packet:ip.length", "packet:ip.ttl", "packet:vlan.id", "packet:ethernet.src_mac",
    "sflow:sampled_header.frame_length", "sflow:sampled_ethernet.length", "sflow:extended_nat_port.src_port",
    "sflow:extended_l2_tunnel_egress.src_mac", "sflow:extended_mpls_vc.vll_vc_id",
    "sflow:app_operation.req_bytes",
]  # fmt: skip
# In the order of decoding: the core rejects other ranks for a repeated column.
LISTS = [
    "sflow:extended_gateway.as_path",
    "sflow:extended_gateway.communities",
    "derived:mpls_labels",
    "packet:mpls.labels",
    "sflow:extended_mpls.in_stack",
    "sflow:extended_vlanin.stack",
]
NUMERIC = [
    number
    for number in READ + OTHERS
    if TYPES_OF.get(getattr(elements.by_id(number), "data_type", "")) == INTEGERS
]


@st.composite
def type_keys(draw: st.DrawFn, type: str) -> dict[str, Any]:
    """Draw the required and some optional keys for a column of the type."""
    keys: dict[str, Any] = {"type": type}
    if type in ("timestamp", "duration"):
        keys["unit"] = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    elif type == "ip":
        keys["ip"] = draw(st.sampled_from(["mapped", "native"]))
    elif draw(st.integers(0, 3)) == 0:
        keys["explicit"] = True
    if draw(st.integers(0, 3)) == 0:
        keys["one_way"] = True
    if draw(st.integers(0, 3)) == 0:
        keys["zero"] = "absent"
    return keys


# Suffixes that select one occurrence of an element in a record.
PLACES = st.sampled_from(["", "", "", "#1", "#2", "#3", "#last"])


POOLS: list[tuple[list[Any], list[str]]] = [
    (["9999/1", "9999/2", "6871/14", "6871/16398", 32767], OF_ENTERPRISES),
    (NUMERIC, INTEGERS),
    ([8, 12, 27, 28, 15], ["ip", "bytes"]),
    ([82, 83, 371], ["string", "bytes"]),
    ([150, 152, 154, 156, 22], ["timestamp", "uint64"]),
    ([485, 512, 291], OF_ENTERPRISES),
    ([292, 515], ["bytes"]),
]


@st.composite
def occurrences(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a repeated column of elements with several occurrences per record, or of selected occurrences."""
    pool, types = draw(st.sampled_from(POOLS))
    chosen = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
    sources = [f"ipfix:{element}{draw(PLACES)}" for element in chosen]
    ranks = draw(st.sampled_from([sources, [sources]]))
    return draw(type_keys(draw(st.sampled_from(types)))) | {
        "repeated": True,
        "explicit": False,
        "sources": ranks,
    }


@st.composite
def added_columns(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the keys of a column that is not in flow.toml."""
    kind = draw(
        st.sampled_from(["element", "enterprise", "numbers", "list", "basic list", "enum", "occurrences"])
    )
    if kind == "element":
        known = [
            number for number in READ + OTHERS if getattr(elements.by_id(number), "data_type", "") in TYPES_OF
        ]
        number = draw(st.sampled_from(known))
        element = elements.by_id(number)
        assert element is not None
        choices = TYPES_OF[element.data_type]
        if number in (21, 22, 158, 159):
            choices = ["timestamp"]
        elif element.units.endswith("seconds") and choices is INTEGERS:
            choices = ["duration", "uint32"]
        return draw(type_keys(draw(st.sampled_from(choices)))) | {
            "sources": [f"ipfix:{number}{draw(PLACES)}"]
        }
    if kind == "enterprise":
        source = draw(
            st.sampled_from(
                ["ipfix:9999/1", "ipfix:9999/2", "ipfix:29305/1", "ipfix:32767", "netflow9:40000"]
            )
        )
        return draw(type_keys(draw(st.sampled_from(OF_ENTERPRISES)))) | {"sources": [source + draw(PLACES)]}
    if kind == "occurrences":
        return draw(occurrences())
    if kind == "numbers":
        pool = [*FIXED_NUMBERS, *[f"ipfix:{number}" for number in NUMERIC]]
        chosen = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=5, unique=True))
        cut = draw(st.integers(0, len(chosen) - 1))
        ranks: list[Any] = [*chosen[:cut], chosen[cut:]]
        keys = draw(type_keys(draw(st.sampled_from(INTEGERS)))) | {"sources": ranks}
        keys["replaces_zero"] = [
            source for source in chosen if source.startswith("ipfix:") and draw(st.booleans())
        ]
        if draw(st.integers(0, 2)) == 0:
            keys["mirror"] = {
                "sources": [[f"ipfix:{number}" for number in draw(st.permutations([1, 10, 14, 58]))]]
            }
        return keys
    if kind == "list":
        chosen = sorted(draw(st.sets(st.sampled_from(LISTS), min_size=1)), key=LISTS.index)
        return {"type": draw(st.sampled_from(INTEGERS)), "repeated": True, "sources": chosen}
    if kind == "basic list":
        keys = draw(type_keys(draw(st.sampled_from(OF_ENTERPRISES)))) | {
            "sources": [["ipfix:291", "ipfix:485"]]
        }
        if draw(st.booleans()):
            keys |= {"repeated": True, "explicit": False}
        return keys
    members = {"none": 0, "one": 1, "two": 2, "six": 6}
    mapping = draw(st.sampled_from([{}, {"0": 1, "1": 2}, {"1": 6, "6": 0}]))
    return {
        "type": "enum",
        "values": members,
        "map": mapping,
        "sources": [f"ipfix:{draw(st.sampled_from([4, 60, 61, 136]))}"],
    }


@dataclass(frozen=True)
class Changes:
    """Changes to flow.toml. They are much shorter than the schema when Hypothesis prints a failure."""

    only: list[str]
    ranks: dict[str, list[Any]]
    added: list[dict[str, Any]]

    def schema(self) -> Schema:
        needed = [needed for name in self.only for needed in FLOW[name].depends]
        schema = FLOW.only(*self.only, *needed)
        for name, sources in self.ranks.items():
            schema = schema.alter(name, sources=sources)
        for index, keys in enumerate(self.added):
            if "mirror" in keys:
                mirror = {"name": f"mirrored_{index}", "number": 2000 + index, **keys["mirror"]}
                keys = {**keys, "mirror": mirror}
            schema = schema.add(f"added_{index}", number=1000 + index, **keys)
        return schema


@st.composite
def schema_changes(draw: st.DrawFn) -> Changes:
    """Draw enabled columns, permuted ranks for some of them, and a few more columns."""
    names = draw(st.just(FILLED) | st.lists(st.sampled_from(FILLED), max_size=12, unique=True))
    ranks = {}
    for name in [name for name in names if not FLOW[name].repeated][: draw(st.integers(0, 3))]:
        texts = [[source.text for source in rank] for rank in FLOW[name].sources]
        ranks[name] = draw(st.permutations(texts))
    return Changes(names, ranks, draw(st.lists(added_columns(), max_size=4)))
