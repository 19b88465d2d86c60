"""Saving undecoded datagrams: exactly those with a fault or loss, in a capture that is always readable."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf import STATUSES
from flowbuf._core import UNDECODED_HEADER, ColumnBuilder, Receiver, UndecodedBuffer, copy_datagrams
from flowbuf.arrow.batch import new_table_type
from flowbuf.collect import undecoded as undecoded_file
from flowbuf.collect.copies import CopyCounters
from flowbuf.collect.service import Service
from flowbuf.collect.silence import explain_silence
from flowbuf.collect.totals import format_totals
from flowbuf.collect.undecoded import UndecodedFile
from flowbuf.errors import ConfigError
from flowbuf.io.capture import CaptureReader
from tests.collect.outputs.files.test_full_disk import find_mount
from tests.collect.test_collector import DATA_SET, LEARNED, flows5, payloads_of
from tests.collect.test_forward import count_sockets
from tests.collect.test_service import ListOutput, address_of, running
from tests.decode.test_every_counter import DATAGRAMS, FLOW, LIMITS
from tests.support.command import flowbuf as run_command
from tests.support.datagrams import data_set, ipfix, u32
from tests.support.live import send, wait_until

HEADER = len(UNDECODED_HEADER)
GARBAGE = [b"garbage", b"\x00\x0a" + bytes(3), flows5(2)[:-1]]


def record(size: int = 100) -> bytes:
    """Return a packet record with a packet of zeros."""
    return bytes(8) + size.to_bytes(4, "little") * 2 + bytes(size)


def read(path: Path) -> list[bytes]:
    """Return the payloads of a capture. It must be complete."""
    with CaptureReader(str(path)) as reader:
        payloads = [batch[i][0] for batch in reader.batches() for i in range(len(batch))]
        assert not reader.counters
    return payloads


def copies_of(service: Service) -> CopyCounters:
    return service.read_counters().intake.copies


def wait_for(service: Service, datagrams: int) -> None:
    wait_until(lambda: service.read_counters().intake.received == datagrams, f"{datagrams} datagrams")


def check_sums(copies: CopyCounters) -> None:
    """Each undecoded datagram was saved, or has a reason."""
    assert copies.undecoded["undecoded"] == copies.undecoded["saved"] + sum(copies.unsaved.values())


# Which datagrams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DATAGRAMS | LIMITS))
def test_datagrams_with_a_fault_or_loss_are_undecoded(name: str) -> None:
    """Of the notes, only data sets that wait and payloads of no flow protocol count as undecoded."""
    datagrams, given = {**DATAGRAMS, **LIMITS}[name]
    options: dict[str, Any] = {"schema": FLOW, **given}
    options.pop("finish", None)
    options["template_expiry"] = options.pop("template_expiry", 0) / 1e9 or None
    decoder = flowbuf.Decoder(options.pop("schema"), **options)
    builder = ColumnBuilder(decoder, new_table_type(decoder.schema, decoder.plan), 1024)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        receiver, buffer = Receiver([(bound.fileno(), port)]), UndecodedBuffer()
        copy_datagrams(receiver, None, buffer)
        for each in datagrams:
            before = Counter(decoder.counters)
            send([each if isinstance(each, bytes) else each[0]], f"127.0.0.1:{port}")
            builder.receive(receiver, 0, [])
            counted = {status for status, count in decoder.counters.items() if count > before[status]}
            expected = {"early_data", "other_packet"} & counted
            expected |= {status for status in counted if STATUSES[status][0] in ("fault", "loss")}
            assert buffer.take()[1] == bool(expected), (counted, expected)


def test_only_undecoded_datagrams_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    good = payloads_of("generated-ipfix.pcap")
    with running({"a": ListOutput()}, save_undecoded=str(path)) as service:
        sent = send([*good, GARBAGE[0], *good, *GARBAGE[1:]], address_of(service))
        wait_for(service, sent)
        assert read(path) == GARBAGE
    assert copies_of(service).undecoded["undecoded"] == len(GARBAGE)
    check_sums(copies_of(service))
    assert "; undecoded: saved=3 unsaved=0; a:" in format_totals(service.read_counters())


def test_data_sets_without_template_are_saved_even_if_they_are_decoded_later(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    with running({"a": ListOutput()}, save_undecoded=str(path)) as service:
        send([DATA_SET, LEARNED, DATA_SET], address_of(service))
        wait_for(service, 3)
        assert read(path) == [DATA_SET]
    assert service.read_counters().intake.flows == 2


def test_nothing_is_saved_by_default() -> None:
    with running({"a": ListOutput()}) as service:
        send(GARBAGE, address_of(service))
        wait_for(service, len(GARBAGE))
    assert not copies_of(service).undecoded


# The capture ------------------------------------------------------------------------------------------------


@contextmanager
def saved(path: Path, source: str, payloads: list[bytes]) -> Iterator[tuple[int, int]]:
    """Save payloads from an address. Yield the ports of source and receiver."""
    with running({"a": ListOutput()}, save_undecoded=str(path)) as service:
        address = service.listeners[0].address
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as exporter:
            exporter.bind((source, 0))
            for payload in payloads:
                exporter.sendto(payload, (address.host, address.port))
            wait_for(service, len(payloads))
            yield exporter.getsockname()[1], address.port


FIELDS = ("ip.src", "ip.dst", "udp.srcport", "udp.dstport", "udp.length", "udp.checksum.status")
GOOD_CHECKSUM = "1"


def tshark_fields(path: Path, *fields: str) -> list[str]:
    """Return a line per packet with the values that Wireshark reads, separated by tabs."""
    options = [part for field in fields for part in ("-e", field)]
    command = ["tshark", "-n", "-o", "udp.check_checksum:TRUE", "-r", str(path), "-T", "fields", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_wireshark_and_flowbuf_read_the_capture(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    payloads = [*GARBAGE, ipfix(data_set(256, u32(7)), domain=9), bytes(4001)]
    with saved(path, "127.0.0.7", payloads) as (source, port):
        pass
    lines = tshark_fields(path, *FIELDS, "frame.time_epoch")
    times = []
    for line, payload in zip(lines, payloads, strict=True):
        *values, time = line.split("\t")
        expected = ["127.0.0.7", "0.0.0.0", source, port, 8 + len(payload), GOOD_CHECKSUM]
        assert values == [str(value) for value in expected]
        assert abs(float(time) - path.stat().st_mtime) < 3600
        times.append(time)
    assert not all(time.endswith("000") for time in times)  # they are in nanoseconds
    inspected = run_command("inspect", path)
    assert inspected.exit_code == 1  # the datagrams have faults
    for name in ("127.0.0.7", "other_packet", "truncated_header", "truncated_datagram", "template_missing"):
        assert name in inspected.output
    assert run_command("read", path).stdout.count("NETFLOW_V5") == 1  # the complete flow of one datagram


def test_sources_of_ipv6_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    with running({"a": ListOutput()}, save_undecoded=str(path), listen=("[::1]:0",)) as service:
        send(GARBAGE, address_of(service))
        wait_for(service, len(GARBAGE))
    lines = tshark_fields(path, "ipv6.src", "ipv6.dst", "udp.checksum.status")
    assert lines == [f"::1\t::\t{GOOD_CHECKSUM}"] * len(GARBAGE)
    assert read(path) == GARBAGE


def test_the_file_ends_at_its_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first datagrams are kept. Later ones are counted."""
    path = tmp_path / "undecoded.pcap"
    size = 16 + 20 + 8 + 100
    limit = HEADER + 10 * size + size - 1
    payloads = [bytes([i]) * 100 for i in range(200, 225)]
    with running({"a": ListOutput()}, save_undecoded=str(path), save_undecoded_bytes=limit) as service:
        for i in range(0, len(payloads), 5):
            send(payloads[i : i + 5], address_of(service))
            wait_for(service, i + 5)
    assert read(path) == payloads[:10]
    assert path.stat().st_size == HEADER + 10 * size
    undecoded = copies_of(service).undecoded
    assert (undecoded["saved"], undecoded["file_full"]) == (10, 15)
    check_sums(copies_of(service))
    assert caplog.text.count("has reached save_undecoded_bytes; move it away and reload") == 1


def test_several_workers_share_the_file(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    with running({"a": ListOutput()}, save_undecoded=str(path), workers=3) as service:
        sent = sum(send([b"garbage"] * 20, address_of(service), f"127.0.0.{i}") for i in range(1, 11))
        wait_for(service, sent)
        assert read(path) == [b"garbage"] * sent
    check_sums(copies_of(service))


# The file ---------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, limit: int = 1 << 20) -> Iterator[UndecodedFile]:
    file = UndecodedFile(str(path), limit)
    try:
        yield file
    finally:
        file.close()


def test_a_file_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    for _ in range(3):
        with opened(path) as file:
            assert file.add(record() * 2, 2) == {"saved": 2, "file_full": 0}
    assert path.read_bytes() == UNDECODED_HEADER + record() * 6


@pytest.mark.parametrize("removed", [1, 50, 100, 101, 116 - 1])
def test_an_incomplete_packet_is_removed(tmp_path: Path, removed: int) -> None:
    path = tmp_path / "undecoded.pcap"
    path.write_bytes((UNDECODED_HEADER + record() * 2)[:-removed])
    with opened(path) as file:
        assert path.read_bytes() == UNDECODED_HEADER + record()
        file.add(record(), 1)
    assert path.read_bytes() == UNDECODED_HEADER + record() * 2


@pytest.mark.parametrize("size", range(HEADER))
def test_an_incomplete_header_is_completed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "undecoded.pcap"
    path.write_bytes(UNDECODED_HEADER[:size])
    with opened(path):
        assert path.read_bytes() == UNDECODED_HEADER


@pytest.mark.parametrize("damage", [bytes(200), b"\xff" * 200])
def test_a_damaged_end_is_removed(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A power failure may leave zeros, or other bytes."""
    path = tmp_path / "undecoded.pcap"
    path.write_bytes(UNDECODED_HEADER + record() + damage)
    with opened(path):
        assert path.read_bytes() == UNDECODED_HEADER + record()
    assert f"{path}: 200 bytes of incomplete packets were removed" in caplog.text


@pytest.mark.parametrize("content", [b"x", b"x" * 100, UNDECODED_HEADER[:-1] + b"x", bytes(HEADER)])
def test_other_files_are_never_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "undecoded.pcap"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="exists and has other contents; remove it, or choose another path"):
        UndecodedFile(str(path), 1 << 20)
    assert path.read_bytes() == content


def test_paths_that_cannot_be_written_are_explained(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        (tmp_path, "cannot be written: Is a directory"),
        (tmp_path / "no/file", "cannot be written: No such file or directory"),
        (tmp_path / "pipe", "is not a regular file"),
    ):
        with pytest.raises(ConfigError, match=f"^save_undecoded: {path} {problem}; choose another path"):
            UndecodedFile(str(path), 1 << 20)


def test_threads_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "undecoded.pcap"
    with opened(path) as file:
        files = [file, *(file.share() for _ in range(3))]
        threads = [
            threading.Thread(target=lambda file=each: [file.add(record(), 1) for _ in range(50)])
            for each in files
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in files[1:]:
            each.close()
    assert path.read_bytes() == UNDECODED_HEADER + record() * 200


def test_packets_are_added_while_another_object_checks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reload checks the file that the workers continue. It removes only what is incomplete at its end."""
    path = tmp_path / "undecoded.pcap"
    added: list[dict[str, int]] = []

    def find_end(records: bytes, begin: int, limit: int) -> int:
        if not added:
            added.append({"begun": 1})
            added.append(file.add(record(), 1))
        return real(records, begin, limit)

    with opened(path, 1 << 24) as file:
        file.add(record() * 20_000, 20_000)  # more than the file is read at once
        real = undecoded_file._find_end
        monkeypatch.setattr(undecoded_file, "_find_end", find_end)
        with opened(path, 1 << 24):
            assert added[1:] == [{"saved": 1, "file_full": 0}]
        assert path.read_bytes() == UNDECODED_HEADER + record() * 20_001
        with path.open("ab") as other:
            other.write(record()[:-1])
        with opened(path, 1 << 24):
            assert path.read_bytes() == UNDECODED_HEADER + record() * 20_001


def test_a_lock_of_another_program_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "undecoded.pcap"
    with opened(path) as file, path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert file.add(record(), 1) == {"write_error": 1}
        assert "another program locks the file" in caplog.text
        fcntl.flock(other, fcntl.LOCK_UN)
        assert file.add(record(), 1)["saved"] == 1


def test_a_file_that_may_not_grow_stays_readable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "undecoded.pcap"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(path) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER + 150, limits[1]))
        try:
            assert file.add(record() * 3, 3) == {"write_error": 3}
            assert path.read_bytes() == UNDECODED_HEADER
            assert file.add(record(), 1)["saved"] == 1
            assert file.add(record(), 1) == {"write_error": 1}
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert file.add(record(), 1)["saved"] == 1
    assert path.read_bytes() == UNDECODED_HEADER + record() * 2
    assert caplog.text.count(f"undecoded datagrams are not saved: {path}: File too large") == 2


SMALL_DISK = """
import sys
from pathlib import Path
from flowbuf.collect.undecoded import UndecodedFile

folder = Path(sys.argv[1])
filler = folder / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while file.write(bytes(1 << 16)):
            pass
    except OSError:
        pass
size = filler.stat().st_size
file = UndecodedFile(str(folder / "undecoded.pcap"), 1 << 30)
block = bytes(8) + (100).to_bytes(4, "little") * 2 + bytes(100)
print(dict(file.add(block, 1)), file.full)
filler.unlink()
print(dict(file.add(block, 1)), (folder / "undecoded.pcap").stat().st_size)
"""


def test_a_full_disk_is_counted_and_ends(tmp_path: Path) -> None:
    """Not even the header fits at first."""
    mount = find_mount()
    if not mount:
        pytest.skip("unshare cannot mount a file system here")
    command = [*mount, str(tmp_path), sys.executable, "-c", SMALL_DISK, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    full, free = done.stdout.splitlines()
    assert full == "{'write_error': 1} False"
    assert free == f"{{'saved': 1, 'file_full': 0}} {HEADER + 116}"
    assert "undecoded datagrams are not saved: " in done.stderr
    assert "No space left on device" in done.stderr


def test_the_explanation_of_silence_names_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "undecoded.pcap")
    with running({"a": ListOutput()}, save_undecoded=path) as service:
        send(GARBAGE, address_of(service))
        wait_for(service, len(GARBAGE))
        intake = service.intake
        counters, exporters, others = intake.read_counters(), intake.read_exporters(), intake.read_others()
    *_, last = explain_silence(["here"], counters, exporters, others, path)
    assert last == f"datagrams that cannot be decoded are saved in {path}; see: flowbuf inspect {path}"
    *_, last = explain_silence(["here"], counters, exporters, others)
    assert last.startswith("--save-undecoded FILE.pcap saves datagrams")


def test_the_explanation_of_silence_counts_unknown_senders_exactly() -> None:
    """Datagrams arrive while the numbers are read."""
    with running({"a": ListOutput()}) as service:
        send([DATA_SET, b"garbage", b"garbage"], address_of(service))
        wait_for(service, 3)
        intake = service.intake
        counters, others = intake.read_counters(), intake.read_others()
        send([DATA_SET], address_of(service))
        wait_for(service, 4)
        lines = list(explain_silence(["here"], counters, intake.read_exporters(), others))
    assert lines[0].startswith("127.0.0.1: 2 datagrams, no flows: early_data 2 ")
    assert lines[1].startswith("2 datagrams of unknown senders or protocols: other_packet 2 ")
    assert "early_data" not in lines[1]


# Reloading --------------------------------------------------------------------------------------------------


def test_a_reload_begins_another_file_if_the_first_was_moved(tmp_path: Path) -> None:
    path, moved = tmp_path / "undecoded.pcap", tmp_path / "moved.pcap"
    with running({"a": ListOutput()}, save_undecoded=str(path)) as service:
        for number in range(1, 5):
            send([b"%d" % number], address_of(service))
            wait_for(service, number)
            if number == 2:
                path.rename(moved)
            if number < 4:
                service.reload(service._config, [flowbuf.Schema.load("flow")])
        config = replace(service._config, save_undecoded="")
        service.reload(config, [flowbuf.Schema.load("flow")])
        send([b"5"], address_of(service))
        wait_for(service, 5)
    assert (read(moved), read(path)) == ([b"1", b"2"], [b"3", b"4"])
    assert copies_of(service).undecoded["saved"] == 4


def test_a_reload_with_an_unusable_file_changes_nothing(tmp_path: Path) -> None:
    path, other = tmp_path / "undecoded.pcap", tmp_path / "other"
    other.write_text("other")
    with running({"a": ListOutput()}, save_undecoded=str(path)) as service:
        send([b"1"], address_of(service))
        wait_for(service, 1)
        with pytest.raises(ConfigError, match="has other contents"):
            service.reload(replace(service._config, save_undecoded=str(other)), [flowbuf.Schema.load("flow")])
        send([b"2"], address_of(service))
        wait_for(service, 2)
    assert read(path) == [b"1", b"2"]
    assert other.read_text() == "other"


def test_a_start_with_an_unusable_file_opens_no_socket(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    before = count_sockets()
    with pytest.raises(ConfigError, match="has other contents"):
        running({"a": ListOutput()}, save_undecoded=str(tmp_path / "other")).__enter__()
    assert count_sockets() == before
