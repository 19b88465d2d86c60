"""Definitions of the messages of GoFlow2 and Akvorado, independent of flowbuf's schemas."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv6Address, ip_address
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet


@dataclass(frozen=True)
class PeerField:
    """A field. `type` is the type in the .proto file; for an enum, its name."""

    number: int
    name: str
    type: str
    repeated: bool


@dataclass(frozen=True)
class PeerMessage:
    """A message type. `fields` has the form "1 bytes uint64, 2 as_path repeated uint32, …".

    All `bytes` fields are addresses.
    """

    text: str
    enums: dict[str, dict[str, int]]

    @cached_property
    def fields(self) -> dict[str, PeerField]:
        found = re.findall(r"(\d+) (\w+) (repeated )?(\w+)", self.text)
        return {
            name: PeerField(int(number), name, type, bool(repeated)) for number, name, repeated, type in found
        }

    @cached_property
    def message_class(self) -> type[Message]:
        file = FileDescriptorProto(name="peer.proto", package="peer", syntax="proto3")
        message = file.message_type.add(name="FlowMessage")
        for name, members in self.enums.items():
            enum = message.enum_type.add(name=name)
            for member, number in members.items():
                enum.value.add(name=f"{name}_{member}", number=number)
        for each in self.fields.values():
            field = message.field.add(name=each.name, number=each.number)
            field.label = (
                FieldDescriptorProto.LABEL_REPEATED if each.repeated else FieldDescriptorProto.LABEL_OPTIONAL
            )
            if each.type in self.enums:
                field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, f".peer.FlowMessage.{each.type}"
            else:
                field.type = getattr(FieldDescriptorProto, f"TYPE_{each.type.upper()}")
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName("peer.FlowMessage"))

    def read(self, octets: bytes) -> dict[str, Any]:
        """Return the values of a message.

        Addresses are text; a 16-byte IPv4 address is shown as IPv6. Enums are names. Unknown fields are an
        error.
        """
        message = self.message_class.FromString(octets)
        assert not UnknownFieldSet(message)
        return {field.name: self._value(field.name, value) for field, value in message.ListFields()}

    def _value(self, name: str, value: Any) -> Any:
        field = self.fields[name]
        return [self._single(field, each) for each in value] if field.repeated else self._single(field, value)

    def _single(self, field: PeerField, value: Any) -> Any:
        if field.type == "bytes":
            address = ip_address(value)
            mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
            return f"::ffff:{mapped}" if mapped else str(address)
        if field.type in self.enums:
            return next(name for name, number in self.enums[field.type].items() if number == value)
        return value


GOFLOW2_MESSAGE = PeerMessage(
    """
    1 type FlowType, 3 sampling_rate uint64, 4 sequence_num uint32, 6 src_addr bytes, 7 dst_addr bytes,
    9 bytes uint64, 10 packets uint64, 11 sampler_address bytes, 12 next_hop bytes, 13 next_hop_as uint32,
    14 src_as uint32, 15 dst_as uint32, 16 src_net uint32, 17 dst_net uint32, 18 in_if uint32,
    19 out_if uint32, 20 proto uint32, 21 src_port uint32, 22 dst_port uint32, 23 ip_tos uint32,
    24 forwarding_status uint32, 25 ip_ttl uint32, 26 tcp_flags uint32, 27 src_mac uint64, 28 dst_mac uint64,
    29 vlan_id uint32, 30 etype uint32, 31 icmp_type uint32, 32 icmp_code uint32, 33 src_vlan uint32,
    34 dst_vlan uint32, 35 fragment_id uint32, 36 fragment_offset uint32, 37 ipv6_flow_label uint32,
    38 ip_flags uint32, 70 observation_domain_id uint32, 71 observation_point_id uint32,
    80 mpls_ttl repeated uint32, 81 mpls_label repeated uint32, 82 mpls_ip repeated bytes,
    100 bgp_next_hop bytes, 101 bgp_communities repeated uint32, 102 as_path repeated uint32,
    103 layer_stack repeated LayerStack, 104 layer_size repeated uint32,
    105 ipv6_routing_header_addresses repeated bytes, 106 ipv6_routing_header_seg_left uint32,
    110 time_received_ns uint64, 111 time_flow_start_ns uint64, 112 time_flow_end_ns uint64
    """,
    {
        "FlowType": {"FLOWUNKNOWN": 0, "SFLOW_5": 1, "NETFLOW_V5": 2, "NETFLOW_V9": 3, "IPFIX": 4},
        "LayerStack": {
            **{
                "Ethernet": 0,
                "IPv4": 1,
                "IPv6": 2,
                "TCP": 3,
                "UDP": 4,
                "MPLS": 5,
                "Dot1Q": 6,
                "ICMP": 7,
                "ICMPv6": 8,
            },
            **{
                "GRE": 9,
                "IPv6HeaderRouting": 10,
                "IPv6HeaderFragment": 11,
                "Geneve": 12,
                "Teredo": 13,
                "Custom": 99,
            },
        },
    },
)
"""flowpb.FlowMessage of GoFlow2 2.2.6."""

AKVORADO_MESSAGE = PeerMessage(
    """
    1 TimeReceived uint64, 2 SamplingRate uint64, 3 ExporterAddress bytes, 4 ExporterName string,
    5 ExporterGroup string, 6 ExporterRole string, 7 ExporterSite string, 8 ExporterRegion string,
    9 ExporterTenant string, 10 SrcAddr bytes, 11 DstAddr bytes, 12 SrcNetMask uint32, 13 DstNetMask uint32,
    14 SrcAS uint32, 15 DstAS uint32, 18 SrcCountry string, 19 DstCountry string,
    20 DstASPath repeated uint32, 21 DstCommunities repeated uint32,
    22 DstLargeCommunitiesASN repeated uint32, 23 DstLargeCommunitiesLocalData1 repeated uint32,
    24 DstLargeCommunitiesLocalData2 repeated uint32, 25 InIfName string, 26 OutIfName string,
    27 InIfDescription string, 28 OutIfDescription string, 29 InIfSpeed uint32, 30 OutIfSpeed uint32,
    31 InIfConnectivity string, 32 OutIfConnectivity string, 33 InIfProvider string, 34 OutIfProvider string,
    35 InIfBoundary Boundary, 36 OutIfBoundary Boundary, 37 EType uint32, 38 Proto uint32, 39 SrcPort uint32,
    40 DstPort uint32, 41 Bytes uint64, 42 Packets uint64, 43 ForwardingStatus uint32
    """,
    {"Boundary": {"UNDEFINED": 0, "EXTERNAL": 1, "INTERNAL": 2}},
)
"""The message of Akvorado 1.7.1."""

PEERS = {"goflow2": GOFLOW2_MESSAGE, "akvorado": AKVORADO_MESSAGE}
