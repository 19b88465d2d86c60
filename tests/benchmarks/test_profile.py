"""Instructions by part of the core, from the output of callgrind."""

from __future__ import annotations

import pytest

from benchmarks.profile import count_by_file, part_of, render

OUTPUT = """# callgrind format
events: Ir
fl=(1) ext/./core/decode/ipfix.tmpl.h
fn=(1) decode
10 5
+2 3
fi=(2) ext/./core/emit/message_row.h
-4 20
fe=(1)
* 1
cfi=(3) ext/core/exporter/domain.c
cfn=(2) find
calls=4 7
16 400

fl=(3)
fn=(2)
7 100
""".splitlines()


def test_instructions_belong_to_the_file_of_their_source() -> None:
    assert count_by_file(OUTPUT) == {
        "ext/./core/decode/ipfix.tmpl.h": 9,
        "ext/./core/emit/message_row.h": 20,
        "ext/core/exporter/domain.c": 100,
    }


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("/x/ext/./core/emit/message_row.h", "emit"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/include/bmi2intrin.h", "wire"),
        ("/x/ext/core/plan/plan.h", "others"),
        ("./string/memcpy.S", "others"),
    ],
)
def test_files_have_a_part(file: str, part: str) -> None:
    assert part_of(file) == part


def test_the_table_has_a_column_per_capture() -> None:
    one = dict.fromkeys(("decode", "packet", "exporter", "emit", "wire", "base", "others"), 1000.4)
    lines = render({"a": one, "b": one})
    assert lines[:3] == ["| part | a | b |", "|---|--:|--:|", "| `decode` | 1,000 | 1,000 |"]
    assert lines[-1] == "| all | 7,003 | 7,003 |"
