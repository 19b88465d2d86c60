"""The shape of the code: who may know whom, what the core may ask of the system, and that every status is alive."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ROOT / "ext/core"
PACKAGE = ROOT / "src/flowbuf"

# The core's files, from the ground up: each includes only what stands before it. Without a suffix, a header and its .c.
# (A .inc is compiled for each emitter; decode.inc puts them together.)
LAYERS = [
    *("base", "spares", "format", "counters", "source", "wire", "plan", "lanes", "slots", "filled", "row"),
    *("arrow", "batch", "table", "columns"),
    *("arrow_view", "address_text", "arrow_convert", "arrow_field", "arrow_rows.h", "arrow_rows.inc"),
    *("arrow_rows", "arrow_rows_bmi2", "arrow_rows_avx512", "arrow_encode"),
    *("datagram", "template.h", "operations", "template", "sequence", "map", "exporter.h", "eviction", "exporter"),
    *("context", "early", "options", "template_set", "emitter", "packet.h", "tunnel", "packet"),
    *("sflow.h", "pattern.h", "lesson", "pattern", "decode"),
    *("value.inc", "list.inc", "derived.inc", "packet.inc", "sub_template.inc", "run.inc", "record.inc"),
    *("netflow5.inc", "ipfix.inc", "sflow.inc", "sflow_counters.inc", "decode.inc"),
    *("decode_row", "decode_row_bmi2", "decode_row_avx512", "decode_columns", "decode_columns_avx512"),
    *("message", "message_columns.h", "message_rows.inc", "message_columns", "message_columns_bmi2"),
    "codec",
    *("link", "fragments", "capture"),
    *("generate_traffic", "generate.h", "generate_internal", "generate_netflow", "generate_packet", "generate_sflow"),
    "generate",
]

# Modules and folders of the package, and what each may import of it besides itself.
PACKAGE_LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "elements": {"errors"},
    "content": {"errors"},
    "documents": set(),
    "schema": {
        "errors",
        "documents",
        "elements",
        "targets",
    },  # Schema.to_proto and its like hand themselves to a target
    "targets": {"errors", "schema", "text"},
    "_core": {"errors"},
    "text": {"schema", "_core"},
    "rows": {"schema", "targets", "text"},
    "sql": {"errors", "schema", "rows"},
    "plan": {"errors", "elements", "schema", "_core"},
    "wire": {"errors", "schema", "_core", "plan"},
    "statuses": {"_core"},
    "capture": {"errors", "content", "_core", "statuses"},
    "batch": {"errors", "schema", "targets", "_core"},
    "decoder": {"errors", "schema", "_core", "plan", "batch"},
    "kafka": {"errors"},
    "registry": {"errors", "documents", "schema", "kafka"},
    "sinks": {"errors", "schema", "targets", "_core", "batch", "kafka", "registry"},
    "protofile": {"errors", "schema", "sinks"},
    "messages": {"errors", "content", "schema", "_core", "plan"},
    "encode": {"errors", "schema", "_core", "capture", "decoder", "sinks", "protofile"},
    "columns": {
        *("errors", "content", "schema", "_core", "plan", "batch", "capture", "decoder", "messages", "protofile"),
    },
    "clickhouse": {"errors", "schema", "targets", "batch"},
    "finder": {"errors", "schema", "kafka", "registry", "protofile"},
    "records": {"errors", "schema", "_core", "plan", "batch"},
    "partitions": {"sinks"},
    "joining": {"kafka"},
    "consumer": {"errors", "schema", "batch", "kafka", "registry", "sinks", "finder", "records"}
    | {"partitions", "joining"},
    "spark": {"schema", "targets", "_core", "batch", "columns"},
    "state": {"errors", "documents", "_core", "content", "decoder", "sinks"},
    "enrich": {"errors", "documents", "schema", "targets"},
    "codec": {"errors", "schema", "targets", "_core", "batch", "columns"},
    "numbering": set(),
    "bench": {"errors", "schema", "_core", "capture", "decoder", "numbering"},
}

# What the core may want of the C library: no input, no output, no clock, no locale.
LIBRARY = {
    *("memcmp", "memcpy", "memmove", "memset", "strcmp", "strlen", "qsort", "calloc", "realloc", "free"),
    *("__assert_fail", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"),
    *("__memcpy_chk", "__memmove_chk", "__memset_chk"),
    *(
        "__cpu_model",
        "__cpu_features2",
        "__cpu_indicator_init",
    ),  # of the compiler's own library: what the processor can do
}


def core_files(*suffixes: str) -> list[Path]:
    return sorted(path for path in CORE.iterdir() if path.suffix in suffixes)


def layer_of(name: str) -> str:
    return name if name in LAYERS else name.rpartition(".")[0]


# The core -------------------------------------------------------------------------------------------------------------


def test_core_does_not_know_python() -> None:
    for path in core_files(".h", ".c", ".inc"):
        assert "Python.h" not in path.read_text(), path


@pytest.mark.parametrize("path", core_files(".h", ".c", ".inc"), ids=lambda path: path.name)
def test_core_includes_only_what_is_below(path: Path) -> None:
    own = LAYERS.index(layer_of(path.name))
    for included in re.findall(r'#include "(.+?)"', path.read_text()):
        assert LAYERS.index(layer_of(included)) < own or layer_of(included) == layer_of(path.name), included


def test_every_header_stands_by_itself() -> None:
    """A header names all that it needs, so the order of includes does not matter."""
    compiler = find_tool(os.environ.get("CC", "cc"))
    for path in core_files(".h"):
        if path.name == "emitter.h":  # is for whoever names an emitter
            continue
        command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def find_tool(name: str) -> str:
    tool = shutil.which(name)
    if tool is None:
        pytest.skip(f"{name} is not installed")
    return tool


@pytest.fixture(scope="module")
def objects() -> list[Path]:
    """The core as it is shipped: optimised, without assertions."""
    find_tool(os.environ.get("CC", "cc"))
    subprocess.run([find_tool("make"), "-C", ROOT / "ext", "VARIANT=bench", "core"], check=True, capture_output=True)
    return sorted((ROOT / "ext/build/bench/core").glob("*.o"))


def run_tool(name: str, *arguments: object) -> str:
    command = [find_tool(name), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_core_asks_next_to_nothing_of_the_system(objects: list[Path]) -> None:
    needed: set[str] = set()
    given: set[str] = set()
    for path in objects:
        needed |= set(re.findall(r"^\s+U (\S+)$", run_tool("nm", "-u", path), re.MULTILINE))
        given |= set(re.findall(r" [A-TV-Z] (\S+)$", run_tool("nm", path), re.MULTILINE))
    assert {"fb_row_decode", "fb_capture_scan"} <= given
    assert needed - given - LIBRARY == set()
    assert all(name.startswith("fb_") for name in given)


def test_core_has_no_globals(objects: list[Path]) -> None:
    """Nothing writable: all state is in structs that somebody owns. Constant tables of pointers are .data.rel.ro."""
    for path in objects:
        sections = dict(re.findall(r"^\s*\d+ (\S+)\s+([0-9a-f]{8})", run_tool("objdump", "-h", path), re.MULTILINE))
        assert sections, path
        for name, size in sections.items():
            writable = name.startswith((".data", ".bss", ".tdata", ".tbss")) and not name.startswith(".data.rel.ro")
            assert not writable or int(size, 16) == 0, (path.name, name)


def test_fast_path_is_inlined(objects: list[Path]) -> None:
    """What appends a plain value is no function of its own."""
    (path,) = (path for path in objects if path.name == "decode_row.o")
    names = set(re.findall(r" [tT] (\S+)$", run_tool("nm", path), re.MULTILINE))
    assert "fb_row_decode" in names
    fast = {"fb_row_put_uint", "fb_row_put_ip", "fb_row_begin", "fb_row_finish", "fb_wire_put_varint", "run_operations"}
    assert not names & fast


# Statuses -------------------------------------------------------------------------------------------------------------


def read_statuses() -> dict[str, str]:
    """Constant -> name, of every status."""
    found = re.findall(r"X\((\w+), \"(\w+)\", (?:CONTROL|FAULT|LOSS|NOTE),", (CORE / "base.h").read_text())
    assert len(found) > 40
    return dict(found)


def read_all(*patterns: str) -> str:
    return "\n".join(path.read_text() for pattern in patterns for path in ROOT.glob(pattern))


def test_every_status_is_given_by_the_core() -> None:
    """Python decompresses captures and gives the status of damage to the compression."""
    code = "\n".join(path.read_text() for path in core_files(".c", ".inc"))
    ungiven = [name for name in read_statuses() if not re.search(rf"\bFB_{name}\b", code)]
    assert ungiven == ["DAMAGED_COMPRESSION"]
    assert '"damaged_compression"' in (PACKAGE / "capture.py").read_text()


def test_every_status_is_moved_by_a_test() -> None:
    """By its constant in C, or by its name as a counter in C or Python. This file's own words do not count."""
    tests = read_all("ext/tests/test_*.c") + "".join(
        path.read_text() for path in (ROOT / "tests").glob("test_*.py") if path.name != Path(__file__).name
    )
    untested = [
        name
        for constant, name in read_statuses().items()
        if not re.search(rf"\bFB_{constant}\b|\b{name}=\d|[\"']{name}[\"']", tests)
    ]
    assert untested == []


# The package ----------------------------------------------------------------------------------------------------------


def imports_of(path: Path) -> set[str]:
    """Modules and folders of the package that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "flowbuf":
            names = [f"flowbuf.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("flowbuf.")}
    return found


@pytest.mark.parametrize("unit", [*PACKAGE_LAYERS, "cli"])
def test_package_imports_only_what_is_below(unit: str) -> None:
    files = [PACKAGE / f"{unit}.py"] if (PACKAGE / f"{unit}.py").exists() else sorted((PACKAGE / unit).glob("*.py"))
    if unit == "_core":
        files = [ROOT / "ext/_core.pyx"]
        imported = set(re.findall(r"^from flowbuf\.(\w+) import", files[0].read_text(), re.MULTILINE))
    else:
        assert files
        imported = set().union(*map(imports_of, files))
    allowed = set(PACKAGE_LAYERS) if unit == "cli" else PACKAGE_LAYERS[unit]
    assert imported - {unit} <= allowed


def test_layers_name_every_module() -> None:
    units = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert units - {"__init__", "__main__", "cli"} <= set(PACKAGE_LAYERS)


def test_layers_have_no_circle_but_the_schema_and_its_targets() -> None:
    order: list[str] = []
    waiting = {unit: needs - {"targets"} if unit == "schema" else set(needs) for unit, needs in PACKAGE_LAYERS.items()}
    while waiting:
        ready = sorted(unit for unit, needs in waiting.items() if needs <= set(order))
        assert ready, f"a circle among {sorted(waiting)}"
        order += ready
        for unit in ready:
            del waiting[unit]


def test_only_the_cli_prints() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "cli" not in path.parts:
            calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"], path


# All files ------------------------------------------------------------------------------------------------------------

FOLDERS = "ext/core ext/binding ext/tests ext/fuzz ext/bench src tests benchmarks schemas scripts docs notebooks"
SOURCES = sorted(
    path
    for folder in FOLDERS.split()
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".c", ".h", ".inc", ".pxi", ".pyx", ".pxd", ".py", ".toml", ".go", ".rs"}
    and "build" not in path.parts
)


def test_files_are_short() -> None:
    code = [path for path in SOURCES if path.suffix != ".toml"]
    assert len(code) > 80
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in code}
    assert {name: length for name, length in lengths.items() if length > 600} == {}


def test_files_hold_no_paths_of_a_machine() -> None:
    home = re.compile(r"/(?:home|root|Users|work)/\w")
    assert [str(path) for path in SOURCES if home.search(path.read_text())] == []
