"""`flowbuf collect`, as users run it: a process that signals end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import Result

from flowbuf import Schema, read_messages
from flowbuf.cli import collect
from flowbuf.collect.listen import Address
from flowbuf.collect.takeover import take_over
from tests.collect.test_collector import DATA_SET, LEARNED, flows5, payloads_of
from tests.support.cases import slow
from tests.support.command import flowbuf
from tests.support.live import closed_port, send, wait_until


def run(*arguments: object, status: int = 0) -> Result:
    """Run the command in this process, for calls that end at once."""
    done = flowbuf("collect", *arguments)
    assert done.exit_code == status, done.output
    return done


class Running:
    """A running `flowbuf collect`. Its messages are in `log`."""

    def __init__(self, folder: Path, *arguments: str, listen: str = "127.0.0.1:0") -> None:
        self.log = folder / "log"
        self.out = folder / "out"
        command = [sys.executable, "-m", "flowbuf", "collect", "--listen", listen, *arguments]
        with self.log.open("wb") as log, self.out.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=log, cwd=folder)

    def find(self, pattern: str) -> str:
        """Wait for a message, and return the first group of the pattern."""
        wait_until(
            lambda: bool(re.search(pattern, self.log.read_text())) or self.process.poll() is not None,
            f"{pattern} in the log",
        )
        found = re.search(pattern, self.log.read_text())
        assert found, self.log.read_text()
        return found[1]

    @property
    def address(self) -> str:
        return self.find(r"listening on (\S+)")


@contextlib.contextmanager
def collecting(folder: Path, *arguments: str, listen: str = "127.0.0.1:0") -> Iterator[Running]:
    """Run the command inside the block. It must end with status 0 after SIGTERM."""
    running = Running(folder, *arguments, listen=listen)
    try:
        yield running
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0, running.log.read_text()
    finally:
        running.process.kill()
        running.process.wait()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_flows_are_written_as_json_lines(tmp_path: Path) -> None:
    payloads = payloads_of("generated-ipfix.pcap")
    with collecting(tmp_path, "-o", "-", "--columns", "bytes,src_addr", "--interval", "50ms") as running:
        send(payloads, running.address)
        wait_until(lambda: running.out.read_text().count("\n") == 300, "all flows")
    flows = [json.loads(line) for line in running.out.read_text().splitlines()]
    assert {tuple(flow) for flow in flows} == {("bytes", "src_addr")}
    totals = "-: stored=300 pending=0 queued=0 spooled=0 filtered=0 dropped=0\n"
    assert f"received={len(payloads)} kernel_drops=0 flows=300; {totals}" in running.log.read_text()


def test_sigterm_stores_what_was_received(tmp_path: Path) -> None:
    """Flows that wait in the worker are written before the end."""
    with collecting(tmp_path, "-o", "-", "--interval", "1h") as running:
        sent = send([flows5(30)] * 1000, running.address)
    totals = re.search(r"received=(\d+) kernel_drops=(\d+)", running.log.read_text())
    assert totals
    assert int(totals[1]) + int(totals[2]) == sent  # a small receive buffer drops some
    assert running.out.read_text().count("\n") == 30 * int(totals[1]) > 0


def test_a_full_disk_does_not_repeat_lines(tmp_path: Path) -> None:
    """A file that may not grow takes a part of a batch. The rest follows, once, when it may."""
    with collecting(tmp_path, "-o", "-", "--columns", "bytes", "--interval", "20ms") as running:
        pid, size = running.process.pid, 1000
        address = running.address
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        send([flows5(30)] * 10, address)
        wait_until(lambda: running.out.stat().st_size == size, "the limit")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(lambda: running.out.read_text().count("\n") == 300, "all flows")
    assert running.out.read_text() == '{"bytes":100}\n' * 300


@pytest.mark.slow
def test_silence_is_explained(tmp_path: Path) -> None:
    """Data without a template gives no flows. After ten seconds, the log says so."""
    with collecting(tmp_path, "-o", "null:") as running:
        send([payloads_of("generated-ipfix.pcap")[-1]], running.address)
        line = running.find(r"warning: (127\.0\.0\.1: .*)")
        running.find("warning: (--save-undecoded FILE.pcap saves datagrams that cannot be decoded)")
    assert line.startswith("127.0.0.1: 1 datagrams, no flows: early_data ")


def test_a_configuration_file(tmp_path: Path) -> None:
    arguments = ["--listen", "127.0.0.1:0", "-o", "-", "--where", "bytes > 5", "--interval", "50ms"]
    printed = run(*arguments, "--print-config")
    path = tmp_path / "collector.toml"
    path.write_text(printed.stdout)
    assert run(str(path), "--print-config").stdout == printed.stdout
    process = subprocess.Popen(
        [sys.executable, "-m", "flowbuf", "collect", str(path), "--log", "json"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    first = json.loads(process.stderr.readline())
    assert (first["level"], first["message"][:23]) == ("info", "listening on 127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stderr.close()


FAULTS: dict[str, tuple[list[str], str]] = {
    "no output": ([], "no output; add -o flows/ for Parquet files, or -o - for JSON lines"),
    "unknown destination": (["-o", "ftp://x"], "'ftp://x' is not a destination; write DIR/"),
    "option without an output": (["--where", "true"], "--where needs an output; add -o, or set the key"),
    "whole number": (["-o", "null:", "--workers", "two"], "workers is 'two'; write a whole number"),
    "zero": (["-o", "null:", "--workers", "0"], "workers is '0'; the least value is 1"),
    "time": (["-o", "null:", "--rotate", "5 parsecs"], "units are ms, s, m (minutes), h and d"),
    "size": (["-o", "null:", "--receive-buffer", "big"], "receive_buffer is 'big'; write a size such as"),
    "choice": (["-o", "null:", "--ip", "hex"], "ip is 'hex'; write one of text, binary"),
    "address": (["-o", "null:", "--listen", "2055"], "'2055' is not an address; write ADDRESS:PORT"),
    "empty address": (["-o", "null:", "--listen", ""], "--listen is empty; name at least one, or leave the"),
    "no bucket": (["-o", "s3://"], "s3://: the URI names no bucket; write s3://BUCKET/PREFIX"),
    "condition": (["-o", "null:", "--where", "no_column = 1"], "no_column"),
    "column": (["-o", "null:", "--columns", "no_column"], "no_column"),
    "metrics": (["-o", "null:", "--metrics", "here"], "'here' is not an address"),
    "prefix": (["-o", "null:", "--metrics", "tcp://127.0.0.1:0"], "metrics: 'tcp://127.0.0.1:0' has"),
    "no file": (["-o", "kafka://h/t", "--kafka-config", "none"], "kafka_config: none cannot be read"),
    "port": (["-o", "http://u:p@h:99999"], "output 'http://h:99999': the ClickHouse URL has an"),
    "two outputs": (["-o", "null:", "-o", "null:"], "output 'null:' exists twice"),
    "two outputs with one folder": (["-o", "a/", "-o", "./a/"], "outputs 'a/' and './a/' write flows to one"),
    "two outputs to stdout": (["-o", "-", "-o", "-"], "outputs '-' and '-' write to standard output; leave"),
    "tunnel": (["-o", "null:", "--decapsulate", "wormhole"], "wormhole"),
    "no name": (["-o", "null:", "--columns", ""], "--columns is empty; name at least one, or leave the"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_options(fault: str) -> None:
    arguments, problem = FAULTS[fault]
    done = run(*arguments, status=2)
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1 or fault == "condition"


FILES: dict[str, tuple[str, str]] = {
    "not TOML": ("listen = x", "collector.toml:1: is not TOML"),
    "unknown key": ("listn = []", "key 'listn' does not exist; did you mean listen?"),
    "unknown key of an output": (
        '[[output]]\nto = "null:"\nwere = ""',
        "output 1: key 'were' does not exist",
    ),
    "no destination": ('[[output]]\nwhere = "true"', 'output 1: key "to" is missing; name a destination'),
    "one table": ('[output]\nto = "null:"', "output is one table; write [[output]] with two brackets"),
    "unknown key of a sampling rate": (
        '[[sampling]]\nexporter = "192.0.2.1"\nrat = 1',
        "sampling 1: key 'rat' does not exist; did you mean rate?",
    ),
    "no rate": (
        '[[sampling]]\nexporter = "192.0.2.1"',
        'sampling 1: key "rate" is missing; write the sampling rate',
    ),
    "no exporter": ("[[sampling]]\nrate = 1", 'sampling 1: key "exporter" is missing; name an address'),
    "no network": (
        '[[sampling]]\nexporter = "router"\nrate = 1',
        "sampling 1: network 'router' is invalid; write an address or a network",
    ),
    "bad interface": (
        '[[sampling]]\nexporter = "192.0.2.1"\nrate = 1\ninterface = [1, "a"]',
        "sampling 1: interface is [1, 'a']; write a whole number or a list of them",
    ),
    "interface 0": (
        '[[sampling]]\nexporter = "192.0.2.1"\nrate = 1\ninterface = 0',
        "sampling 1: interface is 0; it may be 1 to 4,294,967,295",
    ),
    "two rates": (
        2 * '[[sampling]]\nexporter = "192.0.2.0/24"\nrate = 1\n',
        "exporter '192.0.2.0/24' has two sampling rates for all interfaces; leave one out",
    ),
    "host bits": ('allow = ["192.0.2.1/24"]', "allow: network '192.0.2.1/24' has host bits set"),
    "wrong kind": ('workers = "2x"', "workers is '2x'; write a whole number"),
    "bool": ("workers = true", "workers is True; write a whole number"),
    "list": ("listen = [1]", "listen is [1]; write a list of texts"),
}


@pytest.mark.parametrize("fault", FILES)
def test_faults_of_files(fault: str, tmp_path: Path) -> None:
    text, problem = FILES[fault]
    path = tmp_path / "collector.toml"
    path.write_text(text)
    done = run(str(path), "-o", "null:", status=2)
    assert problem in done.stderr
    assert str(path) in done.stderr


def test_no_standard_output() -> None:
    command = [sys.executable, "-m", "flowbuf", "collect", "--listen", "127.0.0.1:0", "-o", "-"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "standard output is closed; name another destination, or leave it open" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("more", [(), ("--takeover",)])
def test_a_file_without_an_address(more: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "collector.toml"
    path.write_text("listen = []")
    done = run(path, "-o", "null:", *more, status=2)
    assert "no address to listen on; add --listen 0.0.0.0:2055" in done.stderr


def test_a_port_in_use() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = run("--listen", address, "-o", "null:", status=2)
    assert f"{address}: is used by another process; stop it, or choose another port" in done.stderr


def test_lost_flows_give_status_1(tmp_path: Path) -> None:
    """A reader that has ended cannot take flows. They are counted as dropped. Another output stores them."""
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    command = [sys.executable, "-m", "flowbuf", "collect", "--listen", "127.0.0.1:0", "-o", "-"]
    command += ["-o", f"{tmp_path}/flows/"]
    process = subprocess.Popen(command, stdout=reader.stdin, stderr=subprocess.PIPE, text=True)
    assert reader.stdin
    assert process.stderr
    reader.stdin.close()
    address = process.stderr.readline().split()[-1]
    send([flows5(1)], address)
    rest: Any = process.communicate(timeout=60)[1]
    assert "dropped=1" in rest
    assert process.returncode == 1
    (path,) = tmp_path.glob("flows/*/*/*.parquet")
    assert pyarrow.parquet.read_table(path).num_rows == 1


def totals_of(log: str) -> dict[str, int]:
    """Return the totals of the last line."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", log.splitlines()[-1])}


@pytest.mark.parametrize("workers", [*slow(1), 3])
def test_takeover_loses_no_datagram(tmp_path: Path, workers: int) -> None:
    """Exporters send during the takeover. Their templates, sent before, are known to the successor."""
    old_folder, new_folder = tmp_path / "old", tmp_path / "new"
    old_folder.mkdir()
    new_folder.mkdir()
    exporters = [f"127.0.3.{i}" for i in range(1, 9)]
    options = ("-o", "null:", "--workers", str(workers))
    with contextlib.ExitStack() as stack:
        old = Running(old_folder, *options)
        stack.callback(old.process.kill)
        address = old.address
        sent = sum(send([LEARNED], address, exporter) for exporter in exporters)
        stop = threading.Event()
        sending = ThreadPoolExecutor()
        counts = [sending.submit(send_until, stop, address, exporter) for exporter in exporters]
        new = Running(new_folder, *options, "--takeover", listen=address)
        stack.callback(new.process.kill)
        assert old.process.wait(60) == 0, old.log.read_text()
        assert new.address == address
        stop.set()
        sent += sum(count.result() for count in counts)
        new.process.send_signal(signal.SIGTERM)
        assert new.process.wait(60) == 0, new.log.read_text()
    before, after = totals_of(old.log.read_text()), totals_of(new.log.read_text())
    received = before["received"] + after["received"]
    assert received + before["kernel_drops"] + after["kernel_drops"] == sent
    assert min(before["stored"], after["stored"]) > 0
    assert before["stored"] + after["stored"] == received - len(exporters)


@pytest.mark.slow
def test_takeover_hands_the_spool_over(tmp_path: Path) -> None:
    """The old collector cannot write. Its successor writes each of its flows once."""
    old_folder, new_folder, flows = tmp_path / "old", tmp_path / "new", tmp_path / "flows"
    old_folder.mkdir()
    new_folder.mkdir()
    spool = ("--on-overflow", "spool", "--spool", str(tmp_path / "spool"), "--queue-flows", "100")
    options = ("--name", "archive", *spool, "--interval", "20ms")
    with contextlib.ExitStack() as stack:
        old = Running(old_folder, "-o", f"http://127.0.0.1:{closed_port()}", *options)
        stack.callback(old.process.kill)
        address = old.address
        sent = send([flows5(30)] * 50, address)
        old.find(r"error: (output archive: .*)")
        sent += send([flows5(30)] * 50, address)
        new = Running(new_folder, "-o", f"pb:{flows}/", *options, "--takeover", listen=address)
        stack.callback(new.process.kill)
        new.find(r"output \S+ (continuing with its spool)")
        sent += send([flows5(30)] * 50, address)
        assert old.process.wait(60) == 0, old.log.read_text()
        new.process.send_signal(signal.SIGTERM)
        assert new.process.wait(60) == 0, new.log.read_text()
    before, after = totals_of(old.log.read_text()), totals_of(new.log.read_text())
    assert before["received"] + after["received"] == sent
    assert (before["stored"], after["stored"]) == (0, 30 * sent)
    assert before["spooled"] > 0
    assert (after["queued"], after["spooled"], after["dropped"]) == (0, 0, 0)
    stored = sum(len(batch) for path in flows.rglob("*.pb") for batch in read_messages(path))
    assert stored == 30 * sent


def test_a_reader_that_stops_reading_does_not_keep_the_collector(tmp_path: Path) -> None:
    """The collector gives up after its patience. The flows that it could not write are lost, and counted."""
    code = "from flowbuf.collect import runner; runner.OutputRunner.__init__.__defaults__ = (0.5, None, None)"
    command = [sys.executable, "-c", f"{code}; from flowbuf.cli import run; run()"]
    log = tmp_path / "log"
    reader, writer = os.pipe()
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "collect", "--listen", "127.0.0.1:0", "-o", "-", "--interval", "20ms"],
            stdout=writer,
            stderr=file,
        )
    os.close(writer)
    try:
        wait_until(lambda: "listening on" in log.read_text(), "the address")
        found = re.search(r"listening on (\S+)", log.read_text())
        assert found
        sent = send([flows5(30)] * 100, found[1])
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1, log.read_text()
        totals = totals_of(log.read_text())
        assert totals["received"] + totals["kernel_drops"] == sent
        assert totals["stored"] + totals["dropped"] == totals["flows"]
        assert totals["dropped"] > 0
    finally:
        process.kill()
        process.wait()
        os.close(reader)


def send_until(stop: threading.Event, address: str, exporter: str) -> int:
    sent = 0
    while not stop.is_set():
        sent += send([DATA_SET] * 20, address, exporter)
        time.sleep(0.001)
    return sent


def test_takeover_needs_a_running_collector() -> None:
    done = run("--listen", "127.0.0.1:9", "-o", "null:", "--takeover", status=2)
    assert "no collector listens on 127.0.0.1:9; start without --takeover" in done.stderr


def test_a_failed_takeover_leaves_the_collector_running(tmp_path: Path) -> None:
    """A successor that ends before or after it has the state changes nothing."""
    with collecting(tmp_path, "-o", "-", "--interval", "20ms") as running:
        address = Address.parse(running.address)
        send([LEARNED, DATA_SET], running.address)
        for step in range(3):
            handover = take_over([address])
            if step == 1:
                assert handover.request_state()["exporters"][0]["address"] == "127.0.0.1"
            if step == 2:
                handover._channel.send({"message": "nonsense"})
            for listener in handover.listeners:
                listener.close()
            handover._channel.close()
            send([DATA_SET], running.address)
            expected = step + 2
            wait_until(lambda expected=expected: running.out.read_text().count("\n") == expected, "a flow")
    log = running.log.read_text()
    assert log.count("takeover: failed, and this collector continues") == 3
    assert totals_of(log)["stored"] == 4


def test_sighup_reads_the_configuration_again(tmp_path: Path) -> None:
    """Flows before it have the old columns, and flows after it the new ones.

    An invalid file changes nothing.
    """
    path = tmp_path / "collector.toml"
    null = '[[output]]\nto = "null:"\ncolumns = ["bytes"]\n'
    config = 'interval = "20ms"\n{}[[output]]\nto = "-"\ncolumns = [{}]\n' + null
    path.write_text(config.format("", '"bytes"'))
    lines = lambda: running.out.read_text().splitlines()  # noqa: E731
    with collecting(tmp_path, str(path)) as running:
        send([LEARNED, flows5(1)], running.address)
        wait_until(lambda: len(lines()) == 1, "a flow")
        path.write_text(config.format("", '"no_such_column"'))
        running.process.send_signal(signal.SIGHUP)
        problem = running.find(r"(the configuration is invalid, and the old one stays: .*)")
        send([flows5(1)], running.address)
        wait_until(lambda: len(lines()) == 2, "a flow of the old configuration")
        path.write_text(config.format('enable = ["src_mac"]\n', '"src_addr", "dst_addr"'))
        running.process.send_signal(signal.SIGHUP)
        running.find(r"(the configuration was read again)")
        send([DATA_SET], running.address)
        wait_until(lambda: len(lines()) == 3, "a flow of the new configuration")
    assert "no_such_column" in problem
    assert lines() == [
        '{"bytes":100}',
        '{"bytes":100}',
        '{"src_addr":"10.0.0.1","dst_addr":"10.0.0.2"}',
    ]
    log = running.log.read_text()
    assert "output - ended: stored=2 pending=0 queued=0 spooled=0 filtered=0 dropped=0" in log
    totals = log.splitlines()[-1]
    assert "received=4 kernel_drops=0 flows=3; -: stored=3 " in totals  # of both configurations
    assert "null:: stored=3 " in totals  # this output did not change


def test_the_proto_states_the_scale_after_sighup(tmp_path: Path) -> None:
    """No file has flows of both forms."""
    path = tmp_path / "collector.toml"
    config = 'scale = {}\nmetrics = "127.0.0.1:0"\ninterval = "20ms"\n[[output]]\nto = "pb:flows/"\n'
    path.write_text(config.format("false"))
    with collecting(tmp_path, str(path)) as running:
        url = running.find(r"metrics are at (\S+)")
        send([flows5(1)], running.address)
        pending = 'flowbuf_output_pending_flows{output="pb:flows/",rows="flows"} 1.0'
        wait_until(lambda: pending in get(url)[1], "the flow")
        path.write_text(config.format("true"))
        running.process.send_signal(signal.SIGHUP)
        running.find(r"(the configuration was read again)")
        send([flows5(1)], running.address)
    protos = {proto.read_text() for proto in (tmp_path / "flows").rglob("*.proto")}
    schema = Schema.load("flow")
    assert protos == {schema.to_proto(), schema.to_proto(scaled=True)}


def test_sighup_under_load_loses_no_flow(tmp_path: Path) -> None:
    path = tmp_path / "collector.toml"
    config = 'interval = "5ms"\nworkers = 2\n[[output]]\nto = "null:"\nname = "n{}"\n'
    path.write_text(config.format(0))
    with collecting(tmp_path, str(path)) as running, ThreadPoolExecutor() as pool:
        address, stop = running.address, threading.Event()
        send([LEARNED], address, "127.0.4.1")
        sending = pool.submit(send_until, stop, address, "127.0.4.1")
        for number in range(1, 4):
            path.write_text(config.format(number))
            running.process.send_signal(signal.SIGHUP)
            running.find(rf"(output n{number - 1} ended)")
        stop.set()
        sent = sending.result()
    log = running.log.read_text()
    received = int(re.findall(r"received=(\d+)", log)[-1]) - 1
    drops = int(re.findall(r"kernel_drops=(\d+)", log)[-1])
    assert received + drops == sent
    assert sum(map(int, re.findall(r"stored=(\d+)", log.splitlines()[-1]))) == received
    assert "dropped=0" in log.splitlines()[-1]


ENDLESS = """
import pathlib, time
import pyarrow as pa
import pyarrow.parquet

class File:
    closed = False

    def write(self, data):
        time.sleep(0.001)
        return len(data)

    def tell(self):
        return 0

    def flush(self):
        pass

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(1)  # the end of the interpreter takes longer than a write

late = Late()

def write(batch):
    table = pa.Table.from_batches([batch])
    pathlib.Path("begun").touch()
    while True:
        pa.parquet.write_table(table, pa.PythonFile(File(), "w"))
"""
"""An enrichment that does not return. Its library calls Python again and again."""


def is_free(address: str) -> bool:
    """Return True if no socket is bound to an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", Address.parse(address).port))
        return True
    return False


def test_the_second_signal_ends_a_collector_whose_output_works(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    options = ("-o", "null:", "--enrich", "endless:write", "--interval", "20ms")
    running = Running(tmp_path, *options)
    try:
        send([flows5(1)], running.address)
        wait_until((tmp_path / "begun").exists, "a batch in the output")
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_free(running.address), "the end of receiving")
        time.sleep(collect.REPEAT_SECONDS)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 130, running.log.read_text()
    finally:
        running.process.kill()
        running.process.wait()
    assert running.log.read_text().count("\n") == 1  # the address


def test_flows_are_stored_in_files(tmp_path: Path) -> None:
    """Parquet and Protobuf files with the same flows, which other commands read."""
    payloads = payloads_of("generated-ipfix.pcap")
    with collecting(tmp_path, "-o", "flows/", "-o", "pb:messages/", "--interval", "50ms") as running:
        send(payloads, running.address)
        wait_until(lambda: any(tmp_path.glob("flows/.*.tmp")), "an open file")
        assert not list(tmp_path.glob("flows/*/*/*"))
    parquet = list(tmp_path.glob("flows/date=*/hour=*/flows-*.parquet"))
    messages = list(tmp_path.glob("messages/date=*/hour=*/flows-*.pb"))
    assert len(parquet) == len(messages) == 1
    flows = pyarrow.parquet.read_table(parquet[0])
    assert flows.num_rows == 300
    assert flows["src_addr"].type == pyarrow.string()
    assert sum(len(batch) for batch in read_messages(messages[0])) == 300
    total = sum(sum(batch.to_arrow()["bytes"].to_pylist()) for batch in read_messages(messages[0]))
    assert total == sum(flows["bytes"].to_pylist())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("--listen", "127.0.0.1:0", "-o", f"{tmp_path}/file/", status=1)
    assert f"{tmp_path}/file" in done.stderr


def test_the_example_is_valid(tmp_path: Path) -> None:
    """The printed form of the example is the same configuration."""
    example = Path(__file__).parents[2] / "examples/collector/collector.toml"
    printed = run(example, "--print-config").stdout
    assert "keep = 1209600\n" in printed
    assert "kafka" not in re.sub(r"(?m)^#.*", "", printed)
    everything = re.sub(r"(?m)^#(?=[\w\[])", "", example.read_text())  # without comments of keys
    (tmp_path / "everything.toml").write_text(everything)
    printed = run(tmp_path / "everything.toml", "--print-config").stdout
    (tmp_path / "printed.toml").write_text(printed)
    assert run(tmp_path / "printed.toml", "--print-config").stdout == printed
    assert 'to = "kafka://broker.example.net:9092/flows"\n' in printed


@pytest.mark.parametrize(
    "default",
    [
        *("[::]:2055, ", "flow]", "1m]", "5m]", "30m]", "256MiB]", "10GiB]", "1048576]", "drop]", "none]"),
        *("src_addr]", "the destination]", "the kind of rows]", "the rows of the schema]", "received]"),
    ],
)
def test_the_help_has_all_defaults_in_one_form(default: str) -> None:
    text = " ".join(flowbuf("collect", "--help").stdout.split())
    assert f"[default: {default}" in text
    assert "Default:" not in text
