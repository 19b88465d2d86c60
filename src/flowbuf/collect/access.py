"""Sources whose datagrams are decoded."""

from __future__ import annotations

from collections.abc import Sequence

from flowbuf._core import AccessList
from flowbuf.errors import ConfigError
from flowbuf.networks import Prefix, to_prefixes

__all__ = ["make_access_list"]


def make_access_list(allow: Sequence[str], deny: Sequence[str]) -> AccessList | None:
    """Return the list of allowed and denied networks, or None if all sources are allowed.

    Raises:
        ConfigError: a network is invalid.
    """
    prefixes = _read("allow", allow), _read("deny", deny)
    return AccessList(*prefixes) if any(prefixes) else None


def _read(name: str, networks: Sequence[str]) -> list[Prefix]:
    try:
        return to_prefixes(networks)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error
