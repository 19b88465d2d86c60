"""A Spark session for tests. It needs pyspark and Java."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from flowbuf import Schema, read_capture
from flowbuf.spark import FlowbufDataSource

# Spark warns about versions of pandas that it was not tested with. It leaves its sockets to the garbage
# collector.
MARKS = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]


@contextmanager
def open_session(master: str = "local[2]") -> Iterator[SparkSession]:
    """Return a session that knows the format flowbuf."""
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("java is not installed, and Spark runs on it")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master(master).config("spark.ui.enabled", False)
        session = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
        source: type[DataSource] = FlowbufDataSource
        session.dataSource.register(source)
        yield session
        session.stop()
        gc.collect()  # closes the sockets of Spark before other tests run


def rows_expected(*paths: Path, schema: Schema | str = "flow", **options: Any) -> list[dict[str, Any]]:
    """Return the rows of captures, with addresses as text."""
    return [
        row
        for path in paths
        for row in read_capture(path, schema, ip="text", **options).to_arrow().to_pylist()
    ]


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a DataFrame."""
    return list(frame.toArrow().to_pylist())
