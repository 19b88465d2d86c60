"""A real switch, Open vSwitch, which exports what it forwards.

It runs as any user, in a folder of its own, without a kernel module.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scapy.packet import Packet

from tests.support.exporters import PATH, need, running

__all__ = ["IN", "OUT", "Switch", "export", "running_switch"]

PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-vswitchd", "ovs-appctl", "ovs-ofctl")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
IN, OUT = 1001, 1002
"""ifIndex of each port."""
BATCH = 32
"""Packets for each command."""


@dataclass(frozen=True)
class Switch:
    """A switch that forwards every packet from port p1 to port p2. All its sockets are in its folder."""

    folder: Path

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        names = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        return {**os.environ, "PATH": PATH, **dict.fromkeys(names, str(self.folder))}

    def configure(self, *arguments: str) -> str:
        return self.run("ovs-vsctl", "--db=unix:db.sock", "--timeout=20", *arguments)

    def control(self, *arguments: str) -> str:
        return self.run("ovs-appctl", "-t", str(self.folder / "switch.ctl"), *arguments)

    def forward(self, packets: list[Packet]) -> None:
        for i in range(0, len(packets), BATCH):
            self.control(
                "netdev-dummy/receive", "p1", *(bytes(packet).hex() for packet in packets[i : i + BATCH])
            )


@contextmanager
def running_switch(folder: Path) -> Iterator[Switch]:
    """Run a switch that forwards from port p1 to port p2. Skip the test if it is not installed."""
    need(*PROGRAMS)
    switch = Switch(folder)
    switch.run("ovsdb-tool", "create", "conf.db", str(SCHEMA))
    database = ["ovsdb-server", "conf.db", "--remote=punix:db.sock", f"--unixctl={folder}/database.ctl"]
    daemon = [
        "ovs-vswitchd",
        "unix:db.sock",
        "--enable-dummy=override",
        "--disable-system",
        f"--unixctl={folder}/switch.ctl",
    ]
    with running(database, folder / "database.log", switch.environment):
        switch.configure("--retry", "--no-wait", "init")
        with running(daemon, folder / "switch.log", switch.environment):
            bridge = "add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=secure"
            for number, (port, ifindex) in enumerate({"p1": IN, "p2": OUT}.items(), 1):
                bridge += (
                    f" -- add-port br0 {port} -- set interface {port} type=dummy ofport_request={number}"
                )
                bridge += f" options:ifindex={ifindex}"
            switch.configure(*bridge.split())
            switch.run("ovs-ofctl", "add-flow", f"unix:{folder}/br0.mgmt", "in_port=1,actions=output:2")
            yield switch


def export(switch: Switch, table: str, columns: str) -> None:
    """Add an exporter: `table` is sflow, netflow or ipfix, and `columns` are its settings."""
    create = ["--", "--id=@new", "create", table, *columns.split()]
    switch.configure(*create, "--", "set", "bridge", "br0", f"{table}=@new")
