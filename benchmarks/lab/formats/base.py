"""What a format is, to the lab."""

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
    """The record itself."""
    return record


class Coder(NamedTuple):
    """A format that knows a family. What `encode` takes and `decode` gives is a record in the format's own
    shape: a dict, a tuple, or an object. Values are those of the record in every shape: converting times is
    part of what is timed. Decoded arrays may be lists where tuples were encoded.

    `prepare` and `restore` go from a record to that shape and back, and are never timed.
    """

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    encode_batch: Callable[[list[Any]], bytes]
    decode_batch: Callable[[bytes], Any]
    """A sequence of records."""
    prepare: Callable[[Record], Any] = same
    restore: Callable[[Any], Record] = same


@dataclass(frozen=True)
class Format:
    """A way of writing records by a library. `keyed` formats write the names, or the numbers, of fields;
    others go by position. `shape` is what a record is in Python; `times` says what carries a point in time;
    `strings` whether those that were decoded are "copies", or "views", which keep the message. `needs` are
    modules that have to be there, with what installs each.
    """

    name: str
    library: str
    """The distribution whose version counts; "" is Python itself."""
    keyed: bool
    text: bool
    shape: str
    times: str
    strings: str
    batch: str
    """What many records become."""
    open: Callable[[Family], Coder]
    needs: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> str:
        """What a field is known by: "names" or "numbers" as keys, or "positional", its place."""
        if not self.keyed:
            return "positional"
        return "numbers" if self.library in ("flowbuf", "protobuf") else "names"

    def absent(self) -> str | None:
        """What is missing on this machine, and how to get it; None where nothing is."""
        missing = [source for module, source in self.needs if not has_module(module)]
        return f"not installed: pip install {' '.join(missing)}" if missing else None

    def version(self) -> str:
        """Of the library. Raises importlib.metadata.PackageNotFoundError where it is absent."""
        return importlib.metadata.version(self.library) if self.library else PYTHON


PYTHON = platform.python_version()


def has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # a package above it is missing; or it was made unimportable
        return False
