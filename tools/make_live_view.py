"""Write docs/assets/live.svg: the screen of `flowbuf collect --live` with the counters of an example.

python tools/make_live_view.py
"""

from __future__ import annotations

import io
import ipaddress
import re
from pathlib import Path
from typing import Any

from flowbuf.cli.live.screen import Screen, make_screen
from flowbuf.cli.output.console import StdoutConsole
from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.live import ExporterRates, LiveCounters, OutputRates
from flowbuf.collect.output_counters import OutputCounters
from flowbuf.collect.outputs.top_talkers import TopWindow
from flowbuf.collect.queue import QueueCounters
from flowbuf.collect.worker import RowCounters
from flowbuf.schema import Schema

PICTURE = Path(__file__).parent.parent / "docs/assets/live.svg"
COLUMNS, LINES = 100, 28
SECONDS = 10.0

# Bit/s, packets/s and flows/s of the top talkers.
TALKERS: list[tuple[str, int, float, float, float]] = [
    ("192.0.2.18", 443, 1.92e9, 171_000, 3_210),
    ("2001:db8:4::7a", 443, 1.31e9, 118_000, 2_870),
    ("198.51.100.140", 22, 9.4e8, 81_500, 12),
    ("192.0.2.77", 8080, 3.6e8, 42_300, 1_040),
    ("203.0.113.9", 53, 8.8e7, 91_200, 61_400),
    ("2001:db8:1::53", 53, 4.1e7, 38_800, 24_900),
]
MESSAGES = [
    ("info", "10:41:07 listening on 0.0.0.0:2055, [::]:4739, [::]:6343"),
    ("warning", "10:52:30 kafka: broker broker.example.net:9092 is unavailable; waiting for it"),
]


def example_screen() -> Screen:
    """Return the screen of a collector with several exporters and outputs."""
    return Screen(_counters(), _top(), messages=MESSAGES)


def _counters() -> LiveCounters:
    decoded = 39_012_400
    kafka = QueueCounters(offered=decoded, queued=314_572, taken=decoded - 314_572)
    files = QueueCounters(offered=decoded, taken=decoded)
    return LiveCounters(
        seconds=754.0,
        addresses=("0.0.0.0:2055", "[::]:4739", "[::]:6343"),
        intake=IntakeCounters(received=1_412_077, bytes=1_871_000_000, rows={"flows": RowCounters(decoded)}),
        datagrams=3_406.0,
        bytes=4.5e6,
        rows={"flows": 95_120.0},
        losses={
            "kernel drops": (0, 0.0),
            "missing packets": (12, 0.2),
            "dropped by outputs": (0, 0.0),
            "template_missing": (3, 0.0),
        },
        exporters=[
            ExporterRates("192.0.2.1", 0, 10, 2_310, {"flows": 71_300}, {"records": 0}, 0.3),
            ExporterRates("2001:db8::2", 0, 9, 880, {"flows": 22_700}, {"packets": 12}, 0.1),
            ExporterRates("198.51.100.3", 0, 0, 216, {"flows": 1_120}, {"datagrams": 0, "samples": 0}, 0.8),
            ExporterRates("203.0.113.4", 0, 5, 0, {"flows": 0}, {"flows": 0}, 95),
        ],
        exporter_count=4,
        outputs=[
            OutputRates(
                "flows/", OutputCounters(files, stored=31_204_800, pending=7_807_600), 1 << 20, 95_120, ""
            ),
            OutputRates(
                "kafka://broker.example.net:9092/flows",
                OutputCounters(kafka, stored=decoded - 314_572),
                1 << 20,
                0,
                "broker.example.net:9092: no broker answered in 5 s",
            ),
        ],
    )


def _top() -> TopWindow:
    schema = Schema.load("flow")
    rows: list[tuple[tuple[Any, ...], dict[str, float]]] = [
        (
            (_address(address), port),
            {"bytes": bits / 8 * SECONDS, "packets": packets * SECONDS, "flows": flows * SECONDS},
        )
        for address, port, bits, packets, flows in TALKERS
    ]
    totals = {"bytes": 6.3e9, "packets": 7.1e6, "flows": 951_200.0}
    return TopWindow((schema["src_addr"], schema["src_port"]), rows, totals, SECONDS)


def _address(text: str) -> bytes:
    """Return the 16 bytes of an address; those of an IPv4-mapped one for IPv4."""
    address = ipaddress.ip_address(text)
    return bytes(10) + b"\xff\xff" + address.packed if address.version == 4 else address.packed


def draw_picture() -> str:
    """Return the picture as SVG. Its font is one that the reader has."""
    console = StdoutConsole(width=COLUMNS, file=io.StringIO())
    console.record = True
    console.print(make_screen(example_screen(), COLUMNS, LINES))
    picture = console.export_svg(title="flowbuf collect --live", unique_id="live")
    return re.sub(r"@font-face \{[^}]*\}\s*", "", picture)


if __name__ == "__main__":
    PICTURE.write_text(draw_picture())
