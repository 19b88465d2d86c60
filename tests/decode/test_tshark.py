"""flowbuf and TShark agree on every datagram: templates, records and samples, and their values.

The captures are those of the tests and, if the environment variable FLOWBUF_CORPUS names its folder, those of
the corpus. The datagrams of real exporters are compared in the tests of these exporters.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.cases import slow
from tests.support.exporters import need
from tests.support.golden_exceptions import EARLY_RECORDS
from tests.support.tshark import check_against_tshark

DATA = Path(__file__).parents[1] / "data"
PORTS = {2055: "cflow", 4739: "cflow", 6343: "sflow"}


OTHERS = {path for path in DATA.glob("*.pcap") if not path.stem.startswith("generated-")}


@pytest.mark.parametrize(
    "capture", [*sorted(DATA.glob("generated-*.pcap")), *slow(*sorted(OTHERS))], ids=lambda path: path.stem
)
def test_own_captures_agree_with_tshark(capture: Path) -> None:
    need("tshark")
    assert check_against_tshark(capture, PORTS) > 0


def corpus_captures() -> dict[str, dict[int, str]]:
    """Return the captures of flows with the protocols of their ports. Without a corpus, return a dummy."""
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


@pytest.mark.slow
@pytest.mark.parametrize(("capture", "ports"), corpus_captures().items())
def test_captures_of_the_corpus_agree_with_tshark(corpus: Path, capture: str, ports: dict[int, str]) -> None:
    need("tshark")
    check_against_tshark(corpus / f"{capture}.pcap", ports, EARLY_RECORDS.get(capture, 0))
