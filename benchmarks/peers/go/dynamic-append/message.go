package main

import (
	"net/netip"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Column is known at run time only. No code is generated for it.
type Column struct {
	Number  protowire.Number
	Enabled bool
}

// A Key is the index of a column in a schema.
type Key int

// The enabled columns of flowbuf's schema `flow`.
const (
	TimeReceived Key = iota
	ExporterAddress
	SamplingRate
	Bytes
	Packets
	SrcAddr
	DstAddr
	EType
	Proto
	SrcPort
	DstPort
	InIf
	OutIf
	SrcAS
	DstAS
	SrcPrefixLen
	DstPrefixLen
	TCPFlags
	ForwardingStatus
	FlowDirection
	FlowType
	keys
)

// Values of flow_type.
const (
	typeSFlow    = 1
	typeNetFlow5 = 2
	typeNetFlow9 = 3
	typeIPFIX    = 4
)

// flowSchema returns the number of each key. Number 18, next_hop, is disabled.
func flowSchema() []Column {
	schema := make([]Column, keys)
	for key := range schema {
		number := protowire.Number(key + 1)
		if number >= 18 {
			number++
		}
		schema[key] = Column{number, true}
	}
	return schema
}

// A Message is one flow. Fields are appended in the order of the input, and the first value of a column wins.
// Values that a later step may change are kept in separate fields until Finish.
type Message struct {
	SamplingRate              uint64
	ExporterAddress           netip.Addr
	SrcAddr, DstAddr          netip.Addr
	InIf, OutIf, SrcAS, DstAS uint64

	schema []Column
	set    uint64 // a bit for each key
	fields []byte
}

// Reset starts another flow.
func (m *Message) Reset() {
	*m = Message{schema: m.schema, fields: m.fields[:0]}
}

func (m *Message) has(key Key) bool {
	return m.set&(1<<key) != 0
}

func (m *Message) take(key Key) (protowire.Number, bool) {
	column := m.schema[key]
	if !column.Enabled || m.has(key) {
		return 0, false
	}
	m.set |= 1 << key
	return column.Number, true
}

// Append appends a number. Zero is not written.
func (m *Message) Append(key Key, value uint64) {
	if value == 0 {
		return
	}
	if number, ok := m.take(key); ok {
		m.fields = protowire.AppendTag(m.fields, number, protowire.VarintType)
		m.fields = protowire.AppendVarint(m.fields, value)
	}
}

// AppendAddress appends an address as 16 bytes. The unspecified address is not written.
func (m *Message) AppendAddress(key Key, address netip.Addr) {
	if !address.IsValid() || address.IsUnspecified() {
		return
	}
	if number, ok := m.take(key); ok {
		content := address.As16()
		m.fields = protowire.AppendTag(m.fields, number, protowire.BytesType)
		m.fields = protowire.AppendBytes(m.fields, content[:])
	}
}

// Finish appends the values that were kept, and then the message with its length to output.
func (m *Message) Finish(output []byte) []byte {
	m.Append(SamplingRate, m.SamplingRate)
	m.AppendAddress(ExporterAddress, m.ExporterAddress)
	m.AppendAddress(SrcAddr, m.SrcAddr)
	m.AppendAddress(DstAddr, m.DstAddr)
	m.Append(InIf, m.InIf)
	m.Append(OutIf, m.OutIf)
	m.Append(SrcAS, m.SrcAS)
	m.Append(DstAS, m.DstAS)
	return protowire.AppendBytes(output, m.fields)
}

// first keeps the first value that is not zero.
func first(kept *uint64, value uint64) {
	if *kept == 0 {
		*kept = value
	}
}

// firstAddress keeps the first valid and specified address, of 4 or 16 bytes.
func firstAddress(kept *netip.Addr, content []byte) {
	if kept.IsValid() {
		return
	}
	if address, ok := netip.AddrFromSlice(content); ok && !address.IsUnspecified() {
		*kept = address
	}
}
