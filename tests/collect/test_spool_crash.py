"""A spool survives SIGKILL at any moment, and a full disk."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flowbuf.collect.spools.spool import Spool
from tests.collect.spools import LIMIT, append, check, count_of, drain, memory_folder, segments_of
from tests.support.cases import slow

resource = pytest.importorskip("resource")

# Append, sync, read and acknowledge at random. Report each step before it (upper case) and after it.
WORKER = """
import os, random, sys
from flowbuf.collect.spools.spool import Spool

def data_of(index):
    return index.to_bytes(8, "big") * (1 + index * 7919 % (100_000 if index % 20 == 0 else 100))

def report(step, index):
    os.write(1, b"%c %d\\n" % (step, index))

def run(folder, seed, index):
    luck = random.Random(seed)
    spool = Spool(folder, 8 << 20, segment_bytes=luck.choice([1000, 20_000, 1 << 20]))
    read = []
    while True:
        step = luck.random()
        if step < 0.5:
            report(ord("A"), index)
            if spool.append(data_of(index), index % 7):
                report(ord("a"), index)
                index += 1
        elif step < 0.8:
            if entry := spool.read():
                read.append(entry)
        elif step < 0.95:
            if read:
                entry = read[luck.randrange(len(read))]
                del read[: read.index(entry) + 1]
                report(ord("K"), int.from_bytes(entry.data[:8], "big"))
                spool.acknowledge(entry.number)
                report(ord("k"), int.from_bytes(entry.data[:8], "big"))
        else:
            spool.sync()
"""


class Worker:
    """The entries of a spool that a process fills and drains until it is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = {}
        exec(WORKER, self.program)
        self.index = 0
        self.entries: list[int] = []  # appended and not acknowledged
        self.unfinished = ("", -1)  # step that was running

    def run(self, seed: int) -> None:
        """Run a process, and kill it after a random number of steps."""
        luck = random.Random(seed)
        call = f"run(sys.argv[1], {seed}, {self.index})"
        command = [sys.executable, "-c", f"{WORKER}\n{call}", str(self.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            for _ in range(luck.randrange(1, 300)):
                self.follow(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            for line in process.stdout:
                self.follow(line)
        assert process.returncode == -signal.SIGKILL

    def follow(self, line: bytes) -> None:
        step, number = line.decode().split()
        index = int(number)
        self.unfinished = (step, index) if step in "AK" else ("", -1)
        self.index = max(self.index, index + 1)
        if step == "a":
            self.entries.append(index)
        elif step == "k":
            self.entries = [each for each in self.entries if each > index]

    def expected(self) -> list[list[int]]:
        """Return the possible entries: without and with the effect of the unfinished step."""
        step, index = self.unfinished
        if step == "A":
            return [self.entries, [*self.entries, index]]
        return [self.entries, [each for each in self.entries if each > index]]

    def check(self) -> None:
        """Open the spool. Every entry must be there, intact and in order."""
        with Spool(self.folder, 8 << 20) as spool:
            check(spool)
            entries = []
            while entry := spool.read():
                index = int.from_bytes(entry.data[:8], "big")
                assert (entry.data, entry.flows) == (self.program["data_of"](index), index % 7)
                entries.append(index)
            check(spool)
            assert entries in self.expected()
            assert spool.counters.damaged == {}
            assert set(spool.counters.damaged_bytes) <= {"torn"}
        self.entries, self.unfinished = entries, ("", -1)


@pytest.mark.parametrize("rounds", [4, *slow(200)])
def test_nothing_is_lost_when_the_process_is_killed(rounds: int) -> None:
    with memory_folder() as folder:
        worker = Worker(folder / "spool")
        for seed in range(rounds):
            worker.run(seed)
            worker.check()
        assert worker.index > 5 * rounds


@pytest.mark.slow
def test_nothing_is_lost_on_a_disk_when_the_process_is_killed(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "spool")
    for seed in range(1000, 1020):
        worker.run(seed)
        worker.check()


# Full disks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0, 3])
def test_a_failed_append_leaves_nothing(tmp_path: Path, before: int) -> None:
    """The entry is larger than files may be. Later entries are appended again."""
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, *range(before))
        size = spool.disk_bytes
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="File too large") as error:
                    spool.append([bytes(4000), bytes(4000)], 5)
                assert error.value.errno == errno.EFBIG
                assert spool.disk_bytes == size
                check(spool)
            append(spool, before)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert spool.append([bytes(4000), bytes(4000)], 5)
        assert spool.counters.appended.entries == before + 2
    with Spool(tmp_path, LIMIT) as spool:
        entries = [spool.read() for _ in range(before + 2)]
        assert [len(entry.data) for entry in entries if entry][-1] == 8000
        assert spool.counters.damaged_bytes == {}


def test_a_position_that_cannot_be_stored_is_stored_later(tmp_path: Path) -> None:
    with Spool(tmp_path, LIMIT) as spool:
        append(spool, 1, 2, 3)
        entries = [spool.read() for _ in range(3)]
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            for entry in entries[:2]:
                assert entry
                spool.acknowledge(entry.number)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert spool.counters.position_errors == 2
        assert spool.counters.acknowledged == count_of([1, 2])
        assert entries[2]
        spool.acknowledge(entries[2].number)
        assert segments_of(tmp_path) == []
    with Spool(tmp_path, LIMIT) as spool:
        assert drain(spool) == []


# Fill a file system of 256 KiB, drain the spool while the disk is full, then append again.
SMALL_DISK = """
import errno, json, os, sys
from flowbuf.collect.spools.spool import Spool

folder = sys.argv[1]
result = {}
with open(folder + "/ballast", "wb") as ballast:
    ballast.write(bytes(50_000))
with Spool(folder + "/spool", 10 << 20, segment_bytes=40_000) as spool:
    count = 0
    try:
        while spool.append(count.to_bytes(4, "big") * 1000, 1):
            count += 1
    except OSError as error:
        result["error"] = errno.errorcode[error.errno]
    result["appended"] = count
    result["counted"] = spool.counters.appended.entries
    try:
        spool.append(bytes(4000), 1)
    except OSError as error:
        result["again"] = errno.errorcode[error.errno]
    entry = spool.read()
    spool.acknowledge(entry.number)
    spool.sync()
    os.unlink(folder + "/ballast")
    result["later"] = [spool.append(b"later", 1) for _ in range(2)]
    seen = [entry.data]
    while entry := spool.read():
        seen.append(entry.data)
    spool.acknowledge(spool._number)
    result["intact"] = seen == [index.to_bytes(4, "big") * 1000 for index in range(count)] + [b"later"] * 2
    result["bytes"] = spool.disk_bytes
    result["damaged"] = spool.counters.damaged_bytes
    result["errors"] = spool.counters.position_errors
print(json.dumps(result))
"""


def test_a_full_disk_that_is_free_later(tmp_path: Path) -> None:
    """Nothing is lost, nothing is stored twice, and the spool can be drained while the disk is full."""
    unshare = shutil.which("unshare")
    allowed = unshare and subprocess.run([unshare, "-Urm", "true"], capture_output=True).returncode == 0
    if not unshare or not allowed:
        pytest.skip("unshare cannot make a small file system here")
    mount = 'mount -t tmpfs -o size=256k tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = [unshare, "-Urm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, SMALL_DISK]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result.pop("appended") == result.pop("counted") > 30
    assert result == {
        "error": "ENOSPC",
        "again": "ENOSPC",
        "later": [True, True],
        "intact": True,
        "bytes": 0,
        "damaged": {},
        "errors": 0,
    }
