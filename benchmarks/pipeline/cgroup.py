"""A control group (cgroup) for one process. The kernel kills the process if it exceeds the memory limit.

The group is created below the group of this process. In version 2, a group with processes cannot distribute
memory to groups below it, so the group is created beside it. Existing groups are never changed. If the
machine does not allow a new group, the process runs without one. The process enters the group before it
executes its program, so all memory of the program is charged.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["Group", "find_parents", "make_group"]

PROCESS = Path("/proc/self")
PATIENCE = 5.0
"""Time-out in seconds for the removal of a group after its process has ended."""

ENTER = 'echo $$ >"$0" && exec "$@"'
LIMITS = {
    "memory.max": "memory.swap.max",
    "memory.limit_in_bytes": "memory.memsw.limit_in_bytes",
}
"""Memory limit -> swap limit: file names of both versions. A kernel may lack the swap limit."""

KILLS = ("memory.events", "memory.oom_control")


@dataclass(frozen=True)
class Group:
    """A cgroup and its memory limit in bytes."""

    folder: Path
    limit: int

    def enclose(self, command: Sequence[str]) -> list[str]:
        """Return a command that enters the group before it runs `command`. It fails if it cannot enter."""
        return ["/bin/sh", "-c", ENTER, str(self.folder / "cgroup.procs"), *command]

    def has_killed(self) -> bool:
        """Return True if the kernel has killed a process of the group for its memory."""
        found = (self.folder / name for name in KILLS)
        return any(
            re.search(r"^oom_kill [1-9]", path.read_text(), re.MULTILINE) for path in found if path.exists()
        )


@contextmanager
def make_group(limit: int, process: Path = PROCESS) -> Iterator[Group | None]:
    """Provide a group for the duration of the block. None if the machine does not allow one.

    The process must end within the block, otherwise the group remains. `process` is the folder in /proc of
    this process.
    """
    group = None
    with ExitStack() as stack:
        for parent in find_parents(process):
            with suppress(OSError, subprocess.CalledProcessError):
                group = stack.enter_context(make_below(parent, limit))
                break
        yield group


@contextmanager
def make_below(parent: Path, limit: int) -> Iterator[Group]:
    """Provide a group below `parent`. A test process enters it first.

    Raises OSError, or CalledProcessError if a process may not enter the group.
    """
    group = Group(parent / f"flowbuf-pipeline-{uuid.uuid4().hex}", limit)
    group.folder.mkdir()
    try:
        memory = find_limit(group)
        subprocess.run(group.enclose(["true"]), check=True, capture_output=True)
        set_limit(group, memory)
        yield group
    finally:
        remove(group.folder)


def find_limit(group: Group) -> str:
    """Return the name of the file with the memory limit. Raises FileNotFoundError."""
    for name in LIMITS:
        if (group.folder / name).exists():
            return name
    raise FileNotFoundError(f"{group.folder} has no memory limit")


def set_limit(group: Group, memory: str) -> None:
    """Set the memory limit, and the swap limit if possible. Raises OSError if the former is rejected."""
    (group.folder / memory).write_text(str(group.limit))
    swap = group.folder / LIMITS[memory]
    with suppress(OSError):
        if swap.exists():
            swap.write_text(
                "0" if memory == "memory.max" else str(group.limit)
            )  # in version 1, the sum of memory and swap


def remove(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while folder.exists() and time.monotonic() < deadline:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.01)


# Parent groups ----------------------------------------------------------------------------------------------


def find_parents(process: Path = PROCESS) -> Iterator[Path]:
    """Yield groups below which a group may have a memory limit, the best one first."""
    for folder, controller in find_own(process):
        if str(os.getpid()) not in read_lines(folder / "cgroup.procs"):
            continue  # another group of this name: the mount belongs to another namespace
        if controller:
            yield folder
        else:
            yield from filter(shares_memory, (folder, folder.parent))


def find_own(process: Path) -> Iterator[tuple[Path, str]]:
    """Yield the expected folders of this process's memory group, with its controller ("" in version 2)."""
    own = read_own(process)
    for line in read_lines(process / "mountinfo"):
        mount, _, system = line.partition(" - ")
        root, point = map(unescape, mount.split()[3:5])
        kind, *_, options = system.split()
        controller = "memory" if kind == "cgroup" and "memory" in options.split(",") else ""
        if not controller and kind != "cgroup2":
            continue
        path = PurePosixPath(own.get(controller, ""))
        if path.is_relative_to(root):
            yield Path(point, path.relative_to(root)), controller


def read_own(process: Path) -> dict[str, str]:
    """Return the path of this process's group by controller ("" in version 2)."""
    found: dict[str, str] = {}
    for line in read_lines(process / "cgroup"):
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, or an empty list if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def unescape(field: str) -> str:
    r"""Decode a path of mountinfo, in which a space is \040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def shares_memory(folder: Path) -> bool:
    """Return True if groups below this one have memory limits (version 2)."""
    return any("memory" in line.split() for line in read_lines(folder / "cgroup.subtree_control"))
