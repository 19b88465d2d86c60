"""Measure how much faster two executors of Spark read a folder of captures than one.

    python -m benchmarks.spark_executors [--files 64] [--rounds 5]

Needs pyspark, Java and two processors. The executors run in Spark's local-cluster mode. Each has one
processor of its own, as on a cluster: its JVM and its Python process are pinned to it. Otherwise the two
processes of a single executor would use both processors.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DIFFERENT = 16
FLOWS = 400_000
WARM_UP = 2
"""Queries before the measured ones: the JVM compiles its code in them."""

JAVA = """#!/bin/sh
executor= before=
for word in "$@"; do [ "$before" = --executor-id ] && executor=$word; before=$word; done
[ -n "$executor" ] && exec taskset -c $((executor % 2)) {java} "$@"
exec {java} "$@"
"""


def generate(folder: Path, files: int) -> None:
    """Write captures. Only some are different, the others are links to them."""
    for i in range(files):
        path = folder / f"{i}.pcap"
        if i < DIFFERENT:
            options = ["--protocol", "netflow9", "--flows", str(FLOWS), "--seed", str(i), "-o", str(path)]
            subprocess.run([sys.executable, "-m", "flowbuf", "generate", *options], check=True)
        else:
            path.hardlink_to(folder / f"{i % DIFFERENT}.pcap")


def make_java(folder: Path) -> Path:
    """Return a JAVA_HOME whose program pins each executor to a processor."""
    java = Path(shutil.which("java") or sys.exit("java is missing")).resolve()
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    for path in java.parents[1].iterdir():
        if path.name != "bin":
            (home / path.name).symlink_to(path)
    (home / "bin/java").write_text(JAVA.format(java=java))
    (home / "bin/java").chmod(0o755)
    return home


def query(captures: str, executors: int, rounds: int) -> list[float]:
    """Return the seconds of each query, in this process."""
    from pyspark.sql import SparkSession

    from flowbuf.spark import FlowbufDataSource

    session = (
        SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
        .config("spark.ui.enabled", False)
        .config("spark.sql.shuffle.partitions", 2)
        .getOrCreate()
    )
    session.dataSource.register(FlowbufDataSource)
    flows = session.read.format("flowbuf").option("columns", "proto,bytes").load(captures)
    taken = []
    for _ in range(WARM_UP + rounds):
        begin = time.perf_counter()
        counted = flows.groupBy("proto").agg({"bytes": "sum", "*": "count"}).collect()
        taken.append(time.perf_counter() - begin)
        assert sum(row["count(1)"] for row in counted) % FLOWS == 0
    return taken[WARM_UP:]


def measure(captures: Path, executors: int, rounds: int, environment: dict[str, str]) -> list[float]:
    """Return the seconds of each query, with a new Spark."""
    words = [str(captures), str(executors), str(rounds)]
    code = "import json, sys; from benchmarks.spark_executors import query; "
    code += "print(json.dumps(query(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=64, help="captures of 400,000 flows each")
    parser.add_argument("--rounds", type=int, default=5, help="queries of each Spark, which starts twice")
    options = parser.parse_args()
    import pyspark

    with tempfile.TemporaryDirectory() as folder:
        captures = Path(folder, "captures")
        captures.mkdir()
        generate(captures, options.files)
        environment = {
            **os.environ,
            **{"JAVA_HOME": str(make_java(Path(folder))), "PYSPARK_PYTHON": sys.executable},
            **{"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13"},
            **{"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": f"{folder}/work"},
        }
        taken: dict[int, list[float]] = {1: [], 2: []}
        for executors in (1, 2, 1, 2):
            taken[executors] += measure(captures, executors, options.rounds, environment)
    medians = {executors: statistics.median(seconds) for executors, seconds in taken.items()}
    for executors, seconds in taken.items():
        spread = f"{min(seconds):.1f} to {max(seconds):.1f} s"
        print(f"{executors} executors: median {medians[executors]:.1f} s of {len(seconds)} queries, {spread}")
    print(f"{options.files * FLOWS:,} flows: two are {medians[1] / medians[2]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
