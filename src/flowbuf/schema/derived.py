"""Elements that fill columns indirectly: those that `derived:` sources are calculated from, and helpers."""

from __future__ import annotations

__all__ = ["DERIVED", "HELPERS"]

_ADDRESSES = "sourceIPv4Address destinationIPv4Address sourceIPv6Address destinationIPv6Address"
_PORTS = "netflow5:prot netflow5:srcport netflow5:dstport"
_SECTIONS = "mplsTopLabelStackSection " + " ".join(f"mplsLabelStackSection{n}" for n in range(2, 11))
_SAMPLERS = (
    "samplerId selectorId samplingInterval samplerRandomInterval samplingPacketInterval samplingPacketSpace "
    "samplingSize samplingPopulation samplingProbability hashOutputRangeMin hashOutputRangeMax "
    "hashSelectedRangeMin hashSelectedRangeMax selectionSequenceId selectorAlgorithm"
)
_ICMP = (
    "icmpTypeCodeIPv4 icmpTypeCodeIPv6 protocolIdentifier sourceTransportPort destinationTransportPort "
    f"{_PORTS}"
)
_IN, _OUT = "ingressInterface ingressPhysicalInterface", "egressInterface egressPhysicalInterface"
_USERS = "sourceIPv4Address sourceIPv6Address sourceMacAddress staIPv4Address staMacAddress userName"
DERIVED = {
    "derived:sampling_rate": _SAMPLERS,
    "derived:etype": f"{_ADDRESSES} ipVersion ethernetType netflow5:srcaddr sflow:sampled_ip.src_ip",
    "derived:icmp_type": _ICMP,
    "derived:icmp_code": _ICMP,
    "derived:forwarding_status": "2636/137 sflow:flow_sample.output",
    "derived:ip_flags": "fragmentFlags",
    "derived:mpls_labels": _SECTIONS,
    "derived:in_if_name": f"{_IN} interfaceName sflow:flow_sample.input",
    "derived:out_if_name": f"{_OUT} interfaceName sflow:flow_sample.output",
    "derived:in_if_description": f"{_IN} interfaceDescription",
    "derived:out_if_description": f"{_OUT} interfaceDescription",
    "derived:in_if_speed": "sflow:flow_sample.input",
    "derived:out_if_speed": "sflow:flow_sample.output",
    "derived:ingress_vrf_name": "ingressVRFID VRFname",
    "derived:egress_vrf_name": "egressVRFID VRFname",
    "derived:application_name": "applicationId applicationName",
    "derived:application_category": "applicationId applicationCategoryName",
    "derived:sampler_name": "samplerId selectorId samplerName selectorName",
    "derived:user_name": _USERS,
    "derived:observation_point_name": "observationPointId interfaceName",
    "derived:scope_elements": "",
    "derived:other_elements": "",
    "derived:other_values": "",
}
"""The inputs of each source, separated by spaces: names of elements, or sources of another kind.

Names come from options data: the first elements hold an id in the flow, the last ones its name.
"""

OTHERS = frozenset(("derived:other_elements", "derived:other_values"))
"""Sources with the elements that no enabled column takes: their values depend on all enabled columns."""

HELPERS = {
    "ipfix:systemInitTimeMilliseconds": "the start time for flowStartSysUpTime and flowEndSysUpTime",
    "ipfix:ipHeaderPacketSection": "a sampled packet, see [Packets](#packets)",
    "ipfix:dataLinkFrameSection": "a sampled packet, see [Packets](#packets)",
    "ipfix:dataLinkFrameType": "whether a frame is Ethernet, see [Packets](#packets)",
    "ipfix:sectionOffset": "whether a section begins with its packet, see [Packets](#packets)",
}
"""Elements that fill no column directly, and what flowbuf reads from them."""
