"""The folders of the spools of outputs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from flowbuf.collect.config import OutputConfig, output_name
from flowbuf.errors import ConfigError
from flowbuf.schema.row_kinds import DECODED_ROWS

__all__ = ["check_spools", "spool_folder"]


def spool_folder(output: OutputConfig, name: str) -> str:
    """Return the folder of the spool of an output.

    Raises:
        ConfigError: there is no folder for spools.
    """
    if not output.spool:
        raise ConfigError(f'output {name!r}: on_overflow = "spool" needs a folder; set spool = "FOLDER"')
    folder = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.") or "output"
    if output.rows not in ("", DECODED_ROWS[0]):  # a spool never has rows of another kind
        folder += f".{output.rows}"
    return os.path.abspath(os.path.join(output.spool, folder))


def check_spools(outputs: Iterable[OutputConfig]) -> None:
    """Raise ConfigError if two outputs have the same spool."""
    names: dict[str, str] = {}
    for output in outputs:
        if output.on_overflow == "spool":
            name = output_name(output)
            other = names.setdefault(spool_folder(output, name), name)
            if other != name:
                raise ConfigError(f"outputs {other!r} and {name!r} have the same spool; rename one")
