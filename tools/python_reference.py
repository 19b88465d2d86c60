"""Write the Python reference as Markdown, for readers of the repository.

The site has the same texts from mkdocstrings. griffe reads both from the docstrings (tools/docstrings.py).
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOT_RUN = "<!-- not run: the examples name files of the reader -->"
WIDTH = 100
LISTS = {"parameters": "Arguments", "attributes": "Attributes", "raises": "Errors"}


@functools.cache
def load_package() -> Any:
    """Return flowbuf as mkdocstrings reads it."""
    import griffe

    extensions = griffe.load_extensions(ROOT / "tools/docstrings.py")
    return griffe.load("flowbuf", search_paths=[ROOT / "src"], extensions=extensions, allow_inspection=True)


def find(path: str) -> Any:
    """Return the object of a dotted path such as "flowbuf.Codec".

    Raises:
        LookupError: The object has no docstring.
    """
    found = load_package()[path.removeprefix("flowbuf.")]
    if not found.docstring:
        raise LookupError(f"{path} has no docstring")
    return found


def anchor(path: str) -> str:
    """Return the anchor that a repository's viewer gives to the heading of a path."""
    return re.sub(r"[^\w-]", "", path.lower())


def describe(paths: Iterable[str]) -> str:
    """Return signatures and docstrings of objects and of their public members."""
    parts: list[str] = []
    for path in paths:
        target = _target(find(path))
        parts += [f"## {path}", *_describe(target, path.rpartition(".")[2])]
        if target.is_class:
            for member in map(_target, target.all_members.values()):
                if member.docstring and not member.name.startswith("_"):
                    name = f"{target.name}.{member.name}"
                    parts += [f"### {name}", *_describe(member, name)]
    return "\n\n".join(parts) + "\n"


def _target(found: Any) -> Any:
    return found.final_target if found.is_alias else found


def _describe(target: Any, name: str) -> Iterator[str]:
    if target.is_function or (target.is_class and target.parameters):
        yield f"```text\n{_signature(target, name)}\n```"
    elif target.is_attribute and target.annotation:
        yield f"Type: `{target.annotation}`"
    for section in target.docstring.parse("google"):
        yield from _write_section(section)


def _signature(target: Any, name: str) -> str:
    """Return a call with the defaults of the parameters. The text has their types."""
    parts = []
    star = False
    for each in target.parameters:
        kind = each.kind.value if each.kind else ""
        if each.name in ("self", "cls"):
            continue
        star = star or kind.startswith("variadic positional")
        if kind == "keyword-only" and not star:
            parts.append("*")
            star = True
        mark = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        default = "" if mark or each.default is None else f"={each.default}"
        parts.append(f"{mark}{each.name}{default}")
    line = f"{name}({', '.join(parts)})"
    return textwrap.fill(line, WIDTH, subsequent_indent="    ", break_long_words=False)


def _write_section(section: Any) -> Iterator[str]:
    kind, value = section.kind.value, section.value
    if kind == "text":
        yield value
    elif kind == "examples":
        for _, text in value:
            yield re.sub("^```python", f"{NOT_RUN}\n```python", textwrap.dedent(text), flags=re.MULTILINE)
    elif kind == "admonition":
        yield f"**{section.title}.** {value.contents}"
    elif kind in LISTS:
        names = [getattr(each, "name", None) or str(each.annotation) for each in value]
        items = [_item(name, each.description) for name, each in zip(names, value, strict=True)]
        yield "\n".join([f"{LISTS[kind]}:\n", *items])
    elif kind in ("returns", "yields"):
        items = [_item(str(each.annotation or ""), each.description) for each in value]
        yield "\n".join([f"{kind.capitalize()}:\n", *items])
    else:
        raise ValueError(f"a docstring has a section of the kind {kind}")


def _item(name: str, description: str) -> str:
    text = f"`{name}`: {description}" if name else description
    return textwrap.indent(text.replace("\n\n", "\n"), "  ").replace("  ", "- ", 1)
