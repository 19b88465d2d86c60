"""Links, code blocks, commands and options in the documents work."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/peers/README.md",
    "ext/README.md",
]
DOCUMENTS += [
    *("docs/command-line.md", "docs/python.md", "docs/schema.md"),
    *("docs/fields.md", "docs/answers.md", "docs/presets.md", "docs/limits.md"),
    *("docs/glossary.md", "CHANGELOG.md", "SECURITY.md"),
    *(
        "docs/columns.md",
        "docs/records.md",
        "docs/codec.md",
        "docs/enrichment.md",
        "docs/spark.md",
        "docs/clickhouse.md",
        "docs/kafka.md",
    ),
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_have_targets_and_no_placeholder_remains(name: str) -> None:
    text = (ROOT / name).read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / name).parent.joinpath(link).exists(), link
    assert not re.findall(r"@[A-Z0-9]{3}\b|TODO|FIXME", text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_to_headings_have_targets(name: str) -> None:
    """Check links to headings of the page itself and of other pages."""
    for page, anchor in re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", (ROOT / name).read_text()):
        target = (ROOT / name).parent / page if page else ROOT / name
        text = re.sub(r"```.*?```", "", target.read_text(), flags=re.S)
        headings = [re.sub(r"[^\w -]", "", title.lower()) for title in re.findall(r"^#+ (.+)$", text, re.M)]
        assert anchor in [heading.replace(" ", "-") for heading in headings], f"{page}#{anchor}"


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 150


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/python.md",
        "docs/schema.md",
        "docs/columns.md",
        "docs/clickhouse.md",
        "docs/kafka.md",
    ],
)
def test_python_in_documents_compiles(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S)
    assert blocks
    for block in blocks:
        compile(block, name, "exec")


def test_examples_in_the_codec_document_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/codec.md").read_text(), re.S)
    assert len(blocks) == 4
    for block in blocks:
        assert "assert" in block
        exec(compile(block, "docs/codec.md", "exec", dont_inherit=True), {"__name__": "__main__"})


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a folder with the capture that the examples of the README read."""
    from tests.support.command import flowbuf

    done = flowbuf("generate", "--protocol", "netflow9", "--flows", 1000, "-o", tmp_path / "capture.pcap")
    assert done.exit_code == 0, done.output
    return tmp_path


def test_python_in_the_readme_runs(capture: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 2
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", block], cwd=capture, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_first_commands_in_the_readme_run(tmp_path: Path) -> None:
    block = next(block for block in re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S))
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert {command[1] for command in commands} == {"generate", "inspect", "read", "query"}
    for program, *arguments in commands:
        assert program == "flowbuf"
        done = subprocess.run(
            [sys.executable, "-m", "flowbuf", *arguments], cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), arguments


def test_the_collector_in_the_documents_writes_received_flows(tmp_path: Path) -> None:
    from tests.support.command import GOOD

    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)
    (code,) = [block for block in blocks if "bind" in block]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        port = sender.getsockname()[1]
    output = tmp_path / "flows.pb"
    collector = subprocess.Popen([sys.executable, "-c", code.replace("2055", str(port))], cwd=tmp_path)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            end = time.monotonic() + 60
            while time.monotonic() < end and not (output.exists() and output.stat().st_size):
                sender.sendto(GOOD, ("127.0.0.1", port))
                time.sleep(0.1)
    finally:
        collector.kill()
        collector.wait()
    assert output.stat().st_size


def test_the_record_schema_in_the_documents_works_as_described() -> None:
    from flowbuf.schema import Column, Schema

    document = (ROOT / "docs/records.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", document, re.S)
    schema = Schema.from_toml(text, "docs/records.md")
    order = schema.message_class()(customer="a", labels={"b": "c"})
    order.items.add(article=7, change=-1)
    order.placed.FromSeconds(1700000000)
    assert type(order).FromString(order.SerializeToString()) == order
    assert schema["customer"].required
    for name in re.findall(r"^\| `(\w+) = ", document, re.M):
        assert name in Column.__dataclass_fields__


def test_the_schema_in_the_documents_loads() -> None:
    from flowbuf import Decoder, Schema

    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/schema.md").read_text(), re.S)
    schema = Schema.from_toml(text, "docs/schema.md")
    assert schema["firewall_event"].enabled
    assert schema["src_mac"].enabled
    assert Decoder(schema)


def test_schema_keys_in_the_documents_exist() -> None:
    from flowbuf.schema import Column

    keys = re.findall(r"^\| `(\w+) = ", (ROOT / "docs/schema.md").read_text(), re.M)
    assert len(keys) > 8
    assert set(keys) - {"rows"} <= set(Column.__dataclass_fields__)


def test_options_in_the_documents_exist() -> None:
    from flowbuf.cli.main import COMMANDS
    from tests.support.command import flowbuf

    known = set()
    for name in (*COMMANDS, ("schema", "show"), ("schema", "clickhouse")):
        known |= set(
            re.findall(
                r"--[a-z][a-z-]*", flowbuf(*([name] if isinstance(name, str) else name), "--help").stdout
            )
        )
    named: dict[str, set[str]] = {}
    for name in ("README.md", "docs/command-line.md", "docs/python.md", "docs/schema.md"):
        text = (ROOT / name).read_text()
        lines = re.findall(r"`(flowbuf [^`]*)`", text) + re.findall(r"^(flowbuf [^|#\n]*)", text, re.M)
        named[name] = set(re.findall(r"`(--[a-z][a-z-]*)", text))
        named[name] |= set(re.findall(r"(?<=\s)--[a-z][a-z-]*", " ".join(lines)))
    assert len(named["docs/command-line.md"]) > 15
    assert {name: options - known for name, options in named.items() if options - known} == {}
