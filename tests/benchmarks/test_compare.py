"""benchmarks/compare.py: p-values against published and enumerated ones, and the printed tables."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare import (
    OWN,
    Series,
    compare_contestants,
    compare_files,
    main,
    mann_whitney,
    read_series,
)

LOW, HIGH = [100.0, 101.0, 102.0, 103.0, 104.0], [200.0, 201.0, 202.0, 203.0, 204.0]


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        # example in the documentation of scipy.stats.mannwhitneyu
        ([19, 22, 16, 29, 24], [20, 11, 17, 12], 1 / 9),
        # Mann and Whitney 1947, table I, n = 5: P(U <= 0) = .004, P(U <= 2) = .016, P(U <= 12) = .500
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 2 * 1 / 252),
        ([1, 2, 3, 4, 7], [5, 6, 8, 9, 10], 2 * 4 / 252),
        ([1, 4, 5, 7, 9.5], [2, 3, 6, 8, 9], 1.0),
        # normal approximation, with ties and with more than 30 values
        ([1, 2, 2, 3, 5], [2, 4, 5, 6, 7], 0.11161176829829224),
        (range(1, 21), [i + 4.5 for i in range(1, 21)], 0.03151710207456157),
        ([5, 5, 5], [5, 5], 1.0),
        ([1], [2], 1.0),
    ],
)
def test_p_values(a: Any, b: Any, p: float) -> None:
    assert math.isclose(mann_whitney(a, b), p, rel_tol=1e-9)
    assert math.isclose(mann_whitney(b, a), p, rel_tol=1e-9)


def test_exact_p_values_are_those_of_an_enumeration() -> None:
    """The p-value is the share of choices of three from seven ranks that are at least as extreme."""

    def count_greater(chosen: tuple[int, ...]) -> int:
        return sum(x > y for x in chosen for y in set(range(7)) - set(chosen))

    choices = {chosen: count_greater(chosen) for chosen in combinations(range(7), 3)}
    for chosen, u in choices.items():
        extreme = sum(abs(other - 6) >= abs(u - 6) for other in choices.values())  # 6 is the mean
        others = sorted(set(range(7)) - set(chosen))
        assert mann_whitney(chosen, others) == pytest.approx(min(1, extreme / len(choices)))


def test_a_ratio_is_shown_only_for_a_significant_difference() -> None:
    old = [Series("v5", OWN, LOW), Series("v9", OWN, LOW), Series("gone", OWN, LOW)]
    new = [
        Series("v5", OWN, HIGH),
        Series("v9", OWN, [sample + 0.5 for sample in LOW]),
        Series("new", OWN, HIGH),
    ]
    assert compare_files(old, new) == [
        ["dataset", "what", "old", "new", "new/old", "p"],
        ["v5", OWN, "102.0 ±  1%", "202.0 ±  0%", "1.98×", "p=0.008 (n=5+5)"],
        ["v9", OWN, "102.0 ±  1%", "102.5 ±  1%", "~", "p=0.690 (n=5+5)"],
        ["gone", OWN, "102.0 ±  1%", "–", "", ""],
        ["new", OWN, "–", "202.0 ±  0%", "", ""],
    ]


def test_decoders_of_one_file() -> None:
    rows = compare_contestants(
        [Series("v5", OWN, LOW), Series("v5", "peer", HIGH), Series("v9", "peer", HIGH)]
    )
    assert rows == [
        ["dataset", "what", "ns", "flowbuf", "what/flowbuf", "p"],
        ["v5", OWN, "102.0 ±  1%", "", "", ""],
        ["v5", "peer", "202.0 ±  0%", "102.0 ±  1%", "1.98×", "p=0.008 (n=5+5)"],
        ["v9", "peer", "202.0 ±  0%", "", "", ""],
    ]


def dump(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_files_of_both_kinds(tmp_path: Path) -> None:
    bench = dump(
        tmp_path / "bench.json",
        {"datasets": {"v5": {"samples": LOW, "peer_details": {"peer": {"samples": HIGH}}}}},
    )
    pytest_benchmark = dump(
        tmp_path / "pytest.json",
        {
            "benchmarks": [
                {
                    "name": "a",
                    "extra_info": {"dataset": "v5", "what": OWN, "samples": LOW},
                    "stats": {"data": [1]},
                },
                {"name": "test_b", "extra_info": {}, "stats": {"data": [1e-6, 2e-6]}},
            ]
        },
    )
    assert read_series(bench) == [Series("v5", OWN, LOW), Series("v5", "peer", HIGH)]
    (own, plain) = read_series(pytest_benchmark)
    assert own == Series("v5", OWN, LOW)
    assert (plain.dataset, plain.what, plain.samples) == ("", "test_b", pytest.approx([1000, 2000]))


def test_the_tables_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = dump(tmp_path / "old.json", {"datasets": {"v5": {"samples": LOW, "peer_details": {}}}})
    new = dump(tmp_path / "new.json", {"datasets": {"v5": {"samples": HIGH, "peer_details": {}}}})
    main([str(old), str(new)])
    assert capsys.readouterr().out == (
        "dataset  what             old          new  new/old                p\n"
        "v5       flowbuf  102.0 ±  1%  202.0 ±  0%    1.98×  p=0.008 (n=5+5)\n"
    )
    main([str(old)])
    assert capsys.readouterr().out.splitlines()[1].split() == ["v5", "flowbuf", "102.0", "±", "1%"]


@pytest.mark.parametrize("content", ["", "[]", "{}", "{"])
def test_a_file_that_is_not_a_result(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"a\.json: (not JSON|not a result of)"):
        main([str(path)])
    with pytest.raises(SystemExit, match="No such file"):
        main([str(path.with_name("b.json"))])
