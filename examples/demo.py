"""Convert a capture to Protocol Buffers messages, and read them with google.protobuf.

python examples/demo.py [CAPTURE]
"""

from __future__ import annotations

import importlib
import ipaddress
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf.proto import parse_length_prefixed
from grpc_tools import protoc
from rich.console import Console
from rich.table import Table

import flowbuf
from flowbuf import CaptureReader

CAPTURE = Path(__file__).parent.parent / "tests/data/softflowd-ipfix.pcap"
PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6"}


def run_encode(capture: Path, output: Path) -> None:
    """Run `flowbuf encode CAPTURE -o OUTPUT`."""
    subprocess.run([sys.executable, "-m", "flowbuf", "encode", str(capture), "-o", str(output)], check=True)


def compile_proto(proto: Path, folder: Path) -> ModuleType:
    """Return the Python module that protoc generates from a .proto file."""
    target = folder / "flow.proto"
    target.write_text(proto.read_text())
    if protoc.main(["protoc", f"-I{folder}", f"--python_out={folder}", str(target)]):
        sys.exit(f"protoc cannot compile {proto}")
    sys.path.insert(0, str(folder))
    return importlib.import_module("flow_pb2")


def read_flows(stream: Path, message_class: Any) -> Iterator[Any]:
    """Yield the messages of a length-delimited stream, read by google.protobuf."""
    with stream.open("rb") as file:
        while (message := parse_length_prefixed(message_class, file)) is not None:
            yield message


def show_top_talkers(flows: list[Any], console: Console) -> None:
    octets: Counter[tuple[bytes, bytes, int]] = Counter()
    packets: Counter[tuple[bytes, bytes, int]] = Counter()
    for flow in flows:
        key = (flow.src_addr, flow.dst_addr, flow.proto)
        octets[key] += flow.bytes
        packets[key] += flow.packets
    table = Table(title="Top talkers", title_justify="left")
    table.add_column("from")
    table.add_column("to")
    table.add_column("protocol")
    table.add_column("packets", justify="right")
    table.add_column("bytes", justify="right")
    for key, total in octets.most_common(10):
        source, destination, proto = key
        name = PROTOCOLS.get(proto, str(proto))
        table.add_row(to_text(source), to_text(destination), name, f"{packets[key]:,}", f"{total:,}")
    console.print(table)


def to_text(address: bytes) -> str:
    parsed = ipaddress.IPv6Address(address)
    return str(parsed.ipv4_mapped or parsed)


def measure(capture: Path, seconds: float = 1.0) -> tuple[float, float]:
    """Return flows and bytes of output per second, decoding the capture repeatedly on one core."""
    decoder = flowbuf.Decoder()
    with CaptureReader(capture) as reader:
        datagrams = [batch[i] for batch in reader for i in range(len(batch))]
    payloads = [datagram[0] for datagram in datagrams] * 20
    decoder.encode_many(payloads, datagrams[0][1])
    octets, flows, begin = 0, decoder.flows, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        octets += len(decoder.encode_many(payloads, datagrams[0][1]))
    return (decoder.flows - flows) / elapsed, octets / elapsed


def main() -> None:
    capture = Path(sys.argv[1]) if len(sys.argv) > 1 else CAPTURE
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder) / "flows.pb"
        console.rule(f"flowbuf encode {capture.name} -o flows.pb")
        run_encode(capture, stream)
        proto = Path(f"{stream}.proto")
        console.rule("flows.pb.proto, written with flows.pb")
        print(proto.read_text())
        module = compile_proto(proto, Path(folder))
        flows = list(read_flows(stream, module.Flow))
        console.rule("flows.pb, read by google.protobuf with that .proto")
        show_top_talkers(flows, console)
        size = stream.stat().st_size
    flow_rate, byte_rate = measure(capture)
    decoder = flowbuf.Decoder()
    with CaptureReader(capture) as reader:
        for batch in reader:
            decoder.encode_datagrams(batch)
    print(f"{capture.stat().st_size:,} bytes of capture -> {size:,} bytes of messages")
    print(f"{flow_rate:,.0f} flows/s, {byte_rate / 1e6:,.0f} MB/s of messages, on one core")
    print(f"flows decoded={decoder.flows} messages={len(flows)}")


if __name__ == "__main__":
    main()
