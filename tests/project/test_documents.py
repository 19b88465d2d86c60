"""Links, code blocks, commands and options in documents work."""

from __future__ import annotations

import gzip
import inspect
import json
import math
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from tests.support.broker import Broker
from tests.support.command import GOOD, generated, pcap, write
from tests.support.datagrams import (
    VARIABLE,
    data_set,
    ipfix,
    options_template,
    options_template_set,
    template,
    template_set,
    u32,
    variable,
)
from tests.support.documents import LANGUAGES, RUN, Run, check_output, read_blocks, run_page, services_of
from tools import make_docs

ROOT = Path(__file__).parents[2]
PAGES = sorted({*make_docs.OUTSIDE, *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))})
BLOCKS = {page: list(read_blocks((ROOT / page).read_text())) for page in PAGES}
SERVICES = {page: services for page in PAGES if (services := services_of(BLOCKS[page]))}
RUNNING = [page for page in PAGES if any(block.runs_with(()) for block in BLOCKS[page])]
NAMES = ROOT / "examples/names.pcap"
FAST_PAGES = ("docs/tutorials/", "docs/how-to/python.md", "docs/how-to/columns.md")
COMMANDS_OF_A_FAST_PAGE = 4

# Addresses of brokers in pages.
BROKERS = ("192.0.2.1:9092", "127.0.0.1:9092", "localhost:9092")
REGISTRY = "http://localhost:8081"
MODULES = {"kafka": "confluent_kafka", "registry": "confluent_kafka", "chdb": "chdb", "spark": "pyspark"}


# Links ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_links_have_targets_and_no_placeholder_remains(name: str) -> None:
    text = (ROOT / name).read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / name).parent.joinpath(link).exists(), link
    assert not re.findall(r"@[A-Z0-9]{3}\b|TODO|FIXME", text)


@pytest.mark.parametrize("name", PAGES)
def test_links_to_headings_have_targets(name: str) -> None:
    """Check links to headings of the page itself and of other pages. mkdocs checks those of the site."""
    for page, anchor in re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", (ROOT / name).read_text()):
        target = (ROOT / name).parent / page if page else ROOT / name
        text = re.sub(r"```.*?```", "", target.read_text(), flags=re.S)
        headings = [re.sub(r"[^\w -]", "", title.lower()) for title in re.findall(r"^#+ (.+)$", text, re.M)]
        assert anchor in [heading.replace(" ", "-") for heading in headings], f"{page}#{anchor}"


def test_the_index_lists_all_pages() -> None:
    """Except those of the Python reference, which has an index of its own."""
    index = (ROOT / "docs/README.md").read_text()
    names = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/*/*.md")]
    assert [name for name in names if f"({name})" not in index] == []


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 150


# Code blocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_run_or_has_a_reason(name: str) -> None:
    """A block that is neither has a language that cannot be run."""
    assert (ROOT / name).read_text().count("\n```") == 2 * len(BLOCKS[name])
    ran = False
    for block in BLOCKS[name]:
        where = f"{name}:{block.line}"
        assert block.language in LANGUAGES, where
        assert not block.mark or block.reason or block.needs or block.is_output, where
        assert block.needs <= MODULES.keys(), where
        assert not block.is_output or ran, f"{where}: no block before it is run"
        if block.language in RUN and not block.title:
            assert block.reason or block.runs_with(MODULES), where
            ran = not block.reason


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that pages take for granted."""
    write(tmp_path / "capture.pcap", generated("netflow9", 1000))
    write(tmp_path / "sflow.pcap", generated("sflow", 100))
    for name in ("released", "next"):
        (tmp_path / f"{name}.toml").write_text('[schema]\nname = "mine"\nextends = "flow"\n')
    return tmp_path


def with_speed(page: str) -> object:
    """Mark most pages as slow, and those with many commands."""
    commands = sum(
        block.code.count("\n") for block in BLOCKS[page] if block.language == "sh" and not block.mark
    )
    fast = page == "README.md" or (page.startswith(FAST_PAGES) and commands <= COMMANDS_OF_A_FAST_PAGE)
    return pytest.param(page, marks=[] if fast else [pytest.mark.slow])


@pytest.mark.parametrize("page", [with_speed(page) for page in RUNNING])
def test_blocks_run(page: str, folder: Path) -> None:
    """All blocks that need no service."""
    run_page(page, folder, prepare(page, folder))


@pytest.mark.slow
@pytest.mark.parametrize("page", SERVICES)
def test_blocks_that_need_services_run(page: str, folder: Path, request: pytest.FixtureRequest) -> None:
    run = prepare(page, folder)
    run.services = sorted(SERVICES[page])
    for service in run.services:
        reason = f"{MODULES[service]} is not installed: pip install --group {service}"
        pytest.importorskip(MODULES[service], reason=reason)
    if "kafka" in run.services:
        broker: Broker = request.getfixturevalue("own_broker")
        run.replace |= dict.fromkeys(BROKERS, broker.servers)
    if "registry" in run.services:
        run.replace[REGISTRY] = request.getfixturevalue("registry")
    run_page(page, folder, run)


def prepare(page: str, folder: Path) -> Run:
    """Write the files that only one page needs."""
    if page == "docs/how-to/options-data.md":
        (folder / "examples").mkdir()
        write(folder / "examples/names.pcap", NAMES.read_bytes())
    if page == "docs/how-to/spark.md":
        (folder / "captures").mkdir()
        write(folder / "captures/capture.pcap.gz", gzip.compress(generated("netflow9", 1000)))
    return Run()


def test_the_example_of_names_is_current() -> None:
    assert NAMES.read_bytes() == capture_with_names()


def capture_with_names() -> bytes:
    """Return a capture of options records that name two interfaces and a VRF, and of two flows."""
    paris = u32(335) + b"xe-0/0/1".ljust(16, b"\0") + variable(b"to Paris")
    london = u32(336) + b"xe-0/0/2".ljust(16, b"\0") + variable(b"to London")
    names = ipfix(
        options_template_set(
            options_template(256, [(10, 4)], [(82, 16), (83, VARIABLE)]),
            options_template(257, [(234, 4)], [(236, VARIABLE)]),
        ),
        data_set(256, paris, london),
        data_set(257, u32(7) + variable(b"customer-a")),
    )
    flows = ipfix(
        template_set(template(300, (1, 4), (10, 4), (234, 4), (51, 4, 32473))),
        data_set(300, *(b"".join(map(u32, each)) for each in ((1500, 335, 7, 0x0A000001), (64, 336, 8, 0)))),
        sequence=3,
    )
    return pcap(names, flows)


def test_the_collector_in_the_documents_writes_received_flows(tmp_path: Path) -> None:
    (code,) = [block.code for block in BLOCKS["docs/how-to/collector.md"] if "Collector(" in block.code]
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


def test_a_different_output_is_found() -> None:
    check_output("a\n…\nz … 1\n", "a  \nb\nc\nz and 1\n", "page")
    for said in ("a\nb\nz and 2\n", "a\nb\n", "a\nz and 1\nmore\n"):
        with pytest.raises(AssertionError, match="the output is"):
            check_output("a\n…\nz … 1\n", said, "page")


def test_a_block_that_fails_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for code in ("```sh\nfalse\n```", "```python\nassert False\n```"):
        page.write_text(code)
        with pytest.raises(AssertionError):
            run_page(str(page), tmp_path)


def test_the_payloads_in_the_documents_have_their_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(next(block.code for block in BLOCKS["docs/how-to/python.md"] if block.language == "python"), names)
    assert (names["received"], names["times"][0]) == (1_735_689_600_000_000_000,) * 2
    time_received = names["batch"].select("time_received").to_arrow().column(0)
    assert time_received[0].as_py().year == 2025


# Schemas ----------------------------------------------------------------------------------------------------


def test_the_object_schema_in_the_documents_works_as_described() -> None:
    from flowbuf.schema import Schema

    (text,) = [block.code for block in BLOCKS["docs/how-to/object-schemas.md"] if block.language == "toml"]
    schema = Schema.from_toml(text, "docs/how-to/object-schemas.md")
    order = schema.message_class()(customer="a", labels={"b": "c"})
    order.items.add(article=7, change=-1)
    order.placed.FromSeconds(1700000000)
    assert type(order).FromString(order.SerializeToString()) == order
    assert schema["customer"].required


def test_the_schema_in_the_documents_loads() -> None:
    from flowbuf import Decoder, Schema

    (text,) = [block.code for block in BLOCKS["docs/how-to/custom-columns.md"] if block.language == "toml"]
    schema = Schema.from_toml(text, "docs/how-to/custom-columns.md")
    assert schema["firewall_event"].enabled
    assert schema["src_mac"].enabled
    assert Decoder(schema)


# Figures and paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["kafka", "parquet"])
def test_the_sizes_of_a_pipeline_follow_from_the_measured_rates(output: str) -> None:
    page = (ROOT / "docs/explanation/sizing.md").read_text()
    results = json.loads((ROOT / "benchmarks/collector.json").read_text())
    millions = f"{results['outputs']['rates'][output]['median'] / 1e6:.2f}"
    assert f"| {millions} million flows/s per processor |" in page
    processors = [math.ceil(2 * flows / float(millions)) for flows in (1, 10, 100)]
    assert f"| 1 M ÷ {millions} M × 2 | {' | '.join(map(str, processors))} |" in page


def test_the_unit_of_systemd_has_the_paths_of_the_documents() -> None:
    unit = (ROOT / "examples/collector/flowbuf.service").read_text()
    ((program, file),) = re.findall(r"^ExecStart=(\S+) collect (\S+)$", unit, re.M)
    page = (ROOT / "docs/how-to/operate.md").read_text()
    assert f"python3 -m venv {program.removesuffix('/bin/flowbuf')}\n" in page
    assert f" collector.toml {file}\n" in page


# Commands and options ---------------------------------------------------------------------------------------


def examples_of(command: click.Command) -> list[str]:
    (paragraph,) = re.findall(r"\x08\nExamples:\n(.*)", inspect.cleandoc(command.help or ""), re.DOTALL)
    return [line.strip() for line in paragraph.split("\n")]


@pytest.mark.parametrize("context", list(make_docs.all_commands()), ids=lambda context: context.command_path)
def test_examples_of_help_texts_can_be_parsed(context: click.Context) -> None:
    command, path = context.command, context.command_path
    names = path.split()
    for line in examples_of(command):
        assert line.count("flowbuf ") == 1, line
        words = shlex.split(line.removeprefix("tcpdump -w - udp port 2055 | "))
        end = next((place for place, word in enumerate(words) if word in ("|", ">", "&&")), len(words))
        assert words[: len(names)] == names, line
        if isinstance(command, click.Group):
            assert words[len(names)] in command.commands, line
        else:
            command.make_context(path, words[len(names) : end])


def test_options_in_the_documents_exist() -> None:
    known = {
        option
        for context in make_docs.all_commands()
        for each in context.command.params
        for option in each.opts
    }
    known |= {"--help", "--version"}
    named: dict[str, set[str]] = {}
    for name in PAGES:
        if not name.startswith(("benchmarks", "ext", "CONTRIBUTING")):
            text = (ROOT / name).read_text()
            lines = re.findall(r"`(flowbuf [^`]*)`", text) + re.findall(r"^(flowbuf [^|#\n]*)", text, re.M)
            named[name] = set(re.findall(r"`(--[a-z][a-z-]*)", text))
            named[name] |= set(re.findall(r"(?<=\s)--[a-z][a-z-]*", " ".join(lines)))
    assert len(named["docs/how-to/captures.md"]) > 12
    assert {name: options - known for name, options in named.items() if options - known} == {}
