"""The documentation site builds without warnings, has every public name, and needs no network."""

from __future__ import annotations

import html
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flowbuf
from flowbuf import STATUSES, Codec, Schema
from tools import make_docs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MODULES = ("flowbuf", "flowbuf.clickhouse", "flowbuf.enrich", "flowbuf.wire")
EXTERNAL = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^>]*>")
GENERATED_PAGES = sorted(
    str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if make_docs.MARK.search(page.read_text())
)


# Generated texts --------------------------------------------------------------------------------------------


def test_each_generated_text_is_on_one_page() -> None:
    used = [name for page in DOCS.rglob("*.md") for name in make_docs.MARK.findall(page.read_text())]
    assert sorted(used) == sorted(make_docs.GENERATED)


@pytest.mark.parametrize("page", GENERATED_PAGES)
def test_texts_in_the_repository_are_current(page: str) -> None:
    if page.startswith("reference/python/"):
        pytest.importorskip("griffe", reason="griffe is not installed: pip install --group docs")
    text = (DOCS / page).read_text()
    assert text == make_docs.write_again(text), "run make fields"


@pytest.mark.parametrize("module", MODULES)
def test_all_public_names_have_a_page(module: str) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install --group test")
    paths = {path for each in make_docs.PYTHON.values() for path in each}
    assert {f"{module}.{name}" for name in importlib.import_module(module).__all__} <= paths


def test_all_keys_of_a_column_are_described() -> None:
    columns, objects = make_docs.column_keys()
    assert columns.keys() | objects.keys() == set(make_docs.COLUMN_KEYS)
    assert set(objects) < set(make_docs.COLUMN_KEYS)
    page = make_docs.schema_keys()
    assert all(f"| `{key}` |" in page for key in make_docs.COLUMN_KEYS)


def test_all_settings_of_a_schema_are_described() -> None:
    page = make_docs.schema_file()
    settings = set(make_docs.loader.SETTINGS) - {"doc"}
    assert {key for key in settings if not re.search(rf"^{key} = .*# ", page, re.MULTILINE)} == set()
    assert "\n## Records\n" in page


def test_all_counters_are_explained() -> None:
    page = make_docs.counters()
    counted = [name for name, (kind, _) in STATUSES.items() if kind != "control"]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == counted


def test_all_columns_are_listed() -> None:
    page = make_docs.columns()
    for schema in map(Schema.load, ("flow", "sflow_counters")):
        assert all(f"| {column.number} | `{column.name}` |" in page for column in schema)


def test_text_is_escaped() -> None:
    assert make_docs.escape("a*b_c <d> [e] | `f*g`") == r"a\*b\_c &lt;d> \[e] \| `f*g`"


def test_pipes_in_tables_are_escaped_in_the_repository_only() -> None:
    row = f"| {make_docs.code('--format [a|b]')} | {make_docs.escape('c|d')} |"
    assert row == r"| `--format [a\|b]` | c\|d |"
    assert make_docs.unescape_pipes(row) == r"| `--format [a|b]` | c\|d |"


def test_the_python_reference_has_signatures_and_all_sections() -> None:
    page = (DOCS / "reference/python/decoding.md").read_text()
    text = page[page.index("### Decoder.encode\n") : page.index("### Decoder.messages\n")]
    assert "Decoder.encode(payload, source, received=None, *, override=None)" in text
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == ["Arguments", "Returns", "Errors"]
    assert "\n- `payload`: UDP payload, as bytes or another buffer.\n" in text


# Notebooks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", make_docs.NOTEBOOKS)
def test_notebooks_become_pages_with_their_charts(name: str) -> None:
    text = (ROOT / name).read_text()
    page, charts = make_docs.convert_notebook(ROOT / name)
    assert page.startswith("# ")
    assert page.count("```python\n") == text.count('"cell_type": "code"')
    assert len(charts) == text.count('"image/png"')
    assert all(
        f"![Chart]({chart})" in page and image.startswith(b"\x89PNG") for chart, image in charts.items()
    )


# Links ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](../reference/types.md#arrow)", "[a](../reference/types.md#arrow)"),
        ("[a](../../SECURITY.md)", "[a](../project/security.md)"),
        ("[a](../../README.md#speed)", "[a](../index.md#speed)"),
        ("[a](../README.md)", "[a](../contents.md)"),
        ("[a](../../notebooks/flows.ipynb)", "[a](../notebooks/flows.md)"),
        ("[a](../../tests/reference)", "a (`tests/reference`)"),
        ("[LICENSE](../../LICENSE)", "LICENSE"),
        ("[a](https://example.org)", "[a](https://example.org)"),
        ("[a](missing.md)", "[a](missing.md)"),
    ],
)
def test_links_lead_to_pages_of_the_site(link: str, expected: str) -> None:
    assert make_docs.relink(f"See {link}.", "docs/how-to/kafka.md") == f"See {expected}."


def test_code_is_no_link() -> None:
    block = "```python\na[0](LICENSE)\n```"
    assert make_docs.relink(f"See\n\n{block}\n", "README.md") == f"See\n\n{block}\n"


# The site ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in strict mode: a warning is an error."""
    for module in ("mkdocs", "material", "mkdocstrings", "griffe"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install --group docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


def read_pages(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.html")}


def text_of(page: str) -> str:
    """Return the text of the article of a page, without tags."""
    article = page[page.index("<article") : page.index("</article>")]
    return html.unescape(re.sub(r"<[^>]*>", "", article))


@pytest.mark.slow
def test_every_method_of_a_codec_is_described(site: Path) -> None:
    page = (site / "reference/python/codec.html").read_text()
    methods = [name for name in dir(Codec) if not name.startswith("_")]
    assert {"decode", "encode", "read"} <= set(methods)
    assert [name for name in methods if f'id="flowbuf.Codec.{name}"' not in page] == []


@pytest.mark.slow
def test_every_page_is_there(site: Path) -> None:
    names = [str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")]
    sources = filter(None, map(make_docs.site_path, [*names, *make_docs.OUTSIDE, *make_docs.NOTEBOOKS]))
    pages = read_pages(site)
    assert pages.keys() == {"404.html", *(f"{source.removesuffix('.md')}.html" for source in sources)}
    assert not [name for name, page in pages.items() if "<!-- generated:" in page]


@pytest.mark.slow
@pytest.mark.parametrize("name", flowbuf.__all__)
def test_every_public_name_is_on_one_page(site: Path, name: str) -> None:
    pages = [
        page
        for page in (site / "reference/python").glob("*.html")
        if f'id="flowbuf.{name}"' in page.read_text()
    ]
    assert len(pages) == 1


@pytest.mark.slow
def test_classes_of_the_compiled_extension_are_described(site: Path) -> None:
    page = (site / "reference/python/decoding.html").read_text()
    assert 'id="flowbuf.Decoder.encode"' in page
    text = text_of(page)
    assert "Decode one UDP payload into length-delimited messages." in text
    assert "payload (Data)" in " ".join(text.split())
    assert "Decoder.encode(self" not in text
    assert "memory_limit: int = 1 << 30" in text


@pytest.mark.slow
def test_every_command_has_a_section(site: Path) -> None:
    page = (site / "reference/commands.html").read_text()
    for context in make_docs.all_commands():
        assert f'id="{context.command_path.replace(" ", "-")}"' in page
        options = [option.opts[0] for option in context.command.params]
        assert all(option in page for option in options if option.startswith("-"))
    assert "<code>-f, --format [table|jsonl|csv|parquet|arrow]</code>" in page


@pytest.mark.slow
def test_pages_load_nothing_from_the_network(site: Path) -> None:
    for name, page in read_pages(site).items():
        assert [tag for tag in EXTERNAL.findall(page) if 'rel="canonical"' not in tag] == [], name
