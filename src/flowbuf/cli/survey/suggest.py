"""Write a schema with a column for each field of captures that no column uses: `flowbuf schema suggest`.

A known element of a vendor has a column already, which the schema enables.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowbuf._core import MAX_COLUMNS
from flowbuf.cli.output.terminal import clean_line, cut_line
from flowbuf.cli.survey.fields import find_fields
from flowbuf.schema import Schema, elements
from flowbuf.schema.column import RESERVED_NUMBERS, fold
from flowbuf.schema.elements import Element
from flowbuf.schema.vendor_columns import FIRST_NUMBER, column_name, column_type, names_of_vendor
from flowbuf.targets.flow_text import to_json_string

__all__ = ["Suggestion", "suggest", "write_schema"]

FIRST_USER_NUMBER = 1000
MAX_SAMPLES = 3
SAMPLE_WIDTH = 60
_SIZES = {1: "uint8", 2: "uint16", 3: "uint32", 4: "uint32", **dict.fromkeys(range(5, 9), "uint64")}


@dataclass
class Suggestion:
    """A column for a field.

    Attributes:
        source: Source of the column.
        element: Element of the field, or None.
        size: Largest size of the field in bytes; None if it is variable.
        samples: Some values, as text.
    """

    source: str
    element: Element | None
    size: int | None
    samples: list[str] = field(default_factory=list)

    @property
    def type(self) -> dict[str, str]:
        """Type of the column, as keys of a `[[column]]` table. Empty: no column can hold the field."""
        if self.element and self.element.data_type:
            return column_type(self.element.data_type)
        return {"type": _SIZES.get(self.size or 0, "bytes")}

    @property
    def vendor(self) -> str:
        """Vendor of the element; empty if there is none."""
        return self.element.vendor if self.element else ""

    @property
    def name(self) -> str:
        """Name for the column."""
        if self.element:
            return column_name(self.element)
        return "field_" + re.sub(r"\W+", "_", self.source.partition(":")[2])


def suggest(surveys: Iterable[dict[str, Any]]) -> list[Suggestion]:
    """Return a suggestion for each field that no column uses, in the order of the fields.

    Args:
        surveys: Summaries of captures, with the fields of `survey_fields`.
    """
    found: dict[str, Suggestion] = {}
    for survey in surveys:
        seen = find_fields(survey)
        for each in survey["fields"]:
            if each["used"]:
                continue
            about = seen[each["source"]]
            element = elements.by_number(about["pen"], about["id"])
            suggestion = found.setdefault(each["source"], Suggestion(each["source"], element, about["size"]))
            suggestion.size = _larger(suggestion.size, about["size"])
            if each["sample"] and len(suggestion.samples) < MAX_SAMPLES:
                suggestion.samples.append(each["sample"])
    return list(found.values())


def _larger(size: int | None, other: int | None) -> int | None:
    return None if size is None or other is None else max(size, other)


def write_schema(
    suggestions: Sequence[Suggestion], schema: Schema, reference: str, captures: Sequence[str]
) -> str:
    """Return a schema in TOML that enables or adds the suggested columns; "" if no column can hold a field.

    Args:
        suggestions: Suggestions.
        schema: Schema to extend.
        reference: Name or path of that schema.
        captures: Names of the captures, for a comment.
    """
    able = [each for each in suggestions if each.type]
    if not able:
        return ""
    room = max(MAX_COLUMNS - len(schema), 0)
    taken = {fold(each.name) for each in (*schema, *schema.reserved)}
    known = [each for each in able[:room] if _is_built_in(each, taken)]
    enabled = {each.name for each in known}
    unknown = [each for each in able[:room] if not (each.vendor and each.name in enabled)]
    head = _head(schema, reference, captures, len(unknown))
    taken |= {fold(each.name) for each in known}
    parts = (head, _enable(known), _columns(unknown, schema, taken), _rest(suggestions, able[room:]))
    return "\n".join(itertools.chain(*parts))


def _head(schema: Schema, reference: str, captures: Sequence[str], columns: int) -> Iterator[str]:
    names = ", ".join(clean_line(os.path.basename(path)) for path in captures)
    yield f"# Fields of {names} that no column of the schema {schema.name} uses."
    if columns:
        yield "# Change names and types as you like. Keep the numbers: they identify columns in messages."
    yield "[schema]"
    yield f'name = "{schema.name}-suggested"'
    yield f"extends = {to_json_string(reference)}"


def _is_built_in(suggestion: Suggestion, taken: set[str]) -> bool:
    """Return True if flowbuf has a column for an element of a vendor, and no other column has its name."""
    name, element = suggestion.name, suggestion.element
    typed = element is not None and bool(element.vendor and element.data_type)
    return typed and name in names_of_vendor(name) and fold(name) not in taken


def _enable(known: Sequence[Suggestion]) -> Iterator[str]:
    """Enable columns of vendors. Elements with the same name share one."""
    samples: dict[str, dict[str, None]] = {}
    for each in known:
        samples.setdefault(each.name, {}).update(dict.fromkeys(each.samples))
    if samples:
        yield "enable = ["
    for name, texts in samples.items():
        values = ", ".join(cut_line(text, SAMPLE_WIDTH) for text in texts)
        yield f'    "{name}",' + (f"  # value: {values}" if values else "")
    if samples:
        yield "]"


def _columns(suggestions: Iterable[Suggestion], schema: Schema, taken: set[str]) -> Iterator[str]:
    numbers = _free_numbers(schema)
    for each in suggestions:
        name = _free_name(each.name, taken)
        yield ""
        yield "[[column]]"
        yield f'name = "{name}"'
        yield f"number = {next(numbers)}"
        yield from (f'{key} = "{value}"' for key, value in each.type.items())
        yield f'sources = ["{each.source}"]'
        if each.element:
            yield f"doc = {to_json_string(_describe(each.element))}"
        yield from (f"# value: {cut_line(text, SAMPLE_WIDTH)}" for text in dict.fromkeys(each.samples))


def _free_numbers(schema: Schema) -> Iterator[int]:
    """Yield numbers that no column has, has had, or may have: those after the user's columns come first."""
    used = {each.number for each in (*schema, *schema.reserved) if each.number < FIRST_NUMBER}
    first = max(FIRST_USER_NUMBER, *(number + 1 for number in used))
    numbers = itertools.chain(range(first, FIRST_NUMBER), range(FIRST_USER_NUMBER, first))
    return (number for number in numbers if number not in used and number not in RESERVED_NUMBERS)


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that differs from others, also without case and underscores."""
    free, count = name, 2
    while fold(free) in taken:
        free, count = f"{name}_{count}", count + 1
    taken.add(fold(free))
    return free


def _describe(element: Element) -> str:
    of = f" of {element.vendor}" if element.vendor else ""
    units = f", in {element.units}" if element.units else ""
    return f"Element {element.name}{of}{units}"


def _rest(suggestions: Iterable[Suggestion], left: Sequence[Suggestion]) -> Iterator[str]:
    lists = [each.source for each in suggestions if not each.type]
    if lists:
        yield ""
        yield f"# No column can hold a list of records: {', '.join(lists)}"
    if left:
        yield ""
        sources = ", ".join(each.source for each in left)
        yield f"# A schema has at most {MAX_COLUMNS} columns. Left out: {sources}"
