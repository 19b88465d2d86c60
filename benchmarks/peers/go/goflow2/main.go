// GoFlow2 as in its own process, from the datagram of its receiver to the message for its transport. The pipes,
// the producer with its default mapping, the format "bin" and the wrappers for panics are connected as in its
// cmd/goflow2. The receiver, the transport and the Prometheus metrics per datagram are left out, because
// flowbuf has no such metrics.
package main

import (
	"encoding/binary"

	"github.com/netsampler/goflow2/v2/format"
	_ "github.com/netsampler/goflow2/v2/format/binary"
	protoproducer "github.com/netsampler/goflow2/v2/producer/proto"
	"github.com/netsampler/goflow2/v2/utils"
	"github.com/netsampler/goflow2/v2/utils/debug"

	"flowbuf/benchmarks/peers/exchange"
)

// transport receives messages. Each message is one flow.
type transport struct {
	sink *exchange.Sink
}

func (t transport) Send(_, message []byte) error {
	return t.sink.Take(message, 1)
}

func open(sink *exchange.Sink) (exchange.Decoder, error) {
	formatter, err := format.FindFormat("bin")
	if err != nil {
		return nil, err
	}
	var defaults *protoproducer.ProducerConfig
	mapping, err := defaults.Compile()
	if err != nil {
		return nil, err
	}
	producer, err := protoproducer.CreateProtoProducer(mapping, protoproducer.CreateSamplingSystem)
	if err != nil {
		return nil, err
	}
	config := &utils.PipeConfig{
		Format:    formatter,
		Transport: transport{sink},
		Producer:  debug.WrapPanicProducer(producer),
	}
	netflow := debug.PanicDecoderWrapper(utils.NewNetFlowPipe(config).DecodeFlow)
	sflow := debug.PanicDecoderWrapper(utils.NewSFlowPipe(config).DecodeFlow)
	return func(datagram *utils.Message) error {
		if isSFlow(datagram.Payload) {
			return sflow(datagram)
		}
		return netflow(datagram)
	}, nil
}

// isSFlow replaces the port, by which GoFlow2 separates protocols. Bytes 0 to 3 of NetFlow are never 0, 0, 0, 5.
func isSFlow(payload []byte) bool {
	return len(payload) >= 4 && binary.BigEndian.Uint32(payload) == 5
}

func main() {
	exchange.Main(exchange.GoFlow2(), open)
}
