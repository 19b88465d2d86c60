"""The peers of the benchmarks (benchmarks/peers).

Each peer finds the same flows as flowbuf, except for known limits. The messages of `dynamic-append` equal
flowbuf's.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

import flowbuf
from benchmarks.peers import PEERS, QUOTED
from benchmarks.peers.harness import HARNESSES, Harness, HarnessRun, write_workload
from benchmarks.peers.libraries import LIBRARIES
from benchmarks.peers.programs import PROGRAMS, write_pcap
from flowbuf import _core
from flowbuf.bench import Contestant, Datagram, Workload
from tests.support.goldens import split_stream

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parents[1] / "data"
GENERATED = ["generated-netflow5", "generated-netflow9", "generated-ipfix", "generated-sflow"]
REAL = ["netflow5-29-records", "netflow9-data", "sflow-1140"]
NAMES = {5: "netflow5", 9: "netflow9", 10: "ipfix", 0: "sflow"}
NETFLOW = GENERATED[:3]
TAKEN = {
    "goflow2": GENERATED,
    "dynamic-append": GENERATED,
    "netflow_parser": NETFLOW,
    "netflow": NETFLOW,
    "scapy": NETFLOW,
    "dpkt": GENERATED[:1],
    "nfdump": GENERATED,
    "pmacct": GENERATED,
}
Flow = flowbuf.Schema.load("flow").message_class()

# Peers that do not find all 300 flows of a generated capture: the number that they find, or their exception.
TWO_OPTIONS_TEMPLATES = "it cannot read a set with two options templates"
VARIABLE_LENGTH = "it treats all fields as fixed length"
DIFFERENT: dict[tuple[str, str], tuple[int | str, str]] = {
    ("netflow", "generated-netflow9"): ("ValueError", TWO_OPTIONS_TEMPLATES),
    ("netflow", "generated-ipfix"): ("PaddingCalculationError", VARIABLE_LENGTH),
    ("scapy", "generated-netflow9"): (291, TWO_OPTIONS_TEMPLATES),
    ("scapy", "generated-ipfix"): ("AttributeError", TWO_OPTIONS_TEMPLATES),
    ("pmacct", "generated-ipfix"): (289, TWO_OPTIONS_TEMPLATES),
}


@cache
def read_workload(path: Path) -> Workload:
    """Return the workload of a capture without copies."""
    _, _, batch = _core.Capture().scan(path.read_bytes(), True, 65536)
    first = tuple(
        Datagram(payload, source, time) for payload, source, _, time in (batch[i] for i in range(len(batch)))
    )
    decoder = flowbuf.Decoder()
    for datagram in first:
        decoder.encode(*datagram)
    flows = {datagram: len(decoder.messages(*datagram)) for datagram in first}
    data = tuple(datagram for datagram in first if flows[datagram])
    protocols = frozenset(NAMES[int.from_bytes(datagram.payload[:2], "big")] for datagram in data)
    return Workload(path.stem, first, data, sum(flows[datagram] for datagram in data), protocols)


@pytest.fixture(scope="session")
def _built() -> None:
    """Build the peers in Go and Rust. `make` skips those whose compiler is missing."""
    done = subprocess.run(["make", "bench-peers"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"make bench-peers fails: {done.stderr[-500:]}")


def need(peer: Contestant) -> None:
    if reason := peer.absent():
        pytest.skip(f"{peer.name} is {reason}")


def named(peer: Contestant) -> str:
    return peer.name


# All peers --------------------------------------------------------------------------------------------------


def test_names_are_unique_and_quoted_programs_are_not_measured() -> None:
    names = [peer.name for peer in PEERS]
    assert len(set(names)) == len(names) == 8
    assert QUOTED
    assert not {quotation.name for quotation in QUOTED} & set(names)


def test_absent_peers_report_how_to_install_them() -> None:
    """No library, no program and no compiled peer is available."""
    script = """
import sys
from pathlib import Path
sys.modules.update(dict.fromkeys(["netflow", "scapy", "dpkt"]))
import peers, peers.harness, peers.programs
peers.harness.BUILD = Path("nowhere")
peers.programs.PATH = "nowhere"
for peer in peers.PEERS:
    print(peer.name, peer.absent(), sep="|")
"""
    command = [sys.executable, "-c", script]
    environment = {"PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT / 'src'}", "PATH": "nowhere"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    said = dict(line.split("|") for line in done.stdout.splitlines())
    assert said.keys() == {peer.name for peer in PEERS}
    assert said["goflow2"] == "not built: make bench-peers, which needs go"
    assert said["netflow_parser"] == "not built: make bench-peers, which needs cargo"
    assert said["dpkt"] == "not installed: pip install dpkt"
    assert said["pmacct"] == "not installed: apt install pmacct"


@pytest.mark.parametrize("peer", PEERS, ids=named)
def test_peers_accept_the_protocols_that_they_decode(peer: Contestant) -> None:
    taken = [name for name in GENERATED if peer.takes(read_workload(DATA / f"{name}.pcap"))]
    if peer in PROGRAMS:  # one of the two programs may be missing
        assert set(taken) <= set(TAKEN[peer.name])
    else:
        assert taken == TAKEN[peer.name]


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize(
    ("peer", "capture"),
    [pytest.param(peer, name, id=f"{peer.name}-{name}") for peer in PEERS for name in TAKEN[peer.name]],
)
def test_a_peer_finds_the_same_flows_as_flowbuf(peer: Contestant, capture: str) -> None:
    need(peer)
    workload = read_workload(DATA / f"{capture}.pcap")
    if not peer.takes(workload):
        pytest.skip(f"the program of {peer.name} for {capture} is not installed")
    assert peer.version()[0].isdigit()
    expected, _ = DIFFERENT.get((peer.name, capture), (workload.flows, ""))
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            peer.open(workload)
    else:
        with peer.open(workload) as run:
            assert run.flows == expected


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize("peer", [*HARNESSES, *LIBRARIES], ids=named)
def test_a_run_takes_the_requested_time(peer: Contestant) -> None:
    need(peer)
    workload = read_workload(DATA / "generated-netflow5.pcap")
    with peer.open(workload) as run:
        start = time.monotonic()
        nanoseconds = run.measure(0.02)
        elapsed = time.monotonic() - start
    assert elapsed >= 0.015  # the CPU clock may have a low resolution
    assert 1 < nanoseconds <= elapsed / workload.flows * 1e9


def test_the_time_of_a_program_is_the_cpu_time_of_its_process() -> None:
    peer = next(peer for peer in PROGRAMS if peer.name == "nfdump")
    need(peer)
    workload = read_workload(DATA / "generated-netflow5.pcap")
    with peer.open(workload) as run:
        assert 1 < run.measure(0.02) < 1e6


# Harnesses --------------------------------------------------------------------------------------------------


@pytest.fixture(params=GENERATED + REAL)
def workload(request: pytest.FixtureRequest) -> Workload:
    folder = DATA if request.param in GENERATED else request.getfixturevalue("corpus")
    return read_workload(folder / f"{request.param}.pcap")


@pytest.mark.usefixtures("_built")
def test_messages_of_dynamic_append_equal_those_of_flowbuf(workload: Workload) -> None:
    """Compare all columns of all flows.

    GoFlow2's decoder reads only the first segment of an sFlow AS path, so its destination AS may differ.
    """
    peer = harness("dynamic-append")
    decoder = flowbuf.Decoder()
    for datagram in workload.first:
        decoder.encode(*datagram)
    theirs = [Flow.FromString(message) for message in split_stream(peer.dump(workload))]
    ours = [Flow.FromString(message) for datagram in workload.data for message in decoder.messages(*datagram)]
    assert len(theirs) == len(ours) == workload.flows
    different = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine != other]
    if workload.name == "generated-sflow":
        assert 0 < len(different) < 20
        for mine, other in different:
            assert mine.dst_as != other.dst_as
            mine.dst_as = other.dst_as
            assert mine == other
    else:
        assert different == []


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize("name", ["goflow2", "netflow_parser"])
def test_a_truncated_workload_is_an_error(name: str, tmp_path: Path) -> None:
    program = harness(name).program
    path = tmp_path / "workload"
    write_workload(read_workload(DATA / "generated-netflow5.pcap"), path)
    path.write_bytes(path.read_bytes()[:-1])
    done = subprocess.run([program, "run", path], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode
    assert not done.stdout
    assert done.stderr


@pytest.mark.usefixtures("_built")
def test_a_peer_that_creates_no_messages_has_no_dump() -> None:
    with pytest.raises(OSError, match="netflow_parser"):
        harness("netflow_parser").dump(read_workload(DATA / "generated-netflow5.pcap"))


def test_a_program_that_exits_early_is_an_error() -> None:
    with pytest.raises(OSError, match="gave up"):
        HarnessRun(Path("/bin/true"), read_workload(DATA / "generated-netflow5.pcap"))


def harness(name: str) -> Harness:
    found = next(peer for peer in HARNESSES if peer.name == name)
    need(found)
    return found


# Captures for peers -----------------------------------------------------------------------------------------


def test_a_written_capture_has_the_datagrams(tmp_path: Path) -> None:
    datagrams = [
        Datagram(b"\x00\x05 four", ("192.0.2.1", 9995), 1_700_000_000_123_456_789),
        Datagram(b"\x00\x00\x00\x05 six", ("2001:db8::1", 6343), 1_700_000_001_000_000_000),
    ]
    write_pcap(datagrams, tmp_path / "written.pcap")
    _, status, batch = _core.Capture().scan((tmp_path / "written.pcap").read_bytes(), True, 65536)
    assert status == "end"
    found = [(payload, source, time) for payload, source, _, time in (batch[i] for i in range(len(batch)))]
    assert found == [tuple(datagram) for datagram in datagrams]
