"""Build the sdist, and a wheel for each supported Python that this machine has. Run one without a compiler.

`make wheel` runs this. .github/workflows/release.yml builds the wheels of a release, also for other systems.
Linux only: the wheels run on any distribution whose C library is at least as new as their platform tag says.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEWEST_GLIBC = (2, 28)
"""The newest C library that a wheel may require."""

EXCLUDED = (".venv", ".git", "build", "*.egg-info", ".hypothesis")


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return its output. On failure, exit with what it printed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nThis command failed in {cwd}:\n  {' '.join(words)}")
    return done.stdout


def find_pythons() -> tuple[list[Path], list[str]]:
    """Return the interpreters of the versions in pyproject.toml, and the versions that are missing."""
    versions = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    found, missing = [], []
    for version in versions:
        named = shutil.which(f"python{version}")
        places = [Path(named)] if named else []
        places += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        fitting = [place for place in places if _has_version(place, version)]
        found += fitting[:1]
        missing += [] if fitting else [version]
    return found, missing


def _has_version(python: Path, version: str) -> bool:
    """Return True if an interpreter starts and has this version. A program of pyenv in PATH may not start."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() == version


def build_sdist(output: Path) -> Path:
    """Build the sdist from a copy of the source, so that files of other builds stay out of it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*EXCLUDED))
        run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, cwd=source)
        built = next(Path(folder).glob("*.tar.gz"))
        return Path(shutil.copy(built, output))


def build_wheel(python: Path, source: Path, output: Path) -> Path:
    """Build the wheel of one Python from an unpacked sdist, and give it the oldest possible platform tag."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        run(*pip, "wheel", "-q", "--no-deps", "--wheel-dir", folder, source)
        built = next(Path(folder).glob("*.whl"))
        repair = [sys.executable, "-m", "auditwheel", "repair", "--strip"]
        run(*repair, "--wheel-dir", f"{folder}/repaired", built)
        repaired = next(Path(folder, "repaired").glob("*.whl"))
        check_tag(repaired.name)
        return Path(shutil.copy(repaired, output))


def check_tag(name: str) -> None:
    """Exit if a wheel has no manylinux tag, or needs a C library that is too new."""
    versions = re.findall(r"manylinux_(\d+)_(\d+)_", name)
    if not versions or min((int(major), int(minor)) for major, minor in versions) > NEWEST_GLIBC:
        sys.exit(f"{name} needs a newer C library than glibc {'.'.join(map(str, NEWEST_GLIBC))}")


def check_without_compiler(python: Path, wheel: Path) -> None:
    """Install a wheel where PATH has no compiler, and run the demo."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        programs = Path(folder, "bin")
        only = {"PATH": str(programs), "CC": "there-is-no-compiler", "PYTHONPATH": ""}
        wanted = [f"flowbuf @ {wheel.resolve().as_uri()}", "grpcio-tools"]
        run(programs / "pip", "install", "-q", "--only-binary", ":all:", *wanted, cwd=Path(folder), **only)
        said = run(programs / "python", ROOT / "examples/demo.py", cwd=Path(folder), **only)
        print(said.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, action="append", help="interpreter; repeat it for several")
    parser.add_argument("--output", type=Path, default=ROOT / "build/wheels", help="folder of the results")
    options = parser.parse_args()
    pythons, missing = (options.python, []) if options.python else find_pythons()
    options.output.mkdir(parents=True, exist_ok=True)
    if not pythons:
        sys.exit(f"no Python of the versions {', '.join(missing)} is installed")
    for outdated in [*options.output.glob("flowbuf-*.whl"), *options.output.glob("flowbuf-*.tar.gz")]:
        outdated.unlink()
    sdist = build_sdist(options.output)
    print(sdist, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        source = next(Path(folder).iterdir())  # all versions share the C files that Cython makes
        wheels = []
        for python in pythons:
            print(f"the wheel for {python} takes one to five minutes", flush=True)
            wheels.append(build_wheel(python, source, options.output))
            print(wheels[-1], flush=True)
    for version in missing:
        print(f"no wheel for Python {version}: python{version} is not installed")
    print(f"{wheels[-1].name}, installed without a compiler, runs the demo:", flush=True)
    check_without_compiler(pythons[-1], wheels[-1])


if __name__ == "__main__":
    main()
