"""Encryption of IPFIX over TCP: certificates (RFC 7011 section 11)."""

from __future__ import annotations

import ssl

from flowbuf.errors import ConfigError

__all__ = ["new_tls_context"]


def new_tls_context(certificate: str, key: str = "", client_ca: str = "") -> ssl.SSLContext:
    """Return the context of a TLS server, for TLS 1.2 and later.

    Args:
        certificate: PEM file with the certificate of the collector, and those of intermediate authorities.
        key: PEM file with the private key. Default: the key is in the file of the certificate.
        client_ca: PEM file with the authorities whose certificates exporters must present. Default: exporters
            need no certificate.

    Raises:
        ConfigError: a file is missing or invalid.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _check_certificates("tls_certificate", certificate)
    _load_key(context, certificate, key)
    if client_ca:
        _check_certificates("tls_client_ca", client_ca)
        context.load_verify_locations(cafile=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _check_readable(name: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{name} {path!r} cannot be read: {error.strerror}; check the path") from error


def _check_certificates(name: str, path: str) -> None:
    _check_readable(name, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise ConfigError(f"{name} {path!r} has no certificate in PEM form; give a PEM file") from error


def _load_key(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load the certificate, which is valid, and its key."""
    place = f"tls_key {key!r}" if key else f"tls_certificate {certificate!r}"
    if key:
        _check_readable("tls_key", key)
    try:
        context.load_cert_chain(certificate, key or None, _refuse_password)
    except _Encrypted as error:
        raise ConfigError(f"{place}: the private key has a password; remove it from the file") from error
    except ssl.SSLError as error:
        problem = "has no private key in PEM form; give the PEM file of the key as tls_key"
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"does not belong to the certificate {certificate!r}; give its key"
        raise ConfigError(f"{place} {problem}") from error


class _Encrypted(Exception):
    """The private key needs a password."""


def _refuse_password() -> str:
    """Refuse to ask for a password, which would stop a service."""
    raise _Encrypted
