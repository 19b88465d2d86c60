"""The collector as a process: one intake, several outputs, and reports."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowbuf.arrow.batch import FlowBatch
from flowbuf.collect.collector import report_failure
from flowbuf.collect.config import CollectConfig, OutputConfig
from flowbuf.collect.intake import Intake, IntakeCounters, IntakeOptions
from flowbuf.collect.listen import Address, Listener
from flowbuf.collect.outputs.output import Output
from flowbuf.collect.queue import FlowQueue
from flowbuf.collect.runner import PATIENCE, OutputCounters, OutputRunner
from flowbuf.collect.silence import explain_silence
from flowbuf.collect.takeover import Handover, TakeoverServer
from flowbuf.errors import ConfigError, StateError
from flowbuf.io.state_file import load_state, save_state
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

__all__ = ["Service", "ServiceCounters", "format_totals"]

logger = logging.getLogger("flowbuf.collect")

_SECRETS = re.compile(r"//[^/@]*@")  # user and password of a URL
SILENCE_SECONDS = 10.0
SAVE_SECONDS = 60.0
STEP_SECONDS = 0.2

NewOutput = Callable[[OutputConfig, FlowSelection], Output]


@dataclass
class ServiceCounters:
    """Totals of the service at one moment.

    Attributes:
        intake: Totals of receiving and decoding.
        outputs: Totals of each output, by name.
    """

    intake: IntakeCounters
    outputs: dict[str, OutputCounters] = field(default_factory=dict)


class Service:
    """Receive flows, and pass each of them to all outputs.

    Args:
        config: Settings.
        schema: Schema of the flows.
        new_output: Returns the output of a destination.
        handover: Connection with a running collector, whose sockets and state are taken over. Default: none.

    Raises:
        ConfigError: two outputs have the same name.
        ListenError: an address cannot be listened on.
        QueryError: a condition is invalid.
        SchemaError: an output names a column that does not exist.
    """

    def __init__(
        self,
        config: CollectConfig,
        schema: Schema,
        new_output: NewOutput,
        handover: Handover | None = None,
    ) -> None:
        self._config = config
        self._handover = handover
        self._handed_over = False
        self._runners: list[OutputRunner] = []
        decoded = schema
        for output in config.outputs:
            selection = _select(output, schema)
            decoded = decoded.enable(*(column.name for column in selection.decoded.enabled))
            self._add_runner(output, selection, new_output(output, selection))
        self._intake = Intake(
            [Address.parse(text) for text in config.listen],
            decoded,
            config.decode_options(),
            IntakeOptions(config.workers, config.receive_buffer, config.interface or None, config.interval),
            self._deliver,
            report_failure,
            handover.listeners if handover else (),
        )
        self._stopping = False

    def _add_runner(self, output: OutputConfig, selection: FlowSelection, destination: Output) -> None:
        name = output.name or _SECRETS.sub("//", output.to)
        if name in {runner.name for runner in self._runners}:
            raise ConfigError(f"output {name!r} exists twice; give each output another name")
        queue = FlowQueue(output.queue_flows, output.on_overflow == "block")
        self._runners.append(OutputRunner(name, queue, selection, destination))

    def _deliver(self, batch: FlowBatch) -> None:
        for runner in self._runners:
            runner.queue.put(batch)

    @property
    def listeners(self) -> Sequence[Listener]:
        """Listeners, with the ports that the system chose."""
        return self._intake.listeners

    @property
    def intake(self) -> Intake:
        """Listeners and workers."""
        return self._intake

    def stop(self) -> None:
        """Ask `run` to return. A signal handler may call it, so it takes no lock."""
        self._stopping = True

    def run(self) -> None:
        """Receive until `stop` is called, or a successor takes over. Then write all flows that were received.

        Raises:
            ListenError: the running collector did not hand over.
            StateError: the state file must not be replaced.
        """
        for runner in self._runners:
            runner.start()
        self._start()
        try:
            with self._takeover_server():
                self._watch()
        finally:
            self._finish()
            if not self._handed_over:
                self._save_state()

    def _start(self) -> None:
        """Start the workers, with the state of a running collector or of the state file."""
        if self._handover is None:
            self._load_state()
            self._intake.start()
            return
        self._intake.adopt(self._handover.request_state())
        self._intake.start()
        self._handover.finish()

    def _takeover_server(self) -> contextlib.AbstractContextManager[Any]:
        if sys.platform != "linux":  # the names of the sockets exist only there
            return contextlib.nullcontext()
        return TakeoverServer(self.listeners, self._intake.pause, self._intake.resume, self._hand_over)

    def _hand_over(self) -> None:
        self._handed_over = True
        self.stop()

    def _load_state(self) -> None:
        if not self._config.state:
            return
        try:
            load_state(self._intake, self._config.state)
        except StateError as error:
            if not error.replaceable:
                raise
            logger.warning("%s; the file is ignored", error)

    def _save_state(self) -> None:
        if not self._config.state:
            return
        try:
            save_state(self._intake, self._config.state)
        except (StateError, OSError, TimeoutError) as error:
            logger.error("the state was not saved: %s", error)

    def _finish(self) -> None:
        """Decode and write everything that was received.

        Workers that a full queue blocks are released after PATIENCE seconds.
        """
        release = threading.Timer(PATIENCE, self._unblock)
        release.daemon = True
        release.start()
        self._intake.stop(drain=not self._handed_over)
        release.cancel()
        for runner in self._runners:
            runner.stop()

    def _unblock(self) -> None:
        for runner in self._runners:
            runner.queue.unblock()

    def _watch(self) -> None:
        """Report totals at intervals, and explain silence once."""
        logger.info("listening on %s", ", ".join(str(listener.address) for listener in self.listeners))
        begin = reported = saved = time.monotonic()
        explained = False
        while not self._stopping and not any(runner.broken for runner in self._runners):
            time.sleep(STEP_SECONDS)
            now = time.monotonic()
            if not explained and now - begin >= SILENCE_SECONDS:
                explained = True
                self._explain_silence()
            if now - saved >= SAVE_SECONDS:
                saved = now
                self._save_state()
            if self._config.report and now - reported >= self._config.report:
                reported = now
                logger.info("%s", format_totals(self.read_counters()))

    def _explain_silence(self) -> None:
        counters = self._intake.read_counters()
        if not counters.flows:
            addresses = [str(listener.address) for listener in self.listeners]
            for line in explain_silence(addresses, counters, self._intake.read_exporters()):
                logger.warning("%s", line)

    def find_dead_workers(self) -> list[str]:
        """Return a description of each worker whose thread has ended."""
        return [f"worker {number} does not run" for number in self._intake.find_dead_workers()]

    def find_failures(self) -> list[str]:
        """Return a description of each output that cannot write."""
        return [f"output {runner.name}: {runner.failing}" for runner in self._runners if runner.failing]

    def read_counters(self) -> ServiceCounters:
        """Return the totals. Those of outputs are read first, so that none exceeds the flows decoded."""
        outputs = {runner.name: runner.read_counters() for runner in self._runners}
        return ServiceCounters(self._intake.read_counters(), outputs)


def _select(output: OutputConfig, schema: Schema) -> FlowSelection:
    from flowbuf.enrich import load_enrichments

    chosen = schema.only(*output.columns) if output.columns else schema
    pipeline = None
    if output.enrich:
        pipeline = load_enrichments(output.enrich, chosen, on_problem=logger.warning)
        if not output.columns:
            chosen = chosen.enable(*pipeline.provides)
    return FlowSelection(chosen, output.where or None, output.ip, pipeline)


def format_totals(counters: ServiceCounters) -> str:
    """Return a line with the totals: datagrams, flows, and flows of each output."""
    intake = counters.intake
    drops = "unknown" if intake.kernel_drops is None else intake.kernel_drops
    parts = [f"received={intake.received} kernel_drops={drops} flows={intake.flows}"]
    for name, output in counters.outputs.items():
        lost = output.queue.dropped + output.lost.total()
        parts.append(
            f"{name}: stored={output.stored} pending={output.pending} queued={output.queued} "
            f"filtered={output.filtered} dropped={lost}"
        )
    return "; ".join(parts)
