"""What the documents promise is there."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "benchmarks/README.md", "benchmarks/peers/README.md", "ext/README.md"]
DOCUMENTS += [
    *("docs/fields.md", "docs/answers.md", "docs/presets.md"),
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
def test_links_lead_somewhere_and_nothing_is_left_to_fill_in(name: str) -> None:
    text = (ROOT / name).read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / name).parent.joinpath(link).exists(), link
    assert not re.findall(r"@[A-Z0-9]{3}\b|TODO|FIXME", text)


@pytest.mark.parametrize("name", ["README.md", "docs/columns.md", "docs/clickhouse.md", "docs/kafka.md"])
def test_python_in_documents_compiles(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S)
    assert blocks
    for block in blocks:
        compile(block, name, "exec")


def test_what_the_document_of_the_codec_says_is_so() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/codec.md").read_text(), re.S)
    assert len(blocks) == 4
    for block in blocks:
        assert "assert" in block
        exec(compile(block, "docs/codec.md", "exec", dont_inherit=True), {"__name__": "__main__"})


def test_the_collector_in_the_readme_has_written_what_it_has_got(tmp_path: Path) -> None:
    from tests.support.command import GOOD

    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
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


def test_the_schema_of_records_in_the_documents_is_all_that_they_say() -> None:
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


def test_the_schema_in_the_readme_loads() -> None:
    from flowbuf import Decoder, Schema

    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    schema = Schema.from_toml(text, "README.md")
    assert schema["firewall_event"].enabled
    assert schema["src_mac"].enabled
    assert Decoder(schema)


def test_options_in_the_readme_exist() -> None:
    from flowbuf.cli.main import COMMANDS
    from tests.support.command import flowbuf

    known = set()
    for name in COMMANDS:
        known |= set(re.findall(r"--[a-z][a-z-]*", flowbuf(name, "--help").stdout))
    shell = re.findall(r"`(--[a-z][a-z-]*)", (ROOT / "README.md").read_text())
    shell += re.findall(
        r"(?<=\s)--[a-z][a-z-]*", " ".join(re.findall(r"`(flowbuf [^`]*)`", (ROOT / "README.md").read_text()))
    )
    assert len(set(shell)) > 10
    assert set(shell) - known == {"--all"}, "an option of `flowbuf schema show`"
