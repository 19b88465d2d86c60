"""The presets goflow2 and akvorado write the messages that readers of these collectors expect.

tests/support/peer_messages.py defines the messages of the collectors. Over the captures of FLOWBUF_CORPUS,
messages of the preset goflow2 equal those of GoFlow2, except for the differences that preset_exceptions.py
explains. Messages of the preset akvorado equal Akvorado's flows in all fields that both of its releases have.
"""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from grpc_tools import protoc

from flowbuf import Decoder, Schema, _core
from tests.decode.test_golden import captures, describe
from tests.support.cases import slow
from tests.support.command import GOOD, flowbuf, json_lines, pcap, write
from tests.support.datagrams import (
    data_set,
    ethernet,
    flow_sample,
    ipv4,
    netflow9,
    sampled_header,
    sflow,
    template,
    template_set9,
    u16,
    u32,
    udp,
)
from tests.support.decoding import RECEIVED, SOURCE, Decode, both_decoders, decode_with, ipfix_record
from tests.support.golden_exceptions import ANY, EXCEPTIONS, UNMATCHED, Difference, Exception_
from tests.support.golden_netgauze import NETGAUZE, netgauze_occurrences
from tests.support.goldens import AKVORADO, GOFLOW2, Flow, decode_capture, split_stream
from tests.support.peer_messages import AKVORADO_MESSAGE, GOFLOW2_MESSAGE, PEERS
from tests.support.preset_exceptions import GOFLOW2_EXCEPTIONS

PRESETS = sorted(PEERS)
SHIPPED = sorted((Path(__file__).parents[1] / "data").glob("*.pcap"))

each_preset = pytest.mark.parametrize("name", PRESETS)
each_capture = pytest.mark.parametrize("capture", captures())


# Definitions ------------------------------------------------------------------------------------------------


def compile_proto(text: str) -> descriptor_pb2.DescriptorProto:
    """Compile a .proto file with protoc. Return its only message."""
    with tempfile.TemporaryDirectory() as folder:
        proto, descriptors = Path(folder, "preset.proto"), Path(folder, "preset.descriptors")
        proto.write_text(text)
        assert protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={descriptors}", str(proto)]) == 0
        (file,) = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes()).file
    (message,) = file.message_type
    return message


@each_preset
def test_the_proto_file_matches_the_message_of_the_collector(name: str) -> None:
    """Numbers, names, types and members of enums are equal.

    Members are prefixed with the name of their field, as is the convention in Protocol Buffers.
    """
    message, peer = compile_proto(Schema.load(name).to_proto()), PEERS[name]
    enums = {enum.name: {value.name: value.number for value in enum.value} for enum in message.enum_type}
    assert message.name == "FlowMessage"
    assert [field.name for field in message.field] == list(peer.fields)
    for field in message.field:
        fact = peer.fields[field.name]
        assert field.number == fact.number
        assert (field.label == FieldDescriptorProto.LABEL_REPEATED) == fact.repeated
        if fact.type in peer.enums:
            members = enums[field.type_name.rpartition(".")[2]]
            assert list(members.values()) == list(peer.enums[fact.type].values())
            assert all(
                ours.endswith(their.upper()) for ours, their in zip_members(members, peer.enums[fact.type])
            )
        else:
            assert FieldDescriptorProto.Type.Name(field.type) == f"TYPE_{fact.type.upper()}"


def zip_members(ours: dict[str, int], theirs: dict[str, int]) -> list[tuple[str, str]]:
    """Return pairs of names without their underscores."""
    return [(one.replace("_", ""), other.replace("_", "")) for one, other in zip(ours, theirs, strict=True)]


@each_preset
def test_enums_have_the_members_of_the_collector(name: str) -> None:
    schema, peer = Schema.load(name), PEERS[name]
    fields = {
        field.name: peer.enums[field.type] for field in peer.fields.values() if field.type in peer.enums
    }
    assert {column.name: dict(column.values) for column in schema if column.type == "enum"} == fields


@each_preset
def test_every_column_is_enabled_and_documented(name: str) -> None:
    """Columns that no datagram fills are documented as such."""
    schema = Schema.load(name)
    assert schema.enabled == schema.columns
    assert not [column.name for column in schema if not column.doc or not column.group]
    unfilled = [column for column in schema if not column.sources]
    assert all(column.doc.endswith("; datagrams do not say") for column in unfilled)
    assert bool(unfilled) == (name == "akvorado")


def test_every_layer_of_flow_toml_is_mapped() -> None:
    """Every number is mapped, so that layer_stack and layer_size have equal lengths.

    Layers are mapped by name if GoFlow2 has the name.
    """
    column, flow = Schema.load("goflow2")["layer_stack"], Schema.load("flow")["layer_stack"]
    other_names = {"ipv6_routing": "IPv6HeaderRouting", "ipv6_fragment": "IPv6HeaderFragment"}
    theirs = {member.lower(): number for member, number in column.values.items()}
    expected = {
        number: theirs.get(other_names.get(member, member).lower(), column.values["Custom"])
        for member, number in flow.values.items()
    }
    assert column.map == expected


def test_the_command_line_accepts_the_presets(tmp_path: Path) -> None:
    capture = write(tmp_path / "one.pcap", pcap(GOOD))
    for name in PRESETS:
        shown = flowbuf("schema", "show", name)
        assert shown.exit_code == 0
        assert shown.stdout == flowbuf("schema", "show", "--schema", name).stdout
        assert flowbuf("schema", "proto", name).stdout == Schema.load(name).to_proto()
        assert flowbuf("schema", "hash", name, "--schema", "flow.toml").exit_code == 2
        assert [line.split("\t")[1] for line in shown.stdout.splitlines()] == list(PEERS[name].fields)
        assert flowbuf("schema", "check", name).exit_code == 0
        (row,) = json_lines(flowbuf("read", capture, "-f", "jsonl", "--schema", name))
        assert flowbuf("encode", capture, "-o", tmp_path / name, "--schema", name).exit_code == 0
        assert json_lines(flowbuf("read", tmp_path / name, "-f", "jsonl", "--schema", name)) == [row]
        assert flowbuf("read", capture, "-f", "table", "--schema", name).exit_code == 0


# Messages ---------------------------------------------------------------------------------------------------


def frame_sample(packet: bytes) -> bytes:
    return sflow(flow_sample(sampled_header(packet, frame_length=len(packet))))


FRAME = ethernet(b"", src="00:15:5d:0a:0b:0c", dst="02:00:00:00:00:02")


def test_mac_addresses_are_numbers(tmp_path: Path) -> None:
    capture = write(tmp_path / "one.pcap", pcap(frame_sample(FRAME)))
    (line,) = json_lines(flowbuf("read", capture, "-f", "jsonl", "--schema", "goflow2"))
    assert (line["src_mac"], line["dst_mac"]) == (0x00155D0A0B0C, 0x020000000002)
    (row,) = encode(capture, "goflow2")
    assert (row["src_mac"], row["dst_mac"]) == (0x00155D0A0B0C, 0x020000000002)


def test_times_and_addresses_have_the_forms_of_the_collectors() -> None:
    """For NetFlow v5 from 192.0.2.1, GoFlow2 has nanoseconds and addresses of 4 bytes.

    Akvorado has seconds and addresses of 16 bytes.
    """
    (goflow2,) = messages("goflow2", GOOD)
    (akvorado,) = messages("akvorado", GOOD)
    assert (goflow2["time_received_ns"], akvorado["TimeReceived"]) == (RECEIVED, RECEIVED // 10**9)
    assert (goflow2["sampler_address"], akvorado["ExporterAddress"]) == ("192.0.2.1", "::ffff:192.0.2.1")
    assert (goflow2["src_addr"], akvorado["SrcAddr"]) == ("198.51.100.1", "::ffff:198.51.100.1")
    assert (goflow2["bytes"], akvorado["Bytes"]) == (300, 300)
    assert "sampling_rate" not in goflow2
    assert "SamplingRate" not in akvorado


def messages(name: str, payload: bytes, **options: Any) -> list[dict[str, Any]]:
    decoder = Decoder(name, **options)
    return [
        PEERS[name].read(message) for message in decoder.messages(payload, source=SOURCE, received=RECEIVED)
    ]


def encode(capture: Path, name: str) -> list[dict[str, Any]]:
    """Return the output of `flowbuf encode`, read with the collector's own definition."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "flows.pb")
        assert flowbuf("encode", capture, "-o", output, "--schema", name).exit_code in (0, 1)
        return [PEERS[name].read(message) for message in split_stream(output.read_bytes())]


EXPORTED = 1_600_000_000


def flow_times(payload: bytes) -> tuple[int, int]:
    (row,) = messages("goflow2", payload)
    return row["time_flow_start_ns"], row["time_flow_end_ns"]


def test_times_of_a_flow_fall_back_as_in_goflow2() -> None:
    """The fallback is the export time, or the time of reception in sFlow.

    Elements 21 and 22 are used only in NetFlow v9.
    """
    exported, record = EXPORTED * 10**9, u32(7)
    uptimes = [(22, 4), (21, 4), (1, 4)]
    assert flow_times(ipfix_record([(1, 4)], record, export_time=EXPORTED)) == (exported, exported)
    assert flow_times(ipfix_record(uptimes, u32(1) + u32(2) + record, export_time=EXPORTED)) == (
        exported,
        exported,
    )
    assert flow_times(ipfix_record([(150, 4), (151, 4)], u32(5) + u32(6))) == (5 * 10**9, 6 * 10**9)
    assert flow_times(frame_sample(FRAME)) == (RECEIVED, RECEIVED)
    v9 = netflow9(
        template_set9(template(256, *uptimes)), data_set(256, u32(400) + u32(900) + record),
        seconds=EXPORTED, uptime=1000,
    )  # fmt: skip
    assert flow_times(v9) == (exported - 600 * 10**6, exported - 100 * 10**6)


def test_bytes_of_a_sampled_packet_follow_the_collector() -> None:
    """GoFlow2 counts the frame, Akvorado the IP packet."""
    packet = ethernet(ipv4(udp(53, 4000, bytes(12))))
    (goflow2,) = messages("goflow2", sflow(flow_sample(sampled_header(packet, frame_length=64))))
    (akvorado,) = messages("akvorado", sflow(flow_sample(sampled_header(packet, frame_length=64))))
    assert (goflow2["bytes"], akvorado["Bytes"]) == (64, 40)
    assert (goflow2["packets"], akvorado["Packets"]) == (1, 1)


def test_elements_that_goflow2_does_not_read_fill_nothing() -> None:
    """The elements are dot1qVlanId 243, ingressPhysicalInterface 252, ipTTL 192 and flowDirection 61."""
    with_them = ipfix_record(
        [(1, 4), (243, 2), (252, 4), (192, 1), (61, 1)], u32(7) + u16(9) + u32(5) + b"\x40\x01"
    )
    (row,) = messages("goflow2", with_them)
    (without,) = messages("goflow2", ipfix_record([(1, 4)], u32(7)))
    assert row == without


def test_time_and_default_sampling_apply_to_presets() -> None:
    payload = ipfix_record([(1, 4)], u32(7), export_time=EXPORTED)
    (goflow2,) = messages("goflow2", payload, time="export", default_sampling_rate=100)
    (akvorado,) = messages("akvorado", payload, time="export", default_sampling_rate=100)
    assert (goflow2["time_received_ns"], goflow2["sampling_rate"]) == (EXPORTED * 10**9, 100)
    assert (akvorado["TimeReceived"], akvorado["SamplingRate"]) == (EXPORTED, 100)


def test_flow_start_as_time_requires_its_column(tmp_path: Path) -> None:
    payload = ipfix_record([(150, 4)], u32(1_500_000_000), export_time=EXPORTED)
    (row,) = messages("goflow2", payload, time="flow-start")
    assert row["time_received_ns"] == row["time_flow_start_ns"] == 1_500_000_000 * 10**9
    capture = write(tmp_path / "one.pcap", pcap(payload))
    refused = flowbuf("read", capture, "--schema", "akvorado", "--time", "flow-start")
    assert refused.exit_code == 2
    assert "no column time_flow_start" in refused.stderr


def test_late_columns_of_presets_can_be_overridden() -> None:
    decoder = Decoder("goflow2")
    data = decoder.encode(GOOD, source=SOURCE, received=RECEIVED, override={"src_as": 65001, "in_if": 9})
    (row,) = [GOFLOW2_MESSAGE.read(message) for message in split_stream(data)]
    assert (row["src_as"], row["in_if"]) == (65001, 9)


@both_decoders
def test_an_extended_preset_keeps_the_name_of_its_message(decode: Decode) -> None:
    schema = Schema.load("goflow2").add("flow_direction", 42, "uint32", ["ipfix:flowDirection"])
    assert schema.file_descriptor().message_type[0].name == "FlowMessage"
    assert (
        decode(ipfix_record([(1, 4), (61, 1)], u32(7) + b"\x01"), schema=schema).flow["flow_direction"] == 1
    )


@pytest.mark.parametrize("name", [*(name for name in PRESETS if name != "goflow2"), *slow("goflow2")])
def test_core_and_reference_agree(name: str) -> None:
    schema = Schema.load(name)
    for capture in SHIPPED:
        datagrams = list(read_datagrams(capture))
        ours, theirs = (decode_with(which)(*datagrams, schema=schema) for which in ("core", "reference"))
        assert ours.flows == theirs.flows, capture.name
        assert ours.flows


def read_datagrams(capture: Path) -> list[tuple[bytes, tuple[str, int]]]:
    content = capture.read_bytes()
    _, _, datagrams = _core.Capture().scan(content, True)
    return [(payload, source) for payload, source, *_ in datagrams]


# Real captures ----------------------------------------------------------------------------------------------


@functools.cache
def flows_of(corpus: Path, capture: str) -> list[Flow]:
    """Return the flows of a capture with all columns of flow.toml."""
    return decode_capture(corpus / f"{capture}.pcap").flows


def compare(corpus: Path, capture: str, name: str) -> list[Difference]:
    """Return the differences between the messages of a preset and of its collector, field by field."""
    netgauze = NETGAUZE.path(corpus, capture)
    occurrences = netgauze_occurrences(netgauze) if netgauze.exists() else []
    return [
        Difference(
            capture, name, field, index, ours.get(field), theirs.get(field),
            flows_of(corpus, capture)[index], theirs,
            occurrences[index].get(column, ()) if occurrences else (),
        )
        for index, ours, theirs in matched(corpus, capture, name)
        for field, column in columns_of(name).items()
        if ours.get(field) != theirs.get(field)
    ]  # fmt: skip


def columns_of(name: str) -> dict[str, str | None]:
    """Return the column of flow.toml of every field.

    Akvorado's fields are those that both of its releases have.
    """
    fields = COLLECTORS[name].fields
    if name == "akvorado":
        return {field: fields[field].column for field in AKVORADO_MESSAGE.fields if field in fields}
    return {field: fields[field].column if field in fields else None for field in GOFLOW2_MESSAGE.fields}


COLLECTORS = {"goflow2": GOFLOW2, "akvorado": AKVORADO}


def matched(corpus: Path, capture: str, name: str) -> list[tuple[int, Flow, Flow]]:
    """Return (index of ours, ours, theirs), without the flows that only one side has."""
    if name == "goflow2":
        ours = dict(enumerate(encode(corpus / f"{capture}.pcap", name)))
        stream = (corpus / f"{capture}.goflow2.pb").read_bytes()
        theirs = dict(enumerate(map(GOFLOW2_MESSAGE.read, split_stream(stream))))
    else:
        ours = {index: unmap(flow) for index, flow in enumerate(encode(corpus / f"{capture}.pcap", name))}
        theirs = dict(enumerate(AKVORADO.flows(corpus, capture)))
    for row in UNMATCHED:
        if (row.capture, row.collector) == (capture, name):
            for index in row.ours:
                del ours[index]
            for index in row.theirs:
                del theirs[index]
    assert len(ours) == len(theirs)
    return [
        (index, flow, golden) for (index, flow), golden in zip(ours.items(), theirs.values(), strict=True)
    ]


def unmap(flow: Flow) -> Flow:
    """Return the flow with plain IPv4 addresses, like Akvorado's golden flows.

    Addresses in messages have 16 bytes.
    """
    return {
        name: value.removeprefix("::ffff:") if isinstance(value, str) else value
        for name, value in flow.items()
    }


def explanation(difference: Difference) -> Exception_ | None:
    table = GOFLOW2_EXCEPTIONS if difference.collector == "goflow2" else EXCEPTIONS
    return next((row for row in table if row.explains(difference)), None)


@each_preset
@each_capture
def test_messages_equal_the_collectors(corpus: Path, capture: str, name: str) -> None:
    unexplained = [each for each in compare(corpus, capture, name) if not explanation(each)]
    assert not unexplained, "\n".join(map(describe, unexplained))


def test_every_exception_explains_something(corpus: Path) -> None:
    """Every capture and field of an exception must have a difference. Obsolete exceptions must be removed."""
    used = set()
    for difference in (each for capture in captures() for each in compare(corpus, capture, "goflow2")):
        if row := explanation(difference):
            used |= {(row, "capture", difference.capture), (row, "field", difference.field)}
    wanted = {(row, "field", field) for row in GOFLOW2_EXCEPTIONS for field in row.fields}
    wanted |= {
        (row, "capture", name) for row in GOFLOW2_EXCEPTIONS if row.captures != ANY for name in row.captures
    }
    unused = [f"{row.fields}: {what} {name}: {row.reason}" for row, what, name in wanted - used]
    assert not unused, "\n".join(unused)


def test_goflow2s_json_equals_its_messages(corpus: Path) -> None:
    """tests/support/peer_messages.py defines GoFlow2's messages correctly."""
    for capture in captures():
        lines = (corpus / f"{capture}.goflow2.jsonl").read_text().splitlines()
        stream = (corpus / f"{capture}.goflow2.pb").read_bytes()
        assert [GOFLOW2_MESSAGE.read(message) for message in split_stream(stream)] == list(
            map(json.loads, lines)
        )
