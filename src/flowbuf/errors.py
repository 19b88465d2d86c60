"""Exceptions of flowbuf.

Malformed input is counted, not raised, unless a decoder is strict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = [
    "CaptureError",
    "ClickHouseError",
    "ConfigError",
    "DecodeError",
    "EncodeError",
    "EnrichmentError",
    "FlowbufError",
    "KafkaError",
    "ListenError",
    "PartitionLost",
    "QueryError",
    "SchemaError",
    "SpoolError",
    "StateError",
    "did_you_mean",
    "optional_import",
]


@contextmanager
def optional_import(what: str, requirement: str) -> Iterator[None]:
    """Turn an ImportError inside the block into one that names the missing requirement.

    Args:
        what: Start of the message, such as "to_arrow needs pyarrow".
        requirement: Requirement to install with pip, such as "flowbuf[arrow]".
    """
    try:
        yield
    except ImportError as error:
        problem = f"{what}; run pip install '{requirement}' ({error})"
        raise ImportError(problem, name=error.name, path=error.path) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return 'did you mean …?' for a misspelt name, or '' if no known name is similar.

    Names that begin with `name` are preferred.
    """
    import difflib  # imported late, because most names are correct

    folded = {word.lower(): word for word in known}
    longer = [word for word in folded if len(name) > 2 and word.startswith(name.lower())]
    close = [folded[word] for word in longer[:5] or difflib.get_close_matches(name.lower(), folded, n=3)]
    return f"did you mean {' or '.join(close)}?" if close else ""


class FlowbufError(Exception):
    """Base class of all exceptions of flowbuf."""


def _locate(problem: str, fix: str, *places: str) -> str:
    """Return the text of an error: places, problem and fix, without the empty parts."""
    return ": ".join([*filter(None, places), f"{problem}; {fix}" if fix else problem])


class SchemaError(FlowbufError, ValueError):
    """A schema is invalid, or does not fit its use.

    The text names the file, the column and the fix, where they are known.

    Attributes:
        problem: Description of the fault.
        fix: Suggested correction, or "".
        origin: File of the schema, or "".
        column: Name of the column, or "".
    """

    def __init__(self, problem: str, fix: str = "", *, origin: str = "", column: str = "") -> None:
        super().__init__(_locate(problem, fix, origin, f"column {column!r}" if column else ""))
        self.problem = problem
        self.fix = fix
        self.origin = origin
        self.column = column

    def located(self, origin: str = "", column: str = "") -> SchemaError:
        """Return this error with the file and the column filled in, if it has none."""
        return SchemaError(self.problem, self.fix, origin=self.origin or origin, column=self.column or column)


class EnrichmentError(FlowbufError, ValueError):
    """An enrichment cannot be loaded, or its function failed or returned an invalid result.

    The text names the file or function, the place in it and the fix, where they are known.

    Attributes:
        problem: Description of the fault.
        fix: Suggested correction, or "".
        origin: File or function of the enrichment, or "".
        where: Place in it, such as "column 'src_as'", or "".
    """

    def __init__(self, problem: str, fix: str = "", *, origin: str = "", where: str = "") -> None:
        super().__init__(_locate(problem, fix, origin, where))
        self.problem = problem
        self.fix = fix
        self.origin = origin
        self.where = where

    def located(self, origin: str = "", where: str = "") -> EnrichmentError:
        """Return this error with the file or function and the place filled in, if it has none."""
        return EnrichmentError(
            self.problem, self.fix, origin=self.origin or origin, where=self.where or where
        )


class QueryError(FlowbufError, ValueError):
    """A SQL query or condition cannot be run.

    The text is the message of duckdb or ClickHouse. For an unknown name, duckdb's message is followed by the
    known columns.
    """


class CaptureError(FlowbufError):
    """A file is not a capture, or the capture is damaged."""


class DecodeError(FlowbufError, ValueError):
    """Input is malformed: raised by a strict decoder, a Codec, and the readers of messages.

    Attributes:
        status: Name of the status, such as "bad_message" (see `flowbuf.STATUSES`).
        offset: Position of the fault in bytes, in the datagram or in the input of a Codec. None if the fault
            is in no datagram, for example if a data set still waits for its template at the end of the input.
        exporter: Address of the exporter as text, or None.
        path: Field of the message, such as `events[3].time`, or "". Set by a Codec only.
    """

    def __init__(
        self,
        text: str,
        status: str = "",
        offset: int | None = None,
        exporter: str | None = None,
        path: str = "",
    ) -> None:
        super().__init__(text)
        self.status = status
        self.offset = offset
        self.exporter = exporter
        self.path = path


class ConfigError(FlowbufError):
    """The configuration of the collector is invalid."""


class ListenError(FlowbufError):
    """An address cannot be listened on, because it is invalid, in use, or not of this machine."""


class ClickHouseError(FlowbufError):
    """A ClickHouse server failed or refused a request. The text contains no secrets."""


class KafkaError(FlowbufError):
    """A Kafka broker, a topic or a schema registry failed or refused a request.

    The text contains no secrets.
    """


class PartitionLost(KafkaError):
    """A partition was assigned to another consumer of the group. Its offsets can no longer be committed."""


class SpoolError(FlowbufError):
    """A folder cannot be used as a spool.

    Attributes:
        in_use: True if another process uses the spool.
    """

    def __init__(self, text: str, in_use: bool = False) -> None:
        super().__init__(text)
        self.in_use = in_use


class StateError(FlowbufError):
    """A file cannot be used as a state file.

    Attributes:
        replaceable: True if the file is a damaged state file, which flowbuf may overwrite. Other files are
            never overwritten.
    """

    def __init__(self, text: str, replaceable: bool = False) -> None:
        super().__init__(text)
        self.replaceable = replaceable


@contextmanager
def contained_exit() -> Iterator[None]:
    """Turn an exception that would end a thread, such as SystemExit, into a RuntimeError."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}".rstrip(": ")) from error


def error_text(error: BaseException) -> str:
    """Return the text of an exception, or the name of its class if it has none."""
    return str(error) or type(error).__name__


def shorten(path: str) -> str:
    """Return a path for use in a message; one of more than 200 characters is cut in the middle."""
    return path if len(path) <= 200 else f"{path[:90]} … {path[-90:]}"


class EncodeError(FlowbufError, ValueError):
    """A value does not fit its column or field.

    Attributes:
        path: Field of a Codec's object, such as `events[3].time`, or "".
    """

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{shorten(path)}: {problem}" if path else problem)
        self.path = path
