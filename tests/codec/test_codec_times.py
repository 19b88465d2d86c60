"""Codecs encode and decode times and durations of many types, and refuse invalid ones."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from flowbuf.errors import DecodeError
from tests.support.codec.messages import bytes_field, make_codec, message_class, number_field
from tests.support.codec.records import READING, UTC, problem

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")

MOMENT = 1709208000_123456789


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2024, 2, 29, 12, 0, 0, 123456, UTC), MOMENT - 789),
        (datetime(2024, 2, 29, 12, 0, 0, 123456), MOMENT - 789),
        (datetime(2024, 2, 29, 13, 0, 0, 123456, timezone(timedelta(hours=1))), MOMENT - 789),
        (MOMENT, MOMENT),
        (np.int64(MOMENT), MOMENT),
        (np.datetime64(MOMENT, "ns"), MOMENT),
        (np.datetime64("2024-02-29T12", "h"), 1709208000_000000000),
        (np.datetime64("2024-02"), 1706745600_000000000),
        (pd.Timestamp(MOMENT), MOMENT),
        (pd.Timestamp(MOMENT, tz="Europe/Zurich"), MOMENT),
        ({"seconds": 5, "nanos": 6}, 5_000_000_006),
        (datetime(1, 1, 1), -62135596800 * 10**9),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), 253402300799_999999000),
        (-1, -1),
    ],
)
def test_times_of_many_types_are_encoded(value: Any, expected: int) -> None:
    encoded = READING.encode({"time": value})
    assert make_codec("Reading", times="ns").decode(encoded)["time"] == expected
    micro = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=expected // 1000)
    assert READING.decode(encoded)["time"] == micro


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(seconds=-1.5), -1_500_000_000),
        (timedelta(days=3, microseconds=1), 259200_000001000),
        (-1, -1),
        (np.timedelta64(-7, "m"), -420 * 10**9),
        (pd.Timedelta(-1_000_000_001), -1_000_000_001),
        ({"seconds": -5, "nanos": -6}, -5_000_000_006),
        ({}, 0),
    ],
)
def test_durations_of_many_types_are_encoded(value: Any, expected: int) -> None:
    encoded = READING.encode({"uptime": value})
    assert message_class("Reading").FromString(encoded).uptime.ToNanoseconds() == expected
    assert make_codec("Reading", times="ns").decode(encoded)["uptime"] == expected
    assert make_codec("Reading", times="datetime64").decode(encoded)["uptime"] == np.timedelta64(
        expected, "ns"
    )


def test_invalid_times_are_refused() -> None:
    for value in (
        pd.NaT,
        np.datetime64("NaT", "ns"),
        "noon",
        1.5,
        True,
        timedelta(1),
        {"seconds": "x"},
        10**30,
        10**5000,
    ):
        assert problem({"time": value}, READING).startswith("time: ")
    for value in (
        np.timedelta64("NaT", "ns"),
        datetime(2000, 1, 1),
        {"seconds": 5, "nanos": -6},
        timedelta.max,
    ):
        assert problem({"uptime": value}, READING).startswith("uptime: ")
    unitless = np.array([7]).view("m8")[0]  # 7 without a unit
    assert problem({"uptime": unitless}, READING) == "uptime: numpy.timedelta64 where a timedelta is expected"


def test_times_outside_the_range_of_their_type_are_refused() -> None:
    late = READING.encode({"time": datetime(9999, 1, 1)})
    with pytest.raises(DecodeError, match="time: byte 2: beyond the nanoseconds") as caught:
        make_codec("Reading", times="datetime64").decode(late)
    assert (caught.value.path, caught.value.offset) == ("time", 2)
    beyond = bytes_field(11, number_field(1, 10**15))
    assert make_codec("Reading", times="ns").decode(beyond)["time"] == 10**24
    with pytest.raises(DecodeError, match="no datetime can hold"):
        READING.decode(beyond)
    with pytest.raises(DecodeError, match="no timedelta can hold"):
        READING.decode(bytes_field(12, number_field(1, 10**15)))
