"""Split the speed of formats into two factors: binary instead of text, and positions instead of keys.

    python -m benchmarks.lab.split RESULT.json

RESULT.json is the output of `pytest benchmarks --benchmark-json=RESULT.json`. A ladder is three formats, each
of which differs from the one before in one respect: text with keys, binary with keys, binary without keys.
The first factor is the gain of binary over text, the second the gain of positions over keys. Their product is
the whole gain. A share is the part of a factor in the whole, by logarithms. It does not exist if the whole
gain is not above 1.

Formats ran in turn, so a factor is the median of the ratios within rounds, ± half their interquartile range.
If the library changes with the first step, the first factor includes this change, and the output says so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.results import print_result

__all__ = ["LADDERS", "Factor", "Ladder", "Split", "split_speed"]

Samples = Mapping[str, Sequence[float]]
"""Nanoseconds per record of each format, one sample per round of a run."""


class Ladder(NamedTuple):
    """Names of three formats. `pure`: one library, or a library and its fork, implements all of them."""

    text: str
    keyed: str
    positional: str
    pure: bool


LADDERS = (
    Ladder("msgspec-json", "msgspec-msgpack", "msgspec-msgpack-array", True),
    Ladder("msgspec-json-struct", "msgspec-msgpack-struct", "msgspec-msgpack-struct-array", True),
    Ladder("orjson", "ormsgpack", "ormsgpack-array", True),
    Ladder("json", "msgpack", "msgpack-array", False),
    Ladder("json", "cbor2", "cbor2-array", False),
)


class Factor(NamedTuple):
    """A speed-up, and half its interquartile range."""

    ratio: float
    spread: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ±{self.spread:.2f}"


class Split(NamedTuple):
    """The factors of a ladder. `rest` is the speed-up of another format over the last one of the ladder."""

    ladder: Ladder
    binary: Factor
    keyless: Factor
    whole: Factor
    rest: Factor | None

    @property
    def binary_share(self) -> float | None:
        """The share of `binary` in the whole. It is negative or above 1 if one of the two steps is slower."""
        return math.log(self.binary.ratio) / math.log(self.whole.ratio) if self.whole.ratio > 1 else None

    @property
    def keyless_share(self) -> float | None:
        share = self.binary_share
        return None if share is None else 1 - share


def split_speed(samples: Samples, beyond: str = "flowbuf") -> list[Split]:
    """Return a split for each ladder whose formats were all measured."""
    return [split_ladder(samples, ladder, beyond) for ladder in LADDERS if {*ladder[:3]} <= samples.keys()]


def split_ladder(samples: Samples, ladder: Ladder, beyond: str) -> Split:
    def compare(slow: str, fast: str) -> Factor:
        return compare_rounds(samples[slow], samples[fast])

    rest = compare(ladder.positional, beyond) if beyond in samples else None
    binary, keyless = compare(ladder.text, ladder.keyed), compare(ladder.keyed, ladder.positional)
    return Split(ladder, binary, keyless, compare(ladder.text, ladder.positional), rest)


def compare_rounds(slow: Sequence[float], fast: Sequence[float]) -> Factor:
    ratios = [one / other for one, other in zip(slow, fast, strict=False)]
    if len(ratios) == 1:
        return Factor(ratios[0], 0.0)
    lower, median, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return Factor(median, (upper - lower) / 2)


# Results ----------------------------------------------------------------------------------------------------


def read_samples(content: Any) -> dict[str, dict[str, list[float]]]:
    """Return samples by dataset and format. Raises ValueError if it is not a result of pytest-benchmark."""
    if not isinstance(content, dict) or "benchmarks" not in content:
        raise ValueError("not a result of pytest --benchmark-json")
    found: dict[str, dict[str, list[float]]] = {}
    for each in content["benchmarks"]:
        info = each["extra_info"]
        if "samples" in info:
            found.setdefault(info["dataset"], {})[info["what"]] = info["samples"]
    return found


def describe(dataset: str, splits: Sequence[Split]) -> Iterator[str]:
    yield dataset
    for split in splits:
        text, keyed, positional, pure = split.ladder
        parts = [
            f"binary {split.binary}{'' if pure else ' (and another library)'}",
            f"no keys {split.keyless}",
        ]
        parts.append(f"both {split.whole}")
        if split.binary_share is not None and split.keyless_share is not None:
            parts.append(f"of which {split.binary_share:.0%} and {split.keyless_share:.0%}")
        if split.rest:
            parts.append(f"flowbuf beyond {split.rest}")
        yield f"  {text} > {keyed} > {positional}: {', '.join(parts)}"


def describe_all(content: Any) -> Iterator[str]:
    """Yield the splits of each dataset that has a whole ladder. Raises ValueError as `read_samples` does."""
    for dataset, samples in read_samples(content).items():
        if splits := split_speed(samples):
            yield from describe(dataset, splits)


def main(arguments: Sequence[str] | None = None) -> None:
    print_result("split", __doc__, describe_all, arguments)


if __name__ == "__main__":
    main()
