"""`flowbuf collect` with TCP and TLS, as users run it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.test_cli_collect import Running, collecting, get, run
from tests.collect.streams.peers import Authority, connect, wait_for_end
from tests.collect.streams.test_sessions import DATA, TCP, TEMPLATE
from tests.collect.test_collector import LOCAL, flows5
from tests.support.datagrams import netflow9
from tests.support.live import send, wait_until


def metrics_of(url: str) -> dict[tuple[str, ...], float]:
    """Return the values of metrics, by name and values of labels without the address."""
    families = text_string_to_metric_families(get(f"{url}/metrics")[1])
    return {
        (
            sample.name,
            *(value for key, value in sorted(sample.labels.items()) if key != "listener"),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def test_counters_exporters_and_state(tmp_path: Path) -> None:
    """Sessions are in metrics and JSON, and not in the state file."""
    options = ("--metrics", LOCAL, "--interval", "20ms", "-o", "null:", "--state", "state")
    with collecting(tmp_path, *options, listen=f"{TCP},{LOCAL}") as running:
        udp, tcp = re.findall(r"[^ ,]+", running.find(r"listening on (.*)"))
        url = running.find(r"metrics are at (\S+)/metrics")
        send([flows5(3)], udp)
        with connect(tcp) as peer:
            with connect(tcp) as other:
                other.sendall(netflow9())
                wait_for_end(other)
            peer.sendall(TEMPLATE + DATA + DATA[:5])
            wait_until(
                lambda: 'stored_flows_total{output="null:",rows="flows"} 4' in get(f"{url}/metrics")[1],
                "flows",
            )
            metrics = metrics_of(url)
            exporters = json.loads(get(f"{url}/exporters")[1])
            templates = json.loads(get(f"{url}/templates")[1])
    size = len(TEMPLATE + DATA + DATA[:5]) + len(netflow9())
    assert metrics["flowbuf_received_datagrams_total", "0"] == 1
    assert metrics["flowbuf_received_messages_total",] == 2
    assert metrics["flowbuf_session_received_bytes_total",] == size
    assert metrics["flowbuf_session_incomplete_bytes_total",] == len(netflow9())
    assert metrics["flowbuf_sessions_opened_total",] == 2
    assert metrics["flowbuf_sessions_open",] == 1
    assert metrics["flowbuf_sessions_closed_total", "not_ipfix"] == 1
    assert metrics["flowbuf_decoded_flows_total", "flows", "streams"] == 1
    assert metrics["flowbuf_exporter_flows_total", "127.0.0.1", "flows"] == 4
    (session,) = [each for each in exporters if "session" in each]
    assert (session["address"], session["session"], session["datagrams"]) == ("127.0.0.1", 1, 2)
    assert "256" in next(each for each in templates if "session" in each)["domains"][0]["templates"]
    assert json.loads((tmp_path / "state").read_text())["exporters"] == []
    log = running.log.read_text()
    assert "received=1 kernel_drops=0 messages=2 flows=4; null:: stored=4 " in log
    reason = "the peer sent something else than IPFIX; send NetFlow and sFlow over UDP"
    assert re.search(rf"127\.0\.0\.1 port \d+: session closed \(not_ipfix\): {reason}\n", log)


def test_sighup_reads_the_certificate_again(tmp_path: Path) -> None:
    """New sessions get the new certificate. Old ones stay, and an invalid file changes nothing."""
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    certificate, key = tmp_path / "tls.pem", tmp_path / "tls.key"

    def install(authority: Authority) -> None:
        for source, target in zip(authority.issue("collector"), (certificate, key), strict=True):
            target.write_bytes(Path(source).read_bytes())

    def encrypted(authority: Authority) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=authority.path)
        return context.wrap_socket(connect(running.address), server_hostname="127.0.0.1")

    install(first)
    options = ("--tls-certificate", "tls.pem", "--tls-key", "tls.key", "-o", "-", "--interval", "20ms")
    lines = lambda: running.out.read_text().count("\n")  # noqa: E731
    with collecting(tmp_path, *options, listen=f"tls://{LOCAL}") as running, encrypted(first) as old:
        old.sendall(TEMPLATE + DATA)
        wait_until(lambda: lines() == 1, "a flow")
        key.write_text("")
        running.process.send_signal(signal.SIGHUP)
        problem = running.find(r"the configuration is invalid, and the old one stays: (.*)")
        assert problem.startswith("tls_key 'tls.key' has no private key in PEM form")
        encrypted(first).close()
        install(second)
        running.process.send_signal(signal.SIGHUP)
        running.find(r"(the configuration was read again)")
        with encrypted(second) as new:
            new.sendall(TEMPLATE + DATA)
            wait_until(lambda: lines() == 2, "a flow of a new session")
        old.sendall(DATA)
        wait_until(lambda: lines() == 3, "a flow of the old session")


@pytest.mark.slow
def test_takeover_ends_sessions_after_their_messages(tmp_path: Path) -> None:
    """The successor listens on the same socket. An exporter sees the end, and connects again."""
    folders = tmp_path / "old", tmp_path / "new"
    for folder in folders:
        folder.mkdir()
    options = ("-o", "-", "--interval", "20ms")
    with contextlib.ExitStack() as stack:
        old = Running(folders[0], *options, listen=TCP)
        stack.callback(old.process.kill)
        with connect(old.address) as peer:
            peer.sendall(TEMPLATE + DATA * 3)
            wait_until(lambda: old.out.read_text().count("\n") == 3, "the flows")
            new = Running(folders[1], *options, "--takeover", listen=old.address)
            stack.callback(new.process.kill)
            wait_for_end(peer)
        assert old.process.wait(60) == 0, old.log.read_text()
        with connect(new.address) as peer:
            peer.sendall(DATA + TEMPLATE)  # the template of the earlier session is not known
            wait_until(lambda: new.out.read_text().count("\n") == 1, "the flow")
        new.process.send_signal(signal.SIGTERM)
        assert new.process.wait(60) == 0, new.log.read_text()
    assert "messages=4 flows=3; -: stored=3 " in old.log.read_text()
    assert "messages=2 flows=1; -: stored=1 " in new.log.read_text()


def test_a_socket_of_systemd(tmp_path: Path) -> None:
    """ListenStream= without Accept=yes. A connection before the start is served."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        address = f"tcp://127.0.0.1:{opened.getsockname()[1]}"
        peer = connect(address)
        code = f"import os, sys; os.dup2({opened.fileno()}, 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
        code += "os.execv(sys.executable, [sys.executable, '-m', 'flowbuf', 'collect', '-o', '-'])"
        service = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "LISTEN_FDS": "1"},
            pass_fds=[opened.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert service.stdout
    with peer:
        peer.sendall(TEMPLATE + DATA)
        assert json.loads(service.stdout.readline())["src_addr"] == "10.0.0.1"
    service.send_signal(signal.SIGTERM)
    log = service.communicate(timeout=60)[1]
    assert f"listening on {address}\n" in log
    assert "messages=2 flows=1; -: stored=1" in log


@pytest.mark.slow
def test_silence_is_explained(tmp_path: Path) -> None:
    with collecting(tmp_path, "-o", "null:", listen=TCP) as running:
        with connect(running.address) as peer:
            peer.sendall(netflow9())
            wait_for_end(peer)
        line = running.find(r"warning: (1 sessions.*)")
    assert line.startswith("1 sessions or connections ended (not_ipfix): the peer sent something else")


FAULTS = {
    "no certificate": ([], "needs a certificate; set tls_certificate and tls_key"),
    "missing file": (
        ["--tls-certificate", "no.pem"],
        "tls_certificate 'no.pem' cannot be read: No such file",
    ),
    "only a key": (["--tls-key", "key.pem"], "tls_key and tls_client_ca need a certificate"),
    "limit": (["--session-limit", "0"], "session_limit is '0'; the least value is 1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_options(fault: str) -> None:
    arguments, problem = FAULTS[fault]
    done = run("--listen", f"tls://{LOCAL}", "-o", "null:", *arguments, status=2)
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1
