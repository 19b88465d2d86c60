"""Write a schema as plan text for the C benchmarks (format: ext/tests/support/plan_text.h).

usage: write_plan.py SCHEMA [COLUMN...]     name or file of a schema; additional columns to enable
"""

from __future__ import annotations

import sys

import flowbuf.schema.plan
from flowbuf import _core
from flowbuf.schema import Schema
from flowbuf.schema.source import LAST

TYPES = {code: name for name, code in _core.TYPES.items()}
KINDS = {code: name for name, code in _core.KINDS.items()}
SOURCES = {code: name for name, code in _core.SOURCES.items()}
NETFLOW5_FIELDS = {index: name for name, (index, _) in _core.NETFLOW5_FIELDS.items()}


class PlanWriter:
    """Replacement for the core's Plan that records the calls of the compiler as lines of text."""

    written: PlanWriter

    def __init__(self) -> None:
        self.columns: list[tuple[str, list[list[str]]]] = []
        self.rows = _core.ROWS["flows"]
        self.mirrors: dict[str, str] = {}
        PlanWriter.written = self

    def set_rows(self, rows: int) -> None:
        self.rows = rows

    def add_column(
        self, name: str, number: int, type: int, flags: int, limit: int, unit: int, mappings: dict[int, int]
    ) -> None:
        words = [str(number), name, TYPES[type], f"limit={limit}", f"unit={unit or 1}"]
        words += [flag for flag, bit in _core.FLAGS.items() if flags & bit and flag != "enabled"]
        words += [] if flags & _core.FLAGS["enabled"] else ["disabled"]
        words += (
            ["map=" + ",".join(f"{wire}:{number}" for wire, number in mappings.items())] if mappings else []
        )
        self.columns.append((" ".join(words), []))

    def _add(self, rank: int, source: str) -> bool:
        ranks = self.columns[-1][1]
        while len(ranks) <= rank:
            ranks.append([])
        ranks[rank].append(source)
        return True

    def add_source(self, rank: int, source: int) -> bool:
        return self._add(rank, SOURCES[source])

    def add_element(self, rank: int, pen: int, id: int, kind: int, occurrence: int = 0) -> bool:
        if pen == _core.PEN_NETFLOW5:
            return self._add(rank, NETFLOW5_FIELDS[id])
        which = f"#{occurrence}" if occurrence else ""
        if occurrence == LAST:
            which = "#last"
        if pen == _core.PEN_SCOPE:
            return self._add(rank, next(name for name, type in _core.SCOPES.items() if type == id))
        if pen == _core.PEN_NETFLOW9:
            return self._add(rank, f"netflow9:{id}{which}@{KINDS[kind]}")
        return self._add(rank, f"ipfix:{f'{pen}/' if pen else ''}{id}{which}@{KINDS[kind]}")

    def set_replacement(self) -> None:
        ranks = self.columns[-1][1]
        ranks[-1][-1] = f"+{ranks[-1][-1]}"

    def set_mirror(self, name: str, mirror: str) -> None:
        self.mirrors[name] = mirror

    def set_registry(self, kinds: bytes) -> None:
        """Ignore the kinds of list members, which the benchmarks do not use."""

    def seal(self) -> None:
        """Do nothing; the lines are complete."""

    def unordered(self) -> list[str]:
        return []

    def lines(self) -> list[str]:
        # Ranks without sources are omitted.
        lines = [
            f"{words}{self._mirror(words)} : {' '.join(','.join(rank) for rank in ranks if rank)}"
            for words, ranks in self.columns
        ]
        kind = {code: name for name, code in _core.ROWS.items()}[self.rows]
        return lines if kind == "flows" else [f"rows {kind}", *lines]

    def _mirror(self, words: str) -> str:
        mirror = self.mirrors.get(words.split()[1])
        return f" mirror={mirror}" if mirror else ""


def write_plan(schema: Schema) -> str:
    """Return the plan of a schema as text."""
    _core.Plan = PlanWriter  # type: ignore[misc, assignment]
    flowbuf.schema.plan.compile_plan(schema)
    return "\n".join(PlanWriter.written.lines()) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.stdout.write(write_plan(Schema.load(sys.argv[1]).enable(*sys.argv[2:])))
