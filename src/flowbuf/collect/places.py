"""Destinations of outputs: their description without secrets, and the places that only one output can use."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs, unquote, urlsplit

from flowbuf.collect.outputs.files.storage import split_place

__all__ = ["describe", "exclusive_place"]


def describe(destination: str) -> str:
    """Return a destination without user, password and settings, which may be secrets."""
    scheme, separator, rest = destination.partition("://")
    if not separator:
        return destination
    place = rest.partition("?")[0]
    authority, slash, path = place.partition("/")
    if "@" not in authority and re.search(r":(?!\d*$)[^\]:]*$", authority):  # a password instead of a port
        found = path.partition("@")[2]  # the password contains "/", which should be %2F
        return f"{scheme}://{found or authority.partition(':')[0]}"
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def exclusive_place(destination: str, rows: str) -> tuple[str, ...]:
    """Return the place of a destination that only one output can use. It is empty if outputs can share it.

    Standard output takes the lines of one output. A folder has one output of each format and kind of rows,
    because retention recognizes the files of an output by these. A folder inside another one is separate.

    Args:
        destination: Destination of an output.
        rows: Kind of its rows.
    """
    if destination == "-":
        return ("-",)
    form, place = ("pb", destination[3:]) if destination.startswith("pb:") else ("parquet", destination)
    if form == "parquet" and not place.startswith("s3://") and not place.endswith("/"):
        return ()
    try:
        scheme, path = split_place(place)
    except ValueError:  # a server, or invalid, which the output reports
        return ()
    if scheme == "file":
        return form, rows, os.path.realpath(path)
    parts = urlsplit(path)
    bucket = parts.netloc.rpartition("@")[2]
    server = parse_qs(parts.query).get("endpoint_override", [""])[0]
    return form, rows, server, bucket, unquote(parts.path).strip("/")
