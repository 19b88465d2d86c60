"""Settings of the collector.

Each setting is a field of a dataclass, a key of the TOML file and a command-line option. The field declares
everything once: the kind of its value, the default and the help text.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from flowbuf.errors import ConfigError, did_you_mean

__all__ = [
    "Kind",
    "Setting",
    "parse_bytes",
    "parse_seconds",
    "read_settings",
    "setting",
    "settings_of",
    "write_settings",
]

Settings = TypeVar("Settings")

KINDS = ("text", "whole", "seconds", "bytes", "flag", "list", "numbers")
"""Kinds of values: text, a whole number, a time, a size, true or false, and lists of texts and of numbers."""

Kind = str

MAX_SECONDS = 10**9
"""Largest time in seconds, about three decades. Clocks that count nanoseconds hold it."""

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    **{"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    **{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
}


@dataclass(frozen=True)
class Setting:
    """Declaration of a setting.

    Attributes:
        name: Key in the file. The option is the same name with hyphens.
        kind: One of KINDS.
        default: Value if the key is missing.
        help: Description of the option, and the comment of the key.
        metavar: Placeholder of the value in help texts.
        choices: Allowed texts; empty if all are.
        least: Smallest number.
        most: Largest number. Default: None, no limit. Times have the limit MAX_SECONDS.
        empty: Meaning of an empty default, for example "the kind of rows".
    """

    name: str
    kind: Kind
    default: Any
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: float = 0
    most: int | None = None
    empty: str = ""

    def describe_default(self) -> str:
        """Return the default as a user writes it; "" if there is none."""
        if self.kind == "flag":
            return ""
        if self.kind in ("seconds", "bytes"):
            return _write_quantity(self.default, _SECONDS if self.kind == "seconds" else _BYTES)
        if self.kind == "whole":
            return str(self.default)
        return (self.default if self.kind == "text" else ", ".join(map(str, self.default))) or self.empty

    def convert(self, value: Any) -> Any:
        """Return a value of the file or of the command line, converted to the kind of the setting.

        Raises:
            ConfigError: the value does not have this kind, or is out of range.
        """
        try:
            converted = _CONVERT[self.kind](value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{self.name} is {value!r}; write {_FORMS[self.kind]}") from error
        if self.choices and converted not in self.choices:
            raise ConfigError(f"{self.name} is {value!r}; write one of {', '.join(self.choices)}")
        if isinstance(converted, (int, float)):
            self._check_range(value, converted)
        return converted

    def _check_range(self, value: Any, number: float) -> None:
        if number < self.least:
            raise ConfigError(f"{self.name} is {value!r}; the least value is {self.least:g}")
        most = MAX_SECONDS if self.kind == "seconds" else self.most
        if most is not None and number > most:
            unit = "s" if self.kind == "seconds" else ""
            raise ConfigError(f"{self.name} is {value!r}; the largest value is {most}{unit}")


def setting(
    kind: Kind,
    default: Any,
    help: str,
    metavar: str = "",
    choices: tuple[str, ...] = (),
    least: float = 0,
    most: int | None = None,
    empty: str = "",
) -> Any:
    """Declare a setting as the field of a dataclass. The arguments are attributes of `Setting`."""
    details = {"help": help, "metavar": metavar, "choices": choices, "least": least, "most": most}
    return dataclasses.field(default=default, metadata={"kind": kind, "empty": empty, **details})


def settings_of(kind: type) -> tuple[Setting, ...]:
    """Return the settings that a dataclass declares, in order."""
    return tuple(
        Setting(each.name, default=each.default, **each.metadata)
        for each in dataclasses.fields(kind)
        if "kind" in each.metadata
    )


def read_settings(kind: type[Settings], table: Mapping[str, Any]) -> Settings:
    """Return a dataclass with the values of a table. Missing keys get their defaults.

    Raises:
        ConfigError: a key is unknown, or a value is invalid.
    """
    known = {each.name: each for each in settings_of(kind)}
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"the keys are {', '.join(known)}"
            raise ConfigError(f"key {key!r} does not exist; {hint}")
    return kind(**{key: known[key].convert(value) for key, value in table.items()})


def write_settings(values: Any) -> Iterator[str]:
    """Yield the lines of TOML with these values, each after its description. Defaults are comments."""
    for each in settings_of(type(values)):
        value = getattr(values, each.name)
        comment = each.help + (f" One of: {', '.join(each.choices)}." if each.choices else "")
        comment += f" Default: {each.empty}." if each.empty else ""
        yield from textwrap.wrap(comment, 100, initial_indent="# ", subsequent_indent="# ")
        line = f"{each.name} = {_to_toml(value)}"
        yield f"#{line}" if value == each.default else line


def parse_seconds(value: Any) -> float:
    """Return a time in seconds: a number, or text such as "90s", "5m", "36h" or "30d".

    Units are ms, s, m (minutes), h and d.

    Raises:
        ValueError: the value is not a time.
    """
    return _parse_quantity(value, _SECONDS)


def parse_bytes(value: Any) -> int:
    """Return a size in bytes: a whole number, or text such as "64MiB", "1.5GB" or "4096".

    Raises:
        ValueError: the value is not a size.
    """
    return int(_parse_quantity(value, _BYTES))


def _parse_quantity(value: Any, units: Mapping[str, float]) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(value)
        return float(value)
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]*)", value)
    if not found or found[2] not in units:
        raise ValueError(value)
    return float(found[1]) * units[found[2]]


def _write_quantity(value: float, units: Mapping[str, float]) -> str:
    """Return a number with the largest unit of which it is a multiple."""
    fitting = [unit for unit in units if unit and value and value % units[unit] == 0]
    unit = max(fitting, key=lambda each: units[each], default="")
    return f"{value / units[unit] if unit else value:g}{unit}"


def _convert_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _convert_whole(value: Any) -> int:
    if isinstance(value, (bool, float)):
        raise TypeError(value)
    return int(value)


def _convert_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _convert_list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, (list, tuple)):  # a table would be the list of its keys
        raise TypeError(value)
    return tuple(_convert_text(each) for each in value)


def _convert_numbers(value: Any) -> tuple[int, ...]:
    """Convert a number or a list of numbers."""
    return tuple(_convert_whole(each) for each in (value if isinstance(value, list) else [value]))


_CONVERT = {
    **{"text": _convert_text, "whole": _convert_whole, "flag": _convert_flag, "list": _convert_list},
    **{"seconds": parse_seconds, "bytes": parse_bytes, "numbers": _convert_numbers},
}
_FORMS = {
    "text": "text in quotation marks",
    "whole": "a whole number",
    "seconds": 'a time such as "90s" or "5m"; units are ms, s, m (minutes), h and d',
    "bytes": 'a size such as "64MiB" or "2GB"; units are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB',
    "flag": "true or false",
    "list": "a list of texts",
    "numbers": "a whole number or a list of them",
}


def _to_toml(value: Any) -> str:
    if isinstance(value, (bool, str, int, tuple)):
        text = json.dumps(value, ensure_ascii=False)
        return text.replace("\x7f", "\\u007f")  # the only character that JSON allows and TOML does not
    return str(int(value)) if value.is_integer() else repr(value)
