"""Files are stored in a real S3-compatible server. Its failures lose no flows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyarrow import fs

import flowbuf
from flowbuf.collect.outputs.files.file_formats import MessageFormat, ParquetFormat
from flowbuf.collect.outputs.files.file_output import FileOptions, FileOutput
from tests.collect.outputs.files.batches import FLOWS, NOON, Clock, balanced, batch
from tests.collect.outputs.files.s3_server import BUCKET, KEY, SECRET, CuttingProxy, S3Server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def objects(server: S3Server, prefix: str) -> list[str]:
    """Return the names of all objects below a prefix, without empty folders."""
    store, base = fs.FileSystem.from_uri(server.uri(prefix))
    infos = store.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return sorted(info.path.removeprefix(f"{base}/") for info in infos if info.is_file)


def read(server: S3Server, prefix: str) -> list[int]:
    store, base = fs.FileSystem.from_uri(server.uri(prefix))
    if not objects(server, prefix):
        return []
    table = ds.dataset(base, format="parquet", filesystem=store, partitioning="hive").to_table()
    return sorted(table["bytes"].to_pylist())


def started_uploads(server: S3Server) -> list[Path]:
    """Return the parts of uploads that were neither completed nor aborted."""
    return [path for path in (server.folder / "buckets").glob("*/.sgwtmp/multipart/*/*/*") if path.is_file()]


def test_objects_appear_when_they_are_complete(server: S3Server) -> None:
    clock = Clock()
    output = FileOutput(server.uri("appear"), ParquetFormat(), clock=clock)
    output.write(batch(0))
    assert objects(server, "appear") == []
    clock.now += 300
    output.tick()
    assert (output.stored, output.pending) == (10, 0)
    (name,) = objects(server, "appear")
    assert name.startswith("date=2026-11-25/hour=12/flows-20261125T120000Z-")
    output.write(batch(10))
    output.close()
    assert read(server, "appear") == list(range(20))
    assert output.name == f"s3://{BUCKET}/appear"


def test_a_large_file_is_uploaded_in_parts(server: S3Server) -> None:
    output = FileOutput(server.uri("large"), ParquetFormat(), clock=Clock())
    for first in range(0, 6_000_000, 500_000):
        output.write(batch(first, 500_000))
    output.close()
    assert output.counters["files"] == 1
    assert output.counters["bytes"] > 45_000_000
    assert read(server, "large") == list(range(6_000_000))
    assert started_uploads(server) == []


def test_a_bucket_that_does_not_exist_is_a_clear_error(server: S3Server) -> None:
    uri = server.uri("x").replace(BUCKET, "missing")
    with pytest.raises(FileNotFoundError, match="cannot be written: the bucket does not exist") as caught:
        FileOutput(uri, ParquetFormat())
    assert caught.value.filename == "s3://missing/x"


def test_credentials_in_the_uri_do_not_appear_in_texts(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    output = FileOutput(server.uri("uri", f"{KEY}:{SECRET}@"), ParquetFormat())
    output.write(batch(0))
    output.close()
    assert output.stored == 10
    assert SECRET not in output.name
    with pytest.raises(OSError, match="cannot be written") as denied:
        FileOutput(server.uri("uri", f"{KEY}:wrong-secret@"), ParquetFormat())
    with pytest.raises(ValueError, match="the URI is invalid") as invalid:
        FileOutput(server.uri("uri", f"{KEY}:wrong-secret@") + "&unknown=1", ParquetFormat())
    for error in (denied, invalid):
        assert "wrong-secret" not in str(error.value)


def test_an_unreachable_server_loses_no_flows(tmp_path: Path) -> None:
    server = S3Server(tmp_path)
    server.start()
    clock = Clock()
    output = FileOutput(server.uri("away"), ParquetFormat(), clock=clock, monotonic=clock)
    output.write(batch(0))
    server.stop()
    clock.now += 300
    for pause in (1, 2):  # from one attempt to the next
        for moment in (0, pause - 0.1):
            clock.now += moment
            for work in (output.tick, lambda: output.write(batch(10))):
                with pytest.raises(OSError, match="NETWORK_CONNECTION"):
                    work()
        clock.now += 0.1
    assert (output.stored, output.pending) == (0, 10)
    server.start()
    output.write(batch(10))
    assert (output.stored, output.pending) == (10, 10)
    server.stop()
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        output.close()
    assert output.pending == 10
    server.start()
    output.close()
    assert read(server, "away") == list(range(20))
    server.stop()


def test_an_upload_that_is_cut_is_reported_and_repeated(server: S3Server) -> None:
    proxy = CuttingProxy(server, b"partNumber=2")
    clock = Clock()
    reports: list[str] = []
    output = FileOutput(
        server.uri("cut", port=proxy.port),
        ParquetFormat(),
        clock=clock,
        monotonic=clock,
        on_problem=reports.append,
    )
    for first in range(0, 3_000_000, 500_000):
        output.write(batch(first, 500_000))
    clock.now += 300
    with pytest.raises(OSError, match="UploadPart"):
        output.tick()
    assert proxy.cuts > 0
    assert (output.stored, output.pending) == (0, 3_000_000)
    assert output.counters["incomplete_uploads"] == 1
    assert "its parts may stay in the storage; set a lifecycle rule" in reports[0]
    assert objects(server, "cut") == []
    proxy.active = False
    clock.now += 1
    output.tick()
    assert output.stored == balanced(output) == 3_000_000
    output.close()
    proxy.close()
    assert read(server, "cut") == list(range(3_000_000))


def test_a_damaged_temporary_file_is_not_uploaded(tmp_path: Path) -> None:
    """The local disk loses a part of the file while the server is away."""
    server = S3Server(tmp_path / "server")
    server.start()
    (tmp_path / "staging").mkdir()
    clock = Clock()
    options = FileOptions(staging=str(tmp_path / "staging"))
    output = FileOutput(server.uri("damaged"), ParquetFormat(), options, clock=clock, monotonic=clock)
    for first in range(0, 1_500_000, 500_000):
        output.write(batch(first, 500_000))
    server.stop()
    clock.now += 300
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        output.tick()
    os.truncate(find_open_file(tmp_path / "staging"), 10_000_000)
    server.start()
    clock.now += 1
    output.tick()
    assert output.lost == {"output_error": 1_500_000}
    output.write(batch(0))
    output.close()
    assert read(server, "damaged") == list(range(10))
    server.stop()


def find_open_file(folder: Path) -> str:
    """Return a path of the open file without a name in a folder."""
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.islink(path) and os.readlink(path).startswith(str(folder)):
            return path
    raise AssertionError("no file is open")


def test_old_objects_are_deleted(server: S3Server) -> None:
    clock = Clock()
    options = FileOptions(keep_seconds=2 * 3600, rotate_bytes=1, prefix="mine")
    output = FileOutput(server.uri("old"), MessageFormat(FLOWS), options, clock=clock, monotonic=clock)
    other = FileOutput(server.uri("old"), MessageFormat(FLOWS), clock=clock)
    other.write(batch(0))
    other.close()
    for number in range(5):
        clock.now = NOON + 3600 * number
        output.write(batch(10 * number))
    output.tick()
    hours = [name.split("/")[1] for name in objects(server, "old") if "mine" in name]
    assert hours == [f"hour={hour}" for hour in (14, 14, 15, 15, 16, 16)]
    assert output.counters["expired_files"] == 2
    assert len([name for name in objects(server, "old") if "/flows-" in name]) == 2


def test_stored_spool_entries_are_known_after_a_restart(server: S3Server) -> None:
    options = FileOptions(spool="ab12")
    for first in (0, 2):
        output = FileOutput(server.uri("spool"), ParquetFormat(), options)
        for number in range(first, 4):
            output.write(batch(10 * number), number)
        output.close()
        assert output.stored_number == 3
    assert output.counters["duplicates"] == 20
    assert read(server, "spool") == list(range(40))


def test_messages_and_their_proto_are_read(server: S3Server, tmp_path: Path) -> None:
    output = FileOutput(server.uri("messages"), MessageFormat(FLOWS, ".zst"))
    output.write(batch(0))
    output.close()
    name, proto = objects(server, "messages")
    assert proto == f"{name}.proto"
    store, base = fs.FileSystem.from_uri(server.uri("messages"))
    fs.copy_files(base, str(tmp_path), source_filesystem=store)
    assert (tmp_path / proto).read_text() == FLOWS.to_proto()
    assert flowbuf.read_messages(tmp_path / name, strict=True).to_arrow()["bytes"].to_pylist() == list(
        range(10)
    )
