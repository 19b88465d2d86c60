package main

import (
	"net/netip"

	"github.com/netsampler/goflow2/v2/decoders/sflow"
	pipes "github.com/netsampler/goflow2/v2/utils"
)

const localInterface = 0x3fffffff

// An sFlow interface. Its value is an ifIndex (format 0), a discard reason (1) or a number of outputs (2).
type sflowInterface struct {
	format, value uint32
}

func compact(value uint32) sflowInterface {
	return sflowInterface{value >> 30, value & 0x3fffffff}
}

func (i sflowInterface) index() uint64 {
	if i.format != 0 || i.value == localInterface {
		return 0
	}
	return uint64(i.value)
}

// discardStatus returns the closest forwarding status (RFC 7270 section 4.12) of a discard reason.
func discardStatus(reason uint32) uint64 {
	switch reason {
	case 0, 1, 2, 3, 5, 6, 7, 263: // unreachable, by the ICMP code
		return 131
	case 4: // fragmentation needed
		return 133
	case 8: // source host isolated
		return 132
	case 9, 10: // administratively prohibited
		return 129
	case 257: // time to live exceeded
		return 137
	case 258, 269: // access list, unknown VLAN
		return 130
	case 259: // no buffer space
		return 143
	case 260: // random early discard
		return 139
	case 261: // traffic shaping
		return 138
	case 262: // packet too big
		return 135
	case 302:
		return 140
	default: // dropped
		return 128
	}
}

func (d *decoder) appendSFlow(datagram *pipes.Message, packet *sflow.Packet) {
	for _, sample := range packet.Samples {
		switch sample := sample.(type) {
		case sflow.FlowSample:
			d.appendSample(datagram, packet, sample.SamplingRate, compact(sample.Input), compact(sample.Output), sample.Records)
		case sflow.ExpandedFlowSample:
			input := sflowInterface{sample.InputIfFormat, sample.InputIfValue}
			output := sflowInterface{sample.OutputIfFormat, sample.OutputIfValue}
			d.appendSample(datagram, packet, sample.SamplingRate, input, output, sample.Records)
		}
	}
}

func (d *decoder) appendSample(
	datagram *pipes.Message, packet *sflow.Packet, rate uint32, input, output sflowInterface, records []sflow.FlowRecord,
) {
	m := d.begin(datagram, typeSFlow)
	m.ExporterAddress, _ = netip.AddrFromSlice(packet.AgentIP)
	m.SamplingRate = uint64(rate)
	m.InIf, m.OutIf = input.index(), output.index()
	if output.format == 1 {
		m.Append(ForwardingStatus, discardStatus(output.value))
	}
	m.Append(Packets, 1)
	for i := range records {
		appendSampleRecord(m, records[i].Data)
	}
	d.finish()
}

// appendSampleRecord appends the fields of a record of a sample. The sampled header is the most precise one.
func appendSampleRecord(m *Message, record any) {
	switch record := record.(type) {
	case sflow.SampledHeader:
		switch record.Protocol {
		case 1:
			appendEthernet(m, record.HeaderData)
		case 11:
			appendIPv4(m, record.HeaderData)
		case 12:
			appendIPv6(m, record.HeaderData)
		}
		m.Append(Bytes, uint64(record.FrameLength)) // used if the frame has no IP header
	case sflow.SampledIPv4:
		appendSampledIP(m, &record.SampledIPBase, etypeIPv4)
	case sflow.SampledIPv6:
		appendSampledIP(m, &record.SampledIPBase, etypeIPv6)
	case sflow.ExtendedRouter:
		m.Append(SrcPrefixLen, uint64(record.SrcMaskLen))
		m.Append(DstPrefixLen, uint64(record.DstMaskLen))
	case sflow.ExtendedGateway:
		appendGateway(m, &record)
	}
}

func appendSampledIP(m *Message, record *sflow.SampledIPBase, etype uint64) {
	m.Append(EType, etype)
	m.Append(Bytes, uint64(record.Length))
	m.Append(Proto, uint64(record.Protocol))
	firstAddress(&m.SrcAddr, record.SrcIP)
	firstAddress(&m.DstAddr, record.DstIP)
	m.Append(SrcPort, uint64(record.SrcPort))
	m.Append(DstPort, uint64(record.DstPort))
	m.Append(TCPFlags, uint64(record.TcpFlags))
}

// appendGateway appends the AS numbers. The last one of the path is the destination's. If an AS is 0 or the
// path is empty, the exporter's own AS is used.
func appendGateway(m *Message, record *sflow.ExtendedGateway) {
	first(&m.SrcAS, uint64(record.SrcAS))
	first(&m.SrcAS, uint64(record.AS))
	if path := record.ASPath; len(path) > 0 {
		first(&m.DstAS, uint64(path[len(path)-1]))
	}
	first(&m.DstAS, uint64(record.AS))
}
