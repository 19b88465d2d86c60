"""The benchmarks of messages measure the same work for all contestants."""

from __future__ import annotations

import pytest

from benchmarks.messages import json_text, public


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "ROUNDS", 3)
    monkeypatch.setattr(json_text, "SECONDS", 1e-4)


@pytest.mark.parametrize("family", ["telemetry", "record"])
def test_contestants_of_json_take_turns(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    json_text.main(family)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["family", "direction", "contestant", "ns", "spread", "ratio"]
    assert [line.split()[3] for line in lines] == ["flowbuf", "json_format", "orjson"] * 2
    assert all(float(line.split()[4].replace(",", "")) > 0 for line in lines)


@pytest.mark.parametrize("name", public.TYPES)
def test_public_types_have_equal_messages(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program compares the messages of flowbuf and upb before it measures them."""
    monkeypatch.setattr(public, "MESSAGES", 3)
    public.main(name)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["type", "bytes", "direction", "contestant", "MiB/s", "spread", "ratio"]
    assert [line[36:50].strip() for line in lines] == ["flowbuf", "upb messages", "upb fields"] * 2
    assert all(line.startswith(name) for line in lines)
