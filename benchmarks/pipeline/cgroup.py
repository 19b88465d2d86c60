"""A control group for one process: the kernel ends it where it wants more memory than it may have.

The group is made below the own one, or in version 2, which has no processes in a group that shares memory
out, beside it; wherever that is allowed as things are: no group that was there before is changed. Where it is
not, there is none. The process enters before its program is executed, so all that the program takes is
charged.
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
"""Seconds in which a group may be busy with a process that has ended."""

ENTER = 'echo $$ >"$0" && exec "$@"'
LIMITS = {
    "memory.max": "memory.swap.max",
    "memory.limit_in_bytes": "memory.memsw.limit_in_bytes",
}
"""Files of either version: memory, and what keeps it from being swapped, which a kernel may do without."""

KILLS = ("memory.events", "memory.oom_control")


@dataclass(frozen=True)
class Group:
    """A folder of the kernel's, for a process that may have `limit` octets."""

    folder: Path
    limit: int

    def enclose(self, command: Sequence[str]) -> list[str]:
        """The command as one that enters the group first, and fails where it cannot."""
        return ["/bin/sh", "-c", ENTER, str(self.folder / "cgroup.procs"), *command]

    def has_killed(self) -> bool:
        """Whether the kernel has ended a process for its memory."""
        found = (self.folder / name for name in KILLS)
        return any(
            re.search(r"^oom_kill [1-9]", path.read_text(), re.MULTILINE) for path in found if path.exists()
        )


@contextmanager
def make_group(limit: int, process: Path = PROCESS) -> Iterator[Group | None]:
    """Until the end of the block, by when the process should have ended; one that is still in it keeps the
    group. None where none can be made. `process` is where the kernel describes the own one.
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
    """Raises OSError, or CalledProcessError where a process may not enter, which one tries."""
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
    """The name of the file. Raises FileNotFoundError."""
    for name in LIMITS:
        if (group.folder / name).exists():
            return name
    raise FileNotFoundError(f"{group.folder} has no limit of memory")


def set_limit(group: Group, memory: str) -> None:
    """Raises OSError where the kernel refuses it; swap is as it may be."""
    (group.folder / memory).write_text(str(group.limit))
    swap = group.folder / LIMITS[memory]
    with suppress(OSError):
        if swap.exists():
            swap.write_text(
                "0" if memory == "memory.max" else str(group.limit)
            )  # memory with swap, in version 1


def remove(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while folder.exists() and time.monotonic() < deadline:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.01)


# Where ------------------------------------------------------------------------------------------------------


def find_parents(process: Path = PROCESS) -> Iterator[Path]:
    """Folders of groups below which there may be one with a limit of memory, the best first."""
    for folder, controller in find_own(process):
        if str(os.getpid()) not in read_lines(folder / "cgroup.procs"):
            continue  # another of that name: what is mounted, or what is said of it, is seen from elsewhere
        if controller:
            yield folder
        else:
            yield from filter(shares_memory, (folder, folder.parent))


def find_own(process: Path) -> Iterator[tuple[Path, str]]:
    """Where the own group should be that has to do with memory, and its controller; version 2 has "" there."""
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
    """The path of the own group by controller; that of version 2 has none."""
    found: dict[str, str] = {}
    for line in read_lines(process / "cgroup"):
        _, controllers, path = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), path)
    return found


def read_lines(path: Path) -> list[str]:
    """None at all where it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def unescape(field: str) -> str:
    r"""A path of mountinfo, in which a space is \040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def shares_memory(folder: Path) -> bool:
    """Whether groups below have limits of memory: version 2."""
    return any("memory" in line.split() for line in read_lines(folder / "cgroup.subtree_control"))
