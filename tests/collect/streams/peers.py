"""Peers of the collector over TCP and TLS, and certificates for them."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import struct
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.listen import Address
from flowbuf.collect.streams.sessions import SessionCounters

__all__ = ["Authority", "check_sums", "connect", "reset", "sessions_of", "wait_for_end"]


def connect(to: str, source: str = "") -> socket.socket:
    """Connect to an address such as "tcp://127.0.0.1:4739", from `source`."""
    address = Address.parse(to)
    return socket.create_connection(
        (address.host, address.port), 30, source_address=(source, 0) if source else None
    )


def wait_for_end(peer: socket.socket) -> None:
    """Wait until the collector has closed a connection."""
    with suppress(ConnectionError):
        while peer.recv(4096):  # an alert of TLS may come before the end
            pass


def reset(peer: socket.socket) -> None:
    """Close a connection with a reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def sessions_of(counters: IntakeCounters) -> SessionCounters:
    """Return the totals of the sessions of a collector with one TCP listener."""
    assert counters.streams
    (sessions,) = counters.streams.sessions
    return sessions


def check_sums(counters: IntakeCounters, message_bytes: int) -> None:
    """Check the sums of a collector that has ended. All sessions are closed, and each byte is counted."""
    sessions = sessions_of(counters)
    assert sessions.open == 0
    assert sessions.opened == sessions.closed.total()
    assert sessions.bytes == message_bytes + sessions.incomplete_bytes
    assert counters.messages == sessions.messages
    assert counters.flows == counters.delivered + counters.lost_flows


class Authority:
    """A certificate authority that writes certificates into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(self._name, self._key, True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[str, str]:
        """Issue a certificate for 127.0.0.1. Return the paths of the certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, False)
        paths = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return str(paths[0]), str(paths[1])

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([local]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .add_extension(_usage(is_authority), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _usage(is_authority: bool) -> x509.KeyUsage:
    """Return the permission to sign: certificates, or handshakes."""
    signs = {"key_cert_sign": is_authority, "crl_sign": is_authority, "digital_signature": not is_authority}
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    return x509.KeyUsage(
        **signs,
        **dict.fromkeys((*others, "encipher_only", "decipher_only"), False),  # type: ignore[arg-type]
    )
