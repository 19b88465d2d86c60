"""`flowbuf generate` and its generator, checked with TShark and with a minimal reader."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import flowbuf as api
from flowbuf import _core
from flowbuf.cli.generate import PROTOCOLS, generate, sample
from tests.support.cases import slow

START = 1_735_689_600_000_000_000  # 2025-01-01
PORTS = {"netflow1": 2055, "netflow5": 2055, "netflow7": 2055, "netflow9": 2055, "ipfix": 4739, "sflow": 6343}
DATA_TEMPLATES = {256, 257, 258}

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="TShark is not installed")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(generate, [str(argument) for argument in arguments])


def capture(protocol: str, flows: int, **options: int) -> bytes:
    wanted = {"seed": 1, "exporters": 4, "sampling_rate": 1000, "start": START} | options
    return b"".join(_core.generate(protocol=protocol, flows=flows, **wanted))


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the time in microseconds and the frame of every packet of a pcap file."""
    magic, major, minor, _, _, _, link_type = struct.unpack_from("<IHHiIII", data)
    assert (magic, major, minor, link_type) == (0xA1B2C3D4, 2, 4, 1)
    at = 24
    while at < len(data):
        seconds, microseconds, captured, size = struct.unpack_from("<IIII", data, at)
        assert captured == size
        yield seconds * 1_000_000 + microseconds, data[at + 16 : at + 16 + size]
        at += 16 + size
    assert at == len(data)


def udp_payload(frame: bytes) -> tuple[int, bytes]:
    """Return the destination port and the payload."""
    udp = frame[14 + (40 if frame[12:14] == b"\x86\xdd" else 20) :]
    port, size = struct.unpack_from(">HH", udp, 2)
    assert size == len(udp)
    return port, udp[8:]


# The file ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PORTS)
def test_packets_have_the_destination_port_of_their_protocol(protocol: str) -> None:
    ports = {udp_payload(frame)[0] for _, frame in frames(capture(protocol, 500))}
    assert ports == {PORTS[protocol]}


def test_mixed_traffic_has_all_protocols() -> None:
    ports = Counter(udp_payload(frame)[0] for _, frame in frames(capture("mixed", 2000)))
    assert set(ports) == {2055, 4739, 6343}
    assert ports[2055] >= 2 * ports[4739] - 2


@pytest.mark.parametrize("flows", [0, 1, 30, 31, 1000])
def test_netflow5_has_the_requested_flows_and_sequence_numbers(flows: int) -> None:
    seen = 0
    first: int | None = None
    for _, frame in frames(capture("netflow5", flows, exporters=1)):
        payload = udp_payload(frame)[1]
        version, count = struct.unpack_from(">HH", payload)
        (sequence,) = struct.unpack_from(">I", payload, 16)
        first = sequence if first is None else first
        assert version == 5
        assert sequence == first + seen
        assert len(payload) == 24 + 48 * count
        seen += count
    assert seen == flows


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_times_start_at_the_requested_time_and_advance(protocol: str) -> None:
    times = [time for time, _ in frames(capture(protocol, 20_000, start=START + 250_000_000))]
    assert times[0] == START // 1000 + 250_000
    assert times == sorted(times)
    assert 1_900_000 < times[-1] - times[0] < 2_000_000


def test_exporters_have_their_own_addresses_and_some_use_ipv6() -> None:
    sources = {
        frame[22:38] if frame[12:14] == b"\x86\xdd" else frame[26:30]
        for _, frame in frames(capture("ipfix", 2000))
    }
    assert sources == {
        bytes([192, 0, 2, 1]),
        bytes([192, 0, 2, 2]),
        bytes.fromhex("20010db8c0000000 0000000000000003"),
        bytes([192, 0, 2, 4]),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_seed_determines_the_traffic(protocol: str) -> None:
    assert capture(protocol, 300, seed=5) == capture(protocol, 300, seed=5)
    assert capture(protocol, 300, seed=5) != capture(protocol, 300, seed=6)


def test_flows_written_increases_to_the_number_of_flows() -> None:
    pieces = _core.generate(
        protocol="sflow", flows=20_000, seed=1, exporters=1, sampling_rate=1000, start=START
    )
    counts = [pieces.flows_written for _ in pieces]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == 20_000


FLOW = api.Schema.load("flow").enable("time_flow_start", "time_flow_end")
NOT_IN_VERSION_1 = ("sampling_rate", "src_as", "dst_as", "src_prefix_len", "dst_prefix_len")


def decode(protocol: str, flows: int, **options: int) -> list[dict[str, Any]]:
    stream = api.read_capture(io.BytesIO(capture(protocol, flows, **options)), FLOW)
    rows: list[dict[str, Any]] = pa.table(stream).to_pylist()
    assert stream.counters == {}
    return rows


@pytest.mark.parametrize(
    ("protocol", "absent"), [("netflow1", NOT_IN_VERSION_1), ("netflow7", ("sampling_rate",))]
)
def test_netflow1_and_netflow7_have_the_flows_of_version_5(protocol: str, absent: tuple[str, ...]) -> None:
    rows, expected = decode(protocol, 24, exporters=1), decode("netflow5", 24, exporters=1)
    assert {row.pop("flow_type") for row in rows} != {row.pop("flow_type") for row in expected}
    for row in expected:
        row.update(dict.fromkeys(absent, 0))
    assert rows == expected
    assert all(row["bytes"] and row["src_port"] is not None and row["time_received"] for row in rows)


@pytest.mark.parametrize("protocol", ["netflow1", "netflow7"])
def test_netflow1_and_netflow7_have_the_requested_flows(protocol: str) -> None:
    assert len(decode(protocol, 3000)) == 3000


# Checks by TShark -------------------------------------------------------------------------------------------


def tshark(path: Path, *arguments: str) -> list[str]:
    command = ["tshark", "-n", "-r", str(path), "-d", "udp.port==2055,cflow", "-d", "udp.port==4739,cflow"]
    for protocol in ("ip", "udp", "tcp"):
        command += ["-o", f"{protocol}.check_checksum:TRUE"]
    return subprocess.run(
        [*command, *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()


FAST = ("ipfix", "sflow")


@pytest.fixture(
    scope="module",
    params=[*FAST, *slow(*(name for name in PROTOCOLS if name not in FAST))],
)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("generate") / f"{request.param}.pcap"
    path.write_bytes(capture(request.param, 3000))
    return request.param, path


@needs_tshark
def test_tshark_finds_no_malformed_packet_and_no_wrong_checksum(written: tuple[str, Path]) -> None:
    bad, undecidable = 0, 2
    layers = ("ip", "udp", "tcp", "icmp", "icmpv6")
    fields = [option for layer in layers for option in ("-e", f"{layer}.checksum.status")]
    rows = tshark(written[1], "-T", "fields", *fields)
    statuses = Counter(
        int(value) for row in rows for cell in row.split("\t") for value in cell.split(",") if value
    )
    assert statuses[bad] == 0
    assert statuses[1] >= len(rows)
    assert written[0] in ("sflow", "mixed") or statuses[undecidable] == 0
    assert tshark(written[1], "-Y", "_ws.malformed") == []


@pytest.mark.slow
@needs_tshark
def test_tshark_warns_only_of_reset_connections(written: tuple[str, Path]) -> None:
    warning = 0x600000
    rows = tshark(written[1], "-Y", "_ws.expert", "-T", "fields", "-E", "aggregator=|",
                  "-e", "_ws.expert.severity", "-e", "_ws.expert.message")  # fmt: skip
    items = [
        item for row in rows for item in zip(*(cell.split("|") for cell in row.split("\t")), strict=True)
    ]
    assert {message for severity, message in items if int(severity) >= warning} <= {"Connection reset (RST)"}
    # TShark also reports gaps in the sequence numbers of NetFlow v9 and IPFIX.
    assert written[0] in ("sflow", "mixed") or items == []


@needs_tshark
def test_tshark_finds_the_requested_flows(written: tuple[str, Path]) -> None:
    protocol, path = written
    text = tshark(path, "-V")
    samples = sum("flow sample, seq" in line.lower() for line in text)
    records, current = 0, 0
    for line in (line.strip() for line in text):
        if line.startswith("FlowSet Id: (Data) ("):
            current = int(line.split("(")[2].rstrip(")"))
        elif line.startswith("pdu "):
            current = 256
        if (
            line.startswith(("Flow ", "pdu "))
            and line.split()[1].split("/")[0].isdigit()
            and current in DATA_TEMPLATES
        ):
            records += 1
    assert samples + records == 3000
    assert (samples > 0) == (protocol in ("sflow", "mixed"))


@needs_tshark
def test_tshark_reads_the_sampling_rate_of_every_protocol(tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    path.write_bytes(capture("mixed", 2000, sampling_rate=512))
    text = "\n".join(tshark(path, "-V"))
    assert "..00 0010 0000 0000 = SampleRate: 512" in text
    assert "Sampler Random Interval: 512" in text or "SamplerRandomInterval: 512" in text
    assert "Sampling Packet Space: 511" in text
    assert "Sampling rate: 1 out of 512 packets" in text


# The command ------------------------------------------------------------------------------------------------


def test_the_command_writes_the_output_of_the_generator(tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    result = run(
        "--protocol", "ipfix", "--flows", 500, "--seed", 3, "--exporters", 4, "--sampling", 64, "-o", path
    )
    assert (result.exit_code, result.output) == (0, "")
    assert path.read_bytes() == capture("ipfix", 500, seed=3, sampling_rate=64)
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_compresses_by_suffix(tmp_path: Path) -> None:
    path = tmp_path / "out.pcap.gz"
    assert run("--protocol", "netflow9", "--flows", 500, "--exporters", 4, "-o", path).exit_code == 0
    assert gzip.decompress(path.read_bytes()) == capture("netflow9", 500)


def test_the_command_writes_to_stdout(tmp_path: Path) -> None:
    result = run("--protocol", "sflow", "--flows", 50, "--exporters", 4, "-o", "-")
    assert result.stdout_bytes == capture("sflow", 50)


def test_mixed_traffic_has_four_exporters_by_default(tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    assert run("--protocol", "mixed", "--flows", 500, "-o", path).exit_code == 0
    assert path.read_bytes() == capture("mixed", 500, exporters=4)


@pytest.mark.parametrize("text", ["2025-06-01T12:00:00.5Z", "2025-06-01T14:00:00.500+02:00"])
def test_start_is_an_rfc_3339_time(tmp_path: Path, text: str) -> None:
    path = tmp_path / "out.pcap"
    result = run("--protocol", "netflow5", "--flows", 5, "--start", text, "-o", path)
    assert result.exit_code == 0, result.output
    assert next(frames(path.read_bytes()))[0] == 1_748_779_200_500_000


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--protocol", "netflow8", "--flows", 1), "netflow8"),
        (("--protocol", "ipfix", "--flows", -1), "-1"),
        (("--protocol", "ipfix", "--flows", 1, "--exporters", 0), "exporters"),
        (("--protocol", "ipfix", "--flows", 1, "--start", "yesterday"), "yesterday"),
        (("--protocol", "ipfix", "--flows", 1, "--start", "2025-01-01T00:00:00"), "time zone"),
        (("--protocol", "ipfix", "--flows", 1, "--start", "1999-01-01T00:00:00Z"), "2000"),
        (("--protocol", "ipfix", "--flows", 1, "--start", "1969-01-01T00:00:00Z"), "2000"),
        (("--protocol", "netflow5", "--flows", 1, "--sampling", 16384), "14 bits"),
        (("--protocol", "mixed", "--flows", 1, "--exporters", 3), "at least 4"),
        (("--protocol", "ipfix", "--flows", 2**64 - 1), "2106"),
    ],
)
def test_an_invalid_option_is_reported_and_leaves_no_file(
    tmp_path: Path, arguments: tuple[object, ...], word: str
) -> None:
    result = run(*arguments, "-o", tmp_path / "out.pcap")
    assert result.exit_code == 2
    assert word in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "out.pcap"
    result = run("--protocol", "ipfix", "--flows", 1, "-o", path)
    assert result.exit_code == 2
    assert str(path) in result.output


# The sample -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sample.pcap", "other.pcap.gz"])
def test_the_sample_is_a_capture_that_can_be_decoded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = [] if name == "sample.pcap" else ["-o", name]
    result = CliRunner().invoke(sample, options)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"flowbuf: {name}: 478 flows; next, try flowbuf inspect {name}\n"
    stream = api.read_capture(name)
    assert stream.to_arrow().num_rows == 478
    assert stream.counters.keys() <= {"template_repeated"}
    assert (tmp_path / name).stat().st_size < 30_000


def test_the_sample_can_be_piped() -> None:
    result = CliRunner().invoke(sample, ["-o", "-"])
    assert result.stdout_bytes == (Path(__file__).parents[1] / "data/softflowd-ipfix.pcap").read_bytes()
    assert result.stderr == ""
