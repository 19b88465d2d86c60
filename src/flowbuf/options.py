"""The options of decoding. The library, Spark and the command line share them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypedDict

from flowbuf._core import PROCESSORS, TUNNELS
from flowbuf.arguments import check_flag, check_range, check_type, check_whole, list_texts
from flowbuf.errors import did_you_mean
from flowbuf.sampling import PackedRules, SamplingRule, pack_rules

__all__ = ["TIMES", "TUNNELS", "DecodeKeywords", "DecodeOptions", "choose_tunnels", "merge_options"]

TIMES = ("received", "export", "flow-start")
"""Values of the option `time`, which chooses the source of the column `time_received`."""

MAX_SIZE = 2**63 - 1
MAX_EXPIRY = 10**9  # seconds; about three decades
MAX_FLOWS = 10**8  # per second


class DecodeKeywords(TypedDict, total=False):
    """The fields of `DecodeOptions` as keyword arguments."""

    time: str
    default_sampling_rate: int | None
    scale: bool
    strict: bool
    capacity: int
    memory_limit: int
    exporter_limit: int
    decapsulate: str | Iterable[str]
    early_data_limit: int
    early_data_total: int
    template_expiry: float | None
    obey_withdrawals: bool
    sampling: Iterable[SamplingRule]
    rate_limit: int
    processor: str | None


@dataclass(frozen=True)
class DecodeOptions:
    """Options of a `Decoder`. Functions that decode take them as keyword arguments.

    Args:
        time: Source of the column `time_received`: "received" (default), "export" or "flow-start". Without
            that time, the time of reception is used.
        default_sampling_rate: Value of `sampling_rate` for flows without a known rate. Default: the column
            stays absent.
        scale: Multiply columns with scale = "count" (bytes, packets) by the sampling rate of their flow,
            including an overridden rate. Totals of flows without a rate stay unscaled. A total too large for
            its column is absent and counted (`out_of_range`).
        strict: Raise DecodeError at the first datagram that is malformed or cannot be decoded, instead of
            counting it. Payloads that are not flow data (`other_packet`) raise too. Packets of a capture that
            are not flow data are only counted.
        capacity: Initial size of the output buffer, in bytes. The buffer grows as needed.
        memory_limit: Limit for the state of all exporters, in bytes. Default: 1 GiB. 0 means no limit. A
            template that cannot be stored is counted (`template_limit`); its own datagram is still decoded.
        exporter_limit: Largest number of exporters. 0 means 1,048,576.
        decapsulate: Tunnel types (`TUNNELS`, or "all") to open in sampled packets. Default: none.
        early_data_limit: Largest size of the data sets of one exporter that wait for their templates, in
            bytes. 0 means 4 MiB.
        early_data_total: The same limit for all exporters together, in bytes. 0 means 128 MiB. It never
            exceeds a quarter of `memory_limit`.
        template_expiry: Lifetime of a template that is not refreshed, in seconds (1e-9 to 1e9), by the times
            of reception. Data for an expired template waits. Default: None, no expiry.
        obey_withdrawals: Remove withdrawn templates. RFC 7011 section 8.4 forbids withdrawals over UDP, so by
            default they are only counted.
        sampling: Sampling rates of exporters and interfaces. Flows without a rule and without a reported rate
            get `default_sampling_rate`. Default: none.
        rate_limit: Maximum number of flows per second of one exporter, up to 100,000,000. Flows above it are
            skipped and counted (`rate_limited`). The sampling rate of the flows after them is increased, so
            that scaled totals stay right. The clock is the time of reception. Default: 0, no limit.
        processor: Newest kind of processor whose instructions are used: "any", "bmi2" or "avx512". It changes
            the speed, and the order of fields in a message. Default: None, all that this processor has.

    Raises:
        ValueError: a value is out of range, or names an unknown time or tunnel, or a processor that this one
            is not. Two sampling rates are for the same exporters and interface.
        TypeError: a value has another type.

    Example:
        options = flowbuf.DecodeOptions(time="export", template_expiry=3600)
        decoder = flowbuf.Decoder("flow", options)
    """

    time: str = TIMES[0]
    default_sampling_rate: int | None = None
    scale: bool = False
    strict: bool = False
    capacity: int = 65536
    memory_limit: int = 1 << 30
    exporter_limit: int = 0
    decapsulate: str | Iterable[str] = ()
    early_data_limit: int = 0
    early_data_total: int = 0
    template_expiry: float | None = None
    obey_withdrawals: bool = False
    sampling: Iterable[SamplingRule] = ()
    rate_limit: int = 0
    processor: str | None = None

    def __post_init__(self) -> None:
        if self.time not in TIMES:
            raise ValueError(f"time is {self.time!r}; it may be {', '.join(TIMES)}")
        if self.processor is not None and self.processor not in PROCESSORS:
            raise ValueError(
                f"processor is {self.processor!r}; on this machine, it may be {', '.join(PROCESSORS)}"
            )
        for name in ("capacity", "memory_limit", "exporter_limit", "early_data_limit", "early_data_total"):
            check_whole(name, getattr(self, name), 0, MAX_SIZE)
        if self.default_sampling_rate is not None:
            check_whole("default_sampling_rate", self.default_sampling_rate, 1, 2**64 - 1)
        if self.template_expiry is not None:
            note = " seconds, or None for never"
            check_range("template_expiry", self.template_expiry, 1e-9, MAX_EXPIRY, note)
        check_whole("rate_limit", self.rate_limit, 0, MAX_FLOWS)
        for name in ("scale", "strict", "obey_withdrawals"):
            check_flag(name, getattr(self, name))
        if self.rate_limit and self.strict:
            raise ValueError("rate_limit skips flows, which strict forbids; leave one of them out")
        object.__setattr__(self, "decapsulate", choose_tunnels(self.decapsulate))
        check_type("sampling", self.sampling, Iterable, "pass a list of SamplingRule")
        object.__setattr__(self, "sampling", tuple(self.sampling))
        for rule in self.sampling:
            check_type("sampling", rule, SamplingRule, "pass a list of SamplingRule")
        self.pack_sampling()  # reports rules that contradict each other

    @property
    def changes_rates(self) -> bool:
        """True if `sampling` or `rate_limit` changes the sampling rates of flows."""
        return bool(self.sampling or self.rate_limit)

    def pack_sampling(self) -> PackedRules:
        """Return the sampling rates for the core."""
        return pack_rules(self.sampling)


def merge_options(
    options: DecodeOptions | None, keywords: DecodeKeywords, others: Iterable[str] = ()
) -> DecodeOptions:
    """Return the options with these fields replaced. None stands for the default options.

    Args:
        options: Options, or None.
        keywords: Fields to replace.
        others: Other parameters of the function, which an error may suggest.

    Raises:
        TypeError: options is no DecodeOptions, a keyword is not an option, or a value has another type.
        ValueError: a value is out of range, or names an unknown time or tunnel.
    """
    check_type("options", options, DecodeOptions, "pass DecodeOptions(…), or its fields as keyword arguments")
    for name in keywords:
        if name not in DecodeOptions.__dataclass_fields__:
            names = list(DecodeOptions.__dataclass_fields__)
            fix = did_you_mean(name, [*names, *others]) or f"the options of decoding are {', '.join(names)}"
            raise TypeError(f"option {name!r} is unknown; {fix}")
    return DecodeOptions(**keywords) if options is None else replace(options, **keywords)


def choose_tunnels(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the tunnel types with these names, in the order of TUNNELS; "all" selects every type.

    Raises:
        ValueError: a name is unknown.
    """
    wanted = [names] if isinstance(names, str) else list_texts("decapsulate", names, "tunnels", TUNNELS[0])
    for name in wanted:
        if name not in (*TUNNELS, "all"):
            raise ValueError(f"tunnel {name!r} is unknown; choose from {', '.join(TUNNELS)}, all")
    return TUNNELS if "all" in wanted else tuple(name for name in TUNNELS if name in wanted)
