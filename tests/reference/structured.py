"""Records inside records, by RFC 6313: subTemplateList (292) and subTemplateMultiList (293).

Readings that the RFC leaves open:

- The template of an inner record is one that the exporter has defined in the domain of the record around the
  list, at whatever age. A list does not wait for a template that comes later.
- The semantic noneOf (section 4.4) says what does not hold: such a list gives no values. All others are the
  same here.
- A list that is cut short is read as far as it goes. So are records behind a length that is too large.
- Lists inside lists are read to a depth of four.
- Inner records come after everything else that the record says, in the order of the wire, each before its own
  lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .lists import NONE_OF
from .octets import Octets
from .values import Element, Field

if TYPE_CHECKING:
    from .templates import FieldSpecifier, Template

SUB_TEMPLATE_LIST, SUB_TEMPLATE_MULTI_LIST = 292, 293
STRUCTURES = {(0, SUB_TEMPLATE_LIST), (0, SUB_TEMPLATE_MULTI_LIST)}
PADDING = 210
DEPTH = 4

Record = list[tuple["FieldSpecifier", bytes]]
Find = Callable[[int], "Template | None"]
Entry = list[tuple[Element, Field]]


class Structure:
    """The lists of one record. `find` gives the template of an id."""

    def __init__(self, record: Record, find: Find) -> None:
        self.record, self.find = record, find

    def entries(self, notes: Counter[str]) -> list[Entry]:
        """The inner records without the lists that they hold, which are entries of their own."""
        return list(self.read_record(self.record, 0, notes))

    def read_record(self, record: Record, depth: int, notes: Counter[str]) -> Iterator[Entry]:
        for specifier, octets in record:
            if not is_structure(specifier) or not octets:
                continue
            if depth == DEPTH:
                notes["bad_list"] += 1
                continue
            multiple = specifier.id == SUB_TEMPLATE_MULTI_LIST
            for template_id, content in parts(Octets(octets), multiple, notes):
                yield from self.read_part(template_id, content, depth, notes)

    def read_part(
        self, template_id: int, content: Octets, depth: int, notes: Counter[str]
    ) -> Iterator[Entry]:
        from .templates import read_records

        if not content.left:
            return
        template = self.find(template_id)
        if template is None or template.is_of_options:
            notes["list_template_missing"] += 1
            return
        cut: Counter[str] = Counter()
        for record in read_records(template, content, cut):
            yield [
                ((field.enterprise, field.id), Field(octets))
                for field, octets in record
                if not is_structure(field)
            ]
            yield from self.read_record(record, depth + 1, notes)
        if content.left or cut:
            notes["bad_list"] += 1


def is_structure(specifier: FieldSpecifier) -> bool:
    return (specifier.enterprise, specifier.id) in STRUCTURES


def parts(octets: Octets, multiple: bool, notes: Counter[str]) -> Iterator[tuple[int, Octets]]:
    """(template id, records) of each part. Semantic 1, then one template id 2 and its records; or, in a list
    of several templates, again and again a template id 2, a length 2 (that counts these four octets too) and
    records.
    """
    if not multiple and octets.left < 3:
        notes["bad_list"] += 1
        return
    if octets.u8() == NONE_OF:
        notes["opaque_value"] += 1
        return
    if not multiple:
        yield octets.u16(), octets
        return
    while octets.left:
        if octets.left < 4:
            notes["bad_list"] += 1
            return
        template_id, length = octets.u16(), octets.u16()
        if length < 4 or length - 4 > octets.left:
            notes["bad_list"] += 1
        if length < 4:
            return
        yield template_id, Octets(octets.take_up_to(length - 4))
