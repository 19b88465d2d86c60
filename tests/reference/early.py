"""Data sets that arrive before their template.

They wait, in order of arrival, for the template set that defines their id. They are decoded right after it,
with the header of their own datagram. The waiting bytes per exporter and in total are limited. If a set finds
no room, the oldest sets are dropped, first those of the same exporter. A set that is larger than a limit does
not wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .datagram import Datagram, Exporters

if TYPE_CHECKING:
    from .templates import Domain
    from .values import Clock

SET_HEADER = 4
BESIDES = 192  # overhead in bytes that is counted for each set


@dataclass(eq=False)
class Waiting:
    datagram: Datagram
    domain: Domain
    set_id: int
    content: bytes
    clock: Clock

    @property
    def cost(self) -> int:
        return BESIDES + SET_HEADER + len(self.content)


def wait(waiting: Waiting) -> None:
    exporters, exporter = waiting.datagram.exporters, waiting.datagram.exporter
    policy = exporters.policy
    if waiting.cost > min(policy.early_data_limit, policy.early_data_total):
        exporter.counters["template_missing"] += 1
        return
    while sum(each.cost for each in of_exporter(waiting)) > policy.early_data_limit - waiting.cost:
        give_up(exporters, of_exporter(waiting)[0])
    while sum(each.cost for each in exporters.waiting) > policy.early_data_total - waiting.cost:
        give_up(exporters, exporters.waiting[0])
    exporters.waiting.append(waiting)
    exporter.counters["early_data"] += 1


def of_exporter(waiting: Waiting) -> list[Waiting]:
    exporter = waiting.datagram.exporter
    return [each for each in waiting.datagram.exporters.waiting if each.datagram.exporter is exporter]


def give_up(exporters: Exporters, waiting: Waiting) -> None:
    waiting.datagram.exporter.counters["template_missing"] += 1
    exporters.waiting.remove(waiting)


def take(exporters: Exporters, domain: Domain, defined: Iterable[int]) -> list[Waiting]:
    """Remove and return the sets of the domain that wait for an id in `defined`.

    The id must still be known at the end of the template set.
    """
    usable = {template_id for template_id in defined if domain.find(template_id)}
    taken = [
        waiting for waiting in exporters.waiting if waiting.domain is domain and waiting.set_id in usable
    ]
    for waiting in taken:
        exporters.waiting.remove(waiting)
    return taken
