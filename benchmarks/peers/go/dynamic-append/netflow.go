package main

import (
	"encoding/binary"
	"net/netip"

	"github.com/netsampler/goflow2/v2/decoders/netflow"
	"github.com/netsampler/goflow2/v2/decoders/netflowlegacy"
	pipes "github.com/netsampler/goflow2/v2/utils"
)

const (
	etypeIPv4 = 0x0800
	etypeIPv6 = 0x86dd
)

func (d *decoder) appendNetFlow5(datagram *pipes.Message, packet *netflowlegacy.PacketNetFlowV5) {
	for i := range packet.Records {
		record := &packet.Records[i]
		m := d.begin(datagram, typeNetFlow5)
		m.SamplingRate = uint64(packet.SamplingInterval & 0x3fff)
		m.SrcAddr = addressOf(record.SrcAddr)
		m.DstAddr = addressOf(record.DstAddr)
		m.InIf, m.OutIf = uint64(record.Input), uint64(record.Output)
		m.SrcAS, m.DstAS = uint64(record.SrcAS), uint64(record.DstAS)
		m.Append(EType, etypeIPv4)
		m.Append(Bytes, uint64(record.DOctets))
		m.Append(Packets, uint64(record.DPkts))
		m.Append(Proto, uint64(record.Proto))
		m.Append(SrcPort, uint64(record.SrcPort))
		m.Append(DstPort, uint64(record.DstPort))
		m.Append(SrcPrefixLen, uint64(record.SrcMask))
		m.Append(DstPrefixLen, uint64(record.DstMask))
		m.Append(TCPFlags, uint64(record.TCPFlags))
		d.finish()
	}
}

func addressOf(value netflowlegacy.IPAddress) netip.Addr {
	var content [4]byte
	binary.BigEndian.PutUint32(content[:], uint32(value))
	return netip.AddrFrom4(content)
}

func (d *decoder) appendSets(datagram *pipes.Message, flowType uint64, sets []any, exporter *exporter, domain domain) {
	for _, set := range sets {
		switch set := set.(type) {
		case netflow.OptionsDataFlowSet:
			for _, record := range set.Records {
				exporter.sampling.learn(domain, record)
			}
		case netflow.DataFlowSet:
			for i := range set.Records {
				m := d.begin(datagram, flowType)
				appendRecord(m, set.Records[i].Values, exporter.sampling, domain)
				d.finish()
			}
		}
	}
}

func appendRecord(m *Message, fields []netflow.DataField, sampling sampling, domain domain) {
	var sampler uint64
	for i := range fields {
		content, ok := fields[i].Value.([]byte)
		if !ok {
			continue
		}
		if fields[i].PenProvided {
			appendEnterpriseField(m, fields[i].Pen, fields[i].Type, content)
			continue
		}
		switch fields[i].Type {
		case netflow.IPFIX_FIELD_samplerId, netflow.IPFIX_FIELD_selectorId:
			sampler = number(content)
		case netflow.IPFIX_FIELD_samplingInterval:
			m.SamplingRate = number(content)
		default:
			appendField(m, fields[i].Type, content)
		}
	}
	first(&m.SamplingRate, sampling.rate(domain, sampler))
}

func appendField(m *Message, element uint16, content []byte) {
	switch element {
	case netflow.IPFIX_FIELD_octetDeltaCount, netflow.IPFIX_FIELD_postOctetDeltaCount,
		netflow.IPFIX_FIELD_octetTotalCount, netflow.IPFIX_FIELD_initiatorOctets:
		m.Append(Bytes, number(content))
	case netflow.IPFIX_FIELD_packetDeltaCount, netflow.IPFIX_FIELD_postPacketDeltaCount,
		netflow.IPFIX_FIELD_packetTotalCount, netflow.IPFIX_FIELD_initiatorPackets:
		m.Append(Packets, number(content))
	case netflow.IPFIX_FIELD_sourceIPv4Address:
		firstAddress(&m.SrcAddr, content)
		m.Append(EType, etypeIPv4)
	case netflow.IPFIX_FIELD_destinationIPv4Address:
		firstAddress(&m.DstAddr, content)
		m.Append(EType, etypeIPv4)
	case netflow.IPFIX_FIELD_sourceIPv6Address:
		firstAddress(&m.SrcAddr, content)
		m.Append(EType, etypeIPv6)
	case netflow.IPFIX_FIELD_destinationIPv6Address:
		firstAddress(&m.DstAddr, content)
		m.Append(EType, etypeIPv6)
	case netflow.IPFIX_FIELD_protocolIdentifier:
		m.Append(Proto, number(content))
	case netflow.IPFIX_FIELD_sourceTransportPort:
		m.Append(SrcPort, number(content))
	case netflow.IPFIX_FIELD_destinationTransportPort:
		m.Append(DstPort, number(content))
	case netflow.IPFIX_FIELD_ingressInterface:
		first(&m.InIf, number(content))
	case netflow.IPFIX_FIELD_egressInterface:
		first(&m.OutIf, number(content))
	case netflow.IPFIX_FIELD_bgpSourceAsNumber:
		first(&m.SrcAS, number(content))
	case netflow.IPFIX_FIELD_bgpDestinationAsNumber:
		first(&m.DstAS, number(content))
	case netflow.IPFIX_FIELD_sourceIPv4PrefixLength, netflow.IPFIX_FIELD_sourceIPv6PrefixLength:
		m.Append(SrcPrefixLen, number(content))
	case netflow.IPFIX_FIELD_destinationIPv4PrefixLength, netflow.IPFIX_FIELD_destinationIPv6PrefixLength:
		m.Append(DstPrefixLen, number(content))
	case netflow.IPFIX_FIELD_tcpControlBits:
		m.Append(TCPFlags, number(content)&0xfff)
	case netflow.IPFIX_FIELD_forwardingStatus:
		m.Append(ForwardingStatus, number(content))
	case netflow.IPFIX_FIELD_flowDirection:
		if direction := number(content); direction <= 1 {
			m.Append(FlowDirection, direction+1)
		}
	}
}

// appendEnterpriseField decodes Juniper's common properties (2636/137). If the upper six bits of its two bytes
// are 2, the other bits are the reason why a packet was dropped.
func appendEnterpriseField(m *Message, enterprise uint32, element uint16, content []byte) {
	if enterprise != 2636 || element != 137 || len(content) != 2 || content[0]>>2 != 2 {
		return
	}
	if number(content)&0x3ff == 0 {
		m.Append(ForwardingStatus, 64) // forwarded
	} else {
		m.Append(ForwardingStatus, 128) // dropped
	}
}

// number reads an integer of up to 8 bytes.
func number(content []byte) (value uint64) {
	for _, each := range content {
		value = value<<8 | uint64(each)
	}
	return value
}
