"""The conformance test runner of Protocol Buffers finds no failure, in binary and in JSON."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.codec import conformance
from tests.support.npm import Missing

FEWEST = 5_500  # tests of version 33.2, without those of the text format

pytestmark = pytest.mark.expensive


def run(testee: list[str]) -> tuple[dict[str, int], str]:
    try:
        return conformance.run_suite(testee)
    except Missing as error:
        pytest.skip(f"the conformance test runner cannot run: {error}")


def test_all_required_and_recommended_tests_pass() -> None:
    counts, output = run(conformance.own_testee())
    failures = [line for line in output.splitlines() if line.startswith("ERROR, test=")]
    assert failures == []
    assert counts["successes"] >= FEWEST
    assert (counts["skipped"], counts["expected_failures"], counts["failures"]) == (0, 0, 0)


def test_the_runner_finds_failures(tmp_path: Path) -> None:
    """A testee whose JSON leaves out all zeros in lists fails."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from tests.codec import conformance_testee as testee\n"
        "right = testee.answer\n"
        "def answer(request):\n"
        "    response = right(request)\n"
        "    if 'json_payload' in response:\n"
        "        response['json_payload'] = response['json_payload'].replace('[0,', '[')\n"
        "    return response\n"
        "testee.answer = answer\n"
        "testee.main()\n"
    )
    code = f"import sys; sys.path.insert(0, {str(Path.cwd())!r}); exec(open({str(wrong)!r}).read())"
    counts, output = run([sys.executable, "-c", code.replace("'", '"')])
    assert counts["failures"] > 0
    assert "ERROR, test=Required.Proto3." in output
