"""Prepare the docstrings of flowbuf for the Python reference of the site. mkdocstrings loads this extension.

griffe reads signatures and types from the sources and from `_core/__init__.pyi`. It imports the compiled
modules for the docstrings of the classes that are written in Cython.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import re
from typing import Any

import griffe

# Cython puts the signature before the text of a docstring (embedsignature).
SIGNATURE = re.compile(r"\A[\w.]+\(.*\)(?: -> .*)?\n\n")
INDENTED = r"(?:[ ]{4}.*\n?|\n)+"
EXAMPLE = re.compile(rf"^Example:\n({INDENTED})", re.MULTILINE)
CODE = re.compile(rf"(`[^`]*`|^Example:\n{INDENTED})", re.MULTILINE)
# Sections of "name: text" items that Google style does not have, such as "Attributes of columns of records".
OTHER_ATTRIBUTES = re.compile(rf"^(Attributes of .*):\n({INDENTED})", re.MULTILINE)
ITEM = re.compile(r"^ {4}(\w+): ", re.MULTILINE)


BINDING = "flowbuf._core."


def find_docstring(obj: griffe.Object) -> griffe.Docstring | None:
    """Return the docstring of a name in the compiled modules. The stub, which griffe reads, has none."""
    try:
        found = operator.attrgetter(obj.path.removeprefix(BINDING))(importlib.import_module(BINDING[:-1]))
    except AttributeError:  # only the stub has this name
        return None
    if not found.__doc__:
        return None
    return griffe.Docstring(inspect.cleandoc(found.__doc__), parent=obj, parser="google")


def prepare(text: str) -> str:
    """Return a docstring as Markdown: without an embedded signature, and with examples as code blocks."""
    parts = CODE.split(SIGNATURE.sub("", text))
    text = "".join(part if CODE.match(part) else part.replace("<", "&lt;") for part in parts)
    return OTHER_ATTRIBUTES.sub(_list, EXAMPLE.sub(_fence, text))


def _fence(example: re.Match[str]) -> str:
    code = example[1].rstrip("\n")
    return f"Examples:\n    ```python\n{code}\n    ```\n\n"


def _list(section: re.Match[str]) -> str:
    items = re.sub("^ {4}", "", ITEM.sub(r"    - `\1`: ", section[2]), flags=re.MULTILINE)
    return f"{section[1]}:\n\n{items}\n"


class Docstrings(griffe.Extension):
    """Change docstrings and constructors after the package is loaded."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, agent: Any, **kwargs: Any) -> None:
        """Remove the docstring of the type of a constant in the compiled extension."""
        if isinstance(agent, griffe.Inspector):
            attr.docstring = None

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Prepare the docstring of an object. A function of the extension is shown as a method."""
        obj.labels.discard("method descriptor")
        if obj.path.startswith(BINDING) and (obj.is_function or obj.is_class) and not obj.docstring:
            obj.docstring = find_docstring(obj)
        if obj.docstring:
            obj.docstring.value = prepare(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Add methods that have only overloads. Show the parameters of `__new__` as those of the class."""
        for name, overloads in cls.overloads.items():
            if name not in cls.members and cls.path.startswith(BINDING):
                last = overloads[-1]
                method = griffe.Function(
                    name, parameters=last.parameters, returns=last.returns, lineno=last.lineno
                )
                method.overloads = overloads[:-1]
                cls.set_member(name, method)
                method.docstring = find_docstring(method)
                if method.docstring:
                    method.docstring.value = prepare(method.docstring.value)
        new = cls.members.get("__new__")
        if isinstance(new, griffe.Function) and "__init__" not in cls.members:
            cls.set_member(
                "__init__", griffe.Function("__init__", parameters=new.parameters, lineno=new.lineno)
            )
