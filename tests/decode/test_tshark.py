"""flowbuf against TShark, datagram by datagram: as many templates, records and samples, and the same values
in them. Over the captures of the tests and, where the environment variable FLOWBUF_CORPUS names the folder,
those of the corpus. What real exporters send is compared where they are tested.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.exporters import need
from tests.support.golden_exceptions import EARLY_RECORDS
from tests.support.tshark import check_against_tshark

DATA = Path(__file__).parents[1] / "data"
PORTS = {2055: "cflow", 4739: "cflow", 6343: "sflow"}


@pytest.mark.parametrize("capture", sorted(DATA.glob("*.pcap")), ids=lambda path: path.stem)
def test_own_captures(capture: Path) -> None:
    need("tshark")
    assert check_against_tshark(capture, PORTS) > 0


def corpus_captures() -> dict[str, dict[int, str]]:
    """Captures of flows and what is spoken to their ports; without a corpus one that is never read."""
    corpus = os.environ.get("FLOWBUF_CORPUS")
    if not corpus:
        return {"none": {}}
    manifest = [json.loads(line) for line in Path(corpus, "manifest.jsonl").read_text().splitlines()]
    return {
        each["name"]: dict.fromkeys(
            each["udp_destination_ports"], "sflow" if "sFlow" in each["protocol"] else "cflow"
        )
        for each in manifest
        if "/" not in each["name"]
    }


@pytest.mark.parametrize(("capture", "ports"), corpus_captures().items())
def test_captures_of_the_corpus(corpus: Path, capture: str, ports: dict[int, str]) -> None:
    need("tshark")
    check_against_tshark(corpus / f"{capture}.pcap", ports, EARLY_RECORDS.get(capture, 0))
