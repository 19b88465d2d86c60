"""Decoding options of the command line and of Python: sampling, scaling, tunnels and templates."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import flowbuf as api
from flowbuf.cli.options import CaptureOptions, decode_options
from flowbuf.options import TUNNELS
from tests.reference.wire import decode_message, split_delimited
from tests.support.command import flowbuf, json_lines, pcap, write
from tests.support.datagrams import (
    data_set,
    ipfix,
    netflow5,
    record5,
    template,
    template_set,
    u32,
    withdrawal,
)

SAMPLED = netflow5(record5(packets=3, octets=400), sampling=100)
UNSAMPLED = netflow5(record5(packets=3, octets=400))
TOTALS = ["--columns", "sampling_rate,bytes,packets"]
NO_BYTES = ["--columns", "sampling_rate,src_addr"]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "a.pcap", pcap(SAMPLED, UNSAMPLED))


def totals(capture: Path, *options: object) -> list[tuple[int, ...]]:
    result = flowbuf("read", capture, *TOTALS, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    names = ("sampling_rate", "bytes", "packets")
    return [tuple(flow.get(name, 0) for name in names) for flow in json_lines(result)]


# Sampling ---------------------------------------------------------------------------------------------------


def test_scale_multiplies_by_the_shown_rate(capture: Path) -> None:
    assert totals(capture) == [(100, 400, 3), (0, 400, 3)]
    assert totals(capture, "--scale") == [(100, 40000, 300), (0, 400, 3)]
    assert totals(capture, "--scale", "--default-sampling", 7) == [(100, 40000, 300), (7, 2800, 21)]


def test_override_sampling_replaces_every_rate(capture: Path) -> None:
    assert totals(capture, "--override-sampling", 9) == [(9, 400, 3), (9, 400, 3)]
    assert totals(capture, "--override-sampling", 9, "--scale") == [(9, 3600, 27), (9, 3600, 27)]


def test_a_total_that_does_not_fit_is_absent_and_noted(capture: Path) -> None:
    result = flowbuf("read", capture, *TOTALS, "--scale", "--override-sampling", 2**63, "-v")
    assert [sorted(flow) for flow in json_lines(result)] == [["sampling_rate"]] * 2
    assert f"flowbuf: {capture}: 192.0.2.1: 4 out_of_range: " in result.stderr
    assert result.exit_code == 0, "a note is not a loss"


@pytest.mark.parametrize("python", [False, True])
def test_encode_scales_and_its_proto_documents_it(capture: Path, tmp_path: Path, python: bool) -> None:
    output = tmp_path / "flows.pb"
    if python:
        api.encode_capture(capture, output, scale=True, override={"sampling_rate": 9})
    else:
        assert flowbuf("encode", capture, "-o", output, "--scale", "--override-sampling", 9).exit_code == 0
    columns = {column.number: column for column in api.Schema.load("flow")}
    flows = [decode_message(columns, message) for message in split_delimited(output.read_bytes())]
    assert [(flow["sampling_rate"], flow["bytes"]) for flow in flows] == [(9, 3600), (9, 3600)]
    proto = tmp_path / "flows.pb.proto"
    assert "// Packets of the flow (multiplied by the sampling rate)" in proto.read_text()
    assert json_lines(flowbuf("read", output))[0]["bytes"] == 3600, "a scaled stream is read like any other"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--scale", "--disable", "sampling_rate"],
            "scaling needs a sampling rate, and none is enabled; enable sampling_rate, or do not scale",
        ),
        (
            ["--scale", *NO_BYTES],
            "scaling needs totals, and none are enabled; enable bytes or packets, or do not scale",
        ),
        (
            ["--override-sampling", 5, "--disable", "sampling_rate"],
            "no sampling rate enabled; enable sampling_rate",
        ),
        (["--override-sampling", 5, "--default-sampling", 5], "leave out --default-sampling"),
        (["--override-sampling", 0], "0 is not in the range 1 to 2^64-1."),
        (["--decapsulate", "vxlan,grue"], "tunnel 'grue' is unknown; choose from vxlan, "),
        (["--template-expiry", 0], "0 is not in the range 1 to 1000000000."),
        (["--template-expiry", "soon"], "'soon' is not a valid whole number"),
        *(
            ([option, value], f"{option} is empty; name at least one, or leave the option out")
            for option in ("--columns", "--enable", "--disable", "--rows", "--decapsulate")
            for value in ("", " , ")
        ),
    ],
)
@pytest.mark.parametrize("command", ["read", "encode"])
def test_invalid_options_are_usage_errors_with_their_fix(
    capture: Path, tmp_path: Path, command: str, options: list[object], message: str
) -> None:
    output = tmp_path / ("out.pb" if command == "encode" else "out.jsonl")
    result = flowbuf(command, capture, "-o", output, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not output.exists()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ('late = true\ntype = "uint8"', "column 'rate' cannot hold 300"),
        ('type = "uint64"', "column 'rate' is not late"),
    ],
)
def test_overriding_an_unsuitable_rate_is_a_usage_error(
    capture: Path, tmp_path: Path, column: str, message: str
) -> None:
    rate = '[[column]]\nname = "rate"\nnumber = 1\nscale = "rate"\nenabled = true\nsources = ["ipfix:34"]\n'
    rate += column
    schema = write(tmp_path / "own.toml", f'[schema]\nname = "own"\n{rate}'.encode())
    result = flowbuf("read", capture, "--schema", schema, "--override-sampling", 300)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--override-sampling: {message}" in result.stderr


@pytest.mark.parametrize(
    "options", [["--scale"], ["--override-sampling", 5], ["--default-sampling", 5], ["--decapsulate", "all"]]
)
def test_decoding_options_are_usage_errors_for_messages(
    capture: Path, tmp_path: Path, options: list[object]
) -> None:
    """A stream may already be scaled, and no longer has its packets."""
    output = tmp_path / "flows.pb"
    flowbuf("encode", capture, "-o", output)
    result = flowbuf("read", output, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        f"{output}: is not a capture, and {options[0]} applies only to captures; leave it out"
        in result.stderr
    )


# Tunnels, templates -----------------------------------------------------------------------------------------


def test_tunnels_are_separated_by_commas_or_repeated_options() -> None:
    seen: list[CaptureOptions] = []

    @click.command()
    @decode_options
    def command(decoding: CaptureOptions) -> None:
        seen.append(decoding)

    for arguments in (
        "",
        "--decapsulate gre,vxlan",
        "--decapsulate vxlan --decapsulate gre",
        "--decapsulate gre,all",
    ):
        assert CliRunner().invoke(command, arguments).exit_code == 0
    assert [decoding.decapsulate for decoding in seen] == [(), ("vxlan", "gre"), ("vxlan", "gre"), TUNNELS]


@pytest.mark.parametrize("command", ["read", "encode"])
def test_the_help_names_the_columns_of_outer_endpoints(command: str) -> None:
    text = " ".join(flowbuf(command, "--help").stdout.split())
    assert ", ".join(TUNNELS) in text
    assert "--enable group:tunnel" in text
    tunnel = [column.name for column in api.Schema.load("flow") if column.group == "tunnel"]
    assert {"tunnel_src_addr", "tunnel_dst_addr", "tunnel_id"} <= set(tunnel)


TEMPLATE = ipfix(template_set(template(256, (1, 4))))
DATA = ipfix(data_set(256, u32(500)))
POLICIES = [
    pytest.param(
        [TEMPLATE, ipfix(template_set(withdrawal(256))), DATA], ["--obey-withdrawals"], id="withdrawn"
    ),
    pytest.param(
        [TEMPLATE, *[SAMPLED] * 4, DATA], ["--template-expiry", 3], id="expired"
    ),  # one datagram per second
]


@pytest.mark.parametrize(("payloads", "options"), POLICIES)
def test_templates_are_removed_only_on_request(
    tmp_path: Path, payloads: list[bytes], options: list[object]
) -> None:
    capture, output = write(tmp_path / "a.pcap", pcap(*payloads)), tmp_path / "flows.pb"
    result = flowbuf("read", capture)
    assert result.exit_code == 0
    assert json_lines(result)[-1]["bytes"] == 500
    for command in (["read", capture], ["encode", capture, "-o", output], ["inspect", capture]):
        result = flowbuf(*command, *options)
        assert result.exit_code == 1
        assert "template_missing" in result.output
        assert '"bytes":500,' not in result.stdout
    python = {"obey_withdrawals": True} if "--obey-withdrawals" in options else {"template_expiry": 3.0}
    assert api.encode_capture(capture, output, **python).counters["template_missing"] == 1
    assert api.encode_capture(capture, output).counters.get("template_missing", 0) == 0


def test_early_data_waits_within_its_limit(tmp_path: Path) -> None:
    capture, output = write(tmp_path / "a.pcap", pcap(DATA, DATA, TEMPLATE)), tmp_path / "flows.pb"
    assert api.encode_capture(capture, output).flows == 2
    assert api.encode_capture(capture, output, early_data_limit=300).flows == 1, (
        "each set counts 192 bytes of overhead"
    )
