"""Send the flows of a capture to Kafka, load them into ClickHouse, and query them with SQL.

python examples/pipeline.py [CAPTURE]

The program starts a real Kafka broker and stops it at the end (tools/kafka; needs Java and Maven).
ClickHouse's engine runs in this process (chdb). It reads the topic like a ClickHouse server.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import flowbuf
from flowbuf.clickhouse import KafkaOptions, Local, TableOptions, to_ddl, to_text

ROOT = Path(__file__).parent.parent
CAPTURE = ROOT / "tests/data/softflowd-ipfix.pcap"
PATIENCE = 90  # seconds for ClickHouse to read the topic
TOP_TALKERS = """
    SELECT IPv6NumToString(src_addr) AS source, IPv6NumToString(dst_addr) AS destination, proto,
           sum(packets) AS packets, sum(bytes) AS bytes
    FROM flows GROUP BY ALL ORDER BY bytes DESC LIMIT 8
"""


def run(*command: object) -> str:
    """Run a command and return its standard output. Exit if it fails."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.strip()


def produce(capture: Path, broker: str) -> dict[str, str]:
    """Run `flowbuf produce CAPTURE` and return the name=value pairs of its summary."""
    command = (
        "produce",
        capture,
        "--kafka",
        broker,
        "--topic",
        "flows-{hash}",
        "--partitions",
        "2",
        "--key",
        "exporter",
    )
    said = run(sys.executable, "-m", "flowbuf", *command)
    return dict(pair.split("=", 1) for pair in said.split())


def wait_for_flows(database: Local, expected: int) -> int:
    """Wait until ClickHouse has all flows, for at most PATIENCE seconds. Return their number."""
    deadline = time.monotonic() + PATIENCE
    while True:
        count: int = database.query("SELECT count() AS flows FROM flows")["flows"][0].as_py()
        if count >= expected or time.monotonic() > deadline:
            return count
        time.sleep(0.2)


def show(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(
            *(
                f"{value:,}" if isinstance(value, int) else str(value).removeprefix("::ffff:")
                for value in row.values()
            )
        )
    console.print(table)


def main() -> None:
    capture = Path(sys.argv[1]) if len(sys.argv) > 1 else CAPTURE
    console = Console()
    schema = flowbuf.Schema.load("flow")
    with tempfile.TemporaryDirectory() as folder:
        kafka = ROOT / "tools/kafka"
        console.rule("tools/kafka start")
        broker = run(sys.executable, kafka, "start", "--folder", f"{folder}/broker")
        print(broker)
        try:
            console.rule(
                f"flowbuf produce {capture.name} --kafka {broker} --topic flows-{{hash}} --partitions 2"
            )
            sent = produce(capture, broker)
            print("\n".join(f"{name}={value}" for name, value in sent.items()))
            console.rule(f"flowbuf schema clickhouse --kafka {broker}, executed by ClickHouse's engine")
            statements = to_ddl(schema, TableOptions(kafka=KafkaOptions(broker)))
            print(to_text(statements[:1]))
            with Local(f"{folder}/clickhouse") as database:
                database.run(statements)
                stored = wait_for_flows(database, int(sent["flows"]))
                console.rule("SELECT … FROM flows")
                show(database.query(TOP_TALKERS).to_pylist(), console)
        finally:
            run(sys.executable, kafka, "stop", "--folder", f"{folder}/broker")
    delivered = int(sent["flows"]) if sent["delivered"] == sent["records"] else 0
    print(f"decoded={sent['flows']} delivered={delivered} clickhouse={stored}")
    sys.exit(0 if int(sent["flows"]) == delivered == stored > 0 else 1)


if __name__ == "__main__":
    main()
