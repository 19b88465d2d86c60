"""Keep templates, sampling rates, names and start times of exporters in a file.

They then survive a restart.

The file is JSON with one exporter per line:

    {"format": "flowbuf-state", "version": 1, "exporters": [
    {"address": "192.0.2.1", "sub_agent": 0, "domains": [
    {"version": 10, "id": 0, "templates": {"256": …}, …}]}
    ]}

It holds the part of `Decoder.read_exporters` that `Decoder.restore_exporters` reads. The first bytes identify
a state file and its version. A damaged state file may be replaced. A file with another beginning, or of a
newer version, is never overwritten.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Any, Protocol

from flowbuf._core import OTHERS
from flowbuf.errors import StateError
from flowbuf.io.input_stream import Content
from flowbuf.io.output_file import OutputFile
from flowbuf.schema.toml_json import DocumentError, parse_json

__all__ = ["by_address", "load_state", "save_state", "to_plain", "without_sessions"]

FORMAT = "flowbuf-state"
VERSION = 1

_BEGINNING = re.compile(
    rb'\s*\{\s*"format"\s*:\s*"' + FORMAT.encode() + rb'"\s*(?:,\s*"version"\s*:\s*(\d{1,9}))?'
)
_LOOK = 256  # bytes that identify a state file
_TEMPLATE = ("options", "scope_count", "fields", "port", "time", "contested")


class HasExporters(Protocol):
    """A decoder, or another owner of the state of exporters."""

    def read_exporters(self) -> list[dict[str, Any]]: ...

    def restore_exporters(self, exporters: Any) -> None: ...


def load_state(decoder: HasExporters, path: str | os.PathLike[str]) -> bool:
    """Load the exporters of a state file into a new decoder.

    Args:
        decoder: Decoder that has not decoded anything yet.
        path: State file that `save_state` wrote. It must be a regular file, plain or compressed.

    Returns:
        bool: False if the file does not exist, as before the first run. Otherwise True.

    Raises:
        StateError: The file is not a usable state file. `replaceable` is True if the file is damaged. The
            decoder is unchanged.
        TypeError: decoder is no decoder.
        OSError: The file cannot be read.

    Example:
        decoder = flowbuf.Decoder()
        flowbuf.load_state(decoder, "exporters.state")
    """
    _check_decoder(decoder, "restore_exporters")
    path = os.fspath(path)
    try:
        content = _open(path)
    except FileNotFoundError:
        return False
    with content:
        _check_beginning(path, content)
        data = _read(path, content)
    exporters = _read_json(path, data)
    try:
        decoder.restore_exporters(exporters)
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    return True


def save_state(decoder: HasExporters, path: str | os.PathLike[str]) -> None:
    """Write templates, sampling rates, names and start times of a decoder's exporters to a state file.

    The file appears whole or not at all. If several processes write it, the last one wins.

    Args:
        decoder: Decoder whose exporters are saved.
        path: File to write. An existing state file of this or an older version is replaced.

    Raises:
        StateError: The existing file is not a state file, or a newer flowbuf wrote it.
        TypeError: decoder is no decoder.
        OSError: The file cannot be written.

    Example:
        flowbuf.save_state(decoder, "exporters.state")
    """
    _check_decoder(decoder, "read_exporters")
    path = os.fspath(path)
    check_place(path)
    with OutputFile(path) as file:
        file.write(_to_json(decoder.read_exporters()))


def _check_decoder(decoder: object, method: str) -> None:
    """Raise TypeError if the owner of the state of exporters lacks a method."""
    if not hasattr(decoder, method):
        raise TypeError(f"decoder is {decoder!r}; pass a Decoder first, and the path after it")


def check_place(path: str) -> None:
    """Raise StateError if `save_state` would."""
    try:
        with _open(path) as content:
            _check_beginning(path, content)
    except FileNotFoundError:
        pass
    except StateError as error:
        if not error.replaceable:
            raise


# Reading ----------------------------------------------------------------------------------------------------


def _open(path: str) -> Content:
    if path == "-" or not stat.S_ISREG(os.stat(path).st_mode):
        raise StateError(f"{path}: is not a regular file; name a regular file for the state")
    return Content(path)


def _damaged(path: str, what: str) -> StateError:
    return StateError(f"{path}: damaged state: {what}", replaceable=True)


def _check_beginning(path: str, content: Content) -> None:
    if not content.size:
        raise _damaged(path, "the file is empty")
    beginning = _BEGINNING.match(content.peek(_LOOK))
    if not beginning:
        raise StateError(f"{path}: is not a state file of flowbuf; move it, or name another file")
    if beginning[1] and int(beginning[1]) > VERSION:
        version = int(beginning[1])
        raise StateError(f"{path}: has version {version}, which a newer flowbuf wrote; name another file")


def _read(path: str, content: Content) -> bytes:
    data = bytearray()
    view = memoryview(bytearray(1 << 20))
    while count := content.readinto(view):
        data += view[:count]
    if content.fault:
        raise _damaged(path, f"its {content.fault}")
    return bytes(data)


def _read_json(path: str, data: bytes) -> Any:
    """Return the exporters of a state file. The decoder validates them."""
    try:
        document = parse_json(data)
    except (DocumentError, MemoryError) as error:
        raise _damaged(path, f"the file cannot be parsed: {error}") from error
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise _damaged(path, f"version is {version!r:.40}, not {VERSION}")
    if "exporters" not in document:
        raise _damaged(path, "the exporters are missing")
    return document["exporters"]


# Writing ----------------------------------------------------------------------------------------------------


def to_plain(exporters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the part of `Decoder.read_exporters` that is saved and restored, in a stable order."""
    return [_plain(exporter) for exporter in sorted(filter(_says_something, exporters), key=by_address)]


def without_sessions(exporters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the exporters without Transport Sessions, whose templates are valid until their end only."""
    return [exporter for exporter in exporters if "session" not in exporter]


def _to_json(exporters: list[dict[str, Any]]) -> bytes:
    saved = to_plain(without_sessions(exporters))
    lines = ",\n".join(json.dumps(exporter, ensure_ascii=False) for exporter in saved)
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "exporters": [\n{lines}\n]}}\n'.encode()


def _says_something(exporter: dict[str, Any]) -> bool:
    """Return True if an exporter has state beyond its counters.

    Exporters beyond the limit have no address.
    """
    return exporter["address"] != OTHERS and any(map(_is_known, exporter["domains"]))


def _is_known(domain: dict[str, Any]) -> bool:
    """Return True if a domain has state beyond its sequence numbers. A port of its own counts as state."""
    return (
        any(domain[key] for key in ("templates", "samplers", "selection_sequences", "system_init", "names"))
        or domain["port"] is not None
    )


def by_address(exporter: dict[str, Any]) -> tuple[int, bytes, int, int]:
    """Return a sort key for an exporter of `Decoder.read_exporters`.

    Exporters beyond the limit have no address and come last.
    """
    if exporter["address"] == OTHERS:
        return 7, b"", 0, 0
    import ipaddress

    address = ipaddress.ip_address(exporter["address"])
    return address.version, address.packed, exporter["sub_agent"], exporter.get("session", 0)


def _plain(exporter: dict[str, Any]) -> dict[str, Any]:
    """Return the saved part of an exporter, in a stable order."""
    domains = sorted(
        exporter["domains"], key=lambda domain: (domain["version"], domain["id"], domain["port"] or -1)
    )
    return {
        "address": exporter["address"],
        "sub_agent": exporter["sub_agent"],
        **({"session": exporter["session"]} if "session" in exporter else {}),
        "domains": [_plain_domain(domain) for domain in domains if _is_known(domain)],
    }


def _plain_domain(domain: dict[str, Any]) -> dict[str, Any]:
    templates = sorted(domain["templates"].items())
    sequences = domain["selection_sequences"]
    return {
        **{key: domain[key] for key in ("version", "id", "port", "system_init")},
        "samplers": dict(sorted(domain["samplers"].items())),
        **({"selection_sequences": dict(sorted(sequences.items()))} if sequences else {}),
        "templates": {id: {key: template[key] for key in _TEMPLATE} for id, template in templates},
        **({"names": domain["names"]} if domain["names"] else {}),
    }
