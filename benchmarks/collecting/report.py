"""The report of benchmarks/collector.py in Markdown: targets, and a table for each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.lab.tables import write_head, write_row
from benchmarks.machine import describe_machine

__all__ = ["OVERHEAD_LIMIT", "Target", "find_targets", "make_report", "make_tables"]

Part = Mapping[str, Any]

OVERHEAD_LIMIT = 1.15
OUTPUTS_LIMIT = 0.8
GOFLOW2_LIMIT = 5.0
MEMORY_LIMIT = 0.05
RATE_LIMIT = 0.98
"""Share of a wanted rate that the sender must reach."""


class Target(NamedTuple):
    """A target, the measured value, and whether it was met."""

    text: str
    value: str
    met: bool


# Targets ----------------------------------------------------------------------------------------------------


def find_targets(results: Mapping[str, Part]) -> list[Target]:
    """Return the targets of all parts that were measured, in the order of the parts."""
    return [
        target
        for name, find in TARGETS.items()
        if name in results and is_measured(results[name])
        for target in find(results[name])
    ]


def is_measured(part: Part) -> bool:
    """Return True if a part has results."""
    return "absent" not in part and "failed" not in part


def _overhead_targets(part: Part) -> Iterator[Target]:
    ratios = {each["dataset"]: each["ratio"] for each in part["datasets"]}
    worst = max(ratios, key=lambda name: ratios[name]["median"])
    value = f"{_ratio(ratios[worst], 2)} (`{worst}`, the highest)"
    text = f"CPU time per datagram at most {OVERHEAD_LIMIT} × that of a bare loop plus decoding"
    yield Target(text, value, ratios[worst]["median"] <= OVERHEAD_LIMIT)


def _loss_targets(part: Part) -> Iterator[Target]:
    runs = [run for run in part["runs"] if run["receiver"] == "flowbuf"]
    lost = sum(run["drops"] for run in runs)
    seconds = min(run["seconds"] for run in runs)
    value = f"{lost:,} of {sum(run['sent'] for run in runs):,} datagrams, {seconds:,.0f} s each"
    yield Target("No loss at the maximum of the sender", value, not lost)


def _overload_targets(part: Part) -> Iterator[Target]:
    loads = [run["rate"] / run["sustainable"] for run in part["runs"]]
    value = f"{len(loads)} kinds of overload, at least {min(loads):.1f} × the sustainable load"
    yield Target(
        "All sums are exact at three times the sustainable load", value, min(loads) >= 3 * RATE_LIMIT
    )


def _outputs_targets(part: Part) -> Iterator[Target]:
    text = f"Parquet and Kafka at once: at least {OUTPUTS_LIMIT} of the rate that both allow"
    yield Target(text, _ratio(part["ratio"], 2), part["ratio"]["median"] >= OUTPUTS_LIMIT)


def _comparison_targets(part: Part) -> Iterator[Target]:
    for peer in ("GoFlow2, file", "GoFlow2, Kafka"):
        ratios = {
            each["dataset"]: each["ratios"][peer] for each in part["datasets"] if peer in each["ratios"]
        }
        if ratios:
            worst = min(ratios, key=lambda name: ratios[name]["median"])
            value = f"{_ratio(ratios[worst], 1)} (`{worst}`, the lowest)"
            text = f"CPU time per flow: {peer} takes at least {GOFLOW2_LIMIT:.0f} × that of flowbuf"
            yield Target(text, value, ratios[worst]["median"] >= GOFLOW2_LIMIT)


def _memory_targets(part: Part) -> Iterator[Target]:
    value = (
        f"{part['median'] / 2**20:,.0f} MiB ± {part['deviation']:.1%} in {part['seconds'] / 60:,.0f} minutes"
    )
    text = f"Constant resident memory (± {MEMORY_LIMIT:.0%}) at half load"
    yield Target(text, value, part["deviation"] <= MEMORY_LIMIT)


def _pause_targets(part: Part) -> Iterator[Target]:
    runs = [run for run in part["runs"] if run["receiver"] == "flowbuf"]
    lost, buffer = sum(run["drops"] for run in runs), min(run["buffer"] for run in runs)
    text = f"{part['datagrams']:,} datagrams that arrive while the worker is paused are not lost"
    yield Target(text, f"{lost:,} lost in {len(runs)} runs, buffer {buffer / 2**20:.0f} MiB", not lost)


def _handover_targets(part: Part) -> Iterator[Target]:
    for run in part["runs"]:
        text = (
            f"Reload and takeover at {run['wanted_rate']:,.0f} datagrams/s lose nothing (`{run['dataset']}`)"
        )
        steps = f"{run['reloads']} reloads, {run['takeovers']} takeovers"
        value = f"{run['drops']:,} of {run['sent']:,} lost at {run['rate']:,.0f}/s; {steps}"
        complete = run["rate"] >= RATE_LIMIT * run["wanted_rate"] and not run["ended_before_last_step"]
        yield Target(text, value, not run["drops"] and complete)


TARGETS: dict[str, Callable[[Part], Iterator[Target]]] = {
    "overhead": _overhead_targets,
    "loss": _loss_targets,
    "overload": _overload_targets,
    "outputs": _outputs_targets,
    "comparison": _comparison_targets,
    "memory": _memory_targets,
    "pause": _pause_targets,
    "handover": _handover_targets,
}


# Tables -----------------------------------------------------------------------------------------------------


def make_report(results: Mapping[str, Part]) -> str:
    """Return the whole report."""
    lines = ["# Measurements of the collector", ""]
    if any(part["quick"] for part in results.values()):
        lines += ["Some parts were measured with `--quick`. Their values have no meaning.", ""]
    return "\n".join([*lines, *make_tables(results)]) + "\n"


def make_tables(results: Mapping[str, Part], level: int = 2) -> Iterator[str]:
    """Yield the lines of the table of targets, and of a section for each part with headings of a level."""
    yield from write_head("target", "measured", "met")
    for target in find_targets(results):
        yield write_row(target.text, target.value, "yes" if target.met else "no")
    for name, (title, write) in SECTIONS.items():
        if name in results:
            yield from ("", f"{'#' * level} {title}", "")
            yield from _write_section(results[name], write)


def _write_section(part: Part, write: Callable[[Part], Iterator[str]]) -> Iterator[str]:
    if "failed" in part:
        yield f"Failed: {part['failed']}"
    elif "absent" in part:
        yield f"Not measured: {part['absent']}"
    else:
        yield f"{describe_machine(part['machine'])}. The part took {part['took'] / 60:,.0f} minutes."
        yield ""
        yield from write(part)


def _ratio(ratio: Mapping[str, float], digits: int) -> str:
    return f"{ratio['median']:.{digits}f} ± {ratio['spread']:.{digits}f}"


def _figure(summary: Mapping[str, Any]) -> str:
    return f"{summary['median']:,.0f} ± {summary['spread']:,.0f}"


def _write_overhead(part: Part) -> Iterator[str]:
    yield from write_head(
        *("dataset", "bytes", "flows", "flowbuf, ns per datagram", "bare loop", "decoding"),
        *("flowbuf ÷ (bare loop + decoding)", "datagrams/s"),
    )
    for each in part["datasets"]:
        yield write_row(
            *(
                f"`{each['dataset']}`",
                f"{each['bytes_per_datagram']:,.0f}",
                f"{each['flows_per_datagram']:.1f}",
            ),
            *(_figure(each[name]) for name in ("flowbuf", "bare", "decode")),
            *(_ratio(each["ratio"], 2), f"{each['rates']['flowbuf']['median']:,.0f}"),
        )


def _write_loss(part: Part) -> Iterator[str]:
    head = ("dataset", "sender", "receiver", "datagrams/s", "flows/s", "seconds", "sent", "lost")
    yield from write_head(*head, "highest rate without loss")
    for run in part["runs"]:
        found = f"{run['sustainable']:,.0f}" if "sustainable" in run else ""
        yield write_row(
            *(f"`{run['dataset']}`", run["sender"], run["receiver"], f"{run['rate']:,.0f}"),
            *(f"{run['rate'] * run['flows_per_datagram']:,.0f}", f"{run['seconds']:,.0f}"),
            *(f"{run['sent']:,}", f"{run['drops']:,}", found),
        )


def _write_overload(part: Part) -> Iterator[str]:
    yield from write_head(
        "overload",
        "datagrams/s",
        "× sustainable",
        "sent",
        "received",
        "kernel drops",
        "most in the spool",
        "checks",
    )
    for run in part["runs"]:
        totals = run["totals"]
        yield write_row(
            *(
                run["kind"],
                f"{run['rate']:,.0f}",
                f"{run['rate'] / run['sustainable']:.1f}",
                f"{run['sent']:,}",
            ),
            *(f"{totals['received']:,}", f"{totals['kernel_drops']:,}", f"{run['most_spooled']:,}"),
            f"{run['checks']:,}",
        )
    yield ""
    yield from write_head("overload", "output", "flows", "stored", "filtered", "dropped", "spooled")
    for run in part["runs"]:
        for name, output in run["totals"]["outputs"].items():
            counts = (f"{output[place]:,}" for place in ("stored", "filtered", "dropped", "spooled"))
            yield write_row(run["kind"], name, f"{run['totals']['flows']:,}", *counts)


def _write_outputs(part: Part) -> Iterator[str]:
    yield from write_head("outputs", "flows/s")
    names = {"null": "none", "parquet": "Parquet", "kafka": "Kafka", "both": "Parquet and Kafka at once"}
    for name, text in names.items():
        yield write_row(text, _figure(part["rates"][name]))
    yield ""
    yield f"Both at once reach {_ratio(part['ratio'], 2)} of the lower of their two rates."
    yield f"They reach {_ratio(part['ratio_of_serial'], 2)} of the rate of one processor that receives and"
    yield "decodes once, and does the work of one output after that of the other."


def _write_comparison(part: Part) -> Iterator[str]:
    head = ("dataset", "collector", "ns per flow", "× flowbuf", "flows/s")
    yield from write_head(*head, "ns per flow at full speed", "flows/s at full speed", "flows found")
    for each in part["datasets"]:
        for name, found in each["contestants"].items():
            ratio = _ratio(each["ratios"][name], 1) if name in each["ratios"] else ""
            yield write_row(
                *(f"`{each['dataset']}`", name, _figure(found["ns_per_flow"]), ratio),
                *(
                    _figure(found[key])
                    for key in ("flows_per_second", "fastest_ns_per_flow", "fastest_flows_per_second")
                ),
                f"{found['found']:.2%}",
            )
    yield ""
    versions = ", ".join(f"{name} {version}" for name, version in part["versions"].items())
    yield f"Versions: {versions}."
    for name, reason in part["missing"].items():
        yield f"{name} was not measured: {reason}."


def _write_memory(part: Part) -> Iterator[str]:
    yield from write_head("minute", "resident MiB")
    step = max(1, len(part["samples"]) // 10)
    for second, resident in part["samples"][::step]:
        yield write_row(f"{second / 60:.1f}", f"{resident / 2**20:,.1f}")
    yield ""
    yield f"The load was {part['rate']:,.0f} datagrams/s for {part['seconds']:,.0f} s."
    yield f"{part['drops']:,} datagrams were lost. After {part['warm_up']:,.0f} s, the median was"
    yield f"{part['median'] / 2**20:,.1f} MiB. The largest deviation from it was {part['deviation']:.1%}."


def _write_pause(part: Part) -> Iterator[str]:
    yield from write_head("dataset", "bytes per datagram", "receiver", "runs", "lost")
    groups: dict[tuple[str, str], list[Part]] = {}
    for run in part["runs"]:
        groups.setdefault((run["dataset"], run["receiver"]), []).append(run)
    for (dataset, receiver), runs in groups.items():
        lost = sum(run["drops"] for run in runs)
        yield write_row(
            f"`{dataset}`", f"{runs[0]['bytes_per_datagram']:,.0f}", receiver, str(len(runs)), f"{lost:,}"
        )


def _write_handover(part: Part) -> Iterator[str]:
    yield from write_head("dataset", "collector", "received", "kernel drops", "flows")
    for run in part["runs"]:
        for number, each in enumerate(run["collectors"], 1):
            counts = (f"{each[key]:,}" for key in ("received", "kernel_drops", "flows"))
            yield write_row(f"`{run['dataset']}`", str(number), *counts)
    for run in part["runs"]:
        gaps = ", ".join(f"{name} {count:,}" for name, count in run["sequence"].items())
        flows = run["rate"] * run["flows_per_datagram"]
        yield ""
        yield (
            f"`{run['dataset']}`: {run['sent']:,} datagrams at {run['rate']:,.0f} datagrams/s, "
            f"which are {flows:,.0f} flows/s. Counters of sequence numbers: {gaps}."
        )


SECTIONS: dict[str, tuple[str, Callable[[Part], Iterator[str]]]] = {
    "overhead": ("CPU time per datagram", _write_overhead),
    "loss": ("Loss at the maximum of the sender", _write_loss),
    "overload": ("Sums under overload", _write_overload),
    "outputs": ("Two outputs at once", _write_outputs),
    "comparison": ("CPU time per flow, beside other collectors", _write_comparison),
    "memory": ("Memory at half load", _write_memory),
    "pause": ("A paused worker", _write_pause),
    "handover": ("Reload and takeover", _write_handover),
}
