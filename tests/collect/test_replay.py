"""`flowbuf replay` over the loopback interface: the receiver gets the datagrams of the capture, in order."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowbuf import CaptureReader, Decoder
from flowbuf._core import MessageReader
from flowbuf.schema import Schema
from tests.support.command import CUT_SHORT, GOOD, flowbuf, generated, pcap, write
from tests.support.datagrams import data_set, ipfix, netflow5, netflow9, record5, u32
from tests.support.live import Received, Receiver, closed_port, receiver, room_for_sockets

DATA = Path(__file__).parents[1] / "data"
CAPTURES = sorted(path.name for path in DATA.glob("*-*.pcap"))
LOSSES = ("sequence_gap", "sample_gap", "out_of_sequence", "exporter_restart")
PROTOCOLS = ("netflow5", "netflow7", "netflow9", "ipfix", "sflow")
# Payloads that are no flow data, or cut short. A replay does not change them.
HOSTILE = (
    *(b"", b"\0", b"\0\5", b"\0\x09" + bytes(17), b"\0\x0a" + bytes(13), b"\0\0\0\5" + bytes(3)),
    *(b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 1400, bytes(8)),
)


@pytest.fixture
def listener() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def payloads_of(*paths: Path) -> list[bytes]:
    payloads = []
    for path in paths:
        with CaptureReader(path) as reader:
            payloads += [batch[i][0] for batch in reader for i in range(len(batch))]
    return payloads


def replay(listener: Receiver, *arguments: object, status: int = 0, stdin: bytes = b"") -> list[Received]:
    """Replay at top speed, and return the datagrams that arrived. The counts printed are theirs."""
    pace = () if {"--rate", "--speed"} & set(arguments) else ("--top-speed",)
    result = flowbuf("replay", *arguments, "--to", listener.to, *pace, stdin=stdin)
    assert result.exit_code == status, result.output
    received = listener.read()
    assert counts(result.stdout)["sent"] == len(received)
    assert counts(result.stdout)["bytes"] == sum(len(each.payload) for each in received)
    assert counts(result.stdout)["not_sent"] == 0
    return received


def counts(line: str) -> dict[str, int]:
    """Return the counts of the last line on stdout."""
    match = re.fullmatch(r"sent=(\d+) bytes=(\d+) refused=(\d+) not_sent=(\d+) seconds=\d+\.\d{3}\n", line)
    assert match, line
    return dict(zip(("sent", "bytes", "refused", "not_sent"), map(int, match.groups()), strict=True))


def payloads(received: list[Received]) -> list[bytes]:
    return [each.payload for each in received]


def decode(received: list[Received]) -> Decoder:
    decoder = Decoder()
    for payload, source in received:
        decoder.encode(payload, source)
    return decoder


def check_uninterrupted(decoder: Decoder) -> None:
    """Check that no number is missing, came twice, or restarted."""
    assert not set(LOSSES) & set(decoder.counters), decoder.counters
    for exporter in decoder.read_exporters():
        for domain in exporter["domains"]:
            amounts = [domain["sequence"], domain["sequence"].get("samples", domain["sequence"])]
            assert [(each["lost"], each["late"], each["restarts"]) for each in amounts] == [(0, 0, 0)] * 2


# Datagrams --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAPTURES)
def test_every_datagram_arrives_unchanged_and_in_order(listener: Receiver, name: str) -> None:
    assert payloads(replay(listener, DATA / name)) == payloads_of(DATA / name)


def test_several_captures_are_sent_one_after_another(listener: Receiver) -> None:
    paths = [DATA / "softflowd-ipfix.pcap", DATA / "generated-netflow5.pcap"]
    assert payloads(replay(listener, *paths)) == payloads_of(*paths)


def test_standard_input_is_a_capture(listener: Receiver) -> None:
    content = (DATA / "generated-netflow9.pcap").read_bytes()
    assert payloads(replay(listener, "-", stdin=content)) == payloads_of(DATA / "generated-netflow9.pcap")


@pytest.mark.parametrize("pace", [("--rate", 2000), ("--speed", 1000)])
def test_the_pace_does_not_change_the_datagrams(listener: Receiver, pace: tuple[str, int]) -> None:
    path = DATA / "softflowd-netflow9.pcap"
    assert payloads(replay(listener, path, *pace)) == payloads_of(path)


def test_payloads_that_are_no_flow_data_are_sent_unchanged(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap(*HOSTILE, CUT_SHORT))
    assert payloads(replay(listener, path)) == [*HOSTILE, CUT_SHORT]


def test_rewriting_leaves_payloads_that_are_no_flow_data(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap(*HOSTILE))
    options = ("--loop", "-n", 3 * len(HOSTILE), "--renumber", "--now")
    assert payloads(replay(listener, path, *options)) == 3 * list(HOSTILE)


def test_each_source_has_a_source_port_of_its_own(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap(*([GOOD] * 6), ports=[1, 2, 3, 3, 2, 1]))
    ports = [each.source[1] for each in replay(listener, path)]
    assert ports[:3] == ports[:2:-1]
    assert len(set(ports)) == 3


def test_exporters_have_source_ports_of_their_own(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", generated("mixed", 100, exporters=4))
    assert len({each.source for each in replay(listener, path)}) == 4


def test_a_port_selects_datagrams(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD))  # to port 2055
    assert payloads(replay(listener, path, "--port", 2055)) == [GOOD]
    result = flowbuf("replay", path, "--to", listener.to, "--port", 4739)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a.pcap: no UDP datagrams to port 4739; nothing was sent" in result.stderr


def test_ipv6(tmp_path: Path) -> None:
    try:
        with receiver(socket.AF_INET6, "::1") as listener:
            path = write(tmp_path / "a.pcap", pcap(GOOD, b"x"))
            assert payloads(replay(listener, path)) == [GOOD, b"x"]
    except OSError as error:
        pytest.skip(f"this system has no IPv6: {error}")


def test_a_host_name_is_resolved(listener: Receiver, tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(GOOD))
    names = {info[4][0] for info in socket.getaddrinfo("localhost", 1, socket.AF_INET)}
    if names != {"127.0.0.1"} or socket.getaddrinfo("localhost", 1)[0][0] != socket.AF_INET:
        pytest.skip("localhost is another address")
    result = flowbuf("replay", path, "--to", f"localhost:{listener.port}", "--top-speed")
    assert result.exit_code == 0
    assert payloads(listener.read()) == [GOOD]


# End --------------------------------------------------------------------------------------------------------


def test_n_ends_the_replay(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap(b"a", b"b", b"c"))
    assert payloads(replay(listener, path, "-n", 2)) == [b"a", b"b"]
    assert payloads(replay(listener, path, "-n", 9)) == [b"a", b"b", b"c"]
    assert payloads(replay(listener, path, "-n", 7, "--loop")) == [b"a", b"b", b"c"] * 2 + [b"a"]


def test_n_limits_the_datagrams_of_all_captures(tmp_path: Path, listener: Receiver) -> None:
    first = write(tmp_path / "a.pcap", pcap(b"a", b"b"))
    second = write(tmp_path / "b.pcap", pcap(b"c", b"d"))
    assert payloads(replay(listener, first, second, "-n", 3)) == [b"a", b"b", b"c"]
    write(second, b"no capture, and not read")
    assert payloads(replay(listener, first, second, "-n", 2)) == [b"a", b"b"]


def test_a_duration_ends_the_replay(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap(b"a", b"b"))
    received = replay(listener, path, "--loop", "--duration", 0.2, "--rate", 100)
    assert payloads(received) == ([b"a", b"b"] * len(received))[: len(received)]
    assert received


def test_a_repetition_needs_a_datagram(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap())
    result = flowbuf("replay", path, "--to", listener.to, "--loop")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{path}: no UDP datagrams; nothing was sent" in result.stderr


def test_captures_without_datagrams_are_named(tmp_path: Path, listener: Receiver) -> None:
    empty, full = write(tmp_path / "empty.pcap", pcap()), write(tmp_path / "full.pcap", pcap(b"a"))
    result = flowbuf("replay", empty, full, "--to", listener.to)
    assert (result.exit_code, result.stderr) == (0, f"flowbuf: {empty}: no UDP datagrams\n")
    result = flowbuf("replay", empty, empty, "--to", listener.to)
    assert result.exit_code == 1
    assert "all captures: no UDP datagrams; nothing was sent" in result.stderr


def test_a_file_that_is_no_capture_ends_the_command_before_anything_is_sent(
    tmp_path: Path, listener: Receiver
) -> None:
    full, other = write(tmp_path / "full.pcap", pcap(b"a")), write(tmp_path / "b.pcap", b"text")
    result = flowbuf("replay", full, other, "--to", listener.to)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "b.pcap: not a capture: neither pcap, pcapng, IPFIX nor nfcapd; nothing was sent" in result.stderr
    assert listener.read() == []


def test_a_truncated_capture_is_sent_up_to_its_damage(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", pcap(b"a", b"b", b"c")[:-5])
    result = flowbuf("replay", path, "--to", listener.to, "--top-speed")
    assert result.exit_code == 1
    assert "1 truncated_capture" in result.stderr
    assert payloads(listener.read()) == [b"a", b"b"]


def test_datagrams_to_a_closed_port_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(*[b"a"] * 30))
    port = closed_port()
    result = flowbuf("replay", path, "--to", f"127.0.0.1:{port}", "--loop", "-n", 3000, "--top-speed")
    assert result.exit_code == 1
    assert counts(result.stdout) == {"sent": 3000, "bytes": 3000, "refused": 3000, "not_sent": 0}
    assert f"127.0.0.1:{port}: 3000 datagrams met a closed port; start the receiver first" in result.stderr


def test_an_address_that_the_system_refuses_ends_the_command(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(b"a"))
    result = flowbuf("replay", path, "--to", "255.255.255.255:2055")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "flowbuf: 255.255.255.255:2055: Permission denied\n"


@pytest.mark.parametrize(
    ("number", "options", "status"),
    [
        (signal.SIGINT, ("--rate", "50", "--loop"), 0),
        (signal.SIGTERM, ("--rate", "50", "--loop", "--renumber", "--now"), 0),
        (signal.SIGINT, (), 130),
        (signal.SIGTERM, (), 130),
    ],
)
def test_a_signal_ends_the_replay_with_exact_counts(
    tmp_path: Path, listener: Receiver, number: signal.Signals, options: tuple[str, ...], status: int
) -> None:
    path = write(tmp_path / "a.pcap", pcap(*[GOOD] * 100))  # 99 seconds
    command = [sys.executable, "-m", "flowbuf", "replay", str(path), "--to", listener.to, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = listener.wait()
        begin = time.monotonic()
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert time.monotonic() - begin < 50, "it waited for the rest of the capture"
    assert (process.returncode, errors) == (status, "")
    assert counts(output)["sent"] == len([first, *listener.read()])


# Rewriting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("options", [(), ("--now",)])
def test_repetitions_are_one_uninterrupted_export(
    tmp_path: Path, listener: Receiver, protocol: str, options: tuple[str, ...]
) -> None:
    path = write(tmp_path / "a.pcap", generated(protocol, 150, exporters=2))
    once = len(payloads_of(path))
    received = replay(listener, path, "--loop", "--renumber", *options, "-n", 4 * once)
    decoder = decode(received)
    assert decoder.flows == 600
    check_uninterrupted(decoder)


@pytest.mark.parametrize("name", CAPTURES)
def test_repetitions_of_real_captures_are_uninterrupted(listener: Receiver, name: str) -> None:
    once = payloads_of(DATA / name)
    received = replay(listener, DATA / name, "--loop", "--renumber", "-n", 2 * len(once))
    decoder = decode(received)
    check_uninterrupted(decoder)
    assert decoder.flows == 2 * decode([Received(payload, ("192.0.2.1", 1)) for payload in once]).flows


def test_without_renumbering_repetitions_restart(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", generated("ipfix", 150))
    once = len(payloads_of(path))
    assert set(LOSSES) & set(decode(replay(listener, path, "--loop", "-n", 2 * once)).counters)


def test_renumbering_closes_the_gaps_of_a_capture(tmp_path: Path, listener: Receiver) -> None:
    numbers = (100, 104, 102, 104, 900, 0)
    datagrams = [netflow5(record5(octets=1), sequence=number) for number in numbers]
    received = replay(listener, write(tmp_path / "a.pcap", pcap(*datagrams)), "--renumber")
    assert [int.from_bytes(payload[16:20], "big") for payload, _ in received] == [*range(100, 106)]


def test_a_lost_datagram_is_lost_after_renumbering(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", generated("netflow9", 300))
    once = len(payloads_of(path))
    received = replay(listener, path, "--loop", "--renumber", "-n", 4 * once)
    del received[2 * once - 1 : 2 * once + 1]  # the last of a repetition and the first of the next one
    (domain,) = decode(received).read_exporters()[0]["domains"]
    sequence = domain["sequence"]
    assert (sequence["lost"], sequence["late"], sequence["restarts"]) == (2, 0, 0)


def test_sequences_of_sources_are_separate(tmp_path: Path, listener: Receiver) -> None:
    ports = [1, 2, 1, 2, 2]
    datagrams = [netflow9(sequence=10 * port) for port in ports]
    path = write(tmp_path / "a.pcap", pcap(*datagrams, ports=ports))
    received = replay(listener, path, "--loop", "--renumber", "-n", 10)
    numbers = [int.from_bytes(payload[12:16], "big") for payload, _ in received]
    assert numbers == [10, 20, 11, 21, 22, 12, 23, 13, 24, 25]
    check_uninterrupted(decode(received))


def test_sources_that_share_a_port_share_a_sequence(tmp_path: Path, listener: Receiver) -> None:
    datagrams = [netflow9(sequence=100 * port) for port in range(20)]
    path = write(tmp_path / "a.pcap", pcap(*datagrams, ports=range(20)))
    with room_for_sockets(8):
        received = replay(listener, path, "--loop", "--renumber", "-n", 60)
    assert 1 < len({source for _, source in received}) <= 8
    check_uninterrupted(decode(received))


def test_records_without_a_template_count_as_far_as_known(tmp_path: Path, listener: Receiver) -> None:
    datagrams = [ipfix(data_set(256, u32(1) * 5), sequence=number) for number in (0, 5, 10)]
    path = write(tmp_path / "a.pcap", pcap(*datagrams))
    received = replay(listener, path, "--renumber")
    assert [int.from_bytes(payload[8:12], "big") for payload, _ in received] == [0, 5, 10]


@pytest.mark.parametrize("protocol", ["netflow1", "netflow5", "netflow7", "netflow9"])
@pytest.mark.parametrize("options", [(), ("--renumber",)])
def test_flows_of_a_replay_now_are_recent(
    tmp_path: Path, listener: Receiver, protocol: str, options: tuple[str, ...]
) -> None:
    """The times of flows move with the header, so each flow keeps its age."""
    path = write(tmp_path / "a.pcap", generated(protocol, 150))
    once = payloads_of(path)
    begin = time.time()
    received = replay(listener, path, "--loop", "--now", *options, "-n", 3 * len(once))
    end = time.time()
    assert all(int(begin) <= seconds_of(payload) <= end for payload in payloads(received))
    assert ages(payloads(received)) == ages(once * 3)
    assert max(ages(once)) < 3600 * 1000


def seconds_of(payload: bytes) -> int:
    """Return the seconds in a header of NetFlow."""
    return int.from_bytes(payload[8:12], "big")


def exported(payload: bytes) -> int:
    """Return the time in a header of NetFlow in nanoseconds."""
    fraction = 0 if payload[:2] == b"\0\x09" else int.from_bytes(payload[12:16], "big")
    return seconds_of(payload) * 10**9 + fraction


def ages(datagrams: list[bytes]) -> list[int]:
    """Return the milliseconds from the end of each flow to the export of its datagram."""
    schema = Schema.load("flow").switch(only=["time_flow_end"])
    decoder = Decoder(schema)
    reader = MessageReader(decoder.plan)
    return [
        exported(payload) // 10**6 - reader.read(message)["time_flow_end"]
        for payload in datagrams
        for message in decoder.messages(payload, "192.0.2.1")
    ]


def test_the_export_time_of_ipfix_is_that_of_sending(listener: Receiver) -> None:
    begin = time.time()
    received = replay(listener, DATA / "generated-ipfix.pcap", "--now")
    end = time.time()
    seconds = [int.from_bytes(payload[4:8], "big") for payload, _ in received]
    assert all(int(begin) <= each <= end for each in seconds)
    before = payloads_of(DATA / "generated-ipfix.pcap")
    assert [payload[8:] for payload, _ in received] == [payload[8:] for payload in before]


def test_now_does_not_change_sflow(listener: Receiver) -> None:
    path = DATA / "generated-sflow.pcap"
    assert payloads(replay(listener, path, "--now")) == payloads_of(path)


def test_uptimes_of_repetitions_never_go_back(tmp_path: Path, listener: Receiver) -> None:
    path = write(tmp_path / "a.pcap", generated("netflow5", 300))
    once = len(payloads_of(path))
    received = replay(listener, path, "--loop", "--renumber", "-n", 3 * once)
    uptimes = [int.from_bytes(payload[4:8], "big") for payload, _ in received]
    assert uptimes == sorted(uptimes)
    assert starts(payloads(received)) == starts(payloads_of(path))
    records = Counter(payload[24:] for payload in payloads(received))
    assert records == Counter(payload[24:] for payload in payloads_of(path) * 3)


def starts(datagrams: list[bytes]) -> set[int]:
    """Return the start times of the exporter: time minus uptime."""
    return {exported(payload) - int.from_bytes(payload[4:8], "big") * 10**6 for payload in datagrams}
