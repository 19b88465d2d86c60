"""The interface of a format."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..families import Family, Record

__all__ = ["Coder", "Format", "same"]


def same(record: Record) -> Record:
    """Return the record unchanged."""
    return record


class Coder(NamedTuple):
    """A format for the records of a family.

    `encode` takes and `decode` returns a record in the shape of the format: a dict, a tuple or an object. The
    values are those of the record in every shape, so the conversion of times is timed too. Decoded arrays may
    be lists even if tuples were encoded. `prepare` and `restore` convert a record to this shape and back.
    They are never timed.
    """

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    encode_batch: Callable[[list[Any]], bytes]
    decode_batch: Callable[[bytes], Any]
    """Decode a batch to a sequence of records."""
    prepare: Callable[[Record], Any] = same
    restore: Callable[[Any], Record] = same


@dataclass(frozen=True)
class Format:
    """A serialization format of a library.

    `keyed` formats write names or numbers of fields. Others are positional. `shape` is the Python type of a
    record. `times` describes the encoding of a time. `strings` is "copies", or "views" if decoded strings
    keep the message alive. `needs` are the required modules, with the name that pip installs.
    """

    name: str
    library: str
    """Distribution of the library, for its version. "" is Python itself."""
    keyed: bool
    text: bool
    shape: str
    times: str
    strings: str
    batch: str
    """Encoding of a batch of records."""
    open: Callable[[Family], Coder]
    needs: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> str:
        """Identification of fields: "names", "numbers" or "positional"."""
        if not self.keyed:
            return "positional"
        return "numbers" if self.library in ("flowbuf", "protobuf") else "names"

    def absent(self) -> str | None:
        """Return which modules are missing and how to install them. None if all are installed."""
        missing = [source for module, source in self.needs if not has_module(module)]
        return f"not installed: pip install {' '.join(missing)}" if missing else None

    def version(self) -> str:
        """Return the version of the library. Raises importlib.metadata.PackageNotFoundError."""
        return importlib.metadata.version(self.library) if self.library else PYTHON


PYTHON = platform.python_version()


def has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # a parent package is missing, or sys.modules has None
        return False
