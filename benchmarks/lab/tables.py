"""Print the tables of benchmarks/lab/README.md in Markdown, from one run.

    python -m benchmarks.lab.tables RESULT.json

RESULT.json is the output of `pytest benchmarks --benchmark-json=RESULT.json` or of `lab.keep`. Medians and
spreads are those of the file. Spreads of ratios are computed the same way (`split.compare_rounds`): quartiles
are inclusive here, in the notebooks and in compare.py. Formats that were not measured are left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.machine import describe_machine
from benchmarks.results import print_result

from .formats import FORMATS
from .split import Factor, Samples, compare_rounds, split_speed

__all__ = ["Standing", "compare_best", "make_tables", "write_head", "write_row"]

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""`extra_info` by dataset and format."""

OWN = {"dict": "flowbuf", "tuple": "flowbuf-tuple", "Struct": "flowbuf-struct"}
"""Shape of a record in Python -> the form of flowbuf's codec that other formats are compared with."""
MAIN = "telemetry"
DIRECTIONS = ("encode", "decode")
RIVALS = ("protobuf-upb", "json", "orjson", "msgspec-msgpack", "pickle")
CASES = (("telemetry", 1), ("record", 10_000), ("client_message", 1))
SPEED = {
    "flowbuf": "`flowbuf.Codec`, dicts",
    "flowbuf-tuple": "`flowbuf.Codec`, tuples",
    "flowbuf-struct": "`flowbuf.Codec`, Structs of msgspec",
    "protobuf-upb": "`google.protobuf` (upb, in C), dicts",
    "json": "stdlib `json`, dicts",
}


# Standing ---------------------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """The fastest format other than flowbuf for one shape of records, and its time relative to flowbuf."""

    shape: str
    best: str
    factor: Factor

    @property
    def ahead(self) -> bool:
        """True if flowbuf is faster by more than the spread."""
        return self.factor.ratio - self.factor.spread > 1

    @property
    def behind(self) -> bool:
        return self.factor.ratio + self.factor.spread < 1


def compare_best(samples: Samples) -> Iterator[Standing]:
    """Yield a standing for each shape in which flowbuf and another format were measured."""
    shapes = {form.name: form.shape for form in FORMATS if not form.name.startswith("flowbuf")}
    medians = {name: statistics.median(each) for name, each in samples.items()}
    for shape, own in OWN.items():
        others = [name for name in samples if shapes.get(name) == shape]
        if own in samples and others:
            best = min(others, key=medians.__getitem__)
            yield Standing(shape, best, compare_rounds(samples[best], samples[own]))


# Tables -----------------------------------------------------------------------------------------------------


def make_tables(content: Any) -> dict[str, str]:
    """Return tables in Markdown by title. Raises ValueError if it is not a result of pytest-benchmark."""
    results = read_results(content)
    made = {
        "Codec": tabulate_speed(results),
        "Formats": tabulate_formats(),
        f"Times of {MAIN}: {describe_machine(content['machine_info'])}": tabulate_times(results),
        "Times relative to flowbuf": tabulate_ratios(results),
        "Sources of the speed": tabulate_factors(results),
        "Standing": tabulate_standing(results),
    }
    return {title: "\n".join(table) for title, rows in made.items() if len(table := list(rows)) > 2}


def read_results(content: Any) -> Results:
    if not isinstance(content, dict) or not {"benchmarks", "machine_info"} <= content.keys():
        raise ValueError("not a result of pytest --benchmark-json")
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for each in content["benchmarks"]:
        info = each["extra_info"]
        if "ns_per_flow" in info:
            found.setdefault(info["dataset"], {})[info["what"]] = info
    return found


def samples_of(results: Results, dataset: str) -> dict[str, Sequence[float]]:
    return {name: info["samples"] for name, info in results.get(dataset, {}).items()}


def write_head(*cells: str, text: int = 1) -> Iterator[str]:
    """Yield the head of a table. The first `text` columns are aligned left, the others right."""
    yield write_row(*cells)
    yield "|" + "|".join(["---"] * text + ["--:"] * (len(cells) - text)) + "|"


def write_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def tabulate_formats() -> Iterator[str]:
    yield from write_head(
        "format", "library", "text or binary", "keys", "in Python", "strings", "encoding of a time", text=7
    )
    for form in FORMATS:
        kind = "text" if form.text else "binary"
        cells = (form.library or "Python", kind, form.keys, form.shape, form.strings, form.times)
        yield write_row(f"`{form.name}`", *cells)


def tabulate_speed(results: Results) -> Iterator[str]:
    """Return medians of the codec, and the ratio of other formats to `flowbuf.Codec` with dicts."""
    datasets = [f"{MAIN} {direction} 1" for direction in DIRECTIONS]
    yield from write_head("one record of twelve fields, ns", *DIRECTIONS)
    for name, text in SPEED.items():
        if all(name in results.get(dataset, {}) for dataset in datasets):
            yield write_row(text, *(write_speed(results, dataset, name) for dataset in datasets))


def write_speed(results: Results, dataset: str, name: str) -> str:
    samples, median = samples_of(results, dataset), f"{results[dataset][name]['ns_per_flow']:,.0f}"
    if name in OWN.values() or OWN["dict"] not in samples:
        return median
    return f"{median} ({write_ratio(compare_rounds(samples[name], samples[OWN['dict']]).ratio)}×)"


def tabulate_times(results: Results) -> Iterator[str]:
    yield from write_head(
        "format",
        "bytes",
        "encode",
        "decode",
        *(f"{each}, 1000 at once" for each in DIRECTIONS),
        "allocations",
    )
    single = [results.get(f"{MAIN} {direction} 1", {}) for direction in DIRECTIONS]
    columns = [*single, *(results.get(f"{MAIN} {direction} 1000", {}) for direction in DIRECTIONS)]
    for name in single[0]:
        times = [write_time(column.get(name)) for column in columns]
        allocations = ", ".join(write_count(column.get(name), "allocations") for column in single)
        yield write_row(f"`{name}`", write_count(single[0][name], "bytes"), *times, allocations)


def write_time(info: Mapping[str, Any] | None) -> str:
    return "–" if info is None else f"{info['ns_per_flow']:,.0f} ± {info['spread'] / 2:,.0f}"


def write_count(info: Mapping[str, Any] | None, key: str) -> str:
    return "–" if info is None or key not in info else f"{info[key]:,.0f}"


def tabulate_ratios(results: Results) -> Iterator[str]:
    rivals = [name for name in RIVALS if any(name in dataset for dataset in results.values())]
    yield from write_head("time relative to `flowbuf`, dicts", *(f"`{name}`" for name in rivals))
    for family, count in CASES:
        for direction in DIRECTIONS:
            samples = samples_of(results, f"{family} {direction} {count}")
            if "flowbuf" in samples:
                many = "" if count == 1 else f", {count:,} at once"
                yield write_row(
                    f"`{family}`{many}, {direction}", *(write_range(samples, name) for name in rivals)
                )


def write_range(samples: Samples, name: str) -> str:
    """Return median, minimum and maximum of the ratios within rounds."""
    if name not in samples:
        return "–"
    ratios = [one / own for one, own in zip(samples[name], samples["flowbuf"], strict=False)]
    median, least, greatest = map(write_ratio, (statistics.median(ratios), min(ratios), max(ratios)))
    return f"{median} ({least}–{greatest})"


def write_ratio(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


def tabulate_factors(results: Results) -> Iterator[str]:
    """Yield the factors of the ladders of msgspec."""
    yield from write_head(f"`{MAIN}`, one at a time", "text → binary", "keys → positions", "both")
    for direction in DIRECTIONS:
        for split in split_speed(samples_of(results, f"{MAIN} {direction} 1")):
            if split.ladder.text.startswith("msgspec"):
                shape = "Structs" if "struct" in split.ladder.text else "dicts, then tuples"
                factors = (
                    f"{each.ratio:.2f} ± {each.spread:.2f}"
                    for each in (split.binary, split.keyless, split.whole)
                )
                yield write_row(f"msgspec, {shape}, {direction}", *factors)


def tabulate_standing(results: Results) -> Iterator[str]:
    """Yield the standing by direction and shape, of all families and batch sizes together."""
    head = ("cases", "flowbuf is faster", "slower", "within the spread", "`protobuf-upb` takes ×")
    yield from write_head("compared with the fastest other", *head)
    for direction in DIRECTIONS:
        chosen = [samples_of(results, dataset) for dataset in results if f" {direction} " in dataset]
        every = [each for samples in chosen for each in compare_best(samples)]
        for shape in dict.fromkeys(each.shape for each in every):
            part = [each for each in every if each.shape == shape]
            ahead, behind = sum(each.ahead for each in part), sum(each.behind for each in part)
            counts = (len(part), ahead, behind, len(part) - ahead - behind)
            upb = write_upb(chosen) if shape == "dict" else "–"
            yield write_row(f"{direction}, {shape}", *map(str, counts), upb)


def write_upb(every: Sequence[Samples]) -> str:
    """Return the minimum and maximum of the median ratios of all cases."""
    own, upb = OWN["dict"], "protobuf-upb"
    ratios = [compare_rounds(each[upb], each[own]).ratio for each in every if {own, upb} <= each.keys()]
    return f"{write_ratio(min(ratios))}–{write_ratio(max(ratios))}" if ratios else "–"


def describe(content: Any) -> Iterator[str]:
    tables = make_tables(content)
    yield "\n\n".join(f"{title}\n\n{table}" for title, table in tables.items())


def main(arguments: Sequence[str] | None = None) -> None:
    print_result("tables", __doc__, describe, arguments)


if __name__ == "__main__":
    main()
