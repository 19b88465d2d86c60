"""Messages over TCP and TLS are forwarded as datagrams, and saved if they are not decoded."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf._core import ColumnBuilder, UndecodedBuffer, copy_messages
from flowbuf.arrow.batch import BATCH_ROWS, new_table_type
from flowbuf.collect.copies import CopyCounters, count_unsent, format_copies
from flowbuf.collect.listen import Address
from flowbuf.collect.service import Service
from flowbuf.collect.streams.worker import HEAD_BYTES
from tests.cli.test_cli_collect import collecting as command
from tests.cli.test_cli_collect import get
from tests.collect.streams.peers import Authority, connect, reset, sessions_of, wait_for_end
from tests.collect.streams.test_sessions import DATA, TCP, TEMPLATE
from tests.collect.test_collector import LOCAL, flows5, payloads_of
from tests.collect.test_forward import can_keep_source, payloads_at
from tests.collect.test_service import ListOutput, running
from tests.collect.test_undecoded import GOOD_CHECKSUM, check_sums, read, tshark_fields
from tests.support.command import flowbuf as run_command
from tests.support.datagrams import any_set, data_set, ipfix, netflow9, template, template_set
from tests.support.live import receiver, send, wait_until

FAULTY = ipfix(any_set(256, b"", length=3))
EARLY = ipfix(data_set(300, b"abcd"))
LONGEST = ipfix(data_set(301, bytes(65535 - 20)))
IPV4_MOST = ipfix(data_set(301, bytes(65507 - 20)))
HEADER = 24


@contextlib.contextmanager
def collecting(listen: str = TCP, **options: Any) -> Iterator[tuple[Service, str]]:
    """Run a collector that listens on one address for sessions. Yield it and the address."""
    with running({"a": ListOutput()}, listen=(listen,), **options) as service:
        yield service, str(service.listeners[0].address)
    check(service)


def copies_of(service: Service) -> CopyCounters:
    return service.read_counters().intake.copies


def check(service: Service) -> None:
    """Each message and datagram was sent to each target, and each undecoded one saved, or has a reason."""
    intake = service.read_counters().intake
    for target, counts in intake.copies.targets.items():
        sent = counts["forwarded"] + sum(count_unsent(counts).values())
        assert sent == intake.received + intake.messages, target
    check_sums(intake.copies)


def wait_for_messages(service: Service, count: int) -> None:
    wait_until(lambda: service.read_counters().intake.messages == count, f"{count} messages")


def wait_for_closed(service: Service, **reasons: int) -> None:
    wait_until(lambda: sessions_of(service.read_counters().intake).closed == reasons, f"{reasons}")


# Forwarding -------------------------------------------------------------------------------------------------


def test_each_message_is_forwarded_as_a_datagram() -> None:
    """Also if it comes in many segments, or with many others. An incomplete one is not forwarded."""
    many = [ipfix(data_set(256, bytes(8 * (i % 3)))) for i in range(150)]
    with receiver() as ipv4, receiver(socket.AF_INET6, "::1") as ipv6:
        with collecting(forward=(ipv4.to, ipv6.to)) as (service, to):
            with connect(to) as peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for byte in TEMPLATE + DATA:
                    peer.sendall(bytes([byte]))
                wait_for_messages(service, 2)
                peer.sendall(b"".join([*many, FAULTY, EARLY, DATA[:-1]]))
            wait_for_closed(service, incomplete=1)
        expected = [TEMPLATE, DATA, *many, FAULTY, EARLY]
        assert payloads_at(ipv4) == payloads_at(ipv6) == expected
    assert sessions_of(service.read_counters().intake).incomplete_bytes == len(DATA) - 1
    assert f"forward {ipv4.to}: forwarded={len(expected)} unsent=0" in format_copies(copies_of(service))


def test_datagrams_and_messages_are_forwarded_to_a_second_collector() -> None:
    with (
        flowbuf.Collector([LOCAL], interval=0.02) as second,
        collecting(forward=second.addresses) as (first, to),
    ):
        payloads = payloads_of("generated-ipfix.pcap")
        with connect(to) as peer:
            peer.sendall(b"".join(payloads))
            wait_until(lambda: second.counters.received == len(payloads), "the copies")
    assert sum(map(len, second)) == first.read_counters().intake.flows == 300


def test_the_sums_include_datagrams_and_messages() -> None:
    with (
        receiver() as target,
        running({"a": ListOutput()}, listen=(LOCAL, TCP), forward=(target.to,), workers=2) as service,
    ):
        addresses = [str(listener.address) for listener in service.listeners]
        send([flows5(1), b"other"], addresses[0])
        with connect(addresses[1]) as peer:
            peer.sendall(TEMPLATE + DATA)
            wait_for_messages(service, 2)
        wait_until(lambda: service.read_counters().intake.received == 2, "the datagrams")
        assert copies_of(service).targets[target.to]["forwarded"] == 4
        assert sorted(payloads_at(target)) == sorted([flows5(1), b"other", TEMPLATE, DATA])
    check(service)


def test_the_longest_messages_are_too_long_for_datagrams(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    with receiver() as target:
        with collecting(forward=(target.to,), save_undecoded=str(path)) as (service, to), connect(to) as peer:
            peer.sendall(LONGEST + IPV4_MOST + TEMPLATE + DATA)
            wait_for_messages(service, 4)
        assert payloads_at(target) == [IPV4_MOST, TEMPLATE, DATA]
    copies = copies_of(service)
    assert (copies.targets[target.to]["forwarded"], copies.targets[target.to]["too_long"]) == (3, 1)
    assert (copies.undecoded["saved"], copies.undecoded["too_long"]) == (1, 1)
    assert read(path) == [IPV4_MOST]


@pytest.mark.skipif(not can_keep_source(), reason="raw sockets need CAP_NET_RAW")
@pytest.mark.parametrize(
    ("family", "local", "source"),
    [(socket.AF_INET, "127.0.0.1", "127.0.0.9"), (socket.AF_INET6, "::1", "::1")],
)
def test_the_source_of_the_session_is_kept(family: int, local: str, source: str) -> None:
    listen = str(Address(local, 0, "tcp"))
    with (
        receiver(family, local) as target,
        collecting(listen, forward=(target.to,), forward_source="original") as (service, to),
        connect(to, source) as peer,
    ):
        peer.sendall(LONGEST + TEMPLATE + DATA)
        wait_for_messages(service, 3)
        assert target.read() == [(each, peer.getsockname()[:2]) for each in (TEMPLATE, DATA)]
        assert copies_of(service).targets[target.to]["too_long"] == 1


def test_a_reload_changes_targets_and_file(tmp_path: Path) -> None:
    """The session stays open."""
    schemas = [flowbuf.Schema.load("flow")]
    with (
        receiver() as one,
        receiver() as two,
        collecting_without_check(forward=(one.to,), save_undecoded=str(tmp_path / "1")) as (service, to),
        connect(to) as peer,
    ):
        peer.sendall(TEMPLATE + EARLY)
        wait_for_messages(service, 2)
        config = replace(service._config, forward=(two.to,), save_undecoded=str(tmp_path / "2"))
        service.reload(config, schemas)
        peer.sendall(DATA + FAULTY)
        wait_for_messages(service, 4)
        service.reload(replace(config, forward=(), save_undecoded=""), schemas)
        peer.sendall(FAULTY)
        wait_for_messages(service, 5)
        assert (payloads_at(one), payloads_at(two)) == ([TEMPLATE, EARLY], [DATA, FAULTY])
        copies = copies_of(service)
        assert copies.targets[one.to]["forwarded"] == copies.targets[two.to]["forwarded"] == 2
        assert copies.undecoded["undecoded"] == copies.undecoded["saved"] == 2
    assert service.read_counters().intake.flows == 1
    assert (read(tmp_path / "1"), read(tmp_path / "2")) == ([EARLY], [FAULTY])


@contextlib.contextmanager
def collecting_without_check(**options: Any) -> Iterator[tuple[Service, str]]:
    with running({"a": ListOutput()}, listen=(TCP,), **options) as service:
        yield service, str(service.listeners[0].address)


# Saving -----------------------------------------------------------------------------------------------------


def test_undecoded_messages_are_saved_as_packets(tmp_path: Path) -> None:
    """flowbuf and Wireshark read them, with the source of the session and the port of the listener."""
    path = tmp_path / "undecoded.pcap"
    with collecting(save_undecoded=str(path)) as (service, to), connect(to, "127.0.0.7") as peer:
        port = peer.getsockname()[1]
        peer.sendall(b"".join([TEMPLATE, EARLY, DATA * 70, FAULTY, DATA]))
        wait_for_messages(service, 74)
    assert copies_of(service).undecoded["saved"] == 2
    assert read(path) == [EARLY, FAULTY]
    fields = ("ip.src", "ip.dst", "udp.srcport", "udp.dstport", "udp.checksum.status")
    expected = ["127.0.0.7", "0.0.0.0", str(port), to.rpartition(":")[2], GOOD_CHECKSUM]
    assert tshark_fields(path, *fields) == ["\t".join(expected)] * 2
    inspected = run_command("inspect", path)
    assert inspected.exit_code == 1
    for name in ("127.0.0.7", "bad_set_length", "early_data"):
        assert name in inspected.output
    assert run_command("read", path).stdout == ""


def test_flows_before_a_fault_are_in_the_saved_message(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    sets = template_set(template(256, (8, 4), (12, 4))), data_set(256, bytes(range(8)))
    message = ipfix(*sets, any_set(256, b"", length=3))
    with collecting(save_undecoded=str(path)) as (service, to), connect(to) as peer:
        peer.sendall(message)
        wait_for_messages(service, 1)
    assert service.read_counters().intake.flows == 1
    assert read(path) == [message]
    assert run_command("read", path).stdout.count("0.1.2.3") == 1


@pytest.mark.parametrize(
    "rest", [b"xx", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x0a\x00\x0f", netflow9(), bytes(9000)]
)
def test_the_beginning_of_another_protocol_is_saved(tmp_path: Path, rest: bytes) -> None:
    """At most HEAD_BYTES. It is not a message, so it is not forwarded."""
    path = tmp_path / "undecoded.pcap"
    with receiver() as target:
        with collecting(forward=(target.to,), save_undecoded=str(path)) as (service, to):
            with connect(to) as peer:
                peer.sendall(TEMPLATE + DATA + rest)
                wait_for_end(peer)
            wait_until(lambda: not sessions_of(service.read_counters().intake).open, "the end")
        assert payloads_at(target) == [TEMPLATE, DATA]
    (head,) = read(path)
    assert rest.startswith(head)
    assert len(head) == min(len(rest), HEAD_BYTES)
    assert copies_of(service).undecoded["undecoded"] == 1


def test_incomplete_messages_are_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    with collecting(save_undecoded=str(path)) as (service, to):
        with connect(to) as peer:
            peer.sendall(TEMPLATE + EARLY[:-1])
        wait_for_closed(service, incomplete=1)
        peer = connect(to)
        peer.sendall(TEMPLATE + EARLY + DATA[:20])
        wait_for_messages(service, 3)
        reset(peer)
        wait_for_closed(service, incomplete=1, reset=1)
    assert read(path) == [EARLY]


def test_a_flood_of_undecoded_messages_fills_the_file_only(tmp_path: Path) -> None:
    """More than a batch of packets is kept. The session and its flows continue."""
    path, limit, count = tmp_path / "undecoded.pcap", 2 << 20, 40_000
    with collecting(save_undecoded=str(path), save_undecoded_bytes=limit) as (service, to):
        with connect(to) as peer:
            peer.sendall(TEMPLATE + FAULTY * count + DATA)
        wait_for_closed(service, ended=1)
    packet = 16 + 28 + len(FAULTY)
    undecoded = copies_of(service).undecoded
    assert undecoded["undecoded"] == count
    assert undecoded["saved"] == (limit - HEADER) // packet
    assert undecoded["file_full"] == count - undecoded["saved"]
    assert path.stat().st_size == HEADER + undecoded["saved"] * packet
    assert service.read_counters().intake.flows == 1


def test_messages_of_tls_are_forwarded_and_saved_decrypted(tmp_path: Path) -> None:
    authority, path = Authority(tmp_path), tmp_path / "undecoded.pcap"
    certificate, key = authority.issue("collector")
    tls = {"tls_certificate": certificate, "tls_key": key}
    context = ssl.create_default_context(cafile=authority.path)
    with receiver() as target:
        with (
            collecting(f"tls://{LOCAL}", forward=(target.to,), save_undecoded=str(path), **tls) as (
                service,
                to,
            ),
            context.wrap_socket(connect(to), server_hostname="127.0.0.1") as peer,
        ):
            peer.sendall(TEMPLATE + DATA + EARLY)
            wait_for_messages(service, 3)
        assert payloads_at(target) == [TEMPLATE, DATA, EARLY]
    assert read(path) == [EARLY]


# The command ------------------------------------------------------------------------------------------------


def test_totals_and_metrics_of_the_command(tmp_path: Path) -> None:
    """SIGHUP changes the target while a session is open. A garbage session harms no other."""
    config = tmp_path / "collector.toml"
    with receiver() as one, receiver() as two:
        text = 'interval = 0.05\nsave_undecoded = "undecoded.pcap"\nmetrics = "127.0.0.1:0"\n'
        text += '[[output]]\nto = "null:"\n'
        config.write_text(f'forward = ["{one.to}"]\n{text}')
        with command(tmp_path, "collector.toml", listen=f"{LOCAL},{TCP}") as process:
            udp, tcp = re.findall(r"[^ ,]+", process.find(r"listening on (.*)"))
            send([b"other"], udp)
            assert one.wait().payload == b"other"
            with connect(tcp) as peer, connect(tcp) as garbage:
                garbage.sendall(b"garbage")
                wait_for_end(garbage)
                peer.sendall(TEMPLATE + EARLY)
                assert [one.wait().payload for _ in range(2)] == [TEMPLATE, EARLY]
                config.write_text(f'forward = ["{two.to}"]\n{text}')
                process.process.send_signal(signal.SIGHUP)
                process.find("(the configuration was read again)")
                peer.sendall(DATA)
                assert two.wait().payload == DATA
                url = process.find(r"metrics are at (\S+)/metrics")
                wait_until(
                    lambda: "flowbuf_undecoded_saved_datagrams_total 3.0" in get(f"{url}/metrics")[1],
                    "a file",
                )
                metrics = get(f"{url}/metrics")[1]
        assert one.read() == two.read() == []
    for line in (
        f'flowbuf_forwarded_datagrams_total{{target="{one.to}"}} 3.0',
        f'flowbuf_forwarded_datagrams_total{{target="{two.to}"}} 1.0',
        f'flowbuf_forward_unsent_datagrams_total{{reason="too_long",target="{two.to}"}} 0.0',
        "flowbuf_undecoded_datagrams_total 3.0",
        'flowbuf_undecoded_unsaved_datagrams_total{reason="too_long"} 0.0',
    ):
        assert line in metrics, metrics
    assert sorted(read(tmp_path / "undecoded.pcap")) == sorted([b"other", b"garbage", EARLY])
    log = process.log.read_text()
    moved = "template_missing=1 early_data_inherited=1 early_data_handed_over=1"  # the last two: by a reload
    assert re.search(
        rf"received=1 .*messages=3 flows=1 {moved}; .*undecoded: saved=3 unsaved=0; null:: stored=1",
        log,
    )
    for target, count in ((one, 3), (two, 1)):
        assert f"forward {target.to}: forwarded={count} unsent=0" in log


def test_a_successor_copies_the_messages_of_new_sessions(tmp_path: Path) -> None:
    """The old collector copies what it has received. Both add to one file."""
    path = tmp_path / "undecoded.pcap"
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    with receiver() as target:
        options = ("-o", "null:", "--forward", target.to, "--save-undecoded", str(path))
        with command(tmp_path / "old", *options, listen=TCP) as old, connect(old.address) as peer:
            peer.sendall(TEMPLATE + EARLY + DATA)
            assert [target.wait().payload for _ in range(3)] == [TEMPLATE, EARLY, DATA]
            with command(tmp_path / "new", *options, "--takeover", listen=old.address) as new:
                wait_for_end(peer)
                assert old.process.wait(60) == 0, old.log.read_text()
                with connect(new.address) as other:
                    other.sendall(TEMPLATE + FAULTY)
                    assert [target.wait().payload for _ in range(2)] == [TEMPLATE, FAULTY]
    assert read(path) == [EARLY, FAULTY]
    for each, messages, flows in ((old, 3, "1 template_missing=1"), (new, 2, "0 bad_set_length=1")):
        totals = f"messages={messages} flows={flows}; forward {target.to}: forwarded={messages} unsent=0; "
        assert f"{totals}undecoded: saved=1 unsaved=0; null:" in each.log.read_text()


# The binding ------------------------------------------------------------------------------------------------


def test_marks_of_the_core_are_those_of_messages() -> None:
    """Each message of a stream has its mark, also beyond the first batch of messages."""
    decoder = flowbuf.Decoder("flow")
    builder = ColumnBuilder(decoder, new_table_type(decoder.schema, decoder.plan), BATCH_ROWS)
    messages = [TEMPLATE, *[FAULTY if i % 7 == 0 else DATA for i in range(300)]]
    stream = b"".join(messages)
    marks = bytearray(b"\xff" * (len(stream) // 16))
    assert builder.decode_session(stream, ("127.0.0.1", 1), 1, [], marks) == (len(stream), 301, None)
    assert list(marks[:301]) == [message == FAULTY for message in messages]
    assert set(marks[301:]) == {255}
    buffer = UndecodedBuffer()
    copy_messages(stream, marks, ("127.0.0.1", 1), 2, None, buffer)
    assert buffer.take()[1] == messages.count(FAULTY)
    for call in (
        lambda: builder.decode_session(stream, ("127.0.0.1", 1), 1, [], bytearray(1)),
        lambda: copy_messages(stream, bytes(1), ("127.0.0.1", 1), 2, None, buffer),
    ):
        with pytest.raises(ValueError, match="marks are too few; a stream needs one per 16 bytes"):
            call()
