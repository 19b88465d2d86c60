"""`flowbuf collect` forwards datagrams and saves undecoded ones, as users run it."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli_collect import Running, collecting, get, run
from tests.collect.test_collector import flows5
from tests.collect.test_undecoded import read
from tests.support.live import own_network, receiver, send, wait_until

FAST = ("-o", "null:", "--interval", "50ms")


def metrics_of(running: Running) -> str:
    return get(running.find(r"metrics are at (\S+)/metrics") + "/metrics")[1]


def test_totals_and_metrics(tmp_path: Path) -> None:
    with receiver() as target:
        options = ("--forward", target.to, "--save-undecoded", "undecoded.pcap", "--metrics", "127.0.0.1:0")
        with collecting(tmp_path, *FAST, *options) as running:
            send([b"garbage", flows5(30)], running.address)
            wait_until(
                lambda: 'decoded_flows_total{rows="flows",worker="0"} 30.0' in metrics_of(running), "30 flows"
            )
            text = metrics_of(running)
        assert [datagram.payload for datagram in target.read()] == [b"garbage", flows5(30)]
    label = f'target="{target.to}"'
    for line in (
        f"flowbuf_forwarded_datagrams_total{{{label}}} 2.0",
        f"flowbuf_forward_refused_datagrams_total{{{label}}} 0.0",
        f'flowbuf_forward_unsent_datagrams_total{{reason="blocked",{label}}} 0.0',
        "flowbuf_undecoded_datagrams_total 1.0",
        "flowbuf_undecoded_saved_datagrams_total 1.0",
        'flowbuf_undecoded_unsaved_datagrams_total{reason="file_full"} 0.0',
    ):
        assert line in text, text
    totals = (
        f"flows=30; forward {target.to}: forwarded=2 unsent=0; undecoded: saved=1 unsaved=0; null:: stored"
    )
    assert totals in running.log.read_text()
    assert read(tmp_path / "undecoded.pcap") == [b"garbage"]


def test_sighup_changes_targets_and_file(tmp_path: Path) -> None:
    config = tmp_path / "collector.toml"
    with receiver() as one, receiver() as two:
        output = '[[output]]\nto = "null:"\n'
        config.write_text(f'interval = 0.05\nforward = ["{one.to}"]\nsave_undecoded = "1.pcap"\n{output}')
        with collecting(tmp_path, "collector.toml") as running:
            send([b"1"], running.address)
            assert one.wait().payload == b"1"
            wait_until(lambda: read(tmp_path / "1.pcap") == [b"1"], "the first file")
            config.write_text(f'interval = 0.05\nforward = ["{two.to}"]\nsave_undecoded = "2.pcap"\n{output}')
            running.process.send_signal(signal.SIGHUP)
            running.find("(the configuration was read again)")
            send([b"2"], running.address)
            assert two.wait().payload == b"2"
            wait_until(lambda: read(tmp_path / "2.pcap") == [b"2"], "the second file")
            config.write_text(f'forward = ["host.invalid:1"]\n{output}')
            running.process.send_signal(signal.SIGHUP)
            running.find("(the old one stays: forward: host 'host.invalid' cannot be resolved)")
            send([b"3"], running.address)
            assert two.wait().payload == b"3"
        assert one.read() == []
    assert read(tmp_path / "1.pcap") == [b"1"]


def test_a_full_disk_does_not_stop_the_collector(tmp_path: Path) -> None:
    file, first = tmp_path / "undecoded.pcap", bytes(60000)  # longer than the log, which has the same limit
    unlimited = resource.RLIM_INFINITY
    with collecting(tmp_path, *FAST, "--save-undecoded", str(file)) as running:
        send([first], running.address)
        wait_until(lambda: read(file) == [first], "the first datagram")
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (file.stat().st_size + 20, unlimited))
        send([b"2", flows5(30)], running.address)
        running.find(f"(undecoded datagrams are not saved: {file}: File too large)")
        assert read(file) == [first]
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        send([b"3", flows5(30)], running.address)
        wait_until(lambda: read(file) == [first, b"3"], "the third datagram")
    assert "flows=60; undecoded: saved=2 unsaved=1; null:: stored=60" in running.log.read_text()


def test_a_successor_continues_the_file(tmp_path: Path) -> None:
    """Two processes have the file open for a moment. The sum of both is in the file."""
    options = (*FAST, "--save-undecoded", str(tmp_path / "undecoded.pcap"))
    old_folder, new_folder = tmp_path / "old", tmp_path / "new"
    old_folder.mkdir()
    new_folder.mkdir()
    with collecting(old_folder, *options) as first:
        address = first.address
        sent = send([b"before"] * 50, address)
        second = Running(new_folder, *options, "--takeover", listen=address)
        try:
            while first.process.poll() is None:
                sent += send([b"garbage"], address)
            assert second.address == address
            sent += send([b"after"] * 50, address)
            wait_until(lambda: len(read(tmp_path / "undecoded.pcap")) == sent, "all datagrams")
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait(60) == 0
        finally:
            second.process.kill()
            second.process.wait()
    logs = first.log.read_text() + second.log.read_text()
    totals = re.findall(r"undecoded: saved=(\d+) unsaved=0; null:: stored=0.*\n(?!.*undecoded)", logs)
    assert sum(map(int, totals)) == sent


SLOW_NETWORK = """
set -e
ip link set lo up
ip link add near type veth peer name far
ip addr add 198.51.100.1/24 dev near
ip link set near up
ip link set far up
ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:09 dev near
tc qdisc add dev near root tbf rate 1mbit burst 10kb limit 100mb
"$@" collect --listen 127.0.0.1:2055 -o null: --forward 198.51.100.2:2055 --forward 127.0.0.1:9 2>log &
until grep -q "listening on" log; do sleep 0.05; done
"$@" replay flows.pcap --to 127.0.0.1:2055 --rate 8000 >/dev/null 2>&1
kill -TERM $!
wait $!
"""


@pytest.mark.slow
@pytest.mark.parametrize("source", ["own", "original"])
def test_a_slow_network_delays_nothing(tmp_path: Path, source: str) -> None:
    """A link of 1 Mbit/s takes a part of the datagrams. The others are counted, and all are decoded."""
    unshare = own_network("tc")
    generate = ["generate", "--protocol", "netflow5", "--flows", "150000", "-o", "flows.pcap"]
    command = [sys.executable, "-m", "flowbuf"]
    subprocess.run([*command, *generate], cwd=tmp_path, check=True, capture_output=True)
    script = SLOW_NETWORK.replace("-o null:", f"-o null: --forward-source {source}")
    subprocess.run([*unshare, "sh", "-c", script, "sh", *command], cwd=tmp_path, check=True, timeout=120)
    log = (tmp_path / "log").read_text()
    found = re.search(r"received=(\d+) kernel_drops=(\d+) .*2:2055: forwarded=(\d+) unsent=(\d+)", log)
    assert found, log
    received, drops, forwarded, unsent = map(int, found.groups())
    assert received + drops == 5000
    assert forwarded + unsent == received
    assert forwarded > 0
    assert unsent > 0
    assert f"127.0.0.1:9: forwarded={received} unsent=0" in log


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--forward", "collector"], "forward: 'collector' is not HOST:PORT"),
        (["--forward", "127.0.0.1:2055,127.0.0.1:2055"], "forward: 127.0.0.1:2055 exists twice"),
        (["--forward-source", "spoofed"], "forward_source is 'spoofed'; write one of own, original"),
        (
            ["--save-undecoded", "/dev/null/x"],
            "save_undecoded: /dev/null/x cannot be written: Not a directory",
        ),
        (["--save-undecoded-bytes", "x"], "save_undecoded_bytes is 'x'; write a size"),
    ],
)
def test_faults_of_options(options: list[str], problem: str) -> None:
    done = run("--listen", "127.0.0.1:0", "-o", "null:", *options, status=2)
    assert problem in done.stderr
