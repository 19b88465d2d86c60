"""Takeovers between two real collectors: nothing is lost, and the sums of both are exact."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.error
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from flowbuf import Decoder
from flowbuf.collect import takeover
from flowbuf.collect.config import CollectConfig
from flowbuf.collect.listen import Address, open_listeners
from flowbuf.collect.takeover import TakeoverServer, take_over
from tests.cli.test_cli_collect import Running, get, totals_of
from tests.collect.test_collector import LOCAL
from tests.collect.test_service import ListOutput, address_of, running
from tests.support.cases import slow
from tests.support.datagrams import (
    data_set,
    ipfix,
    netflow9,
    options_template9,
    options_template_set9,
    template,
    template_set,
    template_set9,
    u8,
    u32,
)
from tests.support.live import closed_port, send, wait_until

COLUMNS = (
    "bytes,exporter_address,time_received,time_exported,sequence_number,observation_domain_id,sampling_rate"
)
NETFLOW9_RATE = netflow9(
    options_template_set9(options_template9(257, [(1, 4)], [(48, 1), (34, 4)]), padding=2),
    data_set(257, u32(0) + u8(1) + u32(100)),
    source_id=5,
)
NETFLOW9_TEMPLATE = netflow9(template_set9(template(256, (1, 4), (48, 1))), source_id=5)
IPFIX_TEMPLATE = ipfix(template_set(template(256, (1, 4))), domain=6)
EARLY = ipfix(data_set(256, u32(1)), domain=6)


@contextlib.contextmanager
def two_collectors(folder: Path, *options: str, listen: str = LOCAL, **more: Any) -> Iterator[Any]:
    """Yield the running collector, and a function that starts its successor. Kill both at the end."""
    (folder / "old").mkdir()
    (folder / "new").mkdir()
    with contextlib.ExitStack() as stack:
        old = Running(folder / "old", *options, *more.get("old", ()), listen=listen)
        stack.callback(old.process.kill)

        def succeed() -> Running:
            address, *others = re.sub(r",", " ", old.find(r"listening on (.*)")).split()
            listeners = [part for other in others for part in ("--listen", other)]
            arguments = [*options, *listeners, *more.get("new", ()), "--takeover"]
            new = Running(folder / "new", *arguments, listen=address)
            stack.callback(new.process.kill)
            assert old.process.wait(60) == 0, old.log.read_text() + new.log.read_text()
            return new

        yield old, succeed


def stop(collector: Running) -> dict[str, int]:
    """End a collector, and return its totals."""
    collector.process.terminate()
    assert collector.process.wait(60) == 0, collector.log.read_text()
    return totals_of(collector.log.read_text())


def flows_of(collector: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in collector.out.read_text().splitlines()]


def counters_at(metrics: str) -> Counter[str]:
    """Return the counters of a running collector, and the number of data sets that wait.

    They are empty while the address does not answer: a successor opens it in the background.
    """
    total: Counter[str] = Counter()
    with contextlib.suppress(urllib.error.URLError):
        status, text = get(f"http://{metrics}/exporters")
        assert status == 200
        for exporter in json.loads(text):
            total.update(exporter["counters"])
            total["waiting"] += exporter["waiting"]["sets"]
    return total


# Data sets that wait for their template ---------------------------------------------------------------------


def early_data(number: int) -> list[tuple[bytes, bytes, dict[str, Any]]]:
    """Return early data of an exporter, the template that it waits for, and the flow that both give."""
    flow = {"sequence_number": 70 + number, "time_exported": f"1970-01-01T00:16:4{number}.000Z"}
    v9 = netflow9(
        data_set(256, u32(100 + number) + u8(1)), source_id=5, seconds=1000 + number, sequence=70 + number
    )
    v10 = ipfix(data_set(256, u32(200 + number)), domain=6, export_time=1000 + number, sequence=70 + number)
    return [
        (
            v9,
            NETFLOW9_TEMPLATE,
            flow | {"bytes": 100 + number, "observation_domain_id": 5, "sampling_rate": 100},
        ),
        (v10, IPFIX_TEMPLATE, flow | {"bytes": 200 + number, "observation_domain_id": 6}),
    ]


@pytest.mark.parametrize("workers", [*slow(1), 3])
def test_early_data_is_decoded_by_the_successor(tmp_path: Path, workers: int) -> None:
    """Flows keep their exporter, their time of reception, and the numbers of their own datagram."""
    exporters = [*(f"127.0.3.{i}" for i in range(1, 7)), "::1"]
    old_metrics, new_metrics = (f"127.0.0.1:{closed_port()}" for _ in range(2))
    options = ("-o", "-", "--enable", COLUMNS, "--columns", COLUMNS, "--interval", "20ms")
    options += ("--workers", str(workers))
    more = {
        "old": ("--listen", "[::1]:0", "--metrics", old_metrics),
        "new": ("--metrics", new_metrics),
    }
    with two_collectors(tmp_path, *options, **more) as (old, succeed):
        ipv4, ipv6 = old.find(r"listening on (.*)").split(", ")
        early, templates, expected = [], [], []
        for number, exporter in enumerate(exporters):
            to = ipv6 if ":" in exporter else ipv4
            send([NETFLOW9_RATE], to, exporter)
            for data, definition, flow in early_data(number):
                early.append((data, to, exporter))
                templates.append((definition, to, exporter))
                expected.append(flow | {"exporter_address": exporter})
        sent = len(exporters) + sum(send([data], *where) for data, *where in early)
        wait_until(lambda: counters_at(old_metrics)["early_data"] == len(early), "the data")
        time_of_takeover = datetime.now(timezone.utc)
        new = succeed()
        wait_until(lambda: counters_at(new_metrics)["waiting"] == len(early), "the data sets")
        sent += sum(send([definition], *where) for definition, *where in templates)
        wait_until(lambda: len(flows_of(new)) == len(early), "the flows")
        counters = counters_at(new_metrics)
        after = stop(new)
    before = totals_of(old.log.read_text())
    assert (flows_of(old), before["flows"]) == ([], 0)
    assert before["received"] + after["received"] == sent
    assert before["early_data_handed_over"] == after["early_data_inherited"] == len(early)
    assert counters["early_data_inherited"] == len(early)
    assert (counters["early_data"], counters["template_missing"], counters["waiting"]) == (0, 0, 0)
    found = flows_of(new)
    for flow in found:
        assert datetime.fromisoformat(flow.pop("time_received").replace("Z", "+00:00")) <= time_of_takeover
    assert sorted(found, key=bytes_of) == sorted(expected, key=bytes_of)
    assert after["flows"] == after["stored"] == len(expected)


def bytes_of(flow: dict[str, Any]) -> int:
    return int(flow["bytes"])


def test_a_successor_that_fails_leaves_early_data_behind() -> None:
    """The running collector keeps its data sets until the successor has started."""
    with running({"one": ListOutput()}) as service:
        send([EARLY], address_of(service))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
        handover = take_over([service.listeners[0].address])
        handover.request_state(early_data=True)
        (part,) = handover.read_early_data()
        for listener in handover.listeners:
            listener.close()
        handover._channel.close()
        send([IPFIX_TEMPLATE], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 1, "the flow")
    assert service.read_counters().intake.statuses == {"early_data": 1}
    other = Decoder()
    other.restore_exporters(part)
    assert other.counters == {"early_data_inherited": 1}


@pytest.mark.parametrize("version", [None, 2])
def test_early_data_ends_with_a_predecessor_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None
) -> None:
    """Everything else is handed over. None: the successor does not read early data."""
    with running({"one": ListOutput()}) as service:
        address = service.listeners[0].address
        send([EARLY], str(address))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
        if version:
            monkeypatch.setattr(takeover, "EARLY_DATA_VERSION", version)
            new = Running(tmp_path, "-o", "null:", "--takeover", listen=str(address))
            new.find("(listening on)")
            assert "early_data" not in new.log.read_text()
        else:
            handover = take_over([address])
            state = handover.request_state()
            assert state.keys() == {"exporters", "drops"}
            assert list(handover.read_early_data()) == []
            handover.finish()
        wait_until(lambda: service.stopping, "the end of the predecessor")
    assert service.read_counters().intake.statuses == {"early_data": 1, "template_missing": 1}
    if version:
        stop(new)
    else:
        for listener in handover.listeners:
            listener.close()


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        (b"", "exporter 0 (192.0.2.1): early_data is damaged, or not of version 1"),
        (bytes(50), "exporter 0 (192.0.2.1): early_data is damaged, or not of version 1"),
    ],
)
def test_damaged_early_data_ends_the_successor(tmp_path: Path, form: bytes, complaint: str) -> None:
    """The running collector continues with its own data sets."""
    (listener,) = open_listeners([Address("127.0.0.1", 0)])
    ended: list[str] = []
    server = TakeoverServer(
        [listener],
        lambda: {"exporters": [], "drops": {}},
        lambda: [[{"address": "192.0.2.1", "early_data": form}]],
        lambda: ended.append("resumed"),
        lambda spools, early_data: ended.append("finished"),
    )
    with server:
        new = Running(tmp_path, "-o", "null:", "--takeover", listen=str(listener.address))
        assert new.process.wait(60) != 0
        wait_until(lambda: bool(ended), "the end of the takeover")
    listener.close()
    assert ended == ["resumed"]
    assert f"the running collector hands over invalid state: {complaint}" in new.log.read_text()


def test_a_reload_keeps_early_data() -> None:
    with running({"one": ListOutput()}) as service:
        send([EARLY], address_of(service))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
        config = CollectConfig(listen=(LOCAL,), interval=0.02, outputs=service._config.outputs)
        service.reload(config, config.load_schemas())
        send([IPFIX_TEMPLATE], address_of(service))
        wait_until(lambda: service.read_counters().outputs["one"].stored == 1, "the flow")
    assert service.read_counters().intake.statuses == {
        "early_data": 1,
        "early_data_handed_over": 1,
        "early_data_inherited": 1,
    }


def test_early_data_that_waits_at_the_end_is_counted() -> None:
    with running({"one": ListOutput()}) as service:
        send([EARLY], address_of(service))
        wait_until(lambda: service.read_counters().intake.statuses["early_data"] == 1, "the data")
    assert service.read_counters().intake.statuses == {"early_data": 1, "template_missing": 1}
