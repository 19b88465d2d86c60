"""`flowbuf collect --live`, as users see it: the screen at all sizes, and the command on a terminal."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

from flowbuf.cli.live.screen import Screen, make_screen, share_lines
from flowbuf.cli.live.units import count_text, share_text, time_text
from flowbuf.cli.output.console import StdoutConsole, new_table
from flowbuf.collect.live import ExporterRates, OutputRates
from flowbuf.collect.outputs.top_talkers import TopWindow
from flowbuf.collect.worker import RowCounters
from flowbuf.schema import Schema
from tests.cli.live.terminal import Terminal
from tests.cli.test_cli_terminal import EVIL, SAFE
from tests.collect.test_collector import payloads_of
from tests.support.cases import slow
from tests.support.command import flowbuf
from tests.support.live import send
from tools.make_live_view import PICTURE, draw_picture, example_screen

EXAMPLE = example_screen()
ROOT = Path(__file__).parents[3]


def draw(screen: Screen, width: int, height: int) -> list[str]:
    """Return the lines of a screen."""
    console = StdoutConsole(width=width, file=io.StringIO())
    with console.capture() as captured:
        console.print(make_screen(screen, width, height))
    return captured.get().removesuffix("\n").split("\n")


def changed(**counters: Any) -> Screen:
    return dataclasses.replace(EXAMPLE, counters=dataclasses.replace(EXAMPLE.counters, **counters))


# Texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0, "0"), (0.04, "<0.1"), (0.44, "0.4"), (2, "2"), (9.94, "9.9"), (9.96, "10"), (12.4, "12")),
        *((999, "999"), (1000, "1,000"), (99_999, "99,999"), (99_999.6, "100 k"), (361_204, "361 k")),
        *((999_600, "1.00 M"), (1.234e6, "1.23 M"), (12.34e6, "12.3 M"), (5e30, "5000000000000 E")),
    ],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert count_text(number) == text


def test_units_follow_numbers() -> None:
    sizes = (0, 0.5, 999, 1500, 1.73e9)
    assert [count_text(size, "B") for size in sizes] == ["0 B", "0.5 B", "999 B", "1.50 kB", "1.73 GB"]
    shares = (0, 0.0051, 0.29, 0.999, 1)
    assert [share_text(share) for share in shares] == ["0%", "<1%", "29%", "99%", "100%"]
    times = (0, 59.4, 59.6, 3599, 3600, 86_399, 86_400 * 3 + 4 * 3600 + 300)
    assert [time_text(time) for time in times] == [
        *("0 s", "59 s", "1:00", "59:59", "1:00:00", "23:59:59", "3 d 04:05")
    ]


def test_lines_are_divided_evenly() -> None:
    assert share_lines(10, [3, 20, 2], [2, 2, 1]) == [3, 5, 2]
    assert share_lines(4, [3, 20, 2], [2, 2, 1]) == [2, 2, 0]
    assert share_lines(3, [5, 5, 5], [2, 2, 1]) == [2, 0, 1]
    assert share_lines(100, [3, 20, 2], [2, 2, 1]) == [3, 20, 2]
    assert share_lines(0, [3, 20], [2, 2]) == [0, 0]


# The screen -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 139, 140, 160, 200])
@pytest.mark.parametrize("height", [12, 19, 20, 24, 50])
def test_the_screen_has_the_size_of_the_terminal(width: int, height: int) -> None:
    lines = draw(EXAMPLE, width, height)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width
    assert lines[0].startswith("flowbuf collect")
    assert lines[-1].startswith("q quit")
    for heading in ("Traffic", "Losses", "Outputs"):
        assert any(heading in line for line in lines), heading


@pytest.mark.parametrize("width", [80, 160])
def test_everything_is_on_the_screen_of_a_usual_terminal(width: int) -> None:
    text = "\n".join(draw(EXAMPLE, width, 28))
    for expected in (
        *("datagrams  +1,412,077 +3,406", "flows +39,012,400 +95,120", r"bytes +1\.87 GB +4\.50 MB"),
        *("missing packets +12 +0.2", "template_missing +3 +0", "kernel drops +0 +0"),
        *("flows/ .* 0% .* 31.2 M .* ok", "kafka://broker.* 29% .* 38.7 M .* (failing|broker)"),
        *(r"192\.0\.2\.1 +IPFIX +2,310 +71,300 +0 +now", "2001:db8::2 +NetFlow v9 +880 .* 12 packets +now"),
        *("198.51.100.3 +sFlow ", r"203\.0\.113\.4 +NetFlow v5 +0 +0 +0 +1:35"),
        *("Top src_addr +src_port +last 10 s +▼ bit/s", r"192\.0\.2\.18 +443 +1\.92 G +171 k +3,210 +38%"),
        *("2001:db8:4::7a +443", "no broker|is unavailable", "up 12:34"),
    ):
        assert re.search(expected, text), expected


def test_the_error_of_an_output_is_shown_if_there_is_room() -> None:
    assert "no broker answered in 5 s" in "\n".join(draw(EXAMPLE, 160, 24))


@pytest.mark.parametrize("measure", ["bytes", "packets", "flows"])
def test_the_order_is_marked(measure: str) -> None:
    heading = {"bytes": "bit/s", "packets": "packets/s", "flows": "flows/s"}[measure]
    for width in (40, 100):
        text = "\n".join(draw(dataclasses.replace(EXAMPLE, measure=measure), width, 24))
        assert re.findall(r"▼ (\S+)", text) == [heading]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_each_kind_of_rows_has_a_line(width: int) -> None:
    totals = {"flows": RowCounters(1_234), "counters": RowCounters(567)}
    mixed = ExporterRates("192.0.2.7", 0, 0, 5, {"flows": 40, "counters": 3}, {}, 0.0)
    only = ExporterRates("192.0.2.8", 0, 0, 5, {"counters": 6}, {}, 0.0)
    screen = changed(
        intake=dataclasses.replace(EXAMPLE.counters.intake, rows=totals),
        rows={"flows": 40, "counters": 9},
        exporters=[mixed, only],
    )
    text = "\n".join(draw(screen, width, 30))
    for expected in ("datagrams ", "flows +1,234", "counters +567", "bytes "):
        assert re.search(expected, text), expected
    if width >= 80:
        assert re.search(r"192\.0\.2\.7 +sFlow +5 +40 +0 +now", text)
        assert re.search(r"192\.0\.2\.8 +sFlow +5 +6 +0 +now", text)


def test_lists_that_do_not_fit_say_so() -> None:
    exporters = [ExporterRates(f"192.0.2.{i}", 0, 9, 100 - i, {"flows": 10}, {}, 0.0) for i in range(60)]
    text = "\n".join(draw(changed(exporters=exporters, exporter_count=12_345), 80, 30))
    shown = len(re.findall(r"192\.0\.2\.\d+ +NetFlow v9", text))
    assert shown > 2
    assert f"… {12_345 - shown:,} more" in text


def test_states_are_in_the_first_line() -> None:
    screen = dataclasses.replace(changed(seen=0.4), state="paused", condition="dst_port = 53")
    lines = draw(screen, 100, 30)
    assert lines[0].endswith("paused   sampled: 40% of flows   up 12:34")
    assert any("last 10 s  dst_port = 53" in line for line in lines)
    assert "sampled" not in draw(EXAMPLE, 100, 30)[0]


def test_a_screen_without_flows() -> None:
    empty = TopWindow(EXAMPLE.top.columns, [], dict.fromkeys(("bytes", "packets", "flows"), 0.0), 0.0)
    screen = dataclasses.replace(changed(exporters=[], exporter_count=0), top=empty, keys=False)
    lines = draw(screen, 80, 24)
    assert any("no datagram yet" in line for line in lines)
    assert any("no flows yet" in line for line in lines)
    assert "q quit" not in "\n".join(lines)


def test_control_characters_are_replaced() -> None:
    """Names of interfaces, outputs and conditions cannot send commands to the terminal."""
    name = Schema.load("flow")["in_if_name"]
    top = TopWindow((name,), [((EVIL,), {"bytes": 1.0, "packets": 1.0, "flows": 1.0})], EXAMPLE.top.totals, 1)
    output = OutputRates(EVIL, EXAMPLE.counters.outputs[0].counters, 1, 0.0, EVIL)
    counters = dataclasses.replace(EXAMPLE.counters, outputs=[output], addresses=(EVIL,))
    screen = Screen(counters, top, condition=EVIL, messages=[("error", EVIL)])
    lines = draw(screen, 300, 30)
    assert (len(lines), max(map(cell_len, lines))) == (30, 300)
    assert "\n".join(lines).count(SAFE) == 6
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", "".join(lines))


def test_addresses_have_no_emoji() -> None:
    table = new_table("x", "address")
    table.add_row("2001:a:b::100:1")
    console = StdoutConsole(width=80, file=io.StringIO())
    with console.capture() as captured:
        console.print(table)
    assert "2001:a:b::100:1" in captured.get()


def test_the_picture_of_the_documentation_is_current() -> None:
    def texts(picture: str) -> list[str]:
        return re.findall(r">([^<>]+)</text>", picture)

    assert texts(PICTURE.read_text()) == texts(draw_picture())


# The command ------------------------------------------------------------------------------------------------


def collect_live(folder: Path, *options: str, columns: int = 100, lines: int = 30) -> Terminal:
    command = [sys.executable, "-m", "flowbuf", "collect", "--live", "--listen", "127.0.0.1:0"]
    return Terminal([*command, "--interval", "50ms", *options], columns, lines, folder)


def address_of(terminal: Terminal) -> str:
    terminal.wait_for("listening on 127.0.0.1:")
    found = re.search(r"listening on (\S+)", "\n".join(terminal.lines))
    assert found
    return found[1]


def test_the_view_shows_flows_and_q_stores_them(tmp_path: Path) -> None:
    options = ("-o", "flows/", "--live-top", "src_addr,proto", "--live-window", "1h")
    with collect_live(tmp_path, *options) as terminal:
        before = terminal.modes
        to = address_of(terminal)
        assert terminal.has_alternate_screen
        assert terminal.modes != before
        send([*payloads_of("generated-sflow.pcap"), *payloads_of("generated-ipfix.pcap")], to)
        for text in ("192.0.2.1 ", "127.0.0.1 ", "flows                  600", "2001:db8:8004::1a  TCP"):
            terminal.wait_for(text)
        terminal.press("f")
        terminal.wait_for("▼ flows/s")
        terminal.resize(80, 24)
        terminal.wait(lambda: terminal.lines[23].startswith("q quit"), "the smaller screen")
        terminal.press(" ")
        terminal.wait_for("paused")
        terminal.press("\x1a\x13q")  # Ctrl-Z and Ctrl-S do not stop it
        assert terminal.finish() == 0
        assert not terminal.has_alternate_screen
        assert terminal.text.endswith("dropped=0\r\n")
        assert "flows=600; flows/: stored=600 " in terminal.text
        assert terminal.modes == before
    assert sum(pq.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet")) == 600


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *slow(signal.SIGINT, signal.SIGQUIT),
    ],
)
def test_signals_restore_the_terminal(number: int, tmp_path: Path) -> None:
    with collect_live(tmp_path) as terminal:
        before = terminal.modes
        address_of(terminal)
        terminal.process.send_signal(number)
        assert terminal.finish() == (-number if number == signal.SIGQUIT else 0)
        assert not terminal.has_alternate_screen
        assert terminal.text.rfind("\x1b[?25h") > terminal.text.rfind("\x1b[?25l")  # the cursor
        assert terminal.modes == before


@pytest.mark.slow
def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """A shell without job control ignores SIGQUIT for commands in the background."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        with collect_live(tmp_path) as terminal:
            address_of(terminal)
            terminal.process.send_signal(signal.SIGQUIT)
            terminal.press(" ")
            terminal.wait_for("paused")
            assert terminal.has_alternate_screen
            terminal.press("q")
            assert terminal.finish() == 0
    finally:
        signal.signal(signal.SIGQUIT, before)


@pytest.mark.slow
def test_ctrl_c_ends_the_view(tmp_path: Path) -> None:
    with collect_live(tmp_path) as terminal:
        address_of(terminal)
        terminal.press("\x03")
        assert terminal.finish() == 0
        assert "null:: stored=0" in terminal.text


def test_errors_after_the_start_of_the_view_restore_the_terminal(tmp_path: Path) -> None:
    """The state file cannot be read: an error of the service itself."""
    (tmp_path / "state").mkdir()
    with collect_live(tmp_path, "--state", "state") as terminal:
        before = terminal.modes
        assert terminal.finish() != 0
        assert not terminal.has_alternate_screen
        assert terminal.modes == before


@pytest.mark.slow
def test_the_view_reacts_while_a_full_queue_blocks_the_workers(tmp_path: Path) -> None:
    """The output is a broker that does not exist. The end drops what it cannot write."""
    broker = ("-o", "kafka://127.0.0.1:9/flows", "--on-overflow", "block", "--queue-flows", "1")
    with collect_live(tmp_path, *broker, "--interval", "1ms", lines=24) as terminal:
        to = address_of(terminal)
        for payload in payloads_of("generated-ipfix.pcap"):
            send([payload], to)
            terminal.read(0.01)
        terminal.wait_for("100%")
        terminal.press("f")
        terminal.wait_for("▼ flows/s")
        terminal.press("q")
        terminal.wait_for("stopping")


@pytest.mark.slow
def test_a_closed_window_ends_the_collector(tmp_path: Path) -> None:
    """Nobody could end it otherwise. All flows are stored."""
    with collect_live(tmp_path, "-o", "flows/") as terminal:
        send(payloads_of("generated-ipfix.pcap"), address_of(terminal))
        terminal.wait_for("flows                  300")
        terminal.hang_up()
        assert terminal.process.wait(30) == 0
    assert sum(pq.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet")) == 300


@pytest.mark.slow
def test_a_failure_of_the_view_does_not_end_the_collector(tmp_path: Path) -> None:
    """The collector continues with its log on stderr."""
    code = (
        "import sys; from flowbuf.cli.live import view; from flowbuf.cli import run\n"
        "view.make_screen = lambda *arguments: 1 / 0\n"
        "sys.argv = ['flowbuf', 'collect', '--live', '--listen', '127.0.0.1:0', '-o', 'flows/']\n"
        "run()"
    )
    with Terminal([sys.executable, "-c", code], 200, 30, tmp_path) as terminal:
        terminal.wait(
            lambda: "the live view has ended after an error: division by zero" in terminal.text, "it"
        )
        assert not terminal.has_alternate_screen
        terminal.wait(lambda: "listening on 127" in terminal.text, "the address")
        send(payloads_of("generated-ipfix.pcap"), re.findall(r"listening on (\S+)", terminal.text)[0])
        terminal.press("\x03")
        assert terminal.finish() == 0
        assert "flows=300; flows/: stored=300 " in terminal.text


@pytest.mark.slow
def test_messages_are_written_at_once_to_a_file(tmp_path: Path) -> None:
    command = f"{sys.executable} -m flowbuf collect --live --listen 127.0.0.1:0 --log json 2>log"
    with Terminal(["sh", "-c", command], 80, 24, tmp_path) as terminal:
        address_of(terminal)
        (first, *_) = (tmp_path / "log").read_text().splitlines()
        assert json.loads(first)["message"].startswith(("the kernel granted", "listening on"))
        terminal.press("q")
        assert terminal.finish() == 0
        assert "received=" not in terminal.text


def test_the_view_needs_a_terminal(tmp_path: Path) -> None:
    done = flowbuf("collect", "--live", "--listen", "127.0.0.1:0")
    assert done.exit_code == 2
    assert "--live: standard output is not a terminal; leave --live out, or use --metrics" in done.output
    with Terminal(
        ["env", "TERM=dumb", sys.executable, "-m", "flowbuf", "collect", "--live"], 100
    ) as terminal:
        assert terminal.finish() == 2
        assert "--live: the terminal cannot move its cursor; set TERM" in terminal.text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-o", "-"), "--live needs standard output; replace the output - by a folder or null:"),
        (("--live-top", "src_adr"), "no column 'src_adr'; did you mean src_addr"),
        (("--live-top", "mpls_labels"), "live_top: column 'mpls_labels' is a list; choose a column"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    with collect_live(tmp_path, *options, columns=200) as terminal:
        assert terminal.finish() == 2
        assert problem in terminal.text
        assert "\x1b[?1049h" not in terminal.text


def test_the_configuration_file_has_the_options_of_the_view() -> None:
    done = flowbuf(
        "collect", "--live", "--where", "dst_port = 53", "--live-top", "dst_addr", "--print-config"
    )
    assert done.exit_code == 0
    assert 'live_top = ["dst_addr"]' in done.output
    assert "#live_window = 10" in done.output
    assert done.output.count("[[output]]") == 1
    assert 'to = "null:"' in done.output


# The demonstration ------------------------------------------------------------------------------------------

DEMO = [sys.executable, str(ROOT / "examples/demo_live.py"), "1"]
TOTALS = re.compile(r"^sent=(\d+) received=(\d+) stored=(\d+)\s*\Z", re.MULTILINE)


def check_totals(output: str) -> None:
    totals = TOTALS.search(output)
    assert totals, output
    assert len(set(totals.groups())) == 1, output
    assert int(totals[1]) > 1000


@pytest.mark.slow
def test_the_demonstration_counts_all_flows_without_a_terminal() -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "listening on 127.0.0.1:" in done.stdout
    check_totals(done.stdout)


@pytest.mark.slow
def test_the_demonstration_shows_the_view_on_a_terminal(tmp_path: Path) -> None:
    with Terminal(DEMO, 100, 30, tmp_path) as terminal:
        terminal.wait_for("Top src_addr")
        assert terminal.finish() == 0
        check_totals(terminal.text.replace("\x1b[?1049l", "\r\n"))
