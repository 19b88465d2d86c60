"""Texts are plain: sentences begin with their subject or verb, are short, and use the usual words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 30  # words of a sentence
NOUN_CLAUSE = re.compile(r"(What|Whether|Where|Who|Whom|Whose|Which|How|There)\b")
UNUSUAL = re.compile(r"\b(anew|for ever|made-up|goes by|is told|says itself|besides)\b", re.IGNORECASE)

PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("ext/**/*.md"),
    *ROOT.glob("src/**/*.md"),
    *ROOT.glob("benchmarks/**/*.md"),
]
MODULES = sorted((ROOT / "src").rglob("*.py"))
C_FILES = sorted(
    path for folder in ("ext", "src") for path in (ROOT / folder).rglob("*.[ch]") if "build" not in path.parts
)


def split_sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph. Code counts as one word, and a link as its text."""
    text = re.sub(r"`[^`]*`", "X", " ".join(paragraph.split()))
    return re.split(r"(?<=[.!?])\s+", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text))


def paragraphs_of_page(text: str) -> Iterator[str]:
    """Yield the paragraphs of a Markdown page, without code, tables, lists, quotations and headings."""
    for paragraph in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n\n"):
        if not paragraph.startswith("    ") and not re.match(r"\s*(\||-|#|>|\*|<|\d+\.)", paragraph):
            yield paragraph


def first_lines_of_docstrings(text: str) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        docstring = ast.get_docstring(node) if isinstance(node, kinds) else None
        if docstring:
            yield docstring.split("\n\n")[0]


def find_faults(paragraph: str) -> list[str]:
    """Return the sentences that are not plain."""
    return [
        sentence
        for sentence in split_sentences(paragraph)
        if (NOUN_CLAUSE.match(sentence) and not sentence.endswith("?"))
        or len(sentence.split()) > LONGEST
        or UNUSUAL.search(sentence)
    ]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_pages(path: Path) -> None:
    assert [fault for each in paragraphs_of_page(path.read_text()) for fault in find_faults(each)] == []


def test_docstrings() -> None:
    assert len(MODULES) > 100
    faults = {
        f"{name(path)}: {fault}"
        for path in MODULES
        for each in first_lines_of_docstrings(path.read_text())
        for fault in find_faults(each)
    }
    assert faults == set()


def test_comments_in_c() -> None:
    assert len(C_FILES) > 150
    faults = set()
    for path in C_FILES:
        for comment in re.findall(r"/\*(.*?)\*/", path.read_text(), re.DOTALL):
            if NOUN_CLAUSE.match(comment.strip()) or UNUSUAL.search(comment):
                faults.add(f"{name(path)}: {' '.join(comment.split())[:80]}")
    assert faults == set()


@pytest.mark.parametrize(
    "fault", ["What it is.", "It is told the schema.", " ".join(["word"] * 31) + ".", "Good. Whether it is."]
)
def test_a_fault_is_found(fault: str) -> None:
    assert len(find_faults(fault)) == 1
    assert find_faults("Return the schema. Why is that so? What is it?") == []
