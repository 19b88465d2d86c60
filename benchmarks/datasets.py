"""What the benchmarks decode: datagrams by name, from the corpus where it is, from this project's captures always.

A dataset is timed as a collector meets it: all its datagrams are fed once (templates, options), then only those that
hold flows, over and over, from a working set of a few megabytes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowbuf import Decoder, _core

CORPUS = Path(os.environ.get("FLOWBUF_CORPUS", "no-corpus"))
DATA = Path(__file__).parent.parent / "tests/data"
WORKING_SET = 2_500_000  # octets of payload
NAMES = {
    "netflow5-29-records": CORPUS,
    "netflow9-data": CORPUS,
    "sflow-1140": CORPUS,
    "ipfix-cisco-srv6": CORPUS,
    "generated-netflow5": DATA,
    "generated-netflow9": DATA,
    "generated-ipfix": DATA,
    "generated-sflow": DATA,
}


@dataclass(frozen=True)
class Dataset:
    """`first` are all datagrams of a capture; `data` are those with flows: (payload, source, time in ns)."""

    name: str
    first: list[tuple[bytes, tuple[str, int], int]]
    data: list[tuple[bytes, tuple[str, int], int]]

    def prepare(self, **options: Any) -> tuple[Decoder, _core.Datagrams]:
        """A decoder that knows the exporters, and the working set."""
        decoder = Decoder(**options)
        for datagram in self.first:
            decoder.encode(*datagram)
        copies = max(1, WORKING_SET // sum(len(payload) for payload, _, _ in self.data))
        return decoder, _core.pack_datagrams(*map(list, zip(*self.data * copies, strict=True)))


def load(name: str) -> Dataset | None:
    """A dataset; None where its capture is not on this machine."""
    path = NAMES[name] / f"{name}.pcap"
    if not path.exists():
        return None
    _, _, batch = _core.Capture().scan(path.read_bytes(), True, 65536)
    first = [(payload, source, time) for payload, source, _, time in (batch[i] for i in range(len(batch)))]
    decoder = Decoder()
    for datagram in first:
        decoder.encode(*datagram)
    return Dataset(name, first, [datagram for datagram in first if decoder.messages(*datagram)])
