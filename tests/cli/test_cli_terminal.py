"""Control characters of the input never reach a terminal. JSON output always escapes them."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowbuf.cli.output.progress import show_steps
from flowbuf.cli.output.terminal import escape_line
from flowbuf.cli.output.writers import open_file_writer
from flowbuf.io.output_file import OutputFile
from flowbuf.schema import Schema
from flowbuf.targets.controls import CONTROLS
from flowbuf.targets.flow_text import escape_json, to_json_string
from tests.support.cases import slow, slow_after
from tests.support.command import flowbuf, json_lines, pcap, write
from tests.support.datagrams import VARIABLE, data_set, ipfix, template, template_set, u32

EVIL = "a\x1b]0;owned\x07\x9b31m\x7f\u202egnp\u2066\u061c\u200e\u2028z"
SAFE = CONTROLS.sub("\ufffd", EVIL)
SCHEMA = """
[schema]
extends = "flow"
name = "evil"
[[column]]
name = "label"
number = 1000
type = "string"
sources = ["ipfix:82"]
enabled = true
doc = "a\\u001b]0;owned\\u0007\\u009b31m\\u007f\\u202egnp\\u2066\\u061c\\u200e\\u2028z"
"""


def on_a_terminal(
    folder: Path, *arguments: str, term: str = "dumb", without: tuple[str, ...] = ("stdin",)
) -> tuple[int, str]:
    """Run a command on a terminal. Return its exit status and its complete output.

    Standard streams in `without` are /dev/null. The others are the terminal.
    """
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": "200", "PYTHONUTF8": "1"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "flowbuf", *arguments],
        cwd=folder,
        env=environment,
        **{name: subprocess.DEVNULL if name in without else side for name in ("stdin", "stdout", "stderr")},
    )
    os.close(side)
    written = b""
    while chunk := read_some(main):
        written += chunk
    os.close(main)
    return process.wait(20), written.decode().replace("\r\n", "\n")


def read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other side is closed
        return b""


def controls(text: str) -> set[str]:
    return set(CONTROLS.findall(text)) - {"\n", "\t"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = EVIL.encode()
    records = data_set(256, bytes([len(text)]) + text + u32(7))
    capture = pcap(ipfix(template_set(template(256, (82, VARIABLE), (1, 4)))), ipfix(records))
    write(tmp_path / "a.pcap", capture)
    write(tmp_path / f"{EVIL}.pcap", capture)
    write(tmp_path / f"{EVIL}.cut.pcap", capture[:-5])
    write(tmp_path / f"{EVIL}.bad.pcap", b"bad")
    write(tmp_path / "evil.toml", SCHEMA.encode())
    write(tmp_path / f"{EVIL}.toml", SCHEMA.replace('"ipfix:82"', '"nothing:82"').encode())
    pq.write_table(pa.table({EVIL: [EVIL, "b"]}), tmp_path / "evil.parquet")
    schema = ("--schema", str(tmp_path / "evil.toml"))
    assert flowbuf("encode", tmp_path / "a.pcap", "-o", tmp_path / "a.pb", *schema).exit_code == 0
    return tmp_path


READ = ("read", "--schema", "evil.toml")
QUERY = ("query", "--schema", "evil.toml")
SHOWN = [
    *[(*READ, "-f", form, "a.pcap") for form in ("table", "csv")],
    (*QUERY, "-f", "table", f'SELECT label, [label] AS "{EVIL}" FROM flows', "a.pcap"),
    ("schema", "show", "--all", "evil.toml"),
    ("schema", "proto", "evil.toml"),
    ("inspect", f"{EVIL}.pcap"),
    ("read", f"{EVIL}.cut.pcap"),
    (EVIL,),
]
SHOWN_TOO = [
    *[(*READ, "-f", form, "a.pb") for form in ("table", "csv")],
    ("query", "-f", "table", "FROM flows", "evil.parquet"),
    (*READ, "-f", "table", "--where", "bytes > 0", "a.pcap"),
    (*QUERY, "-f", "csv", f'SELECT label, [label] AS "{EVIL}" FROM flows', "a.pcap"),
    ("query", "-f", "csv", "FROM flows", "evil.parquet"),
    ("consume", "--kafka", "localhost:1", "--topic", EVIL + "{", "--group", "g"),
    ("schema", "diff", "evil.toml", f"{EVIL}.toml"),
    ("read", f"{EVIL}.bad.pcap"),
    ("encode", f"{EVIL}.cut.pcap", "-o", "x.pb"),
    ("encode", f"{EVIL}.none", "-o", "x.pb"),
    ("read", "a.pcap", "-o", f"{EVIL}.pdf"),
    ("produce", f"{EVIL}.none", "--kafka", "localhost:1", "--topic", "t"),
    ("schema", "check", f"{EVIL}.toml"),
    ("read", "a.pcap", f"--{EVIL}"),
    ("bench", f"{EVIL}.none"),
]
JSON = [
    (*READ, "-f", "jsonl", "a.pcap"),
    (*QUERY, "-f", "jsonl", f'SELECT label, [label] AS l, map {{label: 1}} AS "{EVIL}" FROM flows', "a.pcap"),
    ("inspect", "--json", f"{EVIL}.pcap"),
]
JSON_TOO = [
    (*READ, "-f", "jsonl", "a.pb"),
    ("schema", "show", "--all", "--json", "evil.toml"),
    (*READ, "-f", "jsonl", "--where", "bytes > 0", "a.pcap"),
    ("query", "-f", "jsonl", "FROM flows LIMIT 1", "evil.parquet"),
]


@pytest.mark.parametrize("arguments", [*SHOWN, *slow(*SHOWN_TOO)], ids=str)
def test_control_characters_are_replaced_on_a_terminal(folder: Path, arguments: tuple[str, ...]) -> None:
    _, text = on_a_terminal(folder, *arguments)
    assert controls(text) == set()
    assert "owned" in text
    assert "\ufffd" in text or "\\x1b" in text


@pytest.mark.parametrize("arguments", [*JSON, *slow(*JSON_TOO)], ids=str)
def test_control_characters_are_escaped_in_json(folder: Path, arguments: tuple[str, ...]) -> None:
    _, text = on_a_terminal(folder, *arguments)
    assert controls(text) == set()
    assert "\\u001b]0;owned\\u0007\\u009b31m\\u007f\\u202egnp\\u2066\\u061c\\u200e\\u2028z" in text
    assert any(EVIL in each for each in walk(json.loads(text)))


def walk(value: object) -> list[str]:
    """Return all texts in a JSON value."""
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in walk(each)]
    if isinstance(value, list):
        return [text for each in value for text in walk(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize(
    "arguments", [SHOWN[0], ("schema", "show", "--all", "evil.toml"), ("inspect", f"{EVIL}.pcap")]
)
def test_styles_are_kept(folder: Path, arguments: tuple[str, ...]) -> None:
    _, text = on_a_terminal(folder, *arguments, term="xterm-256color")
    styles = re.compile("\x1b\\[[0-9;]*[mK]|\x1b\\[\\?25[lh]|\x1b\\[[0-9]*[AK]|\r")
    assert styles.search(text)
    assert controls(styles.sub("", text)) == set()


def test_messages_next_to_a_progress_bar_are_clean(folder: Path) -> None:
    status, text = on_a_terminal(folder, "encode", f"{EVIL}.cut.pcap", "-o", "x.pb", term="xterm-256color")
    assert status == 1
    assert f"flowbuf: {escape_line(EVIL)}.cut.pcap" in text
    assert "\x1b]0;" not in text
    assert "\u202e" not in text


def test_a_progress_bar_shows_clean_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with show_steps(2) as show:
        show(f"[red]{EVIL}", 1)
    assert f"[red]{SAFE}" in terminal.getvalue()
    assert "\x1b]0;" not in terminal.getvalue()


FORGED = "a\nflowbuf: forged\r\x1b[1A"
ESCAPED = "a\\nflowbuf: forged\\r\\x1b[1A"
NAMES = [f"{FORGED}.{kind}" for kind in ("none", "bad", "cut")]
ERRORS = [
    *[("read", name) for name in NAMES],
    *[("read", "--strict", name) for name in NAMES],
    *[("read", "-o", "out/", name) for name in NAMES],
    *[("encode", "-o", "x.pb", name) for name in NAMES],
    *[("query", "FROM flows", name) for name in NAMES],
    *[("inspect", name) for name in NAMES],
    ("read", "good", "-f", "csv", "-o", f"{FORGED}/none"),
    ("read", "good", "-o", f"{FORGED}.none"),
    ("encode", "good", "-o", f"{FORGED}/none.pb"),
    ("encode", "good", "-o", f"{FORGED}.pb"),
    ("encode", "good", "-o", "x.pb", "--state", f"{FORGED}.bad"),
    ("read", "good", "--schema", f"{FORGED}.none"),
    ("read", "good", "--schema", f"{FORGED}.toml"),
    ("read", "good", "--enrich", f"{FORGED}.none"),
    ("read", "good", "--enrich", f"{FORGED}.toml"),
    ("schema", "check", f"{FORGED}.toml"),
    ("schema", "diff", f"{FORGED}.toml", "flow"),
    ("generate", "--protocol", "ipfix", "--flows", "1", "-o", f"{FORGED}/none"),
    ("produce", f"{FORGED}.none", "--kafka", "localhost:1", "--topic", "t"),
    ("bench", f"{FORGED}.none"),
    ("query", "FROM flows", f"{FORGED}.parquet"),
]


@pytest.mark.parametrize("arguments", ERRORS, ids=repr)
def test_file_names_cannot_forge_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    good = pcap(ipfix(template_set(template(256, (1, 4))), data_set(256, u32(7))))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good", good)
    write(tmp_path / f"{FORGED}.cut", good[:-5])
    for bad in ("bad", "toml", "parquet", "pb.proto"):
        write(tmp_path / f"{FORGED}.{bad}", b"PAR1")
    result = flowbuf(*arguments)
    stderr = result.stderr
    assert ESCAPED in result.output
    assert FORGED not in result.output
    assert controls(stderr) == set()
    assert all(line.startswith(("flowbuf: ", "Error: ")) for line in stderr.splitlines())
    assert not any(line.startswith("flowbuf: forged") for line in stderr.splitlines())


BINARY = [
    ("encode", "a.pcap", "-o", "-"),
    ("read", "a.pcap", "-f", "parquet"),
    ("read", "a.pcap", "-f", "arrow"),
    ("generate", "--protocol", "ipfix", "--flows", "1", "-o", "-"),
]


@pytest.mark.parametrize("arguments", slow_after(2, BINARY), ids=str)
def test_binary_formats_are_not_written_to_a_terminal(folder: Path, arguments: tuple[str, ...]) -> None:
    status, text = on_a_terminal(folder, *arguments)
    assert (status, text.count("\n")) == (2, 1)
    assert text.startswith("Error: ")


OVERWRITES = [
    ("encode", "a.pcap", "-o", "out"),
    ("read", "a.pcap", "-f", "csv", "-o", "out"),
    ("read", "a.pcap", "-f", "csv", "-o", "folder/"),
    ("query", "SELECT bytes FROM flows", "a.pcap", "-f", "csv", "-o", "out"),
    ("generate", "--protocol", "ipfix", "--flows", "1", "-o", "out"),
]


@pytest.mark.parametrize("arguments", slow_after(1, OVERWRITES), ids=str)
def test_a_terminal_needs_force_to_replace_a_file(folder: Path, arguments: tuple[str, ...]) -> None:
    target = folder / ("folder/a.csv" if arguments[-1] == "folder/" else "out")
    status, text = on_a_terminal(folder, *arguments, without=())
    assert (status, target.is_file()) == (0, True), text
    target.write_bytes(b"old")
    status, text = on_a_terminal(folder, *arguments, without=())
    assert (status, target.read_bytes()) == (2, b"old")
    name = target.relative_to(folder)
    assert text == f"Error: {name}: exists already; replace it with --force, or name another file\n"
    status, text = on_a_terminal(folder, *arguments, "--force", without=())
    assert (status, target.read_bytes() != b"old") == (0, True), text


@pytest.mark.parametrize("without", ["stdin", "stdout", "stderr"])
def test_scripts_and_pipelines_replace_a_file(folder: Path, without: str) -> None:
    (folder / "out").write_bytes(b"old")
    status, _ = on_a_terminal(folder, *OVERWRITES[0], without=(without,))
    assert status == 0
    assert (folder / "out").read_bytes() != b"old"


def test_consume_needs_force_too(folder: Path) -> None:
    pytest.importorskip("confluent_kafka")
    (folder / "out").write_bytes(b"old")
    arguments = ("consume", "--kafka", "localhost:1", "--topic", "t", "-f", "csv", "-o", "out")
    status, text = on_a_terminal(folder, *arguments, without=())
    assert (status, text.partition(";")[0]) == (2, "Error: out: exists already")


def test_a_suggested_schema_needs_force_too(folder: Path) -> None:
    (folder / "mine.toml").write_bytes(b"old")
    status, text = on_a_terminal(folder, "schema", "suggest", "a.pcap", "-o", "mine.toml", without=())
    assert (status, text.partition(";")[0]) == (2, "Error: mine.toml: exists already")
    assert (folder / "mine.toml").read_bytes() == b"old"


def test_devices_need_no_force(folder: Path) -> None:
    status, text = on_a_terminal(folder, "encode", "a.pcap", "-o", "/dev/null", without=())
    assert status == 0, text


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_terminal_devices_are_treated_as_terminals(form: str) -> None:
    main, side = pty.openpty()
    with OutputFile(os.ttyname(side)) as file:
        assert file.is_terminal
        assert not file.is_regular
        if form == "csv":
            schema = Schema.load("flow").only("exporter_name")
            with open_file_writer("csv", file, schema, True, False, None) as writer:
                writer.write(pa.RecordBatch.from_pydict({"exporter_name": [EVIL]}))
    if form == "csv":
        text = read_some(main).decode()
        assert controls(text) == {"\r"}
        assert SAFE in text
    os.close(main)
    os.close(side)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_pipes_and_files_get_the_original_value(folder: Path, form: str) -> None:
    arguments = (*READ[:2], folder / "evil.toml", "-f", form, folder / "a.pcap")
    result = flowbuf(*arguments)
    if form == "jsonl":
        assert json_lines(result)[0]["label"] == EVIL
    else:
        assert EVIL in result.stdout
    assert flowbuf(*arguments, "-o", folder / "x").exit_code == 0
    assert (folder / "x").read_bytes() == result.stdout_bytes


def test_json_strings_escape_control_characters() -> None:
    for code in (*range(0x3000), 0xFEFF, 0x1F600):
        text = to_json_string(chr(code))
        assert json.loads(text) == chr(code)
        assert controls(text) == set()
    assert to_json_string("é日\x9b") == '"é日\\u009b"'
    assert escape_json('{\n  "a": "\u202e"\n}') == '{\n  "a": "\\u202e"\n}'
