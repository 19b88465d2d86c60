"""Files that define message types: .proto files, and descriptor sets of protoc and buf."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError as ProtobufError

from flowbuf.codec.descriptors import LOADED
from flowbuf.errors import SchemaError, did_you_mean

__all__ = ["compile_proto", "find_message", "load_files", "read_file"]

_IMPORTS = (
    "name the folder that imports start from: include=[FOLDER]; flowbuf searches the folder of the file, too"
)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a descriptor set. Raises SchemaError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        fix = "name a .toml file, a .proto file or a descriptor set"
        raise SchemaError(f"cannot be read: {error.strerror}", fix, origin=os.fspath(path)) from None


def load_files(files: FileDescriptorSet | bytes, origin: str) -> list[Descriptor]:
    """Return the messages of a descriptor set, those of its last file first.

    The last file is the requested one. Raises SchemaError.
    """
    if isinstance(files, bytes):
        try:
            files = FileDescriptorSet.FromString(files)
        except ProtobufError:
            raise SchemaError(
                "is not a FileDescriptorSet", "write one with protoc -o, or buf build", origin=origin
            ) from None
    if not files.file:
        raise SchemaError("has no files", "write it with protoc --include_imports", origin=origin)
    pool = descriptor_pool.DescriptorPool()
    try:
        ordered = _in_order(files.file)
        for file in (*ordered, FileDescriptorProto(name=LOADED, dependency=[file.name for file in ordered])):
            pool.Add(file)
        found = [pool.FindFileByName(file.name) for file in files.file]
        if not all(file.name for file in found):  # reading a name that is not UTF-8 raises
            raise KeyError("a file has no name")
    except UnicodeDecodeError:
        raise SchemaError("has names that are not UTF-8", "write it with protoc -o", origin=origin) from None
    except RecursionError:
        fix = "flatten the chain of imports or messages"
        raise SchemaError("is nested too deeply", fix, origin=origin) from None
    except (TypeError, KeyError) as error:
        fix = "add the imported files with protoc --include_imports"
        raise SchemaError(f"cannot be used: {error}", fix, origin=origin) from None
    return [message for file in reversed(found) for message in file.message_types_by_name.values()]


def _in_order(files: Iterable[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Sort files so that imports come first. Files in google/protobuf/ are taken from google.protobuf."""
    waiting = {file.name: file for file in files}
    ordered: list[FileDescriptorProto] = []

    def take(name: str) -> None:
        file = waiting.pop(name, None)
        if file is None:
            if name.startswith("google/protobuf/") and all(name != each.name for each in ordered):
                ordered.append(_well_known(name))
            return
        for imported in file.dependency:
            take(imported)
        ordered.append(file)

    for name in list(waiting):
        take(name)
    return ordered


def _well_known(name: str) -> FileDescriptorProto:
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except (ImportError, ValueError):  # ValueError: the name cannot be that of a module
        raise KeyError(f"{name} is missing") from None
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def find_message(
    messages: list[Descriptor], name: str | None, origin: str, requested: Sequence[str] = ()
) -> Descriptor:
    """Return the message with this name: full, without its package, or only the last part.

    For the last part, top-level messages take precedence over nested ones, and those of the requested files
    over others. Without a name, return the only message of the requested files. By default, these are the
    file of the first message.

    Raises:
        SchemaError: no message has the name, or several have it.
    """
    if not messages:
        raise SchemaError("has no messages", "a codec needs at least one", origin=origin)
    if name is None:
        chosen = requested or [messages[0].file.name]
        first = [each for each in messages if each.file.name in chosen]
        if len(first) != 1:
            fix = f"choose one with message=…: {_list(first)}"
            raise SchemaError(f"has {len(first)} messages", fix, origin=origin)
        return first[0]
    known = _by_name(messages)
    name = name.removeprefix(".")  # as a full name in a .proto file
    if name not in known:
        fix = did_you_mean(name, known) or f"messages are {_list(messages)}"
        raise SchemaError(f"has no message {name!r}", fix, origin=origin)
    for candidates in _by_precedence(known[name], name, requested or [messages[0].file.name]):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            fix = f"choose one with message=…: {_list(candidates)}"
            raise SchemaError(f"has {len(candidates)} messages named {name!r}", fix, origin=origin)
    raise AssertionError(name)  # the last candidates are all of the messages


def _by_precedence(found: list[Descriptor], name: str, files: Sequence[str]) -> Iterator[list[Descriptor]]:
    """Yield the messages of a name: with this full name, top-level ones of the files, top-level ones, all."""
    top = [each for each in found if each.containing_type is None]
    yield [each for each in found if each.full_name == name]
    yield [each for each in top if each.file.name in files]
    yield top
    yield found


def _by_name(messages: list[Descriptor]) -> dict[str, list[Descriptor]]:
    """Return all messages, including nested ones, by each of their names, in the order of the files."""
    known: dict[str, list[Descriptor]] = {}
    waiting = list(messages)
    for each in waiting:  # the list grows during the loop
        for name in {each.full_name, each.full_name.removeprefix(f"{each.file.package}."), each.name}:
            known.setdefault(name, []).append(each)
        waiting += [nested for nested in each.nested_types if not nested.GetOptions().map_entry]
    return known


def _list(messages: list[Descriptor]) -> str:
    return ", ".join(each.full_name for each in messages)


def compile_proto(
    reference: str | os.PathLike[str], include: Sequence[str | os.PathLike[str]] = ()
) -> tuple[FileDescriptorSet, list[str]]:
    """Compile a .proto file, or all .proto files of a folder, with protoc.

    Args:
        reference: Path of the file or the folder. A file that is not there is searched in the folders of
            `include`.
        include: Folders in which imports are searched, besides the folder of the file.

    Returns:
        The descriptors, and the names of the requested files among them.

    Raises:
        SchemaError: a file does not compile.
    """
    path = os.fspath(reference)
    roots, names = _find_files(path, [os.fspath(each) for each in include])
    if any(name.startswith(("-", "@")) for name in names):
        raise SchemaError("protoc takes names that begin with - or @ as options", "rename it", origin=path)
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "set")
        options = [
            *(f"--proto_path={root}" for root in roots),
            "--include_imports",
            f"--descriptor_set_out={output}",
        ]
        done = subprocess.run([*_find_compiler(path), *options, *names], capture_output=True)
        if done.returncode:
            problems = done.stderr.decode("utf-8", "backslashreplace").strip()
            fix = _IMPORTS if "File not found" in problems else ""
            raise SchemaError(f"does not compile: {problems}", fix, origin=path)
        with open(output, "rb") as file:
            return FileDescriptorSet.FromString(file.read()), names


def _find_files(path: str, include: list[str]) -> tuple[list[str], list[str]]:
    """Return the folders to search, and the names of the files in them."""
    for folder in include:
        if not os.path.isdir(folder):
            raise SchemaError(f"include names {folder!r}, which is not a folder", origin=path)
    if os.path.isdir(path):
        names = sorted(
            os.path.relpath(os.path.join(place, name), path).replace(os.sep, "/")
            for place, _, found in os.walk(path)
            for name in found
            if name.endswith(".proto")
        )
        if not names:
            raise SchemaError("has no .proto file", "name another folder", origin=path)
        return [path, *include], names
    if os.path.isfile(path):
        own = os.path.dirname(path) or "."
        for folder in include:
            name = os.path.relpath(path, folder)
            if not name.startswith(os.pardir):  # the folder comes first, so that no other file is meant
                return [folder, *include, own], [name.replace(os.sep, "/")]
        return [own, *include], [os.path.basename(path)]
    if any(os.path.isfile(os.path.join(folder, path)) for folder in include):
        return include, [path.replace(os.sep, "/")]
    where = f" here or in {', '.join(include)}" if include else ""
    fix = "correct the path, or name the folder that it starts from: include=[FOLDER]"
    raise SchemaError(f"does not exist{where}", fix, origin=path)


def _find_compiler(path: str) -> list[str]:
    program = shutil.which("protoc")
    if program:
        return [program]
    if importlib.util.find_spec("grpc_tools"):
        return [sys.executable, "-m", "grpc_tools.protoc"]
    fix = "run pip install 'flowbuf[proto]', install protoc, or load a descriptor set or a message class"
    raise SchemaError("needs protoc, which is not installed", fix, origin=path)
