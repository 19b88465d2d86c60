"""IPFIX over TLS: certificates of the collector and of exporters, and peers that delay or break TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import warnings
from pathlib import Path

import pytest

import flowbuf
from flowbuf.collect.config import CollectConfig
from flowbuf.collect.streams.sessions import SessionOptions
from flowbuf.collect.streams.tls import new_tls_context
from flowbuf.errors import ConfigError, ListenError
from tests.collect.streams.peers import Authority, connect, reset, sessions_of, wait_for_end
from tests.collect.streams.test_sessions import (
    DATA,
    TEMPLATE,
    address_of,
    collecting,
    wait_for_closed,
    wait_for_messages,
)
from tests.collect.test_collector import LOCAL
from tests.support.live import wait_until

TLS = f"tls://{LOCAL}"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def options(authority: Authority, mutual: bool = False, **limits: float) -> SessionOptions:
    certificate, key = authority.issue("collector")
    context = new_tls_context(certificate, key, str(authority.path) if mutual else "")
    return SessionOptions(tls=context, **limits)  # type: ignore[arg-type]


def encrypted(to: str, authority: Authority, client: tuple[str, str] | None = None) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=authority.path)
    if client:
        context.load_cert_chain(*client)
    return context.wrap_socket(connect(to), server_hostname="127.0.0.1")


def exchange(to: str, authority: Authority, client: tuple[str, str] | None) -> None:
    with encrypted(to, authority, client) as peer:
        peer.sendall(TEMPLATE + DATA)
        peer.recv(1)


def test_flows_over_tls(authority: Authority) -> None:
    """The stream is longer than the read buffer, and its records do not end with messages."""
    stream = TEMPLATE + DATA * 30_000
    with collecting(TLS, sessions=options(authority)) as collector:
        assert address_of(collector).startswith("tls://127.0.0.1:")
        with encrypted(address_of(collector), authority) as peer:
            assert peer.version() == "TLSv1.3"
            for begin in range(0, len(stream), 10_007):
                peer.sendall(stream[begin : begin + 10_007])
            wait_for_messages(collector, 30_001)
        wait_for_closed(collector, ended=1)
    assert collector.counters.flows == 30_000
    assert sessions_of(collector.counters).bytes == len(stream)


def test_a_peer_that_reads_nothing_loses_nothing(authority: Authority) -> None:
    """Session tickets that the peer does not read would make it reset the connection when it closes it."""
    with collecting(TLS, sessions=options(authority)) as collector:
        for i in range(20):
            with encrypted(address_of(collector), authority) as peer:
                peer.sendall(TEMPLATE + DATA * 100)
            wait_for_closed(collector, ended=i + 1)
    assert collector.counters.flows == 2000


def test_exporters_need_a_certificate_of_the_authority(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").issue("stranger")
    with collecting(TLS, sessions=options(authority, mutual=True)) as collector:
        to = address_of(collector)
        for client in (None, other):
            # with TLS 1.3, the peer gets the refusal after its own part of the handshake
            with pytest.raises((ssl.SSLError, ConnectionError)):
                exchange(to, authority, client)
        wait_for_closed(collector, handshake_failed=2)
        with encrypted(to, authority, authority.issue("exporter")) as peer:
            peer.sendall(TEMPLATE + DATA)
        wait_for_closed(collector, handshake_failed=2, ended=1)
    assert collector.counters.flows == 1


def test_old_versions_and_plain_text_are_refused(authority: Authority) -> None:
    with collecting(TLS, sessions=options(authority)) as collector:
        with connect(address_of(collector)) as peer:
            peer.sendall(TEMPLATE)
            wait_for_end(peer)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # both versions are deprecated
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.minimum_version = ssl.TLSVersion.TLSv1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with connect(address_of(collector)) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
            old.wrap_socket(plain)
        wait_for_closed(collector, handshake_failed=2)
        with encrypted(address_of(collector), authority) as peer:
            peer.sendall(TEMPLATE)
            wait_for_messages(collector, 1)
            raw = socket.socket(fileno=peer.detach())
            raw.settimeout(30)
            raw.sendall(b"not a TLS record")
            wait_for_end(raw)
            raw.close()
        wait_for_closed(collector, handshake_failed=2, tls_failed=1)


def test_a_handshake_has_a_time_limit(authority: Authority) -> None:
    """Silent and slow peers do not delay others."""
    with collecting(TLS, sessions=options(authority, handshake_timeout=0.3)) as collector:
        with connect(address_of(collector)) as silent, connect(address_of(collector)) as slow:
            slow.sendall(b"\x16\x03\x01")
            with encrypted(address_of(collector), authority) as peer:
                peer.sendall(TEMPLATE + DATA)
                wait_for_messages(collector, 2)
            wait_for_end(silent)
            wait_for_end(slow)
        with connect(address_of(collector)) as gone:
            wait_until(lambda: sessions_of(collector.counters).opened == 4, "the session")
            gone.sendall(b"\x16")
            reset(gone)
        wait_until(lambda: sessions_of(collector.counters).closed.total() == 4, "the end")
    assert sessions_of(collector.counters).closed["handshake_timeout"] >= 2


def test_an_address_needs_a_certificate() -> None:
    with pytest.raises(ListenError) as raised, flowbuf.Collector([TLS]):
        pass
    assert str(raised.value).endswith("needs a certificate; set tls_certificate and tls_key")


# Files ------------------------------------------------------------------------------------------------------


def problem_of(certificate: str, key: str = "", client_ca: str = "") -> str:
    with pytest.raises(ConfigError) as raised:
        new_tls_context(certificate, key, client_ca)
    return str(raised.value)


def test_problems_of_files(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("collector")
    _, other = authority.issue("other")
    empty = str(tmp_path / "empty.pem")
    Path(empty).write_text("not PEM")
    missing = str(tmp_path / "missing.pem")
    no_file = "cannot be read: No such file or directory; check the path"
    assert problem_of(missing, key) == f"tls_certificate {missing!r} {no_file}"
    assert problem_of(certificate, missing) == f"tls_key {missing!r} {no_file}"
    assert problem_of(certificate, key, missing) == f"tls_client_ca {missing!r} {no_file}"
    no_certificate = "has no certificate in PEM form; give a PEM file"
    assert problem_of(empty, key) == f"tls_certificate {empty!r} {no_certificate}"
    assert problem_of(certificate, key, empty) == f"tls_client_ca {empty!r} {no_certificate}"
    no_key = "has no private key in PEM form; give the PEM file of the key as tls_key"
    assert problem_of(certificate, empty) == f"tls_key {empty!r} {no_key}"
    assert problem_of(certificate) == f"tls_certificate {certificate!r} {no_key}"
    another = f"tls_key {other!r} does not belong to the certificate {certificate!r}; give its key"
    assert problem_of(certificate, other) == another


def test_certificate_and_key_in_one_file(authority: Authority, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(Path(path).read_bytes() for path in authority.issue("collector")))
    context = new_tls_context(str(both))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_key_with_a_password_is_refused(authority: Authority, tmp_path: Path) -> None:
    """The collector asks no terminal."""
    if not shutil.which("openssl"):
        pytest.skip("openssl: not installed")
    certificate, key = authority.issue("collector")
    locked = str(tmp_path / "locked.key")
    command = ["openssl", "pkey", "-in", key, "-out", locked, "-aes256", "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True)
    problem = "the private key has a password; remove it from the file"
    assert problem_of(certificate, locked) == f"tls_key {locked!r}: {problem}"


def test_settings_that_need_a_certificate() -> None:
    with pytest.raises(ConfigError, match="need a certificate; set tls_certificate"):
        CollectConfig(tls_key="key.pem").session_options()
