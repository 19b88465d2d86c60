"""Options of `flowbuf replay`, and its progress on a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.test_cli_terminal import on_a_terminal
from tests.support.command import GOOD, flowbuf, pcap, write
from tests.support.live import receiver, room_for_sockets

TO = ("--to", "127.0.0.1:2055")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--to", "127.0.0.1"), "--to: '127.0.0.1' is not HOST:PORT; write it as 192.0.2.1:2055"),
        (("--to", "::1:2055"), "--to: '::1:2055' is not HOST:PORT"),
        (("--to", "127.0.0.1:0"), "--to: port 0 is out of range; choose 1 to 65535"),
        (("--to", "no-such-host.invalid:1"), "--to: host 'no-such-host.invalid' cannot be resolved: "),
        ((*TO, "--rate", "5", "--speed", "2"), "--rate cannot be combined with --speed; leave one out"),
        ((*TO, "--top-speed", "--speed", "2"), "--speed cannot be combined with --top-speed; leave one out"),
        ((*TO, "--rate", "1", "--top-speed"), "--rate cannot be combined with --top-speed; leave one out"),
        ((*TO, "--speed", "0"), "--speed is 0; give a number above 0"),
        ((*TO, "--speed", "nan"), "--speed is nan; give a number above 0"),
        ((*TO, "--speed", "inf"), "--speed is inf; give a number above 0"),
        ((*TO, "--duration", "-1"), "--duration is -1; give a number above 0"),
        ((*TO, "--rate", "0"), "0 is not in the range 1 to 1000000000"),
        ((*TO, "-n", "0"), "0 is not in the range 1 to 4294967296"),
        ((), "Missing option '--to'"),
    ],
)
def test_invalid_options_are_usage_errors(tmp_path: Path, options: tuple[str, ...], problem: str) -> None:
    result = flowbuf("replay", write(tmp_path / "a.pcap", pcap(GOOD)), *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        (("missing.pcap",), "missing.pcap: No such file or directory"),
        ((".",), ".: is a directory"),
        (("-", "-"), "standard input is given twice; give - once"),
        (("no-such-*.pcap",), "no-such-*.pcap: no file matches this pattern"),
        ((), "Missing argument 'CAPTURE...'"),
    ],
)
def test_inputs_that_cannot_be_read_are_usage_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = flowbuf("replay", *inputs, *TO)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_patterns_name_captures(tmp_path: Path) -> None:
    write(tmp_path / "b.pcap", pcap(b"b"))
    write(tmp_path / "a.pcap", pcap(b"a"))
    with receiver() as listener:
        assert flowbuf("replay", tmp_path / "*.pcap", "--to", listener.to, "--top-speed").exit_code == 0
        assert [each.payload for each in listener.read()] == [b"a", b"b"]


def test_more_sources_than_sockets_share_source_ports(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pcap", pcap(*[b"x"] * 100, ports=range(1, 101)))
    with receiver() as listener, room_for_sockets(10):
        result = flowbuf("replay", path, "--to", listener.to, "--top-speed")
        ports = {each.source for each in listener.read()}
    assert result.exit_code == 0
    note = "100 sources share {} source ports; raise the limit of open files with ulimit -n"
    assert result.stderr == f"flowbuf: {note.format(len(ports))}\n"


def test_a_terminal_shows_the_progress(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap", pcap(*[GOOD] * 20))
    with receiver() as listener:
        arguments = ("replay", "a.pcap", "--to", listener.to, "--rate", "20")
        status, output = on_a_terminal(tmp_path, *arguments, term="xterm")
        assert len(listener.read()) == 20
    assert status == 0
    assert re.search(r"[1-9]\d* datagrams/s", output)
    assert re.search(r"\d+/20", output)
    assert "sent=20 bytes=1440 refused=0 not_sent=0 seconds=" in output


def test_a_loop_shows_the_progress_without_an_end(tmp_path: Path) -> None:
    write(tmp_path / "a.pcap", pcap(b"a"))
    with receiver() as listener:
        arguments = ("replay", "a.pcap", "--to", listener.to, "--rate", "50", "--loop", "--duration", "0.5")
        status, output = on_a_terminal(tmp_path, *arguments, term="xterm")
    assert status == 0
    assert re.search(r"[1-9]\d*/\?", output)
