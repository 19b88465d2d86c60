"""The collector as a Python object."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, cast

from flowbuf.arguments import check_flag, check_whole, list_texts
from flowbuf.arrow.batch import FlowBatch
from flowbuf.collect.access import make_access_list
from flowbuf.collect.intake import Intake, IntakeCounters, IntakeOptions
from flowbuf.collect.listen import BUFFER_BYTES, DEFAULT_LISTEN, Address
from flowbuf.collect.queue import FlowQueue, QueueCounters
from flowbuf.collect.streams.sessions import SessionOptions
from flowbuf.decoder import load_schemas
from flowbuf.errors import ListenError
from flowbuf.options import DecodeKeywords, DecodeOptions, merge_options
from flowbuf.schema import Schema

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Collector", "report_failure"]

logger = logging.getLogger("flowbuf.collect")

POLL_SECONDS = 0.02
"""Time between two looks of an asynchronous iterator at an empty queue."""


def report_failure(error: Exception) -> None:
    """Log an exception after which a worker starts again."""
    logger.error("a worker failed and starts again: %s", error, exc_info=error)


class Collector:
    """Receive flows from live exporters, as an iterator of batches.

    Threads receive and decode the datagrams without the GIL. The iterator takes the batches from a bounded
    queue. Entering the block opens the sockets, and leaving it closes them. Afterwards, the batches that were
    received before can still be iterated.

    Args:
        listen: Addresses such as "0.0.0.0:2055" or "[::]:6343", and for IPFIX over TCP or TLS
            "tcp://0.0.0.0:4739" or "tls://0.0.0.0:4740". Port 0 lets the system choose one, see
            `addresses`. Default: ports 2055, 4739 and 6343, on IPv4 and IPv6.
        schema: Schema, name of a built-in schema, or path to a TOML file. Default: "flow".
        schemas: Schemas of several kinds of rows instead of `schema`: see `Decoder`. A batch has the rows of
            one kind, `batch.schema.rows`.
        options: Options of decoding. Default: `DecodeOptions()`. Malformed datagrams are counted, also with
            `strict`.
        workers: Number of threads. Each exporter is assigned to one of them. Default: 1, which suffices for
            several million flows per second.
        receive_buffer: Size of the receive buffer of each socket, in bytes. The kernel limits it to
            `net.core.rmem_max`. Default: 32 MiB.
        interface: Name of the network interface to receive from. Default: all.
        interval: Longest time that flows wait for the rest of a batch, in seconds, 0.001 or more.
            Default: 1.
        allow: Networks such as "192.0.2.0/24" whose datagrams are decoded. Default: all.
        deny: Networks whose datagrams are not decoded, also if they are allowed. Default: none.
        queue_flows: Maximum number of flows that wait for the iterator. Default: 1,048,576.
        block: Stop receiving while the queue is full, so that the kernel drops datagrams, and exporters with
            TCP wait. Default: False, drop flows. Both losses are counted.
        sessions: Limits and encryption of IPFIX over TCP and TLS. Default: `SessionOptions()`.
        **keywords: Fields of `DecodeOptions` to replace, for example `scale=True`.

    Raises:
        ConfigError: a network of `allow` or `deny` is invalid.
        ListenError: there is no address, or one is invalid. When the block is entered: an address is in use,
            not of this machine, or needs a certificate.
        SchemaError: the schema cannot be decoded into.
        ValueError: two schemas have the same kind of rows, or a number is out of range.
        TypeError: an argument has another type.

    Example:
        with flowbuf.Collector(["0.0.0.0:2055"]) as collector:
            for batch in collector:
                print(len(batch), batch.to_polars())
    """

    def __init__(
        self,
        listen: Sequence[str] = DEFAULT_LISTEN,
        schema: Schema | str = "flow",
        options: DecodeOptions | None = None,
        *,
        schemas: Sequence[Schema | str] | None = None,
        workers: int = 1,
        receive_buffer: int = BUFFER_BYTES,
        interface: str | None = None,
        interval: float = 1.0,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        queue_flows: int = 1 << 20,
        block: bool = False,
        sessions: SessionOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> None:
        listen = list_texts("listen", listen, "addresses", "0.0.0.0:2055")
        allow = list_texts("allow", allow, "networks", "192.0.2.0/24")
        deny = list_texts("deny", deny, "networks", "192.0.2.0/24")
        check_whole("queue_flows", queue_flows, 1)
        check_flag("block", block)
        self._addresses = [Address.parse(text) for text in listen]
        if not self._addresses:
            raise ListenError('no address to listen on; pass one, such as "0.0.0.0:2055"')
        self.schemas = load_schemas(schema, schemas)
        self.schema = self.schemas[0]
        self._options = merge_options(options, keywords)
        self._receive = IntakeOptions(
            *(workers, receive_buffer, interface, interval),
            sessions=SessionOptions() if sessions is None else sessions,
            access=make_access_list(allow, deny),
        )
        self._queue = FlowQueue(queue_flows, "block" if block else "drop")
        self._intake: Intake | None = None

    def __enter__(self) -> Self:
        if self._intake is not None:
            raise RuntimeError("this collector was started before; create another one")
        self._intake = Intake(
            self._addresses,
            self.schemas,
            self._options,
            self._receive,
            self._queue.put,
            report_failure,
        )
        self._intake.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Decode the datagrams that were received, and close the sockets.

        The iterator ends after the remaining batches. Any thread may call this method.
        """
        if self._intake is None or self._queue.closed:
            return
        self._queue.unblock()  # the caller may be the only one who takes batches
        self._intake.stop()
        self._queue.close()

    @property
    def addresses(self) -> list[str]:
        """Addresses on which the collector listens, with the ports that the system chose."""
        return [str(listener.address) for listener in self._started().listeners]

    @property
    def counters(self) -> IntakeCounters:
        """Totals of receiving and decoding since the start."""
        return self._started().read_counters()

    @property
    def queue(self) -> QueueCounters:
        """Flows that were queued, taken and dropped since the start."""
        return self._queue.read_counters()

    def _started(self) -> Intake:
        if self._intake is None:
            raise RuntimeError("this collector is not started; use it in a with block")
        return self._intake

    def __iter__(self) -> Iterator[FlowBatch]:
        self._started()
        while (item := self._queue.get()) is not None:
            yield cast(FlowBatch, item.batch)

    async def __aiter__(self) -> AsyncIterator[FlowBatch]:
        self._started()
        while True:
            closed = self._queue.closed  # nothing is put after this
            item = self._queue.get(0)
            if item is not None:
                yield cast(FlowBatch, item.batch)
            elif closed:
                return
            else:
                await asyncio.sleep(POLL_SECONDS)
