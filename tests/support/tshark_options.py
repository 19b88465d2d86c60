"""Read options records with TShark, as rows of the schema `options`, for comparison with flowbuf."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree.ElementTree import Element

from tests.support.command import flowbuf
from tests.support.tshark import find, read_packets

__all__ = ["Row", "check_options_against_tshark", "read_options"]

Row: TypeAlias = dict[str, Any]
"""The values of an options record by column, as in JSON."""

FLOW_TYPES = {9: "NETFLOW_V9", 10: "IPFIX"}
SCOPE_TYPES = ("cflow.scope_field_type", "cflow.template_ipfix_field_type")


def number(value: str) -> int:
    return int(value, 16)


def text(value: str) -> str:
    return bytes.fromhex(value).rstrip(b"\0").decode()


def ip(value: str) -> str | None:
    address = ip_address(bytes.fromhex(value))
    return None if address.is_unspecified else str(address)


def milliseconds(value: str) -> str:
    time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=number(value))
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cflow.scope_system": ("scope_system", str),
    "cflow.scope_interface": ("scope_interface", number),
    "cflow.flow_exporter": ("exporting_process_id", number),
    "cflow.mp_id": ("metering_process_id", number),
    "cflow.sys_init_time": ("system_init_time_milliseconds", milliseconds),
    "cflow.if_name": ("interface_name", text),
    "cflow.exporter_addr": ("described_exporter", ip),
    "cflow.exporter_addr_v6": ("described_exporter", ip),
    "cflow.sampling_interval": ("sampling_interval", number),
    "cflow.sampling_algorithm": ("sampling_mode", number),
    "cflow.sampler_id": ("sampler_id", number),
    "cflow.sampler_mode": ("sampling_mode", number),
    "cflow.sampler_random_interval": ("sampling_interval", number),
    "cflow.sampling_packet_interval": ("sampling_packet_interval", number),
    "cflow.sampling_packet_space": ("sampling_packet_space", number),
    "cflow.selector_algorithm": ("selector_algorithm", number),
    "cflow.notsent_packets": ("not_sent_packet_total_count", number),
}


def read_options(capture: Path) -> Iterator[Row]:
    """Yield the options records of datagrams to port 2055. Every element needs an entry in FIELDS."""
    templates: dict[tuple[str, int], Element] = {}
    for packet in read_packets(capture, {2055: "cflow"}):
        header = {
            "exporter_address": next(
                each.get("show") for each in packet.iter() if each.get("name") == "ip.src"
            ),
            "observation_domain_id": number(next(find(packet, "cflow.source_id", "cflow.od_id"))),
            "flow_type": FLOW_TYPES[number(next(find(packet, "cflow.version")))],
        }
        exporter = str(header)
        for each in packet.iter("field"):
            title = each.get("show") or ""
            if title.startswith("Options Template (Id"):
                templates[exporter, number(next(find(each, "cflow.template_id")))] = each
            elif "Set " in title and (template := templates.get((exporter, set_id(each)))) is not None:
                for record in each:
                    if (record.get("show") or "").startswith("Flow "):
                        yield {**header, **read_record(record, template)}


def set_id(part: Element) -> int:
    return number(next(find(part, "cflow.flowset_id")))


def read_record(record: Element, template: Element) -> Row:
    """Read all fields of a record. Of several fields of one column, the first with a value applies."""
    fields = [each for each in template if (each.get("show") or "").startswith("Field (")]
    assert len(record) == len(fields)
    scope = [each for each in fields if "[Scope]" in (each.get("show") or "")]
    row: Row = {"scope_elements": [number(next(find(each, *SCOPE_TYPES))) for each in scope]}
    for each in record:
        column, read = FIELDS[each.get("name") or ""]
        value = read(each.get("value") or "")
        if value not in (None, ""):
            row.setdefault(column, value)
    return row


def check_options_against_tshark(capture: Path) -> list[Row]:
    """Compare all fields of all options records, and return the records.

    flowbuf also lists the elements without a column. There are none.
    """
    done = flowbuf("read", capture, "--options", "--enable", "group:others", "-f", "jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(row.pop("time_received") for row in rows)
    theirs = list(read_options(capture))
    assert rows == theirs
    return theirs
