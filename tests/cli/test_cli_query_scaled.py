"""`scaled(bytes)` in the SQL of `flowbuf query`, and notes on flows without a sampling rate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli_query import NETFLOW9, SFLOW, ask
from tests.support.command import GOOD, flowbuf, json_lines, pcap, write

TOTALS = """
    SELECT sum(scaled(bytes)) AS scaled, sum(bytes) AS plain, sum(bytes * sampling_rate) AS product FROM flows
"""


@pytest.mark.parametrize(
    ("options", "scaled", "plain", "product"),
    [
        ((), 1000, 1, 1000),
        (("--scale",), 1000, 1000, None),
        (("--override-sampling", "7"), 7, 1, 7),
        (("--override-sampling", "7", "--scale"), 7, 7, None),
    ],
)
def test_scaled_multiplies_by_the_sampling_rate_once(
    options: tuple[str, ...], scaled: int, plain: int, product: int | None
) -> None:
    (row,) = ask(TOTALS, NETFLOW9, *options)
    (one,) = ask("SELECT sum(bytes) AS sum FROM flows", NETFLOW9)
    assert (row["scaled"], row["plain"]) == (scaled * one["sum"], plain * one["sum"])
    assert product is None or row["product"] == product * one["sum"]


def test_unknown_sampling_rates_are_explained(tmp_path: Path) -> None:
    capture = write(tmp_path / "a.pcap", pcap(GOOD, GOOD))
    result = flowbuf("query", TOTALS, capture, NETFLOW9, "-f", "jsonl")
    assert result.exit_code == 0
    assert "2 of 302 flows have no sampling rate: scaled(…) does not multiply them" in result.stderr
    assert "--default-sampling" in result.stderr
    (row,) = json_lines(result)
    (known,) = ask(TOTALS, NETFLOW9)
    assert row["scaled"] == known["scaled"] + 600
    for sql, path in (("SELECT sum(bytes) FROM flows", capture), (TOTALS, NETFLOW9)):
        assert flowbuf("query", sql, path, "-f", "jsonl").stderr == ""
    assert flowbuf("query", TOTALS, capture, "--default-sampling", "9", "-f", "jsonl").stderr == ""


def test_scaled_works_for_files_and_presets(tmp_path: Path) -> None:
    (known,) = ask(TOTALS, NETFLOW9)
    parquet = tmp_path / "x.parquet"
    assert flowbuf("read", NETFLOW9, "-o", parquet).exit_code == 0
    assert ask(TOTALS, parquet) == [known]
    preset = ask("SELECT sum(scaled(Bytes)) AS scaled FROM flows", NETFLOW9, "--schema", "akvorado")
    assert preset == [{"scaled": known["scaled"]}]
    result = flowbuf("query", "SELECT scaled(if_in_octets) FROM flows", SFLOW, "--counters")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "scaled needs a sampling rate" in result.stderr


def test_the_largest_rate_is_known() -> None:
    sql = "SELECT sum(scaled(bytes)) AS scaled, sum(bytes) AS plain FROM flows"
    result = flowbuf("query", sql, NETFLOW9, "--override-sampling", 2**64 - 1, "-f", "jsonl")
    assert (result.exit_code, result.stderr) == (0, "")
    (row,) = json_lines(result)
    assert row["scaled"] == row["plain"] * 2**32
