// The approach of "Fast and dynamic encoding of Protocol Buffers in Go" on GoFlow2's decoders. There are no
// generated classes: fields are appended one by one (protowire), by a schema that is known at run time. The
// columns are the enabled ones of flowbuf's schema `flow`, so the messages can be compared. The program is the
// substitute for Akvorado, which is not built here.
package main

import (
	"bytes"
	"errors"
	"net/netip"

	"github.com/netsampler/goflow2/v2/decoders/netflow"
	"github.com/netsampler/goflow2/v2/decoders/netflowlegacy"
	"github.com/netsampler/goflow2/v2/decoders/sflow"
	"github.com/netsampler/goflow2/v2/decoders/utils"
	pipes "github.com/netsampler/goflow2/v2/utils"

	"flowbuf/benchmarks/peers/exchange"
)

// An exporter is identified by its address.
type exporter struct {
	templates netflow.NetFlowTemplateSystem
	sampling  sampling
}

// A decoder reuses its message for each flow and its output for each datagram.
type decoder struct {
	sink      *exchange.Sink
	exporters map[netip.Addr]*exporter
	message   Message
	output    []byte
	flows     int
}

func open(sink *exchange.Sink) (exchange.Decoder, error) {
	d := &decoder{sink: sink, exporters: map[netip.Addr]*exporter{}, message: Message{schema: flowSchema()}}
	return d.decode, nil
}

func (d *decoder) decode(datagram *pipes.Message) error {
	d.output, d.flows = d.output[:0], 0
	err := d.decodeVersion(datagram)
	return errors.Join(err, d.sink.Take(d.output, d.flows))
}

func (d *decoder) decodeVersion(datagram *pipes.Message) error {
	payload := bytes.NewBuffer(datagram.Payload)
	var version uint16
	if err := utils.BinaryDecoder(payload, &version); err != nil {
		return err
	}
	switch version {
	case 0: // the upper half of sFlow's version
		var packet sflow.Packet
		if err := sflow.DecodeMessageVersion(bytes.NewBuffer(datagram.Payload), &packet); err != nil {
			return err
		}
		d.appendSFlow(datagram, &packet)
	case 5:
		packet := netflowlegacy.PacketNetFlowV5{Version: 5}
		if err := netflowlegacy.DecodeMessage(payload, &packet); err != nil {
			return err
		}
		d.appendNetFlow5(datagram, &packet)
	case 9:
		exporter := d.find(datagram.Src.Addr())
		var packet netflow.NFv9Packet
		if err := netflow.DecodeMessageNetFlow(payload, exporter.templates, &packet); err != nil {
			return err
		}
		d.appendSets(datagram, typeNetFlow9, packet.FlowSets, exporter, domain{9, packet.SourceId})
	case 10:
		exporter := d.find(datagram.Src.Addr())
		var packet netflow.IPFIXPacket
		if err := netflow.DecodeMessageIPFIX(payload, exporter.templates, &packet); err != nil {
			return err
		}
		d.appendSets(datagram, typeIPFIX, packet.FlowSets, exporter, domain{10, packet.ObservationDomainId})
	}
	return nil
}

func (d *decoder) find(address netip.Addr) *exporter {
	found, ok := d.exporters[address]
	if !ok {
		found = &exporter{netflow.CreateTemplateSystem(), sampling{}}
		d.exporters[address] = found
	}
	return found
}

// begin starts a flow with the columns that depend on its datagram only.
func (d *decoder) begin(datagram *pipes.Message, flowType uint64) *Message {
	m := &d.message
	m.Reset()
	m.ExporterAddress = datagram.Src.Addr()
	m.Append(TimeReceived, uint64(datagram.Received.UnixMilli()))
	m.Append(FlowType, flowType)
	return m
}

func (d *decoder) finish() {
	d.output = d.message.Finish(d.output)
	d.flows++
}

func main() {
	exchange.Main(exchange.GoFlow2(), open)
}
