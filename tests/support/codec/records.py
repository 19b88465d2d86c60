"""An object of the message type Reading, and the check that a codec refuses an object."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from flowbuf import Codec
from flowbuf.errors import EncodeError
from tests.support.codec.messages import make_codec

EVERYTHING = make_codec("Everything")
READING = make_codec("Reading")
UTC = timezone.utc

RECORD: dict[str, Any] = {
    "device": "a1",
    "site": "Zürich",
    "temperature": 21.5,
    "humidity": 0.25,
    "sequence": 2**63,
    "errors": 3,
    "samples": [1, -2, 300],
    "level": 5,
    "valid": True,
    "raw": b"\0\xff",
    "time": datetime(2024, 2, 29, 12, 0, 0, 123456, UTC),
    "uptime": timedelta(days=-1, microseconds=5),
}
MESSAGE = READING.encode(RECORD)


def problem(record: Any, codec: Codec = EVERYTHING) -> str:
    """Return the error of an object that cannot be encoded, and check that the codec still works."""
    with pytest.raises(EncodeError) as caught:
        codec.encode(record)
    assert str(caught.value).startswith(caught.value.path[:90])
    assert len(str(caught.value)) < 300
    assert READING.encode(RECORD) == MESSAGE
    return str(caught.value)
