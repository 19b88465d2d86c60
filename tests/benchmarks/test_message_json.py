"""The benchmark of JSON measures the same work for all contestants."""

from __future__ import annotations

import pytest

from benchmarks import message_json


@pytest.mark.parametrize("family", ["telemetry", "record"])
def test_contestants_take_turns(
    family: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(message_json, "ROUNDS", 3)
    monkeypatch.setattr(message_json, "SECONDS", 1e-4)
    message_json.main(family)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["family", "direction", "contestant", "ns", "spread", "ratio"]
    assert [line.split()[3] for line in lines] == ["flowbuf", "json_format", "orjson"] * 2
    assert all(float(line.split()[4].replace(",", "")) > 0 for line in lines)
