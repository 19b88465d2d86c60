"""Checks that a codec and google.protobuf read a message alike, or that both refuse it."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufError

from flowbuf.errors import DecodeError
from tests.support.codec.messages import as_record, comparable, make_codec, make_relaxed, unknown_fields

EVERYTHING = make_codec("Everything", times="ns", unknown_fields="keep")
OLD = make_relaxed("Old", times="ns", unknown_fields="keep")
MAPS = make_codec("Maps", unknown_fields="keep")
TREE = make_codec("Tree", times="ns", unknown_fields="keep")
NUMBERS = {field.name: field.number for field in EVERYTHING.message}


def read(octets: bytes, codec: Any = EVERYTHING) -> dict[str, Any]:
    """Return the object of a message that the codec and google.protobuf decode alike."""
    theirs = codec.message_class().FromString(octets)
    record = codec.decode(octets)
    assert comparable(record) == comparable(as_record(theirs, codec.message))
    again = codec.message_class().FromString(codec.encode(record))
    assert comparable(as_record(again, codec.message)) == comparable(as_record(theirs, codec.message))
    assert unknown_fields(again, codec.message) == unknown_fields(theirs, codec.message)
    return record


def refuse(octets: bytes, codec: Any = EVERYTHING) -> DecodeError:
    """Return the error of a message that the codec and google.protobuf refuse."""
    with pytest.raises(ProtobufError):
        codec.message_class().FromString(octets)
    with pytest.raises(DecodeError) as caught:
        codec.decode(octets)
    assert caught.value.status == "bad_message"
    assert 0 <= caught.value.offset <= len(octets)
    return caught.value
