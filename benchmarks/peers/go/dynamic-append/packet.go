package main

import "encoding/binary"

const (
	protocolTCP = 6
	protocolUDP = 17

	etypeVLAN  = 0x8100
	etypeQinQ  = 0x88a8
	ipv4Header = 20
	ipv6Header = 40
)

// appendEthernet appends the fields of a sampled frame: its VLAN tags are skipped, then IP is decoded.
func appendEthernet(m *Message, frame []byte) {
	if len(frame) < 14 {
		return
	}
	etype, rest := binary.BigEndian.Uint16(frame[12:]), frame[14:]
	for (etype == etypeVLAN || etype == etypeQinQ) && len(rest) >= 4 {
		etype, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	switch etype {
	case etypeIPv4:
		appendIPv4(m, rest)
	case etypeIPv6:
		appendIPv6(m, rest)
	default:
		m.Append(EType, uint64(etype))
	}
}

func appendIPv4(m *Message, packet []byte) {
	if len(packet) < ipv4Header {
		return
	}
	m.Append(EType, etypeIPv4)
	m.Append(Bytes, uint64(binary.BigEndian.Uint16(packet[2:])))
	m.Append(Proto, uint64(packet[9]))
	firstAddress(&m.SrcAddr, packet[12:16])
	firstAddress(&m.DstAddr, packet[16:20])
	length := int(packet[0]&0xf) * 4
	fragment := binary.BigEndian.Uint16(packet[6:]) & 0x1fff
	if fragment == 0 && length >= ipv4Header && length <= len(packet) {
		appendTransport(m, packet[9], packet[length:])
	}
}

func appendIPv6(m *Message, packet []byte) {
	if len(packet) < ipv6Header {
		return
	}
	m.Append(EType, etypeIPv6)
	m.Append(Bytes, uint64(binary.BigEndian.Uint16(packet[4:]))+ipv6Header)
	m.Append(Proto, uint64(packet[6]))
	firstAddress(&m.SrcAddr, packet[8:24])
	firstAddress(&m.DstAddr, packet[24:40])
	appendTransport(m, packet[6], packet[ipv6Header:])
}

func appendTransport(m *Message, protocol byte, header []byte) {
	if protocol != protocolTCP && protocol != protocolUDP || len(header) < 4 {
		return
	}
	m.Append(SrcPort, uint64(binary.BigEndian.Uint16(header)))
	m.Append(DstPort, uint64(binary.BigEndian.Uint16(header[2:])))
	if protocol == protocolTCP && len(header) >= 14 {
		m.Append(TCPFlags, uint64(binary.BigEndian.Uint16(header[12:])&0xfff))
	}
}
