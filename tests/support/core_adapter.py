"""flowbuf's core behind the interface of the reference decoder, so that one test can run against both."""

from __future__ import annotations

from typing import Any

from tests.reference.wire import decode_message

PROTOCOLS = {0: "sflow", 5: "netflow5", 7: "netflow7", 9: "netflow9", 10: "ipfix"}


class CoreDecoder:
    """`flowbuf.Decoder`, with its messages parsed by the reference's Protocol Buffers reader."""

    def __init__(
        self, schema: Any, *, override: dict[str, Any] | None = None, template_expiry: int = 0, **policy: Any
    ) -> None:
        from flowbuf import Decoder

        self.decoder = Decoder(schema, template_expiry=template_expiry / 1e9 or None, **policy)
        self.override = override
        self.columns = {column.number: column for column in schema.enabled}

    def decode(
        self, payload: bytes, source: tuple[str, int] = ("192.0.2.1", 9995), received: int = 0
    ) -> list[dict[str, Any]]:
        messages = self.decoder.messages(payload, source=source, received=received, override=self.override)
        return [decode_message(self.columns, message) for message in messages]

    def finish(self) -> None:
        self.decoder.finish()

    @property
    def counters(self) -> dict[str, int]:
        """Return the counters above 0, summed over all exporters, with those that belong to no exporter."""
        return {name: count for name, count in self.decoder.counters.items() if count}

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """Return statistics as the reference does, with only the counters above 0."""
        return {
            exporter: {
                "counters": {name: count for name, count in stats["counters"].items() if count},
                "flows": stats["flows"],
                "datagrams": stats["datagrams"],
            }
            for exporter, stats in self.decoder.stats.items()
        }

    @property
    def waiting(self) -> dict[str, dict[str, int]]:
        """Return the data sets per exporter that wait for their templates."""
        return {exporter: stats["waiting"] for exporter, stats in self.decoder.stats.items()}

    @property
    def sequences(self) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
        return sequences_of(self.decoder)


def sequences_of(decoder: Any) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
    """Return the sequence numbering state as the reference does: by exporter, then by protocol and domain."""
    return {
        exporter["address"] + (f"#{exporter['sub_agent']}" if exporter["sub_agent"] else ""): {
            (PROTOCOLS[domain["version"]], domain["id"]): domain["sequence"]
            for domain in exporter["domains"]
            if domain["port"] is None
        }
        for exporter in decoder.read_exporters()
    }
