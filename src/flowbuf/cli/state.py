"""The option --state: read the state file before the work, write it after the work."""

from __future__ import annotations

import os

from flowbuf.cli.options import UsageProblem
from flowbuf.cli.output.failure import describe_os_error
from flowbuf.cli.output.report import Report
from flowbuf.cli.output.streams import open_errors
from flowbuf.decoder import Decoder
from flowbuf.errors import StateError
from flowbuf.io.state_file import load_state, save_state

__all__ = ["check_known_state", "check_state", "read_state", "write_state"]


def check_state(path: str | None, output: str = "-") -> None:
    """Raise UsageProblem if the state could not be written after the work, or would replace the output."""
    if path is None:
        return
    if path == "-":
        raise UsageProblem("--state: - is not a file; name a file")
    if output != "-" and os.path.realpath(path) == os.path.realpath(output):
        raise UsageProblem(f"{path}: is also the output; write the state to another file")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise UsageProblem(f"{path}: folder {folder} does not exist; create it")
    if not os.access(folder, os.W_OK):
        raise UsageProblem(f"{path}: Permission denied")


def check_known_state(path: str | None) -> None:
    """Raise UsageProblem if the state file does not exist, for a command that does not write one."""
    if path == "-":
        raise UsageProblem("--state: - is not a file; name a file")
    if path is not None and not os.path.exists(path):
        raise UsageProblem(f"{path}: No such file; write it with --state of flowbuf read or flowbuf encode")


def read_state(path: str | None, decoder: Decoder, report: Report) -> None:
    """Load a state file into the decoder.

    Report a damaged one. Raise UsageProblem for a file that must not be replaced.
    """
    if path is None:
        return
    try:
        with open_errors():
            load_state(decoder, path)
    except StateError as error:
        if not error.replaceable:
            raise UsageProblem(str(error)) from error
        report.add_problem(f"{error}; the file is ignored")


def write_state(path: str | None, decoder: Decoder, report: Report) -> None:
    """Write the state of the decoder. Only report an error, because the flows are valid without it."""
    if path is None:
        return
    try:
        save_state(decoder, path)
    except StateError as error:
        report.add_problem(f"state not written: {error}")
    except OSError as error:
        report.add_problem(f"state not written: {describe_os_error(error)}")
