"""Lists inside records, by RFC 6313: subTemplateList (292), subTemplateMultiList (293), basicList (291).

The RFC leaves these points open:

- The template of an inner record is a template of the same exporter and domain, at whatever age. A list does
  not wait for a template that arrives later.
- A list with the semantic noneOf (section 4.4) gives no values, because it states which values do not apply.
  All other semantics are equal here.
- A truncated list is read up to its end. So are records after a length that is too large.
- Nested lists are read to a depth of four.
- A member of a basicList is like a record of one element. A basicList that fills a column itself is not
  opened.
- Inner records come after all other elements of the record, in the order of the wire, each before its own
  lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .lists import NONE_OF, BasicList, CutShort
from .octets import Octets
from .values import Element, Field

if TYPE_CHECKING:
    from .templates import FieldSpecifier, Template

SUB_TEMPLATE_LIST, SUB_TEMPLATE_MULTI_LIST = 292, 293
BASIC_LIST = (0, 291)
# mibObjectValueTable and mibObjectValueRow (RFC 8038), ipv6ExtensionHeaderTypeCountList and
# ipv6ExtensionHeaderChainLengthList (RFC 9740) have the data type subTemplateList.
STRUCTURES = {(0, number) for number in (SUB_TEMPLATE_LIST, SUB_TEMPLATE_MULTI_LIST, 443, 444, 516, 519)}
PADDING = 210
DEPTH = 4

Record = list[tuple["FieldSpecifier", bytes]]
Find = Callable[[int], "Template | None"]
Entry = list[tuple[Element, Field]]


class Structure:
    """The lists of one record. `find` returns the template of an id."""

    def __init__(self, record: Record, find: Find) -> None:
        self.record, self.find = record, find

    def entries(self, notes: Counter[str], basic: bool) -> list[Entry]:
        """Return the inner records without their lists. Records of those lists are separate entries.

        With `basic`, each member of a basicList is an entry too.
        """
        self.opened = STRUCTURES | {BASIC_LIST} if basic else STRUCTURES
        return list(self.read_record(self.record, 0, notes))

    def read_record(self, record: Record, depth: int, notes: Counter[str]) -> Iterator[Entry]:
        for specifier, octets in record:
            yield from self.read_list((specifier.enterprise, specifier.id), octets, depth, notes)

    def read_list(self, element: Element, octets: bytes, depth: int, notes: Counter[str]) -> Iterator[Entry]:
        if element not in self.opened or not octets:
            return
        if depth == DEPTH:
            notes["bad_list"] += 1
        elif element == BASIC_LIST:
            yield from self.read_members(octets, depth, notes)
        else:
            multiple = element == (0, SUB_TEMPLATE_MULTI_LIST)
            for template_id, content in parts(Octets(octets), multiple, notes):
                yield from self.read_part(template_id, content, depth, notes)

    def read_members(self, octets: bytes, depth: int, notes: Counter[str]) -> Iterator[Entry]:
        """Yield an entry of one element for each member of a basicList, or the entries of a member that is
        a list.
        """
        if octets[0] == NONE_OF:
            notes["opaque_value"] += 1
            return
        try:
            members = BasicList(octets)
            for member in members.members():
                if members.identity in self.opened:
                    yield from self.read_list(members.identity, member, depth + 1, notes)
                else:
                    yield [(members.identity, Field(member))]
        except CutShort as cut:
            notes[cut.args[0]] += 1

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
    """Yield (template id, records) of each part.

    A list has a semantic 1, then one template id 2 and its records. A list of several templates repeats a
    template id 2, a length 2 (these four bytes included) and records.
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
