"""Conversion of times that the core does not know.

These are datetimes of zones other than UTC, and the times of numpy, pandas and google.protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from operator import index
from typing import Any

__all__ = ["from_time", "to_time"]

_BILLION = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def to_time(value: Any, duration: bool) -> tuple[int, int]:
    """Return seconds and nanoseconds, with equal signs for a duration.

    Raises TypeError if the value is not a time.
    """
    seconds, rest = _split(value, duration)
    if duration and seconds < 0 < rest:
        return seconds + 1, rest - _BILLION
    return seconds, rest


def _split(value: Any, duration: bool) -> tuple[int, int]:
    if isinstance(value, datetime | timedelta) and value != value:  # NaT of pandas, which is not a time
        raise TypeError
    if hasattr(value, "seconds") and hasattr(value, "nanos"):  # a message of google.protobuf
        return int(value.seconds), int(value.nanos)
    if isinstance(value, Mapping) and value.keys() <= {"seconds", "nanos"}:
        return index(value.get("seconds", 0)), index(value.get("nanos", 0))
    if isinstance(value, timedelta) and duration:
        extra = int(getattr(value, "nanoseconds", 0))  # attribute of pandas
        return divmod(value // _MICROSECOND * 1000 + extra, _BILLION)
    if isinstance(value, datetime) and not duration:
        aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        extra = int(getattr(value, "nanosecond", 0))
        return divmod((aware - _EPOCH) // _MICROSECOND * 1000 + extra, _BILLION)
    if type(value).__name__ == ("timedelta64" if duration else "datetime64"):
        return divmod(_of_numpy(value), _BILLION)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError
    return divmod(index(value), _BILLION)


def _of_numpy(value: Any) -> int:
    import numpy

    unit, count = numpy.datetime_data(value.dtype)
    if numpy.isnat(value) or unit == "generic":  # a number without a unit
        raise TypeError
    if unit in ("Y", "M"):
        value, unit, count = value.astype(f"{type(value).__name__}[D]"), "D", 1
    scale = {
        "W": 604800 * _BILLION,
        "D": 86400 * _BILLION,
        "h": 3600 * _BILLION,
        "m": 60 * _BILLION,
        "s": _BILLION,
    }
    scale |= {"ms": 10**6, "us": 10**3, "ns": 1}
    finer = {"ps": 10**3, "fs": 10**6, "as": 10**9}
    ticks = int(value.astype("int64")) * count
    return ticks * scale[unit] if unit in scale else ticks // finer[unit]


def from_time(duration: bool, seconds: int, nanoseconds: int) -> Any:
    """Return a numpy datetime64 or timedelta64 in nanoseconds.

    Raises OverflowError if the time is outside their range.
    """
    import numpy

    number = seconds * _BILLION + nanoseconds
    if number == -(1 << 63):  # reserved for NaT
        raise OverflowError
    return numpy.timedelta64(number, "ns") if duration else numpy.datetime64(number, "ns")
