"""Several kinds of rows in the collector: each output gets the rows of its kind, and sums hold per kind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import flowbuf
from flowbuf.collect.config import CollectConfig, OutputConfig, expand_outputs, read_config
from flowbuf.collect.listen import Address, open_listeners
from flowbuf.collect.live import LiveSampler
from flowbuf.collect.metrics import format_metrics
from flowbuf.collect.service import Service
from flowbuf.collect.totals import format_totals
from flowbuf.collect.worker import RowCounters, Worker
from flowbuf.errors import ConfigError, EnrichmentError, SchemaError
from tests.collect.test_service import LOCAL, ListOutput, address_of, check_sums, running
from tests.decode.test_row_kinds import BOTH, MIXED
from tests.support.live import send, wait_until

ROWS = ("flows", "counters")
SCHEMAS = dict(zip(ROWS, CollectConfig(rows=ROWS).load_schemas(), strict=True))


def test_a_collector_yields_batches_of_each_kind() -> None:
    with flowbuf.Collector([LOCAL], schemas=BOTH, interval=0.02) as collector:
        send([MIXED] * 4, collector.addresses[0])
        wait_until(lambda: collector.counters.received == 4, "all datagrams")
    found: dict[str, int] = {}
    for batch in collector:
        found[batch.schema.rows] = found.get(batch.schema.rows, 0) + len(batch)
    assert found == {"flows": 12, "counters": 8}
    counters = collector.counters
    assert counters.rows == {"flows": RowCounters(12, 12), "counters": RowCounters(8, 8)}
    assert (counters.flows, counters.delivered, counters.waiting) == (20, 20, 0)
    assert collector.queue.offered == collector.queue.taken == 20
    assert [schema.rows for schema in collector.schemas] == list(ROWS)


def test_an_enrichment_must_fit_the_only_output_that_has_it(tmp_path: Path) -> None:
    """One that fits another output with the same enrichments is left out."""
    path = tmp_path / "net.toml"
    path.write_text('[[exporter]]\naddress = "192.0.2.1"\nname = "edge1"\n')
    outputs: dict[str, Any] = {"f": ListOutput(), "c": ListOutput()}
    settings: dict[str, Any] = {"c": {"rows": "counters", "enrich": (str(path),)}}
    with pytest.raises(EnrichmentError, match="fills columns that schema 'sflow_counters' does not have"):
        running(outputs, settings, rows=ROWS).__enter__()
    settings["f"] = {"enrich": (str(path),)}
    with running(outputs, settings, rows=ROWS) as service:
        assert not service.stopping


def test_outputs_get_the_rows_of_their_kind() -> None:
    outputs: dict[str, Any] = {"f": ListOutput(), "c": ListOutput(), "small": ListOutput()}
    settings = {"c": {"rows": "counters"}, "small": {"rows": "counters", "where": "sequence_number = 1"}}
    with running(outputs, settings, rows=ROWS) as service:
        send([MIXED] * 3, address_of(service))
        wait_until(lambda: service.read_counters().outputs["f"].stored == 9, "the flows")
        wait_until(lambda: service.read_counters().outputs["c"].stored == 6, "the counters")
        wait_until(lambda: service.read_counters().outputs["small"].filtered == 3, "the condition")
        metrics = format_metrics(service).decode()
        live = LiveSampler(service).read()
    counters = service.read_counters()
    check_sums(counters)
    assert live.rows.keys() == live.exporters[0].rows.keys() == set(ROWS)
    assert {name: output.stored for name, output in counters.outputs.items()} == {"f": 9, "c": 6, "small": 3}
    assert "if_index" in outputs["c"].batches[0].schema.names
    assert "dst_port" in outputs["f"].batches[0].schema.names
    assert format_totals(counters).startswith("received=3 kernel_drops=0 flows=9 counters=6; f: stored=9 ")
    for line in (
        'flowbuf_decoded_flows_total{rows="counters",worker="0"} 6.0',
        'flowbuf_exporter_flows_total{exporter="192.0.2.200",rows="flows"} 9.0',
        'flowbuf_output_stored_flows_total{output="c",rows="counters"} 6.0',
    ):
        assert line in metrics


def with_counters(counters: str) -> CollectConfig:
    """Return a configuration with the output "f" for flows, and one for counters."""
    outputs = OutputConfig(to="f"), OutputConfig(to=counters, rows="counters")
    return CollectConfig(listen=(LOCAL,), rows=ROWS, outputs=outputs)


def test_a_reload_adds_and_removes_a_kind_of_rows() -> None:
    outputs: dict[str, Any] = {"f": ListOutput(), "c": ListOutput()}
    both = with_counters("c")
    with running({"f": outputs["f"]}) as service:
        service._new_output = lambda output, selection, spool: outputs[output.to]
        for config, stored, known in (
            (None, (3, 0), {"counter_sample": 2}),
            (both, (6, 2), {"counter_sample": 2}),
            (CollectConfig(listen=(LOCAL,), outputs=both.outputs[:1]), (9, 2), {"counter_sample": 4}),
        ):
            if config:
                service.reload(config, config.load_schemas())
            send([MIXED], address_of(service))
            wait_until(lambda stored=stored: outputs["f"].stored == stored[0], "the flows")
            wait_until(lambda stored=stored: outputs["c"].stored == stored[1], "the counters")
            assert service.read_counters().intake.statuses == known
    assert service.read_counters().intake.rows == {"flows": RowCounters(9, 9), "counters": RowCounters(2, 2)}


def test_an_output_that_takes_another_kind_of_rows_keeps_the_labels_of_its_metrics() -> None:
    outputs: dict[str, Any] = {"f": ListOutput(), "one": ListOutput()}
    both = with_counters("one")
    with running({"one": outputs["one"]}) as service:
        service._new_output = lambda output, selection, spool: outputs[output.to]
        send([MIXED], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 3, "the flows")
        outputs["one"] = ListOutput()
        service.reload(both, both.load_schemas())
        send([MIXED], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 2, "the counters")
        wait_until(lambda: service.read_counters().outputs["f"].stored == 3, "the flows")
        metrics = format_metrics(service).decode()
    assert service.read_counters().outputs["one (flows)"].stored == 3
    stored = [line for line in metrics.splitlines() if line.startswith("flowbuf_output_stored_flows_total")]
    assert sorted(stored) == [
        'flowbuf_output_stored_flows_total{output="f",rows="flows"} 3.0',
        'flowbuf_output_stored_flows_total{output="one",rows="counters"} 2.0',
        'flowbuf_output_stored_flows_total{output="one",rows="flows"} 3.0',
    ]


def test_a_failing_worker_counts_the_lost_rows_of_each_kind() -> None:
    batches: list[flowbuf.FlowBatch] = []
    failures: list[Exception] = []

    def deliver(batch: flowbuf.FlowBatch) -> None:
        if not failures and batches:
            raise MemoryError("no memory for this batch")
        batches.append(batch)

    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    worker = Worker(0, [listener], lambda: flowbuf.Decoder(schemas=BOTH), deliver, failures.append, 0.02)
    worker.start()
    try:
        send([MIXED], str(listener.address))  # the flows are delivered, and their counters are lost
        wait_until(lambda: bool(failures), "the failure")
        send([MIXED], str(listener.address))
        wait_until(lambda: worker.read_counters().delivered == 8, "the rows after the failure")
    finally:
        worker.stop()
        worker.join()
        listener.close()
    assert worker.read_counters().rows == {
        "flows": RowCounters(6, 6),
        "counters": RowCounters(4, 2, 2),
    }


def test_state_moves_to_another_service() -> None:
    """The exporters of a paused intake are restored with their templates, whatever rows are decoded."""
    with running({"f": ListOutput()}) as first:
        send([MIXED], address_of(first))
        wait_until(lambda: first.read_counters().intake.flows == 3, "the flows")
        state = first.intake.pause()
        first.intake.resume()
    config = CollectConfig(listen=(LOCAL,), rows=ROWS, outputs=(OutputConfig(to="{rows}"),))
    second = Service(config, config.load_schemas(), lambda output, selection, spool: ListOutput())
    second.intake.adopt(state)
    thread = threading.Thread(target=second.run)
    thread.start()
    send([MIXED], str(second.listeners[0].address))
    wait_until(lambda: second.read_counters().intake.flows == 5, "the rows")
    second.stop()
    thread.join()
    assert {name: output.stored for name, output in second.read_counters().outputs.items()} == {
        "flows": 3,
        "counters": 2,
    }


def test_a_placeholder_makes_an_output_per_kind() -> None:
    output = OutputConfig(to="data/{rows}/", name="site {rows}")
    assert expand_outputs([output], SCHEMAS) == (
        OutputConfig(to="data/flows/", name="site flows", rows="flows"),
        OutputConfig(to="data/counters/", name="site counters", rows="counters"),
    )
    (alone,) = expand_outputs([output], {"counters": SCHEMAS["counters"]})
    assert alone.to == "data/counters/"
    (default,) = expand_outputs([OutputConfig(to="x")], {"flows": SCHEMAS["flows"]})
    assert default.rows == "flows"


@pytest.mark.parametrize(
    ("columns", "flows", "counters"),
    [
        (
            ("src_as", "app_bad_request", "time_received"),
            ("src_as", "time_received"),
            ("app_bad_request", "time_received"),
        ),
        (("src_as",), ("src_as",), ()),  # all columns of counters, as in `flowbuf read`
        ((), (), ()),
    ],
)
def test_a_kind_gets_the_columns_that_it_has(
    columns: tuple[str, ...], flows: tuple[str, ...], counters: tuple[str, ...]
) -> None:
    output = OutputConfig(to="data/{rows}/", columns=columns)
    assert [each.columns for each in expand_outputs([output], SCHEMAS)] == [flows, counters]


def test_a_column_that_no_kind_has_is_an_error() -> None:
    with (
        pytest.raises(SchemaError, match="no column 'byts'"),
        running({"{rows}": ListOutput()}, {"{rows}": {"columns": ("byts",)}}, rows=ROWS),
    ):
        raise AssertionError
    with (  # an output for one kind
        pytest.raises(SchemaError, match="no column 'app_bad_request'"),
        running(
            {"f": ListOutput(), "c": ListOutput()},
            {"f": {"columns": ("app_bad_request",)}, "c": {"rows": "counters"}},
            rows=ROWS,
        ),
    ):
        raise AssertionError


@pytest.mark.parametrize(
    ("outputs", "rows", "problem"),
    [
        ([OutputConfig(to="x")], ROWS, "rows counters have no output; write {rows} in a destination"),
        (
            [OutputConfig(to="x", rows="counters")],
            ["flows"],
            "output 'x': rows counters are not decoded",
        ),
        ([OutputConfig(to="x", rows="flow")], ["flows"], "output 'x': rows flow are not decoded"),
    ],
)
def test_outputs_and_kinds_of_rows_must_match(
    outputs: list[OutputConfig], rows: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        expand_outputs(outputs, {kind: SCHEMAS[kind] for kind in rows})
    assert problem in str(raised.value)


def test_the_file_has_a_schema_per_kind(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[schema]\nextends = "sflow_counters"\nname = "own"\n')
    file = tmp_path / "collector.toml"
    file.write_text(
        f'rows = ["flows", "counters"]\ncounters_schema = "{own}"\ndisable = ["if_index", "src_as"]\n'
        '[[output]]\nto = "null:"\n[[output]]\nto = "c/"\nrows = "counters"\n'
    )
    config = read_config(str(file))
    flows, counters = config.load_schemas()
    assert (flows.name, counters.name) == ("flow", "own")
    assert "src_as" not in [column.name for column in flows.enabled]
    assert "if_index" not in [column.name for column in counters.enabled]
    assert [each.rows for each in expand_outputs(config.outputs, SCHEMAS)] == list(ROWS)
