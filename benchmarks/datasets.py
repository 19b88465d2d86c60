"""What the benchmarks decode, by name: real captures where FLOWBUF_CORPUS names their folder, its own always."""

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
    """A workload; None where its capture is not on this machine."""
    if name not in CAPTURES:
        return generate_workload(name.removeprefix("generated-"))
    return load_workload(name, CAPTURES[name]) if CAPTURES[name].exists() else None
