"""The structure of the code: layers, dependencies of the core on the system, and use of every status."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import flowbuf
from flowbuf import _core
from tests.support.cases import slow
from tests.support.core_build import EXT, find_compiler, find_tool, make

ROOT = Path(__file__).parents[2]
CORE = EXT / "core"
GENERATOR = EXT / "generate"
NET = EXT / "net"
PACKAGE = ROOT / "src/flowbuf"
BINDING = PACKAGE / "_core"

# The core's folders, from the lowest layer up. Each folder includes only folders before it.
CORE_FOLDERS = [
    *("base", "wire", "plan", "emit", "packet", "exporter", "decode"),
    *("arrow", "codec", "json", "nested", "capture"),
]

# Modules and folders of the package, with the others that each may import.
PACKAGE_LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "arguments": set(),
    "_core": {"errors"},
    "schema": {"errors", "_core"},
    "targets": {"errors", "schema", "_core"},
    "wire": {"schema", "_core"},
    "arrow": {"errors", "schema", "targets", "_core"},
    "networks": set(),
    "sampling": {"networks"},
    "options": {"arguments", "errors", "sampling", "_core"},
    "decoder": {"schema", "arrow", "options", "_core"},
    "io": {"arguments", "errors", "schema", "arrow", "decoder", "options", "_core"},
    "lazy_tables": {"errors", "schema", "arrow", "io"},
    "kafka": {"errors", "schema", "arrow", "io", "_core"},
    "clickhouse": {"errors", "schema", "targets", "arrow"},
    "enrich": {"_core", "errors", "schema", "targets"},
    "selection": {"schema", "targets", "arrow", "enrich"},
    "collect": {
        *("errors", "schema", "arrow", "decoder", "options", "selection", "io", "enrich", "kafka"),
        *("arguments", "clickhouse", "targets", "networks", "sampling", "_core"),
    },
    "spark": {"errors", "schema", "targets", "arrow", "io", "kafka", "_core"},
    "codec": {"arguments", "errors", "schema", "arrow", "io", "_core"},
    "bench": {"errors", "schema", "decoder", "options", "io", "_core"},
}

# The core may use these functions of the C library: no input, no output, no clock, no locale.
LIBRARY = {
    *("memcmp", "memcpy", "memmove", "memset", "strcmp", "strlen", "qsort", "calloc", "realloc", "free"),
    *("__assert_fail", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"),
    *("__memcpy_chk", "__memmove_chk", "__memset_chk"),
    # Features of the processor, from the compiler's own library.
    *("__cpu_model", "__cpu_features2", "__cpu_indicator_init"),
}


FOLDERS = "ext src tests benchmarks schemas tools docs examples notebooks"
SOURCES = sorted(
    path
    for folder in FOLDERS.split()
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".c", ".h", ".pyx", ".pxd", ".py", ".toml", ".go", ".rs"} and "build" not in path.parts
)


def core_files(*suffixes: str) -> list[Path]:
    return sorted(path for path in [*CORE.rglob("*"), *GENERATOR.rglob("*")] if path.suffix in suffixes)


def native_files(*suffixes: str) -> list[Path]:
    """Return the files without Python: those of the core, and those that call the operating system."""
    return core_files(*suffixes) + sorted(path for path in NET.iterdir() if path.suffix in suffixes)


def includes_of(path: Path) -> list[str]:
    """Return the project's own files that a file includes, relative to ext/."""
    return re.findall(r'#include "(.+?)"', path.read_text())


def find_cycle(needs: dict[str, set[str]]) -> list[str]:
    """Return the names that need each other, or need such names. Names without an entry need nothing."""
    waiting = dict(needs)
    while ready := [name for name, used in waiting.items() if not used & waiting.keys()]:
        for name in ready:
            del waiting[name]
    return sorted(waiting)


def test_cycles_are_found() -> None:
    assert find_cycle({"a": {"b", "other"}, "b": set()}) == []
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    assert find_cycle({"a": {"a"}}) == ["a"]


# The core ---------------------------------------------------------------------------------------------------


def test_core_does_not_include_python() -> None:
    for path in native_files(".h", ".c"):
        assert "Python.h" not in path.read_text(), path


def test_core_has_the_folders_of_the_design() -> None:
    assert {path.parent.name for path in CORE.rglob("*.[ch]")} == set(CORE_FOLDERS)


@pytest.mark.parametrize("folder", CORE_FOLDERS)
def test_core_folders_include_only_lower_folders(folder: str) -> None:
    below = CORE_FOLDERS[: CORE_FOLDERS.index(folder) + 1]
    for path in (CORE / folder).iterdir():
        for included in includes_of(path):
            root, *rest = included.split("/")
            assert root == "core", f"{path}: {included}"
            assert rest[0] in below, f"{path}: {included}"


def test_net_includes_only_what_it_may() -> None:
    folders = ("base", "capture", "decode", "exporter", "packet")
    allowed = ("net/", *(f"core/{folder}/" for folder in folders))
    for path in NET.iterdir():
        for included in includes_of(path):
            assert included.startswith(allowed), f"{path}: {included}"


def test_includes_of_headers_have_no_cycle() -> None:
    needs = {str(path.relative_to(EXT)): set(includes_of(path)) for path in native_files(".h")}
    assert len(needs) > 60
    assert find_cycle(needs) == []


def test_include_guards_name_their_file() -> None:
    headers = {path: EXT for path in SOURCES if path.suffix == ".h" and path.is_relative_to(EXT)}
    headers |= dict.fromkeys(BINDING.rglob("*.h"), BINDING)
    assert len(headers) > 70
    for path, folder in headers.items():
        guard = re.search(r"^#ifndef (FB_\w+_H)$", path.read_text(), re.MULTILINE)
        if guard:  # a file that is included several times has none
            file = str(path.relative_to(folder)).removeprefix("core/")
            assert guard[1] == "FB_" + re.sub(r"\W", "_", file.upper())


@pytest.mark.slow
def test_every_header_compiles_alone() -> None:
    """A header includes everything it uses, so a compiler or an editor can open it alone."""
    compiler = find_compiler()
    for path in native_files(".h"):
        unused = ["-Wno-unused-function"] if path.name.endswith(".tmpl.h") else []
        command = [*compiler, "-std=c11", "-I", str(EXT), "-Wall", "-Wextra", "-Werror", *unused]
        done = subprocess.run(
            [*command, "-fsyntax-only", "-x", "c", str(path)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["test", *slow("bench")])
def objects(request: pytest.FixtureRequest) -> list[Path]:
    """Return the object files of the core: those of its tests, or as shipped, without assertions."""
    make(f"VARIANT={request.param}", "core")
    folder = EXT / "build" / request.param
    return sorted([*folder.glob("core/*/*.o"), *folder.glob("generate/*.o")])


def run_tool(name: str, *arguments: object) -> str:
    command = [find_tool(name), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_core_uses_only_allowed_library_functions(objects: list[Path]) -> None:
    symbols = run_tool("nm", *objects)
    needed = set(re.findall(r"^\s+U (\S+)$", symbols, re.MULTILINE))
    given = set(re.findall(r" [A-TV-Z] (\S+)$", symbols, re.MULTILINE))
    assert {"fb_row_decode", "fb_capture_scan"} <= given
    assert needed - given - LIBRARY == set()
    assert all(name.startswith("fb_") for name in given)


def test_core_has_no_globals(objects: list[Path]) -> None:
    """The core has no writable globals: every struct of state has an owner.

    Constant tables of pointers are .data.rel.ro.
    """
    for path in objects:
        sections = dict(
            re.findall(r"^\s*\d+ (\S+)\s+([0-9a-f]{8})", run_tool("objdump", "-h", path), re.MULTILINE)
        )
        assert sections, path
        for name, size in sections.items():
            writable = name.startswith((".data", ".bss", ".tdata", ".tbss")) and not name.startswith(
                ".data.rel.ro"
            )
            assert not writable or int(size, 16) == 0, (path.name, name)


def test_fast_path_is_inlined() -> None:
    """The functions that write a row are inlined into the decoders of the extension."""
    names = set(re.findall(r" [tT] (\S+)$", run_tool("nm", _core.decoder.__file__), re.MULTILINE))
    assert "fb_row_decode" in names
    fast = {
        "fb_row_put_uint",
        "fb_row_put_ip",
        "fb_row_begin",
        "fb_row_finish",
        "fb_wire_put_varint",
        "run_operations",
    }
    assert not names & fast, "add FB_INLINE, or build without FLOWBUF_DEBUG"


# Statuses ---------------------------------------------------------------------------------------------------


def read_statuses() -> dict[str, str]:
    """Return the name of every status by its constant."""
    found = re.findall(
        r"X\((\w+), \"(\w+)\", (?:CONTROL|FAULT|LOSS|NOTE),", (CORE / "base/base.h").read_text()
    )
    assert len(found) > 40
    return dict(found)


def read_all(*patterns: str) -> str:
    return "\n".join(path.read_text() for pattern in patterns for path in ROOT.glob(pattern))


def test_the_core_uses_every_status() -> None:
    """Exception: Python decompresses captures, and reports damaged compression."""
    code = "\n".join(path.read_text() for path in core_files(".c", ".h"))
    unused = [name for name in read_statuses() if not re.search(rf"\bFB_{name}\b", code)]
    assert unused == ["DAMAGED_COMPRESSION"]
    assert '"damaged_compression"' in (PACKAGE / "io/capture.py").read_text()


@pytest.mark.slow
def test_every_status_has_a_test() -> None:
    """A test uses the constant of the status in C, or its name as a counter in C or Python.

    This file does not count.
    """
    tests = read_all("ext/tests/*/test_*.c") + "".join(
        path.read_text() for path in (ROOT / "tests").glob("*/test_*.py") if path.name != Path(__file__).name
    )
    untested = [
        name
        for constant, name in read_statuses().items()
        if not re.search(rf"\bFB_{constant}\b|\b{name}=\d|[\"']{name}[\"']", tests)
    ]
    assert untested == []


# The package ------------------------------------------------------------------------------------------------


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(path: Path) -> set[str]:
    """Return the modules and folders of the package that a file imports, at any level of nesting."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "flowbuf":
            names = [f"flowbuf.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("flowbuf.")}
    return found


@pytest.mark.parametrize("unit", [*PACKAGE_LAYERS, "cli"])
def test_package_units_import_only_lower_units(unit: str) -> None:
    files = (
        [PACKAGE / f"{unit}.py"]
        if (PACKAGE / f"{unit}.py").exists()
        else sorted((PACKAGE / unit).rglob("*.py"))
    )
    assert files
    imported = set().union(*map(imports_of, files))
    if unit == "_core":
        for path in BINDING.rglob("*.pyx"):
            found = re.findall(r"^\s*from flowbuf\.(\w+)[\w.]* c?import", path.read_text(), re.MULTILINE)
            imported |= set(found)
    allowed = set(PACKAGE_LAYERS) if unit == "cli" else PACKAGE_LAYERS[unit]
    assert imported - {unit} <= allowed


def test_modules_of_the_binding_have_no_cycle() -> None:
    """A module uses others through their declarations.

    Only `core.pxd`, `arrow.pxd`, `capture.pxd`, `json.pxd` and `nested/declared.pxd` declare functions of the
    core, and only `net.pxd` those of ext/net.
    """
    declaring = {"core": {"core", "generate"}, "net": {"net"}}
    declaring |= {name: {"core"} for name in ("arrow", "capture", "json", "nested.declared")}
    needs: dict[str, set[str]] = {}
    for path in BINDING.rglob("*.p[yx][xd]"):
        module = ".".join(path.relative_to(BINDING).with_suffix("").parts)
        text = path.read_text()
        used = set(re.findall(r"^from flowbuf\._core\.([\w.]+) cimport", text, re.MULTILINE))
        needs[module] = needs.get(module, set()) | used
        declared = set(re.findall(r'^cdef extern from "(\w+)/', text, re.MULTILINE))
        assert declared <= declaring.get(module, {"objects"}), path
    assert len(needs) > 12
    assert set().union(*needs.values()) <= needs.keys()
    assert find_cycle(needs) == []


def test_objects_of_the_codec_do_not_know_the_wire_format() -> None:
    files = [path for path in (BINDING / "objects").iterdir() if path.suffix in {".c", ".h"}]
    assert len(files) > 5
    for path in files:
        assert re.findall(r"\bfb_wire_\w+|\bFB_WIRE_\w+|FB_VARINT_MAX", path.read_text()) == [], path
        assert {name.split("/")[0] for name in includes_of(path)} <= {"core", "objects"}, path


def test_layers_list_every_module() -> None:
    units = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert units - {"__init__", "__main__", "cli"} <= set(PACKAGE_LAYERS)


def test_no_module_has_the_name_of_a_public_object() -> None:
    """The import of such a module would replace the object in the package."""
    assert PACKAGE_LAYERS.keys() & set(flowbuf.__all__) == set()


def test_layers_have_no_cycle() -> None:
    assert set().union(*PACKAGE_LAYERS.values()) <= PACKAGE_LAYERS.keys()
    assert find_cycle(PACKAGE_LAYERS) == []


def test_only_the_cli_prints() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "cli" not in path.parts:
            calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
            assert not [
                call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
            ], path


# Conditional expressions ------------------------------------------------------------------------------------


PYTHON_CONDITIONAL = re.compile(r"\belse\b(?!\s*:)")


def python_nested_conditionals(code: str) -> list[int]:
    """Return the lines of Python's conditional expressions that contain another one."""
    if len(PYTHON_CONDITIONAL.findall(code)) < 2:  # parsing takes longer
        return []
    return [
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.IfExp)
        and any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node)
    ]


C_TEXT = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
C_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
C_TOKEN = re.compile(r"[=!<>]=|\breturn\b|[?:,;=()\[\]{}]")


@dataclass
class Level:
    """The expression in a pair of brackets, up to the current token."""

    operand: bool = False  # the token is in the second or third operand of a conditional expression
    conditional: bool = False  # the expression contains a conditional expression
    earlier: bool = False  # an expression before it in the same brackets contains one


def scan_c(code: str) -> list[int]:
    """Return the offsets of each ? that is in an operand of another one, in C without comments and texts.

    A ? ends the first operand, so that one must not contain another ? either.
    """
    found = []
    levels = [Level()]
    for token in C_TOKEN.finditer(code):
        level = levels[-1]
        if token[0] == "?":
            if level.conditional or any(outer.operand for outer in levels):
                found.append(token.start())
            level.operand = level.conditional = True
        elif token[0] in "([{":
            levels.append(Level())
        elif token[0] in ")]}" and len(levels) > 1:
            levels.pop()
            if token[0] != "}":
                levels[-1].conditional |= level.conditional or level.earlier
        elif token[0] in ",;":
            levels[-1] = Level(earlier=level.conditional or level.earlier)
        elif token[0] in (":", "=", "return") and not level.operand:
            level.conditional = False
    return found


def c_nested_conditionals(code: str) -> list[int]:
    """Return the lines of nested conditional expressions in C. Each directive is scanned alone."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    code = C_TEXT.sub(blank, code)
    offsets = scan_c(C_DIRECTIVE.sub(blank, code))
    for directive in C_DIRECTIVE.finditer(code):
        offsets += [directive.start() + offset for offset in scan_c(directive[0])]
    return sorted({code.count("\n", 0, offset) + 1 for offset in offsets})


# Two conditions and two alternatives in one line of Cython. A comma separates expressions, unless it is in
# parentheses.
OPERAND = r"(?:\([^()]*\)|[^,:])*"
CYTHON_NESTED = re.compile(rf"\bif\b{OPERAND}\belse\b{OPERAND}\bif\b{OPERAND}\belse\b")


def cython_nested_conditionals(code: str) -> list[int]:
    return [number for number, line in enumerate(code.splitlines(), 1) if CYTHON_NESTED.search(line)]


@pytest.mark.parametrize(
    ("suffixes", "find"),
    [
        ({".py"}, python_nested_conditionals),
        ({".c", ".h"}, c_nested_conditionals),
        ({".pyx", ".pxd"}, cython_nested_conditionals),
    ],
)
def test_conditional_expressions_are_not_nested(suffixes: set[str], find: Callable[[str], list[int]]) -> None:
    files = [path for path in SOURCES if path.suffix in suffixes]
    assert len(files) > 10
    assert [f"{path.relative_to(ROOT)}:{line}" for path in files for line in find(path.read_text())] == []


@pytest.mark.parametrize(
    ("find", "nested", "separate"),
    [
        (
            python_nested_conditionals,
            ["a if b else c if d else e", "(a if b else c) if d else e", "f'{a if b else c}' if d else e"],
            ["f(a if b else c, d if e else f)", "(a if b else c) + (d if e else f)"],
        ),
        (
            c_nested_conditionals,
            [
                *(
                    "a ? b : c ? d : e;",
                    "a ? b ? c : d : e;",
                    "(a ? b : c) ? d : e;",
                    "f(a ? b : c, d) ? e : f;",
                ),
                *(
                    "a ? f(b, c ? d : e) : g;",
                    "a ? (b){c ? d : e} : f;",
                    "#define F(a) ((a) ? b : \\\n c ? d : e)\n",
                ),
            ],
            [
                *("f(a ? b : c, d ? e : f);", "(a ? b : c) + (d ? e : f);", "a = b ? c : d, e = f ? g : h;"),
                *("if (a ? b : c) return d ? e : f;", "if (a ? b : c) d = e ? f : g;", "case A: a ? b : c;"),
                *("a ? b : '?'; /* ? */", 'a ? "?" : b;', "#define A b ? c : d\n#define E f ? g : h\n"),
                *("if (a ? b : c) { d ? e : f; }", "switch (a ? b : c) { default: return d ? e : f; }"),
            ],
        ),
        (
            cython_nested_conditionals,
            ["x = a if b else c if d else e", "x = a if b(y, z) else (c if d else e)"],
            ["f(a if b else c, d if e else f)", "if a: b = c if d else e", "[a if b else c for d in e if f]"],
        ),
    ],
)
def test_checks_find_nested_conditional_expressions(
    find: Callable[[str], list[int]], nested: list[str], separate: list[str]
) -> None:
    assert [code for code in nested if not find(code)] == []
    assert [code for code in separate if find(code)] == []


# All files --------------------------------------------------------------------------------------------------


def test_files_are_short() -> None:
    code = [path for path in SOURCES if path.suffix != ".toml"]
    assert len(code) > 80
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in code}
    assert {name: length for name, length in lengths.items() if length > 600} == {}


@pytest.mark.parametrize(("suffixes", "columns"), [((".c", ".h"), 100), ((".pyx", ".pxd"), 110)])
def test_lines_are_short(suffixes: tuple[str, ...], columns: int) -> None:
    """Ruff checks the lines of Python."""
    code = [path for path in SOURCES if path.suffix in suffixes]
    assert len(code) > 10
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in code
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > columns
    ]
    assert long == []


def test_files_contain_no_absolute_paths() -> None:
    home = re.compile(r"/(?:home|root|Users|work)/\w")
    assert [str(path) for path in SOURCES if home.search(path.read_text())] == []


def test_folders_have_at_most_thirty_files() -> None:
    """Folders of data are exempt."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a checkout of git")
    folders = Counter(str(Path(name).parent) for name in listed.stdout.splitlines())
    assert len(folders) > 30
    large = {
        folder: count for folder, count in folders.items() if count > 30 and "data" not in Path(folder).parts
    }
    assert large == {}
