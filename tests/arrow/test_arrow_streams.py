"""The Arrow C stream callbacks report every failure with an error code and a text, and give no array."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from flowbuf import CaptureError, DecodeError, _core, encode_columns, read_capture
from flowbuf.arrow.batch import FlowStream, new_table_type
from flowbuf.schema import Schema
from flowbuf.schema.plan import compile_plan

SHIPPED = Path(__file__).parents[1] / "data"
NETFLOW9 = SHIPPED / "generated-netflow9.pcap"
FLOW = Schema.load("flow")
TYPE = new_table_type(FLOW, compile_plan(FLOW))
GARBAGE = 0xA5


# The structure of the Arrow C stream interface, written from its specification ------------------------------


class Stream(ctypes.Structure):
    """ArrowArrayStream."""

    _fields_ = [
        ("get_schema", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Array(ctypes.Structure):
    """ArrowArray."""

    _fields_ = [
        ("numbers", ctypes.c_int64 * 5),
        ("pointers", ctypes.c_void_p * 3),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def call_get_next(capsule: object) -> tuple[int, int | None, bytes]:
    """Return the code of get_next, the release callback of the array, and the text of the last error.

    The array is filled with garbage before the call.
    """
    address = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    stream = Stream.from_address(address)
    array = Array()
    ctypes.memset(ctypes.byref(array), GARBAGE, ctypes.sizeof(array))
    code = stream.get_next(address, ctypes.addressof(array))
    return code, array.release, stream.get_last_error(address) or b""


class NoText(Exception):
    """An exception that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Exit(BaseException):
    """An exception that derives from BaseException only."""


def fail(error: BaseException) -> Iterator[Any]:
    raise error
    yield


ERRORS: dict[str, tuple[BaseException, str]] = {
    "plain": (OSError("disk"), "OSError: disk"),
    "surrogate": (CaptureError("caf\udce9.pcap: damaged"), r"CaptureError: caf\udce9.pcap: damaged"),
    "no text": (NoText(), "NoText"),
    "nul": (ValueError("a\0b"), r"ValueError: a\x00b"),
    "base exception": (Exit("now"), "Exit: now"),
    "interrupt": (KeyboardInterrupt(), "KeyboardInterrupt: "),
    "memory": (MemoryError("none left"), "MemoryError: none left"),
    "long": (ValueError("x" * 1000), "ValueError: " + "x" * 243),
    "long and not ASCII": (ValueError("é" * 1000), "ValueError: " + "é" * 121),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_exception_is_reported_through_the_c_interface(name: str) -> None:
    error, text = ERRORS[name]
    capsule = _core.export_stream(TYPE, fail(error))
    for _ in range(2):  # a consumer that asks again must not see the end of the stream
        code, release, last_error = call_get_next(capsule)
        assert code != 0
        assert release is None
        assert last_error.decode() == text


def test_objects_that_are_not_tables_are_reported() -> None:
    code, release, last_error = call_get_next(_core.export_stream(TYPE, iter([1])))
    assert (code != 0, release) == (True, None)
    assert last_error.startswith(b"TypeError: ")


@pytest.mark.parametrize("name", ERRORS)
def test_consumers_see_the_error(name: str) -> None:
    """Methods of FlowStream raise the original exception. Consumers of the C stream raise its text."""

    class Reader:
        name = "failing"
        repeatable = True

        def open(
            self, columns: tuple[str, ...], ip: str, count: object
        ) -> tuple[_core.TableType, Iterator[Any]]:
            return TYPE, fail(error)

    error, text = ERRORS[name]
    with pytest.raises(type(error)) as raised:
        FlowStream(FLOW, Reader()).to_arrow()
    assert raised.value is error
    with pytest.raises(Exception) as imported:  # noqa: PT011
        pa.table(FlowStream(FLOW, Reader()))
    assert text in str(imported.value)
    with pytest.raises(Exception):  # noqa: B017, PT011
        pl.DataFrame(FlowStream(FLOW, Reader()))
    with pytest.raises(OSError) as encoded:  # noqa: PT011
        encode_columns(FlowStream(FLOW, Reader()))
    assert encoded.value.strerror == text


@pytest.mark.parametrize("read", [FlowStream.to_arrow, FlowStream.to_pandas, FlowStream.to_polars, list])
def test_a_damaged_capture_whose_name_is_not_unicode_raises(
    read: Callable[[FlowStream], object], tmp_path: Path
) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.pcap")
    Path(name).write_bytes(NETFLOW9.read_bytes()[:-3])
    with pytest.raises(DecodeError, match="truncated_capture") as raised:
        read(read_capture(name, strict=True))
    assert name in str(raised.value)


def test_a_missing_capture_whose_name_is_not_unicode_raises(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.pcap")
    with pytest.raises(FileNotFoundError):
        read_capture(name).to_arrow()
    with pytest.raises(Exception, match=r"caf\\udce9"):
        pa.table(read_capture(name))


def test_errors_that_a_library_swallows_are_still_raised() -> None:
    def swallow(stream: Any) -> None:
        with contextlib.suppress(FileNotFoundError):
            list(stream._watch())

    with pytest.raises(FileNotFoundError):
        read_capture(SHIPPED / "missing.pcap")._read_by(swallow)


# Capsules ---------------------------------------------------------------------------------------------------


class Capsules:
    """Columns that return the same capsules on every call."""

    def __init__(self, **capsules: Any) -> None:
        for name, capsule in capsules.items():
            setattr(self, f"__arrow_c_{name}__", lambda capsule=capsule: capsule)


def test_stream_capsules_can_be_encoded_only_once() -> None:
    columns = Capsules(stream=read_capture(NETFLOW9).__arrow_c_stream__())
    assert encode_columns(columns)
    with pytest.raises(ValueError, match="used already"):
        encode_columns(columns)


def test_array_capsules_can_be_encoded_only_once() -> None:
    batch = next(iter(read_capture(NETFLOW9)))
    columns = Capsules(array=batch.__arrow_c_array__())
    assert encode_columns(columns)
    with pytest.raises(ValueError, match="used already"):
        encode_columns(columns)


def test_streams_may_be_released_while_they_are_read() -> None:
    """A consumer may close a reader while another thread reads it."""
    reading, closed = threading.Event(), threading.Event()

    def tables() -> Iterator[Any]:
        reading.set()
        closed.wait(10)
        raise OSError("after the release")
        yield

    capsule = _core.export_stream(TYPE, tables())
    address = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    stream = Stream.from_address(address)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(call_get_next(capsule)[0]))
    thread.start()
    assert reading.wait(10)
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(stream.release)(address)
    closed.set()
    thread.join(10)
    assert codes
    assert codes[0] != 0
    assert call_get_next(capsule)[0] != 0  # an error, not the end of the stream
