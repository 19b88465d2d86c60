"""Create the captures of this folder: with `flowbuf generate`, with a real exporter, and by hand.

    python tests/data/make.py

softflowd reads `traffic.pcap`, packets written by scapy, and exports their flows as NetFlow v5, v9 and IPFIX
to a local socket. It chooses template ids and fields; times and sequence numbers differ between runs.

Every record in `ipfix-variable.pcap` has names of variable length and enterprise elements.

nfcapd receives the first datagrams of `generated-netflow9.pcap`, and writes them with compressed blocks.
"""

from __future__ import annotations

import gzip
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

from flowbuf import _core

FOLDER = Path(__file__).parent
PROTOCOLS = ("netflow5", "netflow9", "ipfix", "sflow")
SOFTFLOWD_VERSIONS = {"netflow5": "5", "netflow9": "9", "ipfix": "10"}
NFCAPD_OPTIONS = {"bz2": "-j", "lz4": "-y"}
START = 1735689600.0  # 2025-01-01T00:00:00Z
GENERATED_FLOWS = 300
# (element, bytes, enterprise): common elements, interfaceName, applicationName, Juniper's common properties,
# and a name under the enterprise number that RFC 5612 reserves for examples.
VARIABLE = 65535
FIELDS = (
    *((8, 4, 0), (12, 4, 0), (7, 2, 0), (11, 2, 0), (4, 1, 0), (5, 1, 0), (6, 1, 0), (10, 4, 0), (14, 4, 0)),
    *((1, 4, 0), (2, 4, 0), (152, 8, 0), (153, 8, 0)),
    *((82, VARIABLE, 0), (96, VARIABLE, 0), (137, 2, 2636), (1, VARIABLE, 32473)),
)
APPLICATIONS = ("https", "https", "http", "dns", "ssh", "ntp", "quic", "rtp-video")
MESSAGES, RECORDS = 3, 20
PORTS = (443, 443, 443, 80, 53, 22, 123, 8080)


def make_packets(conversations: int = 240, seed: int = 7) -> list[Packet]:
    """Return packets of conversations between a few clients and many servers, in order of time."""
    chance = random.Random(seed)
    packets: list[Packet] = []
    for _ in range(conversations):
        packets += make_conversation(chance)
    return sorted(packets, key=lambda packet: packet.time)


def make_conversation(chance: random.Random) -> list[Packet]:
    """Return the packets of one client and one server, in both directions."""
    client, server = chance.randrange(1, 20), int(chance.paretovariate(0.8)) % 200 + 1
    if chance.random() < 0.25:
        there = IPv6(src=f"2001:db8:1::{client:x}", dst=f"2001:db8:2::{server:x}", hlim=60)
        back = IPv6(src=there.dst, dst=there.src, hlim=57)
        echo = ICMPv6EchoRequest
    else:
        there = IP(src=f"10.1.0.{client}", dst=f"198.51.100.{server}", tos=chance.choice((0, 0, 0, 0xB8)))
        back = IP(src=there.dst, dst=there.src)
        echo = ICMP
    proto = chance.choices(("tcp", "udp", "icmp"), (70, 25, 5))[0]
    port, service = chance.randrange(32768, 61000), chance.choice(PORTS)
    time = START + chance.random() * 60
    packets = []
    for i in range(min(int(chance.paretovariate(0.7)) + 1, 60)):
        outward = i % 2 == 0
        size = chance.randrange(0, 80) if outward else chance.randrange(100, 1400)
        ends = {"sport": port, "dport": service} if outward else {"sport": service, "dport": port}
        inner = {"tcp": lambda: TCP(flags="PA", **ends), "udp": lambda: UDP(**ends), "icmp": echo}[proto]()  # noqa: B023
        packet = (
            Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / (there if outward else back) / inner
        )
        packet = packet / bytes(size)
        packet.time = time + i * chance.random() * 0.02
        packets.append(packet)
    return packets


def export(traffic: Path, version: str) -> list[bytes]:
    """Return the datagrams that softflowd exports for a capture. The file is the name of its interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind(("127.0.0.1", 0))
        collector = f"127.0.0.1:{receiver.getsockname()[1]}"
        command = ["softflowd", "-r", traffic.name, "-a", "-n", collector, "-v", version, "-d"]
        subprocess.run(command, cwd=traffic.parent, check=True, capture_output=True, timeout=60)
        receiver.settimeout(0.5)
        datagrams = []
        try:
            while True:
                datagrams.append(receiver.recv(65535))
        except TimeoutError:
            return datagrams


def write_datagrams(path: Path, datagrams: list[bytes], begin: float) -> None:
    """Write a capture of these datagrams, from 192.0.2.1 to 203.0.113.1:2055."""
    packets = []
    for i, datagram in enumerate(datagrams):
        packet = Ether(src="02:00:00:00:00:03", dst="02:00:00:00:00:04")
        packet = packet / IP(src="192.0.2.1", dst="203.0.113.1") / UDP(sport=50000, dport=2055) / datagram
        packet.time = begin + i * 0.001
        packets.append(packet)
    wrpcap(str(path), packets)


def record_nfcapd(capture: Path, folder: Path, option: str, datagrams: int = 8) -> Path:
    """Return the file that nfcapd writes from the first datagrams of a capture."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["nfcapd", option, "-b", "127.0.0.1", "-p", str(port), "-w", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as nfcapd:
        time.sleep(1)
        replay = ["replay", str(capture), "--to", f"127.0.0.1:{port}", "--top-speed", "-n", str(datagrams)]
        subprocess.run([sys.executable, "-m", "flowbuf", *replay], check=True, stdout=subprocess.DEVNULL)
        time.sleep(1)
        nfcapd.terminate()
    (path,) = folder.glob("nfcapd.2*")
    return path


def make_variable(seed: int = 7) -> list[bytes]:
    """Return IPFIX messages: a template, then data sets that use it."""
    chance = random.Random(seed)
    specifiers = [
        struct.pack(">HHI", element | 0x8000, size, enterprise)
        if enterprise
        else struct.pack(">HH", element, size)
        for element, size, enterprise in FIELDS
    ]
    template = struct.pack(">HH", 256, len(FIELDS)) + b"".join(specifiers)
    messages = [make_message(0, 2, template)]
    for i in range(MESSAGES):
        records = b"".join(make_record(chance) for _ in range(RECORDS))
        messages.append(make_message(i * RECORDS, 256, records))
    return messages


def make_message(sequence: int, set_id: int, content: bytes) -> bytes:
    """Return a message with one set (RFC 7011 section 3.1)."""
    size = 16 + 4 + len(content)
    return struct.pack(">HHIIIHH", 10, size, int(START) + 60, sequence, 1, set_id, 4 + len(content)) + content


def make_record(chance: random.Random) -> bytes:
    """Return a record with random values of FIELDS."""
    start = int(START * 1000) + chance.randrange(60_000)
    packets = int(chance.paretovariate(0.7)) % 100_000 + 1
    fixed = struct.pack(
        ">4B4BHHBBBIIIIQQ",
        *(10, 1, 0, chance.randrange(1, 20)),
        *(198, 51, 100, chance.randrange(1, 255)),
        *(chance.randrange(32768, 61000), chance.choice(PORTS), 6, 0, 0x18),
        *(chance.randrange(1, 40), chance.randrange(1, 40), packets * chance.randrange(40, 1500), packets),
        *(start, start + chance.randrange(30_000)),
    )
    names = (f"xe-0/0/{chance.randrange(40)}", chance.choice(APPLICATIONS), f"site-{chance.randrange(100)}")
    interface, application, site = (struct.pack("B", len(name)) + name.encode() for name in names)
    return fixed + interface + application + struct.pack(">H", chance.choice((0, 2))) + site


def main() -> None:
    for protocol in PROTOCOLS:
        pieces = _core.generate(protocol=protocol, flows=GENERATED_FLOWS, seed=1)
        (FOLDER / f"generated-{protocol}.pcap").write_bytes(b"".join(pieces))
    write_datagrams(FOLDER / "ipfix-variable.pcap", make_variable(), START + 60)
    if shutil.which("nfcapd"):
        for name, option in NFCAPD_OPTIONS.items():
            with tempfile.TemporaryDirectory() as folder:
                recorded = record_nfcapd(FOLDER / "generated-netflow9.pcap", Path(folder), option)
                shutil.copy(recorded, FOLDER / f"generated-{name}.nfcapd")
    if not shutil.which("softflowd"):
        sys.exit("softflowd is missing: its captures stay as they are")
    traffic = FOLDER / "traffic.pcap"
    wrpcap(str(traffic), make_packets())
    for name, version in SOFTFLOWD_VERSIONS.items():
        write_datagrams(FOLDER / f"softflowd-{name}.pcap", export(traffic, version), START + 61)
    traffic.with_suffix(".pcap.gz").write_bytes(gzip.compress(traffic.read_bytes(), mtime=0))
    traffic.unlink()


if __name__ == "__main__":
    main()
