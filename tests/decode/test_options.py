"""The options of decoding are the same wherever they are given."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"default_sampling_rate": 1.5}, "default_sampling_rate is 1.5; it must be a whole number"),
        ({"memory_limit": "1 GiB"}, "memory_limit is '1 GiB'; it must be a whole number"),
        ({"template_expiry": "x"}, "template_expiry is 'x'; it must be a number"),
        *(
            ({name: "no"}, f"{name} is 'no'; it must be True or False")
            for name in ("scale", "strict", "obey_withdrawals")
        ),
        ({"decapsulate": 5}, "decapsulate is 5; pass a list of tunnels, such as ['vxlan']"),
        ({"sampling": 5}, "sampling is 5; pass a list of SamplingRule"),
        ({"sampling": [5]}, "sampling is 5; pass a list of SamplingRule"),
        *(
            ({"options": value}, f"options is {value!r}; pass DecodeOptions(…), or its fields as keyword")
            for value in (0, "", {}, {"scale": True})
        ),
        ({"schema": DecodeOptions(scale=True)}, "schema is a DecodeOptions; pass it by name: options=…"),
        ({"schema": 5}, "schema is 5; it must be a Schema, the name of a built-in schema, or the path"),
    ],
)
def test_arguments_of_another_type_are_errors_with_a_fix(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=re.escape(problem)):
        flowbuf.Decoder(**arguments)
