// Package exchange connects a Go peer with benchmarks/peers/harness.py.
//
//	PROGRAM version             prints the version of the peer
//	PROGRAM dump WORKLOAD FILE  writes the messages of one pass to FILE
//	PROGRAM run WORKLOAD        prints "ready FLOWS", then answers each line SECONDS with a line "PASSES NANOSECONDS"
//
// Datagrams are loaded before anything is timed. Times are CPU time of the whole process, including the garbage
// collector. GOMAXPROCS is 1, because the figures are for one core.
package exchange

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/netsampler/goflow2/v2/utils"
)

// A Sink counts flows and optionally stores their messages.
type Sink struct {
	Flows int
	File  *bufio.Writer // nil: messages are discarded
}

// Take takes length-delimited messages and their number of flows.
func (sink *Sink) Take(messages []byte, flows int) error {
	sink.Flows += flows
	if sink.File == nil {
		return nil
	}
	_, err := sink.File.Write(messages)
	return err
}

// A Decoder decodes a datagram in the form of GoFlow2's receiver.
type Decoder func(datagram *utils.Message) error

type workload struct {
	first, data []*utils.Message
}

// datagram is the header of each payload of a workload file, little-endian.
type datagram struct {
	Length  uint32
	Address [16]byte
	Port    uint16
	Time    uint64 // ns since 1970
}

func load(path string) (*workload, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reader := bytes.NewReader(content)
	var counts struct{ First, Data uint32 }
	if err := binary.Read(reader, binary.LittleEndian, &counts); err != nil {
		return nil, err
	}
	all := make([]*utils.Message, 0, counts.First+counts.Data)
	for len(all) < cap(all) {
		message, err := loadDatagram(reader)
		if err != nil {
			return nil, err
		}
		all = append(all, message)
	}
	return &workload{all[:counts.First], all[counts.First:]}, nil
}

func loadDatagram(reader io.Reader) (*utils.Message, error) {
	var header datagram
	if err := binary.Read(reader, binary.LittleEndian, &header); err != nil {
		return nil, err
	}
	payload := make([]byte, header.Length)
	if _, err := io.ReadFull(reader, payload); err != nil {
		return nil, err
	}
	return &utils.Message{
		Src:      netip.AddrPortFrom(netip.AddrFrom16(header.Address).Unmap(), header.Port),
		Dst:      netip.AddrPortFrom(netip.IPv4Unspecified(), 2055),
		Payload:  payload,
		Received: time.Unix(0, int64(header.Time)),
	}, nil
}

// Main runs the command line with the decoder that open returns for a sink.
func Main(version string, open func(*Sink) (Decoder, error)) {
	runtime.GOMAXPROCS(1)
	if err := run(os.Args[1:], version, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string, version string, open func(*Sink) (Decoder, error)) error {
	if len(arguments) == 1 && arguments[0] == "version" {
		fmt.Println(version)
		return nil
	}
	if !(len(arguments) == 2 && arguments[0] == "run") && !(len(arguments) == 3 && arguments[0] == "dump") {
		return errors.New("version, run WORKLOAD or dump WORKLOAD FILE")
	}
	datagrams, err := load(arguments[1])
	if err != nil {
		return err
	}
	sink := &Sink{}
	decode, err := open(sink)
	if err != nil {
		return err
	}
	for _, datagram := range datagrams.first {
		_ = decode(datagram) // errors lower the number of flows, which the benchmark shows
	}
	if arguments[0] == "dump" {
		return dump(datagrams, sink, decode, arguments[2])
	}
	return measure(datagrams, sink, decode)
}

func pass(datagrams *workload, decode Decoder) {
	for _, datagram := range datagrams.data {
		_ = decode(datagram)
	}
}

func dump(datagrams *workload, sink *Sink, decode Decoder, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	sink.File = bufio.NewWriter(file)
	pass(datagrams, decode)
	return errors.Join(sink.File.Flush(), file.Close())
}

func measure(datagrams *workload, sink *Sink, decode Decoder) error {
	sink.Flows = 0
	pass(datagrams, decode)
	fmt.Println("ready", sink.Flows)
	for {
		var seconds float64
		if _, err := fmt.Scanln(&seconds); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		passes, start := 0, cpuTime()
		elapsed := time.Duration(0)
		for passes == 0 || elapsed.Seconds() < seconds {
			pass(datagrams, decode)
			passes++
			elapsed = cpuTime() - start
		}
		fmt.Println(passes, elapsed.Nanoseconds())
	}
}

// cpuTime returns the CPU time of all threads, in user and system mode.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// GoFlow2 returns the version of GoFlow2 in this program.
func GoFlow2() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range build.Deps {
		if module.Path == "github.com/netsampler/goflow2/v2" {
			return module.Version[1:] + " (" + build.GoVersion + ")"
		}
	}
	return "unknown"
}
