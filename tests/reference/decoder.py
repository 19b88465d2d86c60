"""The decoder: detection of the protocol, and conversion of flows to messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from . import early, ipfix, netflow, sflow, sflow_counters
from .columns import build_message, scale_totals
from .datagram import Datagram, Exporters, Policy, address_octets
from .octets import Octets, Short
from .options import Taken
from .rates import DatagramRates, Rates
from .values import Flow

Reader = Callable[[Datagram], Iterator[Flow]]

# The version is the first 16 bits of NetFlow and IPFIX. In sFlow it is the first 32, of which 16 are zero.
DECODERS: dict[int, tuple[str, int, Reader]] = {
    5: ("netflow5", 24, netflow.decode5),
    9: ("netflow9", 20, netflow.decode9),
    10: ("ipfix", 16, ipfix.decode),
}
# Protocols whose length must be exact: name, bytes of the header and of records, reader.
EXACT_DECODERS: dict[int, tuple[str, int, tuple[int, ...], Reader]] = {
    1: ("netflow1", 16, (48, 52), netflow.decode1),
    7: ("netflow7", 24, (52,), netflow.decode7),
}
SFLOW_VERSION = 5
UNSUPPORTED_SFLOW = {2, 4}


class Decoder:
    """Decode datagrams with a schema. Keep templates and sampling rates of each exporter.

    `decapsulate` has the kinds of tunnel (packet.TUNNELS) whose inner packet is the flow.

    The version numbers of NetFlow v1 and v7 are common at the start of other payloads. Such a datagram must
    have an exact length and at least one record. If records have another size above 40 bytes, and the
    nanoseconds of the header are below a second, the version is unsupported. sFlow v2 and v4 must have an
    agent address of a known type.

    `others` has schemas of further kinds of rows, which `decode_rows` returns.

    `sampling`, `default_sampling_rate` and `rate_limit` change the sampling rates of flows (rates.py).
    `override` replaces columns of every message; `scale` then multiplies totals by the sampling rate.
    `policy` has the fields of datagram.Policy.
    """

    def __init__(
        self,
        schema: Any,
        *,
        others: Collection[Any] = (),
        scale: bool = False,
        override: dict[str, Any] | None = None,
        decapsulate: Collection[str] = (),
        sampling: Collection[Any] = (),
        default_sampling_rate: int | None = None,
        rate_limit: int = 0,
        **policy: Any,
    ) -> None:
        self.schemas = {each.rows: each for each in (schema, *others)}
        self.mirrors = {rows: find_mirrors(each) for rows, each in self.schemas.items()}
        self.rows = schema.rows
        self.scale = scale
        self.override = override or {}
        self.decapsulate = frozenset(decapsulate)
        self.exporters = Exporters(Policy(**policy))
        self.rates = Rates(list(schema.enabled), sampling, default_sampling_rate, rate_limit)
        self.other: Counter[str] = Counter()
        self.reads_packets = self._rows_with("packet:")
        self.reads_layers = self._rows_with("packet:layers.")
        self.wanted = {rows: find_sources(each) for rows, each in self.schemas.items()}
        self.taken = {
            rows: Taken(find_elements(each), self.wanted[rows]) for rows, each in self.schemas.items()
        }

    def _rows_with(self, prefix: str) -> frozenset[str]:
        """Return the kinds of rows with an enabled column that has such a source."""
        return frozenset(
            rows
            for rows, schema in self.schemas.items()
            for column in schema.enabled
            for rank in column.sources
            for source in rank
            if source.text.startswith(prefix)
        )

    def decode(
        self, payload: bytes, source: tuple[str, int] = ("192.0.2.1", 9995), received: int = 0
    ) -> list[dict[str, Any]]:
        """Return the messages of one UDP payload as {column name: value}. `received` is in nanoseconds since
        1970.
        """
        return self.decode_rows(payload, source, received)[self.rows]

    def decode_rows(
        self, payload: bytes, source: tuple[str, int] = ("192.0.2.1", 9995), received: int = 0
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the messages of one UDP payload by their kind of rows: see `decode`."""
        messages: dict[str, list[dict[str, Any]]] = {rows: [] for rows in self.schemas}
        version, read = self.tell(payload)
        if isinstance(read, str):
            self.other[read] += 1
            return messages
        if "flows" not in self.schemas:
            read = self._read_without_flows(version, read)
        elif "counters" in self.schemas and read is decode_sflow:
            read = decode_sflow_all
        datagram = Datagram(
            version,
            payload,
            address_octets(source[0]),
            source[1],
            received,
            self.exporters,
            self.reads_packets,
            self.reads_layers,
            self.decapsulate,
            self.wanted,
            self.taken,
        )
        notes: Counter[str] = Counter()
        rates = DatagramRates(self.rates, datagram)
        try:
            for flow in read(datagram):
                if flow.rows == "flows" and not rates.admits():
                    notes["rate_limited"] += 1
                    continue
                messages[flow.rows].append(self._build(flow, rates, notes))
        except Fault as fault:
            notes[fault.args[0]] += 1
        exporter = datagram.exporter
        rates.account(len(messages.get("flows", ())), notes["rate_limited"])
        exporter.counters.update(notes)
        exporter.datagrams += 1
        exporter.flows += sum(map(len, messages.values()))
        return messages

    def _read_without_flows(self, version: str, read: Reader) -> Reader:
        if version == "sflow":
            return decode_sflow_counters if "counters" in self.schemas else decode_sflow_nothing
        if version in ("netflow9", "ipfix") and "options" in self.schemas:
            return read
        return leave_flows_out if version else read

    def _build(self, flow: Flow, rates: DatagramRates, notes: Counter[str]) -> dict[str, Any]:
        """Return the message of a row. The next row is read afterwards, because it may change the clock."""
        columns = list(self.schemas[flow.rows].enabled)
        message = build_message(columns, flow, notes, self.mirrors[flow.rows])
        if flow.rows == "flows":
            rates.configure(flow, message)
        message |= self.override
        if flow.rows == "flows":
            rates.weigh(message, notes)
        if self.scale:
            scale_totals(columns, message, notes)
        return message

    def finish(self) -> None:
        """End the input: data sets that still wait are lost."""
        while self.exporters.waiting:
            early.give_up(self.exporters, self.exporters.waiting[0])

    @property
    def counters(self) -> dict[str, int]:
        """Return the counters of all exporters, with those of payloads of an unknown protocol, which have no
        exporter.
        """
        exporters = self.exporters.known.values()
        return dict(+sum((exporter.counters for exporter in exporters), Counter(self.other)))

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """Return counters above 0 by status name, flows, and datagrams, by exporter address as text."""
        return {
            text: {
                "counters": dict(+exporter.counters),
                "flows": exporter.flows,
                "datagrams": exporter.datagrams,
            }
            for text, exporter in self.exporters.by_text().items()
        }

    @property
    def waiting(self) -> dict[str, dict[str, int]]:
        """Return the data sets that wait for their templates, by exporter address as text."""
        waiting = {}
        for text, exporter in self.exporters.by_text().items():
            own = [each for each in self.exporters.waiting if each.datagram.exporter is exporter]
            waiting[text] = {"sets": len(own), "bytes": sum(each.cost for each in own)}
        return waiting

    @property
    def sequences(self) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
        """Return the state of sequence numbering, by exporter, then by protocol and domain.

        The domain is engine type << 8 | id in NetFlow v5, and the sub-agent in sFlow.
        """
        return {
            text: {key: sequences.describe() for key, sequences in exporter.sequences.items()}
            for text, exporter in self.exporters.by_text().items()
        }

    @staticmethod
    def tell(payload: bytes) -> tuple[str, Reader | str]:
        """Return the protocol of a datagram, and its reader or the status to count."""
        version = int.from_bytes(payload[:2], "big")
        if len(payload) >= 2 and version in DECODERS:
            name, header_size, decode = DECODERS[version]
            return name, decode if len(payload) >= header_size else read_nothing
        count = int.from_bytes(payload[2:4], "big")
        if len(payload) >= 4 and version in EXACT_DECODERS:
            name, header_size, record_sizes, decode = EXACT_DECODERS[version]
            size, rest = divmod(len(payload) - header_size, count) if count else (0, 0)
            if rest == 0 and size in record_sizes:
                return name, decode
            nanoseconds = int.from_bytes(payload[12:16], "big")
            is_other = rest == 0 and size > 40 and nanoseconds < 1_000_000_000
            return "", read_unsupported if is_other else "other_packet"
        version = int.from_bytes(payload[:4], "big")
        if len(payload) >= 4 and version == SFLOW_VERSION:
            return "sflow", decode_sflow
        is_old = version in UNSUPPORTED_SFLOW and payload[4:8] in (b"\0\0\0\1", b"\0\0\0\2")
        return "", read_unsupported if is_old else "other_packet"


def find_mirrors(schema: Any) -> dict[str, Any]:
    """Return the other direction of each enabled column that has one."""
    return {
        column.name: schema[column.mirror]
        for column in schema.enabled
        if column.mirror in schema and schema[column.mirror].mirror == column.name
    }


def find_sources(schema: Any) -> frozenset[str]:
    """Return the sources of the enabled columns."""
    return frozenset(source.text for column in schema.enabled for rank in column.sources for source in rank)


def find_elements(schema: Any) -> frozenset[tuple[str, int, int]]:
    """Return the elements that are sources of the enabled columns."""
    return frozenset(
        (source.kind, source.pen, source.id)
        for column in schema.enabled
        for rank in column.sources
        for source in rank
        if source.kind in ("ipfix", "netflow9")
    )


class Fault(Exception):
    """A datagram that cannot be read; the argument is the status to count."""


def read_nothing(datagram: Datagram) -> Iterator[Flow]:
    raise Fault("truncated_header")


def read_unsupported(datagram: Datagram) -> Iterator[Flow]:
    raise Fault("unsupported_version")


def leave_flows_out(datagram: Datagram) -> Iterator[Flow]:
    raise Fault("flows_left_out")


def decode_sflow(
    datagram: Datagram, read_sample: sflow.SampleReader = sflow.read_flow_sample
) -> Iterator[Flow]:
    """Decode sFlow. Its header has no fixed size; reading it finds its end."""
    try:
        yield from sflow.decode(datagram, read_sample)
    except Short:
        raise Fault("truncated_header") from None
    except sflow.UnknownAddressType:
        raise Fault("bad_header") from None


def decode_sflow_all(datagram: Datagram) -> Iterator[Flow]:
    """Decode sFlow for schemas of both kinds of rows."""
    yield from decode_sflow(datagram, read_any_sample)


def read_any_sample(datagram: Datagram, flow: Flow, sample_format: int, sample: Octets) -> bool:
    is_flow = sample_format in (sflow.FLOW_SAMPLE, sflow.EXPANDED_FLOW_SAMPLE)
    read = sflow.read_flow_sample if is_flow else sflow_counters.read_sample
    return read(datagram, flow, sample_format, sample)


def decode_sflow_counters(datagram: Datagram) -> Iterator[Flow]:
    yield from decode_sflow(datagram, sflow_counters.read_sample)


def decode_sflow_nothing(datagram: Datagram) -> Iterator[Flow]:
    """Count the samples, none of which is a row."""
    yield from decode_sflow(datagram, leave_sample_out)


def leave_sample_out(datagram: Datagram, flow: Flow, sample_format: int, sample: Octets) -> bool:
    if sample_format in (sflow.FLOW_SAMPLE, sflow.EXPANDED_FLOW_SAMPLE):
        datagram.exporter.counters["flows_left_out"] += 1
        return False
    return sflow.read_flow_sample(datagram, flow, sample_format, sample)
