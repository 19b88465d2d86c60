"""Collected flows in ClickHouse: its engine behind an HTTP front end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf.cli.collect_outputs import new_output
from flowbuf.collect.batch_bytes import to_bytes
from flowbuf.collect.config import OutputConfig
from flowbuf.collect.outputs.clickhouse import ClickHouseOutput
from flowbuf.collect.queue import FlowQueue
from flowbuf.collect.spools.spool import Spool
from flowbuf.selection import FlowSelection
from flowbuf.targets.clickhouse_tables import TableOptions, to_ddl
from tests.collect.test_collector import flows5
from tests.collect.test_service import address_of, check_sums, running
from tests.support.clickhouse.http import ClickHouse
from tests.support.live import send, wait_until

SCHEMA = flowbuf.Schema.load("flow")


@pytest.fixture
def table(front: ClickHouse, request: pytest.FixtureRequest) -> str:
    options = TableOptions(table=f"c_{abs(hash(request.node.name))}")
    for statement in to_ddl(SCHEMA, options):
        if statement.sql:
            front.ask(statement.sql)
    return options.table


@pytest.mark.parametrize("trouble", ["", "busy", "lost", "cut"])
def test_every_flow_is_stored_once(front: ClickHouse, table: str, trouble: str) -> None:
    """Also if the server is busy, or closes the connection after an insert or within its answer."""
    output = ClickHouseOutput(front.url, SCHEMA, table)
    with running({"clickhouse": output}) as service:
        sent = send([flows5(30)] * 20, address_of(service))
        wait_until(lambda: service.read_counters().outputs["clickhouse"].stored == 600, "the first insert")
        if trouble:
            front.cause(trouble)
        sent += send([flows5(7)] * 20, address_of(service))
        wait_until(lambda: service.read_counters().outputs["clickhouse"].stored == 740, "the second insert")
        sent += send([flows5(1)], address_of(service))
        wait_until(lambda: service.read_counters().intake.received == sent, "the last flow")
    counters = service.read_counters()
    check_sums(counters)
    assert (counters.outputs["clickhouse"].stored, counters.outputs["clickhouse"].pending) == (741, 0)
    assert front.ask(f"SELECT count(), sum(bytes) FROM {table}") == "741\t74100"


def test_entries_of_a_spool_are_stored_once_over_a_restart(
    front: ClickHouse, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has stored an entry, and its answer is lost before the end."""
    monkeypatch.setattr("flowbuf.collect.outputs.clickhouse.PATIENCE", 0.0)
    config = OutputConfig(to=front.url, table=table, on_overflow="spool")
    selection = FlowSelection(SCHEMA)
    decoder = flowbuf.Decoder("flow")
    with Spool(tmp_path, 1 << 30) as spool:
        for flows in (3, 7, 5):
            spool.append(to_bytes(decoder.columns(flows5(flows), "192.0.2.1")), flows)
    for trouble in (True, False):
        with Spool(tmp_path, 1 << 30) as spool:
            output = new_output(config, selection, spool.identity)
            queue = FlowQueue(1000, "spool", spool=spool)
            while item := queue.get(0):
                output.write(selection.apply(item.batch), item.number)
            if trouble:
                front.cause("lost")
                with pytest.raises(flowbuf.ClickHouseError):
                    output.tick()
            else:
                output.close()
                assert (output.stored, output.pending) == (15, 0)
    assert front.ask(f"SELECT count() FROM {table}") == "15"


def test_columns_may_have_another_order(front: ClickHouse, table: str) -> None:
    """As in outputs with `columns`."""
    output = ClickHouseOutput(front.url, SCHEMA, table)
    flows = flowbuf.Decoder("flow").columns(flows5(30), "192.0.2.1").to_arrow()
    output.write(flows.select(flows.schema.names[::-1]))
    output.close()
    sums = (
        f"SELECT sum(bytes), sum(packets), sum(src_port), sum(dst_port), any(exporter_address) FROM {table}"
    )
    wanted = [sum(flows.column(name).to_pylist()) for name in ("bytes", "packets", "src_port", "dst_port")]
    assert front.ask(sums) == "\t".join(map(str, [*wanted, "::ffff:192.0.2.1"]))


def test_a_failed_insert_is_repeated_unchanged(front: ClickHouse, table: str, monkeypatch: Any) -> None:
    """Flows that arrive after a failure go into another insert, so that the token stays true."""
    monkeypatch.setattr("flowbuf.collect.outputs.clickhouse.PATIENCE", 0.0)
    output = ClickHouseOutput(front.url, SCHEMA, table)
    decoder = flowbuf.Decoder("flow")
    first, second = (decoder.columns(flows5(count), "192.0.2.1").to_arrow() for count in (30, 4))
    output.write(first)
    front.cause("busy")
    with pytest.raises(flowbuf.ClickHouseError):
        output.tick()
    assert (output.stored, output.pending) == (0, 30)
    front.cause("busy")
    with pytest.raises(flowbuf.ClickHouseError):
        output.write(second)
    assert (output.stored, output.pending) == (0, 30)
    output.write(second)
    assert (output.stored, output.pending) == (30, 4)
    output.close()
    assert (output.stored, output.pending) == (34, 0)
    assert front.ask(f"SELECT count() FROM {table}") == "34"
