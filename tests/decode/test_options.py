"""The options of decoding are the same wherever they are given."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import pytest

import flowbuf
from flowbuf.options import DecodeKeywords, DecodeOptions

CAPTURE = Path(__file__).parents[1] / "data/softflowd-netflow5.pcap"


def test_keywords_are_the_fields_of_the_options() -> None:
    assert typing.get_type_hints(DecodeKeywords) == typing.get_type_hints(DecodeOptions)


def test_keywords_replace_fields_of_the_options() -> None:
    options = DecodeOptions(strict=True, capacity=1)
    assert flowbuf.Decoder("flow", options).strict
    assert not flowbuf.Decoder("flow", options, strict=False).strict
    assert not flowbuf.Decoder("flow").strict


def test_every_function_takes_options_and_keywords(tmp_path: Path) -> None:
    export = DecodeOptions(time="export")
    times = flowbuf.read_capture(CAPTURE, options=export).to_arrow()["time_received"].to_pylist()
    assert times == flowbuf.read_capture(CAPTURE, time="export").to_arrow()["time_received"].to_pylist()
    assert times != flowbuf.read_capture(CAPTURE).to_arrow()["time_received"].to_pylist()
    flowbuf.encode_capture(CAPTURE, tmp_path / "flows.pb", options=export)
    assert times == flowbuf.read_messages(tmp_path / "flows.pb").to_arrow()["time_received"].to_pylist()


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    for call in (
        lambda: flowbuf.Decoder("flow", tmie="export"),  # type: ignore[call-arg]
        lambda: flowbuf.read_capture(CAPTURE, tmie="export"),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="option 'tmie' is unknown; did you mean time"):
            call()


def test_options_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecodeOptions().scale = True  # type: ignore[misc]
