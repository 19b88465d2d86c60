"""Datasets of the benchmarks, by name. Real captures are read from the folder FLOWBUF_CORPUS."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from flowbuf.bench import GENERATED, Workload, generate_workload, load_workload

CORPUS = Path(os.environ.get("FLOWBUF_CORPUS", "no-corpus"))
DATA = Path(__file__).parent.parent / "tests/data"
CAPTURES = {
    "netflow9-data": CORPUS / "netflow9-data.pcap",
    "netflow5-29-records": CORPUS / "netflow5-29-records.pcap",
    "sflow-1140": CORPUS / "sflow-1140.pcap",
    "ipfix-cisco-srv6": CORPUS / "ipfix-cisco-srv6.pcap",
    "ipfix-variable": DATA / "ipfix-variable.pcap",
}
NAMES = [*CAPTURES, *(f"generated-{protocol}" for protocol in GENERATED)]


@cache
def load(name: str) -> Workload | None:
    """Return the workload of a dataset. None if its capture does not exist."""
    if name not in CAPTURES:
        return generate_workload(name.removeprefix("generated-"))
    return load_workload(name, CAPTURES[name]) if CAPTURES[name].exists() else None
