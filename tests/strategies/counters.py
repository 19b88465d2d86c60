"""Hypothesis strategies for counter samples and discarded packets of sFlow."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.strategies.basics import Sent, sources, uints
from tests.strategies.sflow import ADDRESSES, sflow_records, sflow_samples, words
from tests.support import datagrams as d

# Layouts of the fixed-size records by format, in the letters of datagrams.counters.
LAYOUTS = {
    1: "iihiihiiiiiihiiiiii",
    2: "i" * 13,
    3: "i" * 18,
    4: "ihihiiiiihihhh",
    5: "ihiiii",
    6: "i" * 20,
    7: "mmibbbb" + "i" * 8,
    1001: "iiihh",
    1002: "iii",
    1004: "hi",
    2002: "ii",
    2003: "i" * 17,
    2004: "hhhhhhhiiii",
    2005: "hhiihiihi",
    2006: "hiiihiii",
    2007: "i" * 19,
    2008: "i" * 25,
    2009: "i" * 15,
    2010: "i" * 7,
    2100: "iihhi",
    2101: "iii",
    2102: "hh",
    2103: "hhhihihi",
    2104: "hiiihiii",
    2106: "hhhhhhhh" + "i" * 11,
    2201: "i" * 15,
    2203: "iihhiiii",
    2204: "i" * 27 + "hhhh",
    2206: "i" * 5,
    2207: "i" * 6,
}
LETTERS = {"b": uints(1), "i": uints(4), "h": uints(8), "m": uints(6)}
strings = st.sampled_from([b"", b"eth0", b"swp1\0\0", b"\xff\xfe", "Zürich".encode()]) | st.binary(max_size=9)
macs = st.sampled_from(["02:00:00:00:00:01", "00:00:00:00:00:00"])


@st.composite
def fixed_counters(draw: st.DrawFn) -> bytes:
    """Draw a record of fixed fields. Some load averages are plain numbers."""
    number = draw(st.sampled_from(sorted(LAYOUTS)))
    layout = LAYOUTS[number] + ("iii" if number == 2003 and draw(st.booleans()) else "")
    values = [draw(LETTERS[letter]) for letter in layout]
    if number == 2003:
        values[0] = draw(st.sampled_from([0, 0x3F800000, 0x80000000, 0xBF800000, 0x7FC00000, 0x7F800000]))
    return d.counters(number, layout, *values)


counter_records = [
    *[fixed_counters()] * 3,
    st.builds(d.strings, st.just(1005), strings),
    st.builds(d.strings, st.just(2105), strings, strings, strings),
    st.builds(
        lambda name, numbers: d.record(2202, d.opaque(name) + b"".join(map(d.u32, numbers))),
        strings,
        st.lists(words, min_size=10, max_size=11),
    ),
    st.builds(d.host_descr, strings, st.sampled_from([bytes(16), bytes(range(16))]), words, words, strings),
    st.builds(
        lambda adapters: d.host_adapters(*adapters),
        st.lists(st.tuples(words, st.lists(macs, max_size=3)), max_size=3),
    ),
    st.builds(
        lambda module, lanes: d.sfp(module, *lanes),
        st.tuples(words, words, words, words),
        st.lists(st.lists(words, min_size=10, max_size=10), max_size=3),
    ),
    st.builds(
        d.record, st.sampled_from([1, 9, 2000, 2201, 2202]), st.binary(max_size=9), st.sampled_from([0, 9])
    ),
]
drop_records = [
    st.builds(lambda queue: d.counters(1036, "i", queue), words),
    st.builds(d.extended_acl, words, strings, words),
    st.builds(d.strings, st.sampled_from([1038, 1042]), strings),
    st.builds(d.strings, st.just(1041), strings, strings),
    *sflow_records,
]


@st.composite
def counter_samples(draw: st.DrawFn) -> bytes:
    """Draw a counter sample, a discarded packet, or sometimes another sample."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(sflow_samples())
    source = draw(st.integers(0, 3)), draw(st.integers(0, (1 << 24) - 1))
    if kind < 5:
        content = draw(st.lists(st.one_of(*drop_records), max_size=5))
        if any(part.startswith(d.u32(3)) for part in content):
            content = [
                part for part in content if not part.startswith(d.u32(4))
            ]  # a packet has one IP version
        reason = draw(st.sampled_from([0, 4, 258, 303]) | words)
        numbers = {name: draw(words) for name in ("sequence", "drops")}
        interfaces = {name: draw(st.sampled_from([0, 5, 0x3FFFFFFF]) | words) for name in ("input", "output")}
        return d.discarded_packet(*content, source=source, reason=reason, **numbers, **interfaces)
    content = draw(st.lists(st.one_of(*counter_records), max_size=5))
    return d.counters_sample(*content, sequence=draw(words), source=source, expanded=draw(st.booleans()))


@st.composite
def counter_datagrams(draw: st.DrawFn) -> Sent:
    numbers = {name: draw(words) for name in ("sub_agent", "sequence", "uptime")}
    samples = draw(st.lists(counter_samples(), max_size=4))
    return d.sflow(*samples, agent=draw(st.sampled_from(ADDRESSES)), **numbers), draw(sources)


counter_sequences = st.lists(counter_datagrams(), min_size=1, max_size=2)
