"""Hypothesis strategies for sFlow datagrams with flow samples."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.reference.sflow_fields import STRUCTURES
from tests.strategies.basics import Sent, sources, uints
from tests.strategies.packets import router_frames, sampled_packets
from tests.support import datagrams as d

ADDRESSES = ["10.0.0.1", "0.0.0.0", "2001:db8::1", "::", "::ffff:10.0.0.1"]
words = uints(4)
vlans = st.sampled_from([0, 1, 4094, 4095, 0xFFFFFFFF])
autonomous_systems = st.lists(words, max_size=3)
texts = st.sampled_from([b"", b"user", b"\xff\xfe", "Zürich".encode()]) | st.binary(max_size=9)
FIELDS = {
    "": words.map(d.u32),
    "int": words.map(d.u32),
    "hyper": uints(8).map(lambda number: number.to_bytes(8, "big")),
    "mac": uints(6).map(lambda number: number.to_bytes(6, "big") + bytes(2)),
    "string": texts.map(d.opaque),
    "words": st.lists(words, max_size=3).map(d.words),
    "address": st.sampled_from([None, *ADDRESSES]).map(d.sflow_address),
    "ip_v4": st.sampled_from(["10.0.0.1", "0.0.0.0"]).map(d.ip),
    "ip_v6": st.sampled_from(["2001:db8::1", "::", "::ffff:10.0.0.1"]).map(d.ip),
}


@st.composite
def further_records(draw: st.DrawFn) -> bytes:
    """Draw a less common record, sometimes cut short."""
    record_format = draw(st.sampled_from(sorted(STRUCTURES)))
    kinds = [word.partition(":")[2] for word in STRUCTURES[record_format][1].split()]
    body = b"".join(draw(FIELDS[kind]) for kind in kinds)
    if draw(st.integers(0, 7)) == 0:
        body = body[: draw(st.integers(0, len(body)))]
    return d.record(record_format, body)


sflow_records = [
    st.builds(lambda packet, *numbers: d.sampled_header(*packet, *numbers), sampled_packets, words, words),
    st.builds(
        d.sampled_ethernet,
        words,
        st.sampled_from(["02:00:00:00:00:01", "00:00:00:00:00:00"]),
        st.just("02:00:00:00:00:02"),
        words,
    ),
    st.builds(d.sampled_ip, st.sampled_from(["10.0.0.1", "0.0.0.0"]), st.just("10.0.0.2"), *[words] * 6),
    st.builds(d.sampled_ip, st.sampled_from(["2001:db8::1", "::"]), st.just("2001:db8::2"), *[words] * 6),
    st.builds(d.extended_switch, vlans, words, vlans, words),
    st.builds(d.extended_router, st.sampled_from([None, *ADDRESSES]), words, words),
    st.builds(
        d.extended_gateway,
        st.sampled_from([None, *ADDRESSES]),
        words,
        words,
        words,
        st.lists(autonomous_systems, max_size=3),
        autonomous_systems,
        words,
    ),
    st.builds(d.record, st.sampled_from([5, 1004, 1018]), st.binary(max_size=9), st.sampled_from([0, 9])),
    further_records(),
    further_records(),
]


@st.composite
def sflow_samples(draw: st.DrawFn) -> bytes:
    """Draw a flow sample with at most one record of a kind, or sometimes another sample."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return d.sample(
            draw(st.sampled_from([2, 4, 5, 6])),
            draw(st.binary(max_size=41)),
            draw(st.sampled_from([0, 0, 9])),
        )
    chosen = draw(st.lists(st.sampled_from(range(len(sflow_records))), max_size=4, unique=True))
    if 2 in chosen and 3 in chosen:
        chosen.remove(3)  # a packet has one IP version
    content = [draw(sflow_records[index]) for index in chosen]
    numbers = {name: draw(words) for name in ("sequence", "rate", "pool", "drops")}
    interfaces = st.tuples(
        st.sampled_from([0, 0, 1, 2]),
        st.sampled_from([0, 2, 257, 0x3FFFFFFF]) | st.integers(0, (1 << 30) - 1),
    )
    input, output = draw(interfaces), draw(interfaces)
    if kind < 4:
        return d.expanded_flow_sample(
            *content, source=(0, draw(words)), input=input, output=output, **numbers
        )
    compact = {"input": input[0] << 30 | input[1], "output": output[0] << 30 | output[1]}
    return d.flow_sample(*content, source_id=draw(words), **compact, **numbers)


@st.composite
def plain_samples(draw: st.DrawFn) -> bytes:
    """Draw a sample of a common packet, as a router sends it."""
    records = [d.sampled_header(draw(router_frames), 1, draw(words))]
    records += [draw(sflow_records[index]) for index in draw(st.sets(st.sampled_from([4, 5, 6, 7])))]
    builders: list[Callable[..., bytes]] = [d.flow_sample, d.expanded_flow_sample]
    build: Callable[..., bytes] = draw(st.sampled_from(builders))
    return build(*draw(st.permutations(records)), rate=draw(words), pool=draw(words))


@st.composite
def similar_samples(draw: st.DrawFn) -> list[bytes]:
    """Draw copies of a sample with a few changed bytes. The core expects records at the same positions."""
    samples = [draw(plain_samples() | sflow_samples())]
    for _ in range(draw(st.integers(1, 5))):
        sample = bytearray(samples[0])
        for place in draw(st.lists(st.integers(4, len(sample) - 1), max_size=6)):
            sample[place] = draw(st.sampled_from([0, 1, 255]) | st.integers(0, 255))
        samples.append(bytes(sample))
    return samples


@st.composite
def sflow_datagrams(draw: st.DrawFn) -> Sent:
    numbers = {name: draw(words) for name in ("sub_agent", "sequence", "uptime")}
    samples = draw(st.lists(sflow_samples(), max_size=4) | similar_samples())
    return d.sflow(*samples, agent=draw(st.sampled_from(ADDRESSES)), **numbers), draw(sources)


sflow_sequences = st.lists(sflow_datagrams(), min_size=1, max_size=2)
