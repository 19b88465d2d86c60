"""`flowbuf schema proto MODULE:CLASS`: the .proto file of an annotated class."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.core import ParameterSource

from flowbuf.cli.options import UsageProblem, schema_errors
from flowbuf.cli.output.streams import print_text
from flowbuf.errors import did_you_mean

__all__ = ["or_class"]

_CLASS_OPTIONS = {"package": "--package", "message": "--message"}
_SCHEMA_OPTIONS = {
    "reference": "--schema",
    "only": "--columns",
    "enable": "--enable",
    "disable": "--disable",
}


def or_class(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let the argument `name` of a command that prints a .proto file also be MODULE:CLASS.

    The command gets the options --message and --package, which apply to classes only.
    """

    @functools.wraps(command)
    def with_class(name: str | None, message: str | None, package: str | None, **options: Any) -> None:
        if name is not None and _is_class_name(name):
            if wrong := _given(_SCHEMA_OPTIONS):
                raise UsageProblem(f"{wrong[0]} does not apply to a class; leave it out")
            _print_class(name, message, package or "")
            return
        if wrong := _given(_CLASS_OPTIONS):
            raise UsageProblem(f"{wrong[0]} applies only to a class; name one as MODULE:CLASS")
        command(name=name, **options)

    for option in (
        click.option("--package", metavar="NAME", help="Package of the messages of a class. Default: none."),
        click.option(
            "--message", metavar="NAME", help="Name of the message of a class. Default: its own name."
        ),
    ):
        with_class = option(with_class)
    return with_class


def _given(options: dict[str, str]) -> list[str]:
    """Return those of the options that are in the command line."""
    source = click.get_current_context().get_parameter_source
    return [option for name, option in options.items() if source(name) is not ParameterSource.DEFAULT]


def _is_class_name(name: str) -> bool:
    return ":" in name and not os.path.exists(name)


def _print_class(reference: str, message: str | None, package: str) -> None:
    from flowbuf.codec.classes import to_file
    from flowbuf.codec.proto_text import to_text

    with _current_folder_first(), schema_errors():
        file, _ = to_file(_load_class(reference), message, package)
    print_text(to_text(file, f"Class {reference}."), end="")


@contextlib.contextmanager
def _current_folder_first() -> Iterator[None]:
    """Search modules in the current folder first, as `python -m` does."""
    before = [*sys.path]
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before


def _load_class(reference: str) -> type:
    """Return the class that MODULE:CLASS names. Raise UsageProblem if it cannot be imported."""
    module_name, _, name = reference.partition(":")
    if not name or not all(part.isidentifier() for part in module_name.split(".")):
        fix = "write MODULE:CLASS as in an import, such as shop.orders:Order"
        raise UsageProblem(f"{reference}: is not the name of a class; {fix}")
    found = _import_module(reference, module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            fix = did_you_mean(
                part, [known for known in dir(found) if isinstance(getattr(found, known, None), type)]
            )
            raise UsageProblem(f"{reference}: {module_name} has no {name}; {fix or 'correct the name'}")
        found = getattr(found, part)
    if not isinstance(found, type):
        raise UsageProblem(f"{reference}: {name} is not a class; name an annotated class")
    return found


def _import_module(reference: str, name: str) -> Any:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for the .proto file
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            fix = "run the command in the folder that imports start from, or set PYTHONPATH"
            raise UsageProblem(f"{reference}: no module named {missing!r}; {fix}") from None
        problem = f"{type(error).__name__}: {error}"
        raise UsageProblem(f"{reference}: module {name} cannot be imported: {problem}") from error
