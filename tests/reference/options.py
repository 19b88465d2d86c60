"""Options data: rows of options records, names that flows take from them, and elements without a column.

The specifications leave these points open:

- An options record names one thing of each kind: the one that the first id which is not zero identifies, or
  the thing 0 if all ids are zero. No interface and no user has the id 0. Ids are integers of up to 16 bytes.
  The first byte of an application id (RFC 6759 section 4.1) is its engine; the rest is an integer. A user has
  an address, whose width matters.
- A name has at most 255 bytes of UTF-8, is cut off at a character, and does not end with NULs. An empty name
  is no name.
- A flow takes the name of its id: the first of the elements of the id that its record has. A user has the
  name of any of its addresses. A reverse flow takes the names of reverse elements, else of the shared fields,
  but no name of a user.
- In sFlow, the port name and the speed in a counter sample belong to the interface whose index is in its
  interface counters, else to that of the sample's source id.
- Elements without a column have a value. Padding is left out, and so are lists whose records are read. If a
  record may describe both directions, each flow has the elements of its own direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import biflow
from .octets import Octets, Short
from .structured import BASIC_LIST, STRUCTURES
from .values import Blobs, Field, Flow, Number, Numbers, Text, Value

if TYPE_CHECKING:
    from .templates import FieldSpecifier

Record = list[tuple["FieldSpecifier", bytes]]
NameId = tuple[int, int]
Names = dict[tuple[str, NameId], Value]

LONGEST_NAME = 255
PADDING = (0, 210)
SCOPES = {1: "system", 2: "interface", 3: "line_card", 4: "cache", 5: "template"}
INTERFACE_SCOPE = 2
IDS = {
    "interface": (10, 14, 252, 253),
    "vrf": (234, 235),
    "application": (95,),
    "sampler": (48, 302),
    "user": (8, 27, 56, 365, 366),
    "point": (138,),
}
# Element of a name -> (kind of id, kind of name).
TEXTS = {
    82: (("interface", "interface"), ("point", "observation_point")),
    83: (("interface", "interface_description"),),
    236: (("vrf", "vrf"),),
    96: (("application", "application"),),
    372: (("application", "application_category"),),
    84: (("sampler", "sampler"),),
    335: (("sampler", "sampler"),),
    371: (("user", "user"),),
}
# Source -> (kind of name, elements of its id).
SOURCES = {
    "derived:in_if_name": ("interface", (10, 252)),
    "derived:out_if_name": ("interface", (14, 253)),
    "derived:in_if_description": ("interface_description", (10, 252)),
    "derived:out_if_description": ("interface_description", (14, 253)),
    "derived:in_if_speed": ("interface_speed", (10, 252)),
    "derived:out_if_speed": ("interface_speed", (14, 253)),
    "derived:ingress_vrf_name": ("vrf", (234,)),
    "derived:egress_vrf_name": ("vrf", (235,)),
    "derived:application_name": ("application", (95,)),
    "derived:application_category": ("application_category", (95,)),
    "derived:sampler_name": ("sampler", (48, 302)),
    "derived:user_name": ("user", (8, 27, 56, 366, 365)),
    "derived:observation_point_name": ("observation_point", (138,)),
}
MEGABIT = 1_000_000
IF_COUNTERS, PORT_NAME = 1, 1005


def wanted_kinds(sources: Collection[str]) -> set[str]:
    """Return the kinds of names that the sources of enabled columns need."""
    return {kind for source, (kind, _) in SOURCES.items() if source in sources}


def name_id(thing: str, octets: bytes) -> NameId | None:
    """Return the id of a thing, or None if a field cannot hold one."""
    if not 1 <= len(octets) <= 16:
        return None
    if thing == "application":
        return octets[0], int.from_bytes(octets[1:], "big")
    return len(octets) % 16 if thing == "user" else 0, int.from_bytes(octets, "big")


def to_name(octets: bytes) -> Value | None:
    text = octets[: LONGEST_NAME + 3].decode(errors="replace")
    while len(text.encode()) > LONGEST_NAME:
        text = text[:-1]
    text = text.rstrip("\0")
    return Text(text.encode()) if text else None


def define(names: Names, kind: str, key: NameId, value: Value | None) -> None:
    names.pop((kind, key), None)
    if value is not None:
        names[kind, key] = value


def learn(names: Names, record: Record, wanted: set[str]) -> bool:
    """Learn the names in an options record. Return False if it has none of the wanted kinds."""
    ids: dict[str, bytes] = {}
    for specifier, octets in record:
        for thing, elements in IDS.items():
            is_id = not specifier.scope and not specifier.enterprise and specifier.id in elements
            is_scope = specifier.scope and specifier.id == INTERFACE_SCOPE and thing == "interface"
            if octets and (is_id or is_scope) and not any(ids.get(thing, b"")):
                ids[thing] = octets if any(octets) or thing not in ids else ids[thing]
    found = False
    for specifier, octets in record:
        if specifier.scope or specifier.enterprise:
            continue
        for thing, kind in TEXTS.get(specifier.id, ()):
            key = name_id(thing, ids.get(thing, b""))
            nothing = thing in ("interface", "user") and not any(ids.get(thing, b""))
            if key is not None and kind in wanted and not nothing:
                define(names, kind, key, to_name(octets))
                found = True
    return found


def find_names(
    layers: list[Names], fields: list[tuple[tuple[int, int], bytes]], reverse: bool = False
) -> Iterator[tuple[str, Value | None]]:
    """Yield (source, name or None) of the ids in a record. The first of `layers` with a name counts."""
    for source, (kind, elements) in SOURCES.items():
        if reverse and kind == "user":
            continue
        first = [
            next(((element, octets) for (pen, id), octets in fields if not pen and id == element), None)
            for element in elements
        ]
        ids = [each for each in first if each]
        if kind == "user":  # any of its addresses, in the order of the record
            order = [id for (pen, id), _ in fields if not pen]
            ids.sort(key=lambda each: order.index(each[0]))
        else:
            ids = ids[:1]
        keys = [name_id(kind.removesuffix("_category"), octets) for _, octets in ids]
        found = [names[kind, key] for key in keys if key for names in layers if (kind, key) in names]
        if ids:
            yield source, found[0] if found else None


def learn_counters(names: Names, expanded: bool, sample: bytes, wanted: set[str]) -> None:
    """Learn the name and the speed of an interface from a counter sample."""
    octets = Octets(sample)
    speed, name = 0, b""
    try:
        octets.u32()
        source = octets.u32()
        kind, index = (source, octets.u32()) if expanded else (source >> 24, source & 0xFFFFFF)
        records = octets.u32()
    except Short:
        return
    try:
        for _ in range(records):
            record_format, length = octets.u32(), octets.u32()
            body = octets.take(length)
            octets.take_up_to(-length % 4)
            if record_format == IF_COUNTERS and length >= 16:
                index = int.from_bytes(body[:4], "big") or index
                speed = int.from_bytes(body[8:16], "big")
            if record_format == PORT_NAME and length >= 4:
                size = int.from_bytes(body[:4], "big")
                name = body[4 : 4 + size] if size <= length - 4 else name
    except Short:
        pass
    if kind or not index:
        return
    if speed and speed != 0xFFFF_FFFF_FFFF_FFFF and "interface_speed" in wanted:
        define(names, "interface_speed", (0, index), Number(speed // MEGABIT) if speed >= MEGABIT else None)
    if name and "interface" in wanted:
        define(names, "interface", (0, index), to_name(name))


def give_interface_names(flow: Flow, names: Names) -> None:
    for direction, source in (("in", "sflow:flow_sample.input"), ("out", "sflow:flow_sample.output")):
        index = flow.values.get(source)
        if not isinstance(index, Number) or not index.value:
            continue
        for part, kind in (
            ("name", "interface"),
            ("description", "interface_description"),
            ("speed", "interface_speed"),
        ):
            flow.give(f"derived:{direction}_if_{part}", names.get((kind, (0, index.value))))


# Elements ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Taken:
    """The elements that are sources of enabled columns, of one kind of rows."""

    elements: frozenset[tuple[str, int, int]] = frozenset()  # kind of source, enterprise, id
    texts: frozenset[str] = frozenset()

    def has(self, version: str, enterprise: int, element: int) -> bool:
        keys = {("ipfix", enterprise, element)}
        return bool(self.elements & (keys | {("netflow9", 0, element)} if version == "netflow9" else keys))

    def opened(self, version: str) -> Collection[tuple[int, int]]:
        """Return the lists whose records are read for columns of flows."""
        values = {key[1:] for key in self.elements if key[0] == "ipfix"} - STRUCTURES
        if version != "ipfix" or not values:
            return ()
        return STRUCTURES if BASIC_LIST in values else STRUCTURES | {BASIC_LIST}


def give_others(
    flow: Flow, record: Record, taken: Taken, opened: Collection[tuple[int, int]] = (), reverse: bool = False
) -> None:
    """Add the elements that no column takes. `reverse` selects those of the reverse flow of a biflow."""
    keys = [((specifier.enterprise, specifier.id), octets) for specifier, octets in record]
    own, _ = biflow.split(keys)
    both = flow.rows == "flows" and any(
        key in {(0, element) for element in biflow.COUNTERS} for key, _ in own
    )
    found: list[tuple[int, bytes]] = []
    for specifier, octets in record:
        key = (specifier.enterprise, specifier.id)
        own_key = next(iter(biflow.split([(key, octets)])[0]), None)
        if specifier.scope:
            if f"scope:{SCOPES.get(specifier.id)}" not in taken.texts:
                found.append((specifier.id, octets))
        elif reverse or (both and own_key):
            if not reverse or not own_key or taken.has(flow.version, *own_key[0]):
                continue
            shown = key if specifier.enterprise else (biflow.REVERSE, own_key[0][1])
            found.append((shown[0] << 16 | shown[1], octets))
        elif key not in (PADDING, *opened) and not taken.has(flow.version, *key):
            found.append((specifier.enterprise << 16 | specifier.id, octets))
    found = [(number, octets) for number, octets in found if octets]
    if found:
        flow.give("derived:other_elements", Numbers([number for number, _ in found]))
        flow.give("derived:other_values", Blobs([octets for _, octets in found]))


def give_row(flow: Flow, record: Record, scopes: int, taken: Taken) -> None:
    """Add the values of an options record to its row."""
    for specifier, octets in record:
        if specifier.scope:
            flow.give(f"scope:{SCOPES.get(specifier.id)}", Field(octets))
        else:
            flow.give((specifier.enterprise, specifier.id), Field(octets))
    numbers = [spec.enterprise << 16 | spec.id for spec, octets in record[:scopes] if octets]
    if numbers:
        flow.give("derived:scope_elements", Numbers(numbers))
    give_others(flow, record, taken)
