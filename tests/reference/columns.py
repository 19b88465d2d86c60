"""Convert the values of a flow to the columns of a message: ranks, types, ranges.

The description of schemas leaves these points open:

- A time is below 2**63 nanoseconds, whatever the unit of its column. A time before 1970 or after 2262 is out
  of range. Units are rounded down.
- Bits 0 to 10 of the fraction of a dateTimeMicroseconds are ignored (RFC 7011 section 6.1.9) before rounding.
- A field of zero bytes is absent, whatever its type. It is not a wrong size.
- A boolean that is neither 1 nor 2 (RFC 7011 section 6.1.5 defines no other) is out of range; 0 is absent.
- NTP seconds before 1970 belong to the era that begins in 2036.
- A finite float64 beyond the range of a `float` column is out of range.
- A repeated column has the values of the first source with any value. Zeros among the values are kept, except
  addresses.
- A number from an unregistered element is a time or duration in the unit of its column.
- If an element occurs several times in a record, a repeated column takes all occurrences as one list, with
  the rules for members of lists. An occurrence of zero bytes is not a member. Other columns take the first,
  unless their source names another. Occurrences of a reverse element are counted separately.
- Elements of records inside a record (structured.py) come after all other sources of a column. A repeated
  column takes them from every inner record, each time from its best source. Other columns take the first
  inner record with a value.
- A list with the semantic noneOf gives no values, because it states which values do not apply. Nested lists
  are not read.
- With `zero = "value"`, a zero is a value: later ranks are not tried. Sources of the same rank are tried, and
  following elements of `replaces_zero`. A list (RFC 6313) without a value has the zeros of its members. Three
  zeros are excepted: an enum number without a member, a path, and a time.
- An `explicit` column holds zero if its sources give only zeros. An address of zeros is absent even there.
- A total that exceeds its column after scaling is out of range. Without a sampling rate, totals are not
  scaled.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from itertools import zip_longest
from typing import Any

from flowbuf.schema.source import LAST

from .lists import NONE_OF, BasicList, CutShort, Member, can_hold
from .options import SOURCES as NAME_SOURCES
from .structured import BASIC_LIST, PADDING, STRUCTURES, Entry
from .values import (
    SILENT,
    TIMES_END,
    U64,
    Address,
    Addresses,
    Blobs,
    Clock,
    Element,
    Field,
    Fields,
    Flow,
    Number,
    Numbers,
    Opaque,
    Real,
    Text,
    Time,
    Value,
)

INTEGER_RANGES = {
    "uint8": (0, (1 << 8) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, U64 - 1),
    "mac": (0, (1 << 48) - 1),
    "fixed32": (0, (1 << 32) - 1),
    "fixed64": (0, U64 - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "sint32": (-(1 << 31), (1 << 31) - 1),
    "sint64": (-(1 << 63), (1 << 63) - 1),
    "duration": (-(1 << 63), (1 << 63) - 1),
}
SIGNED = {"int32", "int64", "sint32", "sint64"}
ELEMENT_KINDS = ("ipfix", "netflow9")
OPAQUE = ("subTemplateList", "subTemplateMultiList", "unsigned256")
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
SPANS = {"seconds": 1_000_000_000, "milliseconds": 1_000_000, "microseconds": 1_000, "nanoseconds": 1}

FLOW_END_SYS_UP_TIME, FLOW_START_SYS_UP_TIME = 21, 22
FLOW_START_DELTA, FLOW_END_DELTA = 158, 159
TCP_CONTROL_BITS, TCP_BITS = 6, 0xFFF  # in two bytes, the bits above are the data offset (RFC 7125)
NTP_EPOCH = -2_208_988_800  # 1900, in seconds since 1970


Given = list[tuple[str | Element, Value]]


class Refused(Exception):
    """A value that its column does not accept; the argument is the status to count."""


def build_message(
    columns: list[Any], flow: Flow, notes: Counter[str], mirrors: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the columns of one flow that are not absent, and count refused values in `notes`.

    `mirrors` are the columns of the other direction, by name.
    """
    message = {}
    entries = read_structure(columns, flow, notes)
    for column in columns:
        ranks, given = column.sources, flow.given
        if flow.shared is not None:
            ranks, given = sources_of_reverse(column, flow, (mirrors or {}).get(column.name, column))
        if (
            flow.opened
            and flow.version != "sflow"
            and any(each.kind == "packet" for rank in ranks for each in rank)
        ):
            # Headers in the elements of the record describe the packet around the tunnel.
            ranks = [
                [each for each in rank if each.kind not in (*ELEMENT_KINDS, "derived")] for rank in ranks
            ]
        value, ended = search(column, ranks, given, flow, notes)
        if entries and not ended:
            inner = fill_from_entries(column, ranks, entries, flow, notes)
            value = inner if inner or value is None else value
        if value is not None:
            message[column.name] = value
    return message


def scale_totals(columns: list[Any], message: dict[str, Any], notes: Counter[str]) -> None:
    """Multiply the totals of a message by its sampling rate."""
    (rate,) = [message.get(column.name, 0) for column in columns if column.scale == "rate"]
    for column in columns:
        if column.scale != "count" or not rate or column.name not in message:
            continue
        try:
            message[column.name] = fit(column, message[column.name] * rate)
        except Refused as refused:
            notes[refused.args[0]] += 1
            del message[column.name]


def is_of_direction(source: Any) -> bool:
    """Return True if a source belongs to a direction: it is an element, or the name of one."""
    return source.kind in ELEMENT_KINDS or source.text in NAME_SOURCES


def sources_of_reverse(column: Any, flow: Flow, mirror: Any) -> tuple[Any, Given]:
    """Return the ranks of a column and the values to choose from, in the reverse flow of a biflow.

    If a reverse element gives the column a value, those of the forward direction do not apply. Otherwise the
    column takes them, with the sources of the mirrored column, unless the column is one-way.
    """
    sources = [source for rank in column.sources for source in rank if source.kind not in ("meta", "packet")]
    if any(occurrences(column, source, flow.given, flow.version) for source in sources):
        return column.sources, flow.given
    given = [(key, value) for key, value in flow.given if str(key).startswith("meta:")]
    if not column.one_way and flow.shared is not None:
        given += flow.shared.given
    given += [(key, value) for key, value in flow.given if str(key).startswith("packet:")]
    ranks = [
        [
            *(source for source in own if not is_of_direction(source)),
            *(source for source in theirs if is_of_direction(source)),
        ]
        for own, theirs in zip_longest(column.sources, mirror.sources, fillvalue=())
    ]
    return ranks, given


def search(column: Any, ranks: Any, given: Given, flow: Flow, notes: Counter[str]) -> tuple[Any, bool]:
    """Return the value of one column, or None; and True if it is final: a number, or a zero that is a value.

    Ranks are tried in turn, the sources of a rank in the order of the flow.
    """
    zero = None
    ended = False  # by a zero that is a value
    for stages in tried_together(column, ranks):
        if ended:
            break
        for (_, raw), source in (
            each for stage in stages for each in in_order(column, stage, given, flow.version)
        ):
            try:
                value = read_value(column, source, raw, flow.clock, notes)
            except Refused as refused:
                notes[refused.args[0]] += 1
                continue
            if value or is_negative_zero(value):
                return value, True
            ended |= value is not None and is_whole(column, raw)
            if zero is None:
                zero = value
    return (zero if column.explicit else None), ended


def read_structure(columns: list[Any], flow: Flow, notes: Counter[str]) -> list[Entry]:
    """Return the records inside the record if a column can take their elements. Count the elements that none
    takes.
    """
    sources = [
        source for column in columns for rank in column.sources for source in rank if source.kind == "ipfix"
    ]
    wanted = {(source.pen, source.id) for source in sources} - STRUCTURES
    if not wanted or flow.structure is None:
        return []
    entries = flow.structure.entries(notes, basic=BASIC_LIST not in wanted)
    wanted |= {(0, PADDING), BASIC_LIST}
    notes["list_element_ignored"] += sum(key not in wanted for entry in entries for key, _ in entry)
    return entries


def fill_from_entries(column: Any, ranks: Any, entries: list[Entry], flow: Flow, notes: Counter[str]) -> Any:
    """Return the value of one column from the records inside a record, or None."""
    zero = None
    values: list[Any] = []
    for entry in entries:
        given: Given = list(entry)
        if not column.repeated:
            value, ended = search(column, ranks, given, flow, notes)
            if ended:
                return value
            zero = value if zero is None else zero
            continue
        for rank in ranks:
            found = [(occurrences(column, source, given, flow.version), source) for source in rank]
            present = sorted(((each, source) for each, source in found if each), key=lambda pair: pair[0][0])
            if present:
                (_, raw), source = present[0]
                fields = raw if isinstance(raw, Fields) else Fields([raw.octets])
                values += read_occurrences(column, source, fields, flow.clock, notes)
                break
    return values or zero


def in_order(column: Any, sources: Any, given: Given, version: str) -> list[tuple[tuple[int, Value], Any]]:
    """Return the values of equal sources, in the order of the flow."""
    found = [(occurrences(column, source, given, version), source) for source in sources]
    return sorted(((each, source) for each, source in found if each), key=lambda pair: pair[0][0])


def tried_together(column: Any, ranks: Any) -> list[list[Any]]:
    """Return the ranks of a column, each with the following elements that replace its zero.

    Only elements are replaced.
    """
    groups: list[list[list[Any]]] = []
    for rank in ranks:
        before = [source for stage in groups[-1] for source in stage] if groups else []
        joins = bool(groups) and takes_zero(column) and all(source.kind in ELEMENT_KINDS for source in before)
        replacing = {key_of(source) for source in column.replaces_zero}
        joining = [source for source in rank if joins and key_of(source) in replacing]
        if joining:
            first, *later = groups[-1]
            groups[-1] = [first, [source for stage in later for source in stage] + joining]
        others = [source for source in rank if source not in joining]
        if others:
            groups.append([others])
    return groups


def key_of(source: Any) -> tuple[str, int, int, int]:
    """Return the identity of a source.

    An element may be named by its name or its id, and its first occurrence with #1 or without.
    """
    return source.kind, source.pen, source.id, source.occurrence or 1


def takes_zero(column: Any) -> bool:
    """Return whether a zero is a value of the column. By default, it is for single numbers and bools."""
    if column.zero:
        return bool(column.zero == "value")
    numbers = (*SIGNED, *INTEGER_RANGES, "float", "double", "bool")
    return not column.repeated and column.type in numbers and column.type not in ("mac", "timestamp")


def is_whole(column: Any, raw: Value) -> bool:
    """Return whether a zero ends the search: a zero of a field, or of a list (RFC 6313) in it.

    A zero of a path does not.
    """
    return takes_zero(column) and not isinstance(raw, Numbers | Addresses | Blobs)


def occurrences(column: Any, source: Any, given: Given, version: str) -> tuple[int, Value] | None:
    """Return the value of a source and its position in the flow. Return None if the flow does not have it."""
    keys = keys_of(source, version)
    found = [(place, value) for place, (key, value) in enumerate(given) if key in keys]
    if source.kind not in ELEMENT_KINDS or not found:
        return found[0] if found else None
    if source.occurrence == LAST:
        return found[-1]
    if column.repeated and not source.occurrence and len(found) > 1:
        return found[0][0], Fields([value.octets for _, value in found if isinstance(value, Field)])
    number = source.occurrence or 1
    return found[number - 1] if number <= len(found) else None


def is_negative_zero(value: Any) -> bool:
    """Return whether a number is -0.0. Its bits are not zero, so Protocol Buffers writes it."""
    return isinstance(value, float) and math.copysign(1, value) < 0


def keys_of(source: Any, version: str) -> list[str | Element]:
    """Return the keys of a flow under which a source is found.

    NetFlow v9 shares the elements of IPFIX, but IPFIX does not share those of NetFlow v9.
    """
    if source.kind == "ipfix":
        return [(source.pen, source.id)]
    if source.kind == "netflow9":
        return [(0, source.id)] if version == "netflow9" else []
    return [source.text]


def read_value(column: Any, source: Any, raw: Value, clock: Clock, notes: Counter[str]) -> Any:
    """Convert one value to the type of its column. A zero (0, empty) is returned as such; None is no
    value.
    """
    if isinstance(raw, Numbers):
        values = read_list(column, raw, notes)
        return values if column.repeated else next((value for value in values if value), None)
    if isinstance(raw, Addresses):
        addresses = [read_address(column, octets) for octets in raw.octets]
        return raw.octets if column.repeated else next((address for address in addresses if address), None)
    if raw is SILENT:
        return None
    if isinstance(raw, Blobs):
        return raw.octets if column.repeated else raw.octets[0]
    data_type = source.element.data_type if source.element else None
    if isinstance(raw, Fields):
        return read_occurrences(column, source, raw, clock, notes)
    if isinstance(raw, Field) and data_type == "basicList":
        return read_basic_list(column, raw.octets, clock, notes)
    if isinstance(raw, Field) and data_type in OPAQUE and raw.octets:
        notes["opaque_value"] += 1
    value = (
        read_field(column, source, raw.octets, clock) if isinstance(raw, Field) else read_fixed(column, raw)
    )
    if value is None:
        return None
    if column.type == "string":
        value = read_string(value, notes)
    if column.repeated:
        return [value] if value else None
    return value


def read_list(column: Any, raw: Numbers, notes: Counter[str]) -> list[int]:
    """Return the values that fit, and count the others."""
    values = []
    for number in raw.values:
        try:
            values.append(fit(column, number))
        except Refused as refused:
            notes[refused.args[0]] += 1
    return values


def read_basic_list(column: Any, octets: bytes, clock: Clock, notes: Counter[str]) -> Any:
    """Read a basicList (RFC 6313): all members for a repeated column, else the first that is not zero."""
    if not octets:
        return None
    values: list[Any] = []
    try:
        content = BasicList(octets)
        if content.semantic == NONE_OF:
            raise Refused("opaque_value")
        if not can_hold(column.type, content.element):
            raise Refused("bad_list")
        for member in content.members():
            value = read_member(column, Member(content.element), content.element, member, clock, notes)
            if value is not None:
                values.append(value)
            if not column.repeated and value:
                break
    except (Refused, CutShort) as fault:
        notes[fault.args[0]] += 1
    if column.repeated:
        return values
    return next(
        (value for value in values if value or is_negative_zero(value)), values[0] if values else None
    )


def read_occurrences(column: Any, source: Any, raw: Fields, clock: Clock, notes: Counter[str]) -> list[Any]:
    """Return every occurrence of an element in a record, or the members of all occurrences that are lists."""
    data_type = source.element.data_type if source.element else None
    values: list[Any] = []
    for octets in filter(None, raw.octets):
        if data_type == "basicList":
            values += read_basic_list(column, octets, clock, notes) or []
            continue
        if data_type in OPAQUE:
            notes["opaque_value"] += 1
        value = read_member(column, source, source.element, octets, clock, notes)
        if value is not None:
            values.append(value)
    return values


def read_member(
    column: Any, source: Any, element: Any, octets: bytes, clock: Clock, notes: Counter[str]
) -> Any:
    """Convert a member of a list. Return None for an invalid value, and count it unless it is empty."""
    if not octets and column.type in ("string", "bytes"):
        return "" if column.type == "string" else b""
    try:
        value = read_field(column, source, octets, clock)
    except Refused as refused:
        notes[refused.args[0]] += 1
        return None
    if (
        element
        and element.data_type.startswith("dateTime")
        and column.type == "timestamp"
        and not any(octets)
    ):
        return None
    return read_string(value, notes) if column.type == "string" else value


def read_string(octets: bytes, notes: Counter[str]) -> str:
    octets = octets.rstrip(b"\0")
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        notes["invalid_utf8"] += 1
        return octets.decode("utf-8", errors="replace")


def read_fixed(column: Any, raw: Value) -> Any:
    """Convert a value of a fixed source. Its kind is known; only the range of the column is checked."""
    if isinstance(raw, Address):
        return read_address(column, raw.octets)
    if isinstance(raw, Time):
        return fit_time(column, raw.nanoseconds)
    if isinstance(raw, Text | Opaque):
        return raw.octets
    assert isinstance(raw, Number | Real)
    return fit(column, raw.value)


def read_field(column: Any, source: Any, octets: bytes, clock: Clock) -> Any:
    """Convert the bytes of an information element by the types of the column and of the element."""
    if column.type in ("string", "bytes"):
        return octets
    if not octets:
        return None
    data_type = source.element.data_type if source.element else None
    if column.type == "ip":
        return read_address(column, octets)
    if data_type == "macAddress" and len(octets) != 6:  # RFC 7011 sections 6.1.3 and 6.2
        raise Refused("bad_field_size")
    if column.type in ("float", "double") and (data_type or "float").startswith("float"):
        return read_float(column, octets)
    if column.type in ("timestamp", "duration") and data_type is None:
        return fit(column, read_uint(octets))
    if column.type == "timestamp":
        return read_time(column, source.id, data_type, octets, clock)
    if column.type == "duration":
        return fit_time(column, read_uint(octets) * SPANS[source.element.units])
    if (data_type or column.type) in ("bool", "boolean"):
        value = read_boolean(octets)
        return None if value is None else fit(column, int(value))
    if (data_type or column.type) in SIGNED or (data_type or "").startswith("signed"):
        return fit(column, read_uint(octets) - (1 << 8 * len(octets) if octets[0] & 0x80 else 0))
    value = read_uint(octets)
    return fit(column, value & TCP_BITS if source.element and source.id == TCP_CONTROL_BITS else value)


def read_uint(octets: bytes) -> int:
    if len(octets) > 8:
        raise Refused("bad_field_size")
    return int.from_bytes(octets, "big")


def read_boolean(octets: bytes) -> bool | None:
    value = read_uint(octets)
    if value > 2:
        raise Refused("out_of_range")
    return {0: None, 1: True, 2: False}[value]


def read_float(column: Any, octets: bytes) -> float:
    if len(octets) not in (4, 8):
        raise Refused("bad_field_size")
    value: float = struct.unpack(">f" if len(octets) == 4 else ">d", octets)[0]
    if column.type == "double":
        return value
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise Refused("out_of_range") from None


def read_address(column: Any, octets: bytes) -> bytes | None:
    """Return an address in the width of its column, or None for zeros."""
    if len(octets) not in (4, 16):
        raise Refused("bad_field_size")
    mapped = octets if len(octets) == 16 else bytes(10) + b"\xff\xff" + octets
    if mapped in (bytes(16), bytes(10) + b"\xff\xff" + bytes(4)):
        return None
    return octets if column.ip == "native" else mapped


def read_time(column: Any, element_id: int, data_type: str | None, octets: bytes, clock: Clock) -> int | None:
    """Convert a time (RFC 7011 sections 6.1.7 to 6.1.10), including elements with relative times."""
    if data_type in ("dateTimeMicroseconds", "dateTimeNanoseconds"):
        return fit_time(column, read_ntp(octets, micro=data_type == "dateTimeMicroseconds"))
    value = read_uint(octets)
    if data_type == "dateTimeSeconds":
        return fit_time(column, value * 1_000_000_000)
    if data_type == "dateTimeMilliseconds":
        return fit_time(column, value * 1_000_000)
    if element_id in (FLOW_START_SYS_UP_TIME, FLOW_END_SYS_UP_TIME):
        time = clock.at_uptime(value)
        if time is None:
            raise Refused("no_system_start")
        return fit_time(column, time)
    if element_id in (FLOW_START_DELTA, FLOW_END_DELTA):
        return None if clock.exported is None else fit_time(column, clock.exported - value * 1_000)
    raise TypeError(f"element {element_id} is no time")


def read_ntp(octets: bytes, micro: bool) -> int:
    """Convert seconds since 1900 and a binary fraction to nanoseconds since 1970.

    The result is rounded to the unit of the data type.
    """
    if len(octets) != 8:
        raise Refused("bad_field_size")
    seconds, fraction = int.from_bytes(octets[:4], "big"), int.from_bytes(octets[4:], "big")
    if micro:
        fraction &= ~0x7FF
    if seconds == fraction == 0:
        return 0
    if micro:
        nanoseconds = (fraction * 1_000_000 + (1 << 31) >> 32) * 1_000
    else:
        nanoseconds = fraction * 1_000_000_000 + (1 << 31) >> 32
    if seconds + NTP_EPOCH < 0:
        seconds += 1 << 32
    return (seconds + NTP_EPOCH) * 1_000_000_000 + nanoseconds


def fit_time(column: Any, nanoseconds: int) -> int:
    if not 0 <= nanoseconds < (TIMES_END if column.type == "timestamp" else U64):
        raise Refused("out_of_range")
    return fit(column, nanoseconds // NANOSECONDS[str(column.unit)])


def fit(column: Any, number: float) -> Any:
    """Return a number if it is in the range of its column."""
    if column.type == "bool":
        return bool(number)
    if column.type in ("float", "double"):
        return struct.unpack("<f", struct.pack("<f", number))[0] if column.type == "float" else float(number)
    if column.type == "enum":
        return fit_enum(column, number)
    lowest, highest = INTEGER_RANGES.get(column.type) or (0, (TIMES_END - 1) // NANOSECONDS[column.unit])
    if not lowest <= number <= highest:
        raise Refused("out_of_range")
    return number


def fit_enum(column: Any, number: int) -> int:
    """Return a number by `map` if the column has one, else a number that is a member."""
    if column.map:
        mapped = column.map.get(number)
    else:
        mapped = number if number in column.values.values() else None
    if mapped is None:
        raise Refused("unmapped")
    return int(mapped)
