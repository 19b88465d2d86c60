"""Real exporters send to one `flowbuf collect`: softflowd, pmacctd and Open vSwitch, all at once.

The collector writes Parquet files, and Kafka messages that `flowbuf consume` inserts into ClickHouse. Both
have exactly the packets and bytes of the traffic.
"""

from __future__ import annotations

import ipaddress
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from scapy.packet import Packet
from scapy.utils import wrpcap

from flowbuf import Schema
from flowbuf.targets.clickhouse_tables import TableOptions, to_ddl
from tests.cli.test_cli_collect import Running, collecting, get
from tests.data import make
from tests.exporter.openvswitch import export, running_switch
from tests.exporter.test_pmacct import LAST, last_packets
from tests.support.broker import Broker
from tests.support.clickhouse.http import ClickHouse
from tests.support.command import flowbuf
from tests.support.exporters import (
    PATIENCE,
    Totals,
    has_ended,
    need,
    network,
    running,
    totals_of_flows,
    totals_of_packets,
    vary,
)
from tests.support.live import wait_until

pytestmark = pytest.mark.expensive

COLUMNS = ("flow_type", "etype", "src_addr", "dst_addr", "proto", "src_port", "dst_port", "packets", "bytes")
PMACCTD = """
daemonize: false
pcap_savefile: traffic.pcap
pcap_savefile_wait: true
plugin_buffer_size: 10
plugins: nfprobe
nfprobe_receiver: {receiver}
nfprobe_version: 10
aggregate: src_host,dst_host,src_port,dst_port,proto,tos,tcpflags
"""


@pytest.fixture
def traffic() -> list[Packet]:
    return vary(make.make_packets(30))


def wait_for(done: Any, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def run_softflowd(folder: Path, traffic: list[Packet], target: str) -> None:
    """Export the traffic as NetFlow v9."""
    folder.mkdir()
    wrpcap(str(folder / "traffic.pcap"), traffic)
    log = folder / "log"
    command = ["softflowd", "-r", "traffic.pcap", "-a", "-d", "-n", target, "-v", "9"]
    with running(command, log) as process:
        wait_for(lambda: process.poll() is not None, log)


def run_pmacctd(folder: Path, traffic: list[Packet], target: str) -> None:
    """Export the traffic as IPFIX, and some packets more: see `last_packets`."""
    folder.mkdir()
    wrpcap(str(folder / "traffic.pcap"), [*traffic, *last_packets()])
    (folder / "pmacctd.conf").write_text(PMACCTD.format(receiver=target))
    log = folder / "log"
    with running(["pmacctd", "-f", "pmacctd.conf"], log) as process:
        wait_for(lambda: "finished reading" in log.read_text(), log)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: process.poll() is not None and has_ended(process.pid), log)


def count_flows(collector: Running) -> int:
    """Return the number of flows that the collector has decoded."""
    metrics = get(collector.find(r"(http://\S+)/metrics") + "/metrics")[1]
    return sum(map(int, re.findall(r"^flowbuf_exporter_flows_total{.*} (\d+)", metrics, re.MULTILINE)))


def totals_in(rows: list[dict[str, Any]]) -> dict[str, Totals]:
    """Return the totals per protocol, without those of `last_packets`."""
    for row in rows:
        for name in ("src_addr", "dst_addr"):
            address = ipaddress.ip_address(row[name])
            row[name] = str(getattr(address, "ipv4_mapped", None) or address)
    protocols = {row["flow_type"] for row in rows}
    return {
        protocol: totals_of_flows(
            row for row in rows if row["flow_type"] == protocol and row["src_addr"] != LAST
        )
        for protocol in protocols
    }


def rows_of_parquet(folder: Path) -> list[dict[str, Any]]:
    table = pyarrow.dataset.dataset(folder, partitioning="hive").to_table(list(COLUMNS))
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def rows_of_clickhouse(front: ClickHouse, table: str) -> Iterator[dict[str, Any]]:
    for line in front.ask(f"SELECT {', '.join(COLUMNS)} FROM {table}").splitlines():
        row = dict(zip(COLUMNS, line.split("\t"), strict=True))
        yield {name: int(value) if value.isdigit() else value for name, value in row.items()}


def test_totals_equal_the_traffic(
    broker: Broker, topic: str, front: ClickHouse, traffic: list[Packet], tmp_path: Path
) -> None:
    need("softflowd", "pmacctd")
    outputs = ("-o", f"kafka://{broker.servers}/{topic}", "-o", "flows/", "--ip", "text")
    with ExitStack() as stack:
        (tmp_path / "ovs").mkdir()
        switch = stack.enter_context(running_switch(tmp_path / "ovs"))
        collector = stack.enter_context(
            collecting(tmp_path, *outputs, "--metrics", "127.0.0.1:0", "--interval", "50ms")
        )
        run_softflowd(tmp_path / "softflowd", traffic, collector.address)
        run_pmacctd(tmp_path / "pmacct", traffic, collector.address)
        before = count_flows(collector)
        target = f'"{collector.address}"'
        export(switch, "sflow", f"agent=127.0.0.1 target={target} header=128 sampling=1 polling=1")
        switch.forward(traffic)
        wait_until(lambda: count_flows(collector) >= before + len(traffic), "the samples of the switch")
    found = re.search(r"kernel_drops=(\d+) flows=(\d+); kafka\S+ stored=(\d+)", collector.log.read_text())
    assert found, collector.log.read_text()
    assert (int(found[1]), found[3]) == (0, found[2])

    expected = {
        "NETFLOW_V9": totals_of_packets(traffic, length=lambda packet: len(network(packet))),
        "IPFIX": totals_of_packets(traffic),
        "SFLOW_5": totals_of_packets(traffic),
    }
    assert totals_in(rows_of_parquet(tmp_path / "flows")) == expected
    table = topic.replace("-", "_")
    for statement in to_ddl(Schema.load("flow"), TableOptions(table=table)):
        if statement.sql:
            front.ask(statement.sql)
    source = ("--kafka", broker.servers, "--topic", topic, "--group", f"g-{topic}", "--until-end")
    assert flowbuf("consume", *source, "--clickhouse", front.url, "--table", table).exit_code == 0
    assert totals_in(list(rows_of_clickhouse(front, table))) == expected
