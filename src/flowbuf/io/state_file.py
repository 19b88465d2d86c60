"""What exporters have said, in a file: templates, sampling rates and the times they were started survive a restart.

The file is JSON, an exporter a line:

    {"format": "flowbuf-state", "version": 1, "exporters": [
    {"address": "192.0.2.1", "sub_agent": 0, "domains": [{"version": 10, "id": 0, "templates": {"256": …}, …}]}
    ]}

It holds of `Decoder.read_exporters` what `Decoder.restore_exporters` takes. How it begins tells whether it is a state
file at all, and of which version: what is damaged behind that may be replaced; what does not begin so is somebody
else's, and what is of a newer version would lose by it, so neither is ever written over.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any

from flowbuf._core import OTHERS
from flowbuf.decoder import Decoder
from flowbuf.errors import StateError
from flowbuf.io.input_stream import Content
from flowbuf.io.output_file import OutputFile
from flowbuf.schema.toml_json import DocumentError, parse_json

__all__ = ["by_address", "load_state", "save_state"]

FORMAT = "flowbuf-state"
VERSION = 1

_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"' + FORMAT.encode() + rb'"\s*(?:,\s*"version"\s*:\s*(\d{1,9}))?')
_LOOK = 256  # octets to tell a state file by
_TEMPLATE = ("options", "scope_count", "fields", "port", "time", "contested")


def load_state(decoder: Decoder, path: str | os.PathLike[str]) -> bool:
    """Gives a new decoder what a state file knows of exporters. False where there is no such file, as before the first
    run.

    Raises StateError for what cannot be used (`replaceable`: because it is damaged); nothing is known then that was not
    known before. Raises OSError where the file cannot be read.
    """
    path = os.fspath(path)
    try:
        content = _open(path)
    except FileNotFoundError:
        return False
    with content:
        _check_beginning(path, content)
        octets = _read(path, content)
    exporters = _read_json(path, octets)
    try:
        decoder.restore_exporters(exporters)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    return True


def save_state(decoder: Decoder, path: str | os.PathLike[str]) -> None:
    """Writes what a decoder knows of exporters: whole or not at all, so that of several writers the last one wins.

    Raises StateError where something else than a state file of this version, or of an older one, is in the way; OSError
    where it cannot be written.
    """
    path = os.fspath(path)
    check_place(path)
    with OutputFile(path) as file:
        file.write(_to_json(decoder.read_exporters()))


def check_place(path: str) -> None:
    """Raises StateError where `save_state` would."""
    try:
        with _open(path) as content:
            _check_beginning(path, content)
    except FileNotFoundError:
        pass
    except StateError as error:
        if not error.replaceable:
            raise


# Reading --------------------------------------------------------------------------------------------------------------


def _open(path: str) -> Content:
    if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):
        raise StateError(f"{path}: state is kept in a regular file")
    return Content(path)


def _damaged(path: str, what: str) -> StateError:
    return StateError(f"{path}: damaged state: {what}", replaceable=True)


def _check_beginning(path: str, content: Content) -> None:
    if not content.size:
        raise _damaged(path, "the file is empty")
    beginning = _BEGINNING.match(content.peek(_LOOK))
    if not beginning:
        raise StateError(f"{path}: not a state file of flowbuf: move it, or name another")
    if beginning[1] and int(beginning[1]) > VERSION:
        version = int(beginning[1])
        raise StateError(f"{path}: state of version {version}, which a newer flowbuf wrote: name another file")


def _read(path: str, content: Content) -> bytes:
    octets = bytearray()
    view = memoryview(bytearray(1 << 20))
    while count := content.readinto(view):
        octets += view[:count]
    if content.fault:
        raise _damaged(path, f"its {content.fault}")
    return bytes(octets)


def _read_json(path: str, octets: bytes) -> Any:
    """What a file says of exporters; whether that can be, the decoder sees."""
    try:
        document = parse_json(octets)
    except (DocumentError, MemoryError) as error:
        raise _damaged(path, f"it cannot be read to its end: {error}") from error
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise _damaged(path, f"version is {version!r:.40}")
    if "exporters" not in document:
        raise _damaged(path, "it has no exporters")
    return document["exporters"]


# Writing --------------------------------------------------------------------------------------------------------------


def _to_json(exporters: list[dict[str, Any]]) -> bytes:
    kept = sorted((exporter for exporter in exporters if _says_something(exporter)), key=by_address)
    lines = ",\n".join(json.dumps(_plain(exporter), ensure_ascii=False) for exporter in kept)
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "exporters": [\n{lines}\n]}}\n'.encode()


def _says_something(exporter: dict[str, Any]) -> bool:
    """Whether anything is known of an exporter beyond its counters; those past the limit have no address."""
    return exporter["address"] != OTHERS and any(map(_is_known, exporter["domains"]))


def _is_known(domain: dict[str, Any]) -> bool:
    """Whether anything is known of a domain beyond its sequence numbers. That a port has one of its own says something,
    too."""
    return bool(domain["templates"] or domain["samplers"] or domain["system_init"]) or domain["port"] is not None


def by_address(exporter: dict[str, Any]) -> tuple[int, bytes, int]:
    """A key to sort what `Decoder.read_exporters` gives; those past the limit, which have no address, come last."""
    if exporter["address"] == OTHERS:
        return 7, b"", 0
    import ipaddress

    address = ipaddress.ip_address(exporter["address"])
    return address.version, address.packed, exporter["sub_agent"]


def _plain(exporter: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an exporter, in a stable order."""
    domains = sorted(exporter["domains"], key=lambda domain: (domain["version"], domain["id"], domain["port"] or -1))
    return {
        "address": exporter["address"],
        "sub_agent": exporter["sub_agent"],
        "domains": [_plain_domain(domain) for domain in domains if _is_known(domain)],
    }


def _plain_domain(domain: dict[str, Any]) -> dict[str, Any]:
    templates = sorted(domain["templates"].items())
    return {
        **{key: domain[key] for key in ("version", "id", "port", "system_init")},
        "samplers": dict(sorted(domain["samplers"].items())),
        "templates": {id: {key: template[key] for key in _TEMPLATE} for id, template in templates},
    }
