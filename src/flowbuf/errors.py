"""What flowbuf raises. Bad input is counted, not raised, unless a decoder is strict; these are for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "CaptureError",
    "ClickHouseError",
    "DecodeError",
    "EncodeError",
    "EnrichmentError",
    "FlowbufError",
    "KafkaError",
    "PartitionLost",
    "QueryError",
    "SchemaError",
    "StateError",
    "optional_import",
]


@contextmanager
def optional_import(what: str, requirement: str) -> Iterator[None]:
    """Where an import within fails: ImportError with `what` needs it, and the `requirement` that pip gets it by."""
    try:
        yield
    except ImportError as error:
        problem = f"{what}: pip install '{requirement}' ({error})"
        raise ImportError(problem, name=error.name, path=error.path) from error


class FlowbufError(Exception):
    """The base of every error of this package."""


def _locate(problem: str, fix: str, *places: str) -> str:
    """Where, what and what to do, as far as they are known."""
    return ": ".join([*filter(None, places), f"{problem}; {fix}" if fix else problem])


class SchemaError(FlowbufError, ValueError):
    """A schema that cannot be used. Its text names the file, the column and the fix, as far as they are known."""

    def __init__(self, problem: str, fix: str = "", *, origin: str = "", column: str = "") -> None:
        super().__init__(_locate(problem, fix, origin, f"column {column!r}" if column else ""))
        self.problem = problem
        self.fix = fix
        self.origin = origin
        self.column = column

    def located(self, origin: str = "", column: str = "") -> SchemaError:
        """The same error, with the file and the column filled in where it does not name them yet."""
        return SchemaError(self.problem, self.fix, origin=self.origin or origin, column=self.column or column)


class EnrichmentError(FlowbufError, ValueError):
    """An enrichment that cannot be loaded, or a function that does not do what it should. Its text names the file or
    the function, where in it, and the fix, as far as they are known."""

    def __init__(self, problem: str, fix: str = "", *, origin: str = "", where: str = "") -> None:
        super().__init__(_locate(problem, fix, origin, where))
        self.problem = problem
        self.fix = fix
        self.origin = origin
        self.where = where

    def located(self, origin: str = "", where: str = "") -> EnrichmentError:
        """The same error, with the file or function and the place in it filled in where it does not name them yet."""
        return EnrichmentError(self.problem, self.fix, origin=self.origin or origin, where=self.where or where)


class QueryError(FlowbufError, ValueError):
    """SQL that cannot be run. Its text is what duckdb or ClickHouse says of it, with duckdb which columns there are."""


class CaptureError(FlowbufError):
    """A file that is not a capture, or cannot be read as one."""


class DecodeError(FlowbufError, ValueError):
    """Malformed input, met by a strict decoder.

    `status` is the name of the fault (a row of the core's status table), `offset` is where in the datagram it is, in
    octets (None: in none, as when input ends while a data set waits for its template), and `exporter` is the address of
    who sent it, as text. Of a codec, `offset` is where in its input, and `path` names the field: `events[3].time`.
    """

    def __init__(
        self, text: str, status: str = "", offset: int | None = None, exporter: str | None = None, path: str = ""
    ) -> None:
        super().__init__(text)
        self.status = status
        self.offset = offset
        self.exporter = exporter
        self.path = path


class ClickHouseError(FlowbufError):
    """A server of ClickHouse that does not do what is asked of it. Its text has no secrets."""


class KafkaError(FlowbufError):
    """A broker, a topic or a schema registry that does not do what is asked of it. Its text has no secrets."""


class PartitionLost(KafkaError):
    """A partition has gone to another member of the group, and with it the right to commit its offsets."""


class StateError(FlowbufError):
    """A file that cannot be used as state. `replaceable`: it is a damaged state file, and may be written over; anything
    else is somebody's, and is never touched."""

    def __init__(self, text: str, replaceable: bool = False) -> None:
        super().__init__(text)
        self.replaceable = replaceable


def shorten(path: str) -> str:
    """A path as messages show it: of records deep inside each other, where it begins and where it ends."""
    return path if len(path) <= 200 else f"{path[:90]} … {path[-90:]}"


class EncodeError(FlowbufError, ValueError):
    """A value that its column cannot hold. `path` is where in a codec's record it is: `events[3].time`."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{shorten(path)}: {problem}" if path else problem)
        self.path = path
