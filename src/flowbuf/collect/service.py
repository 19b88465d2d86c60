"""The collector as a process: one intake, several outputs, and reports."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from typing import Any

from flowbuf._core import AccessList
from flowbuf.arrow.batch import FlowBatch
from flowbuf.collect.access import make_access_list
from flowbuf.collect.collector import report_failure
from flowbuf.collect.config import LIVE, RESTART, CollectConfig, OutputConfig, expand_outputs, output_name
from flowbuf.collect.copies import Copier, open_copiers
from flowbuf.collect.intake import Intake, IntakeOptions
from flowbuf.collect.listen import Address, Listener, StreamListener
from flowbuf.collect.losses import LossLog
from flowbuf.collect.output_counters import OutputCounters
from flowbuf.collect.outputs.output import Output
from flowbuf.collect.queue import FlowQueue
from flowbuf.collect.runner import PATIENCE, OutputRunner, Predecessors
from flowbuf.collect.silence import explain_silence
from flowbuf.collect.spools.folders import check_spools, spool_folder
from flowbuf.collect.spools.spool import Spool
from flowbuf.collect.streams.sessions import SessionOptions
from flowbuf.collect.streams.worker import check_encryption
from flowbuf.collect.systemd import Watchdog, reloading, tell_manager
from flowbuf.collect.takeover import Handover, TakeoverServer
from flowbuf.collect.totals import ServiceCounters, format_output, format_totals
from flowbuf.decoder import Decoder
from flowbuf.errors import ConfigError, ListenError, QueryError, SpoolError, StateError, error_text
from flowbuf.io.state_file import load_state, save_state
from flowbuf.options import DecodeOptions
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

__all__ = ["Service"]

logger = logging.getLogger("flowbuf.collect")

SILENCE_SECONDS = 10.0
SAVE_SECONDS = 60.0
STEP_SECONDS = 0.2
RELOAD_SECONDS = 60.0
"""Longest time to open the outputs of another configuration. Their destinations may not answer."""
NOT_OPENED = (
    f"the outputs of the new one did not open within {RELOAD_SECONDS:.0f} s; check their destinations"
)

NewOutput = Callable[[OutputConfig, FlowSelection, str], Output]
"""Returns an output. The text is the identity of its spool, or "" if it has none."""


@dataclass(frozen=True)
class _Change:
    """Another configuration, and what is open for it.

    Attributes:
        config: Settings.
        options: Options of decoding.
        sessions: Limits and encryption of sessions.
        access: Sources whose datagrams are decoded.
        decoded: Schemas with the columns that any output needs.
        before: Outputs of the present configuration.
        runners: Outputs of this configuration. Those that do not change are also in `before`.
        copiers: One copier per worker.
    """

    config: CollectConfig
    options: DecodeOptions
    sessions: SessionOptions
    access: AccessList | None
    decoded: list[Schema]
    before: list[OutputRunner]
    runners: list[OutputRunner]
    copiers: list[Copier] = field(default_factory=list)

    @property
    def opened(self) -> list[OutputRunner]:
        """Outputs that are not in `before`."""
        return [runner for runner in self.runners if runner not in self.before]

    def abandon(self) -> None:
        """Release everything that was opened."""
        _abandon(self.opened)
        for copier in self.copiers:
            copier.close()


class Service:
    """Receive flows and other rows, and pass each of them to all outputs of its kind.

    Args:
        config: Settings.
        schemas: Schemas, one per kind of rows, in the order of the kinds.
        new_output: Returns the output of a destination.
        handover: Connection with a running collector, whose sockets and state are taken over. Default: none.
        inherited: Listeners that another program has opened. Default: none.
        read_config: Returns the configuration and its schemas for a reload. Default: those of the start.

    Raises:
        ConfigError: two outputs have the same name or folder, a kind of rows has no output, or datagrams
            cannot be copied as configured.
        ListenError: an address cannot be listened on.
        QueryError: a condition is invalid.
        SchemaError: an output names a column that does not exist.
    """

    def __init__(
        self,
        config: CollectConfig,
        schemas: Sequence[Schema],
        new_output: NewOutput,
        handover: Handover | None = None,
        inherited: Sequence[Listener | StreamListener] = (),
        read_config: Callable[[], tuple[CollectConfig, Sequence[Schema]]] | None = None,
    ) -> None:
        self._config = self._first = config
        self._new_output = new_output
        self._read_config = read_config or (lambda: (config, schemas))
        self._handover = handover
        self._handed_over = False
        self._handed_on: Collection[str] = ()  # folders of spools with which the successor continues
        self._lock = threading.Lock()  # guards the outputs below
        self._retiring: dict[OutputRunner, threading.Thread] = {}  # outputs of an earlier configuration
        self._retired: dict[tuple[str, str], OutputCounters] = {}  # their totals when they have ended
        self._left_behind = False  # True if one of them did not answer
        self._left: dict[str, int] = {}  # flows that they have left in their spools, by folder
        self._runners: list[OutputRunner] = []
        sessions = config.session_options()
        self._runners, decoded = self._prepare(config, schemas)
        self._intake = Intake(
            [Address.parse(text) for text in config.listen],
            decoded,
            config.decode_options(),
            IntakeOptions(
                *(config.workers, config.receive_buffer, config.interface or None, config.interval),
                sessions=sessions,
                access=make_access_list(config.allow, config.deny),
            ),
            functools.partial(_deliver, self._runners),
            report_failure,
            handover.listeners if handover else inherited,
        )
        try:
            self._intake.copy(self._open_copiers(config))
        except BaseException:
            self._intake.close()
            _abandon(self._runners)
            raise
        self._stopping = self._reloading = False
        self._opening: Future[_Change] | None = None  # of a reload that took too long

    def _open_copiers(self, config: CollectConfig) -> list[Copier]:
        addresses = [listener.address for listener in self._intake.datagram_listeners]
        return open_copiers(config, self._intake.workers, addresses)

    def _prepare(
        self, config: CollectConfig, schemas: Sequence[Schema]
    ) -> tuple[list[OutputRunner], list[Schema]]:
        """Create the outputs of a configuration. Keep those that do not change.

        Returns:
            list[OutputRunner]: The outputs.
            list[Schema]: Schemas with the columns that any output needs.
        """
        kept = {(runner.config, runner.schema.hash): runner for runner in self._runners}
        runners: list[OutputRunner] = []
        by_rows = {schema.rows: schema for schema in schemas}
        expanded = expand_outputs(config.outputs, by_rows)
        outputs = [replace(output, scaled=config.scale) for output in expanded]
        check_spools(outputs)
        decoded = dict(by_rows)
        try:
            for output in outputs:
                same = [each.rows for each in outputs if each.enrich == output.enrich]
                selection = _select(output, by_rows, same)
                needed = (column.name for column in selection.decoded.enabled)
                decoded[output.rows] = decoded[output.rows].enable(*needed)
                name = output_name(output)
                if name in {other.name for other in runners}:
                    raise ConfigError(f"output {name!r} exists twice; give each output another name")
                runner = kept.get((output, selection.schema.hash))
                runners.append(runner or self._new_runner(name, output, selection))
        except BaseException:
            _abandon(runner for runner in runners if runner not in self._runners)
            raise
        return runners, list(decoded.values())

    def _new_runner(self, name: str, output: OutputConfig, selection: FlowSelection) -> OutputRunner:
        if output.on_overflow != "spool":
            queue = FlowQueue(output.queue_flows, output.on_overflow)
            return OutputRunner(
                name, queue, selection, self._new_output(output, selection, ""), config=output
            )
        folder = spool_folder(output, name)
        opens = functools.partial(_open_spooled, folder, output, selection, self._new_output)
        with self._lock:
            runners = [each for each in (*self._runners, *self._retiring) if each.spool_folder == folder]
            before = Predecessors(folder, opens, runners, 0 if runners else self._left.get(folder, 0))
        queue = FlowQueue(output.queue_flows, "spool", waits=True)
        try:
            spool, destination = before.open()
        except SpoolError as error:
            if not (error.in_use and (before.runners or self._handover)):
                raise
            self._new_output(output, selection, "").close()  # reports an invalid configuration now
            return OutputRunner(name, queue, selection, before, config=output)
        queue.attach(spool, before.spooled)
        return OutputRunner(name, queue, selection, destination, config=output, spool=spool)

    def reload(self, config: CollectConfig, schemas: Sequence[Schema]) -> None:
        """Continue with another configuration. Outputs that do not change keep their files and queues.

        New sessions get the certificate that its file has now. The keys in RESTART keep the values of the
        start. After an error, nothing changes.

        Raises:
            FlowbufError: the configuration is invalid.
        """
        self._apply(self._open(config, schemas))

    def _open(self, config: CollectConfig, schemas: Sequence[Schema]) -> _Change:
        """Open the outputs and copiers that another configuration needs. Change nothing."""
        before = self._runners
        options, sessions = config.decode_options(), config.session_options()
        access = make_access_list(config.allow, config.deny)
        runners, decoded = self._prepare(config, schemas)
        change = _Change(config, options, sessions, access, decoded, before, runners)
        try:
            Decoder(options=options, schemas=decoded)  # reports what cannot be decoded
            check_encryption(self._intake.stream_listeners, sessions)
            return replace(change, copiers=self._open_copiers(config))
        except BaseException:
            change.abandon()
            raise

    def _apply(self, change: _Change) -> None:
        """Continue with another configuration."""
        self._config = change.config
        for runner in change.opened:
            runner.start()
        leaving = [runner for runner in change.before if runner not in change.runners]
        with self._lock:
            self._runners = change.runners
            for runner in leaving:
                self._retiring[runner] = threading.Thread(target=self._retire, args=(runner,), daemon=True)
        try:
            deliver = functools.partial(_deliver, self._runners)
            self._intake.replace(
                *(change.decoded, change.options, change.sessions, deliver, change.copiers, change.access)
            )
        except FutureTimeout:
            logger.warning("a worker waits for a full queue; it uses the new configuration afterwards")
        finally:
            for runner in leaving:
                self._retiring[runner].start()

    def _retire(self, runner: OutputRunner) -> None:
        """Write the flows of an output that is not in the configuration any more."""
        with contextlib.suppress(FutureTimeout):  # until then, workers may deliver to it
            self._intake.wait_for_replacement(PATIENCE)
        folder = runner.spool_folder
        runner.request_stop(hands_on=any(each.spool_folder == folder != "" for each in self._runners))
        runner.join()
        counters = runner.read_counters()
        with self._lock:
            self._left_behind |= runner.left_behind
            del self._retiring[runner]
            if _is_live(runner):
                return
            key = runner.name, counters.rows
            self._retired[key] = self._retired.get(key, OutputCounters()) + counters
            if runner.has_spool:
                self._left[folder] = counters.spooled
        runner.log.info("output %s ended: %s", runner.name, format_output(counters))

    @property
    def listeners(self) -> Sequence[Listener | StreamListener]:
        """Listeners, with the ports that the system chose."""
        return self._intake.listeners

    @property
    def intake(self) -> Intake:
        """Listeners and workers."""
        return self._intake

    @property
    def stopping(self) -> bool:
        """True after `stop`."""
        return self._stopping

    @property
    def unanswered(self) -> bool:
        """True if a thread still waits for a destination that does not answer, at a reload or at the end."""
        opening = self._opening is not None and not self._opening.done()
        return opening or self._left_behind or any(runner.left_behind for runner in self._runners)

    def stop(self) -> None:
        """Ask `run` to return. A signal handler may call it, so it takes no lock."""
        self._stopping = True

    def request_reload(self) -> None:
        """Ask `run` to read the configuration again. A signal handler may call it."""
        self._reloading = True

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
        self._adopt(self._handover)
        self._intake.start()
        try:
            self._handover.finish()
        except ListenError:
            self._handed_over = True  # the sockets and the state file are those of the running collector
            self._finish()
            self._report()
            raise
        for listener in self._handover.listeners:
            if listener not in self.listeners:  # its address is not in this configuration
                listener.close()

    def _adopt(self, handover: Handover) -> None:
        """Continue with the state of a running collector, and with its data sets that wait for templates."""
        waiting = [runner.spool_folder for runner in self._runners if runner.waits]
        early_data = bool(self._intake.datagram_listeners)  # only their workers decode it
        try:
            self._intake.adopt(handover.request_state(waiting, early_data))
            for exporters in handover.read_early_data():
                self._intake.adopt_early_data(exporters)
        except (ValueError, KeyError) as error:
            raise ListenError(f"the running collector hands over invalid state: {error}") from error

    def _takeover_server(self) -> contextlib.AbstractContextManager[Any]:
        if sys.platform != "linux":  # the names of the sockets exist only there
            return contextlib.nullcontext()
        intake = self._intake
        return TakeoverServer(
            self.listeners, self._pause, intake.read_early_data, intake.resume, self._hand_over
        )

    def _pause(self) -> dict[str, Any]:
        """Stop receiving, and return the state for a successor.

        Raises:
            SpoolError: an output still waits for the spool of this collector's own predecessor.
        """
        if any(runner.waits for runner in self._runners):
            raise SpoolError("an output still waits for its spool; try again later")
        return self._intake.pause()

    def _hand_over(self, spools: Collection[str], early_data: bool) -> None:
        try:
            if early_data:
                self._intake.hand_over_early_data()
        except FutureTimeout:
            logger.warning("takeover: a worker is blocked, and counts its early data as template_missing")
        self._handed_on = spools
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
        except Exception as error:  # also a lack of memory, which must not end the collector
            logger.error("the state was not saved: %s", error_text(error))

    def _finish(self) -> None:
        """Decode and write everything that was received.

        Workers that a full queue blocks are released after PATIENCE seconds.
        """
        release = threading.Timer(PATIENCE, self._unblock)
        release.daemon = True
        with contextlib.suppress(RuntimeError):  # the system has no room for a thread
            release.start()
        if not self._handed_over:  # the successor is the main process now
            tell_manager("STOPPING=1")
        self._intake.stop(drain=not self._handed_over)
        release.cancel()
        for runner in self._runners:
            runner.request_stop(hands_on=runner.spool_folder in self._handed_on)
        for runner in self._runners:
            runner.join()
        for thread in list(self._retiring.values()):
            thread.join()

    def _unblock(self) -> None:
        for runner in (*self._runners, *self._retiring):
            runner.queue.unblock()

    def _watch(self) -> None:
        """Report totals at intervals and losses at once, and explain silence once."""
        logger.info("listening on %s", ", ".join(str(listener.address) for listener in self.listeners))
        tell_manager("READY=1", f"MAINPID={os.getpid()}")
        watchdog, losses = Watchdog(self.find_dead_workers), LossLog()
        begin = reported = saved = time.monotonic()
        while not self._stopping and not any(runner.broken for runner in self._runners):
            time.sleep(STEP_SECONDS)
            watchdog.answer()
            losses.report(self._intake.datagram_listeners, self.outputs)
            if self._reloading:
                self._reloading = False
                self._read_again(watchdog)
            now = time.monotonic()
            if now - begin >= SILENCE_SECONDS:
                begin = float("inf")  # explain it once
                watchdog.attend(self._explain_silence).result()
            if now - saved >= SAVE_SECONDS:
                saved = now
                watchdog.attend(self._save_state).result()
            if self._config.report and now - reported >= self._config.report:
                reported = now
                watchdog.attend(self._report).result()
        losses.report(self._intake.datagram_listeners, self.outputs, last=True)

    def _report(self) -> None:
        logger.info("%s", format_totals(self.read_counters()))

    def _read_again(self, watchdog: Watchdog) -> None:
        """Read the configuration again. Keep the old one if the new one is invalid or does not open."""
        tell_manager(*reloading())
        end = time.monotonic() + RELOAD_SECONDS
        try:
            read = self._read_config()
            opening = watchdog.attend(
                lambda: self._open(*read), lambda: self._stopping or time.monotonic() >= end
            )
            if opening.done():
                watchdog.attend(lambda: self._apply(opening.result())).result()
                logger.info("the configuration was read again")
                self._report_unchanged()
            else:
                self._opening = opening
                opening.add_done_callback(_discard)
                why = "a signal ended the reload" if self._stopping else NOT_OPENED
                logger.error("the old configuration stays, because %s", why)
        except Exception as error:  # also of a missing library, or of a user's function
            problem = error.format_message() if hasattr(error, "format_message") else error
            logger.error("the configuration is invalid, and the old one stays: %s", problem)
        tell_manager("READY=1")

    def _report_unchanged(self) -> None:
        """Log the keys whose new values are not used."""
        changed = [name for name in RESTART if getattr(self._config, name) != getattr(self._first, name)]
        if changed:
            logger.warning("changes of %s need a restart", ", ".join(changed))

    def _explain_silence(self) -> None:
        counters = self._intake.read_counters()
        if counters.flows:
            return
        addresses = [str(listener.address) for listener in self.listeners]
        with contextlib.suppress(FutureTimeout):  # a worker waits for a full queue: it has flows
            exporters, others = self._intake.read_exporters(), self._intake.read_others()
            for line in explain_silence(addresses, counters, exporters, others, self._config.save_undecoded):
                logger.warning("%s", line)

    def find_dead_workers(self) -> list[str]:
        """Return a description of each worker whose thread has ended."""
        return [f"worker {name} does not run" for name in self._intake.find_dead_workers()]

    def find_failures(self) -> list[str]:
        """Return a description of each output that cannot write."""
        return [f"output {runner.name}: {runner.failing}" for runner in self.outputs if runner.failing]

    @property
    def outputs(self) -> list[OutputRunner]:
        """Outputs of the configuration, without the live view."""
        return [runner for runner in self._runners if not _is_live(runner)]

    def read_counters(self) -> ServiceCounters:
        """Return the totals. Those of outputs are read first, so that none exceeds the flows decoded.

        An output that took another kind of rows before a reload has totals of its own for that kind.
        """
        with self._lock:  # a successor is read before its predecessor, which leaves flows to it
            running = [each for each in (*self._runners, *self._retiring) if not _is_live(each)]
            read = [((each.name, each.schema.rows), each.read_counters()) for each in running]
            read += self._retired.items()
        outputs: dict[tuple[str, str], OutputCounters] = {}
        for key, counters in read:
            outputs[key] = outputs.get(key, OutputCounters()) + counters
        totals: dict[str, OutputCounters] = {}
        for (name, rows), counters in outputs.items():
            totals[f"{name} ({rows})" if name in totals else name] = counters.without_inherited()
        return ServiceCounters(self._intake.read_counters(), totals)

    def read_live(self) -> OutputCounters:
        """Return the totals of the live view. Its losses are no losses of the collector."""
        live = (runner.read_counters() for runner in self._runners if _is_live(runner))
        return next(live, OutputCounters())


def _is_live(runner: OutputRunner) -> bool:
    return runner.config is not None and runner.config.to == LIVE


def _open_spooled(
    folder: str, output: OutputConfig, selection: FlowSelection, new_output: NewOutput
) -> tuple[Spool, Output]:
    """Open a spool and the output of its flows.

    Raises:
        SpoolError: another process uses the spool.
        OSError: the folder cannot be created, or the destination cannot be written.
        FlowbufError: the configuration is invalid.
    """
    spool = Spool(folder, output.spool_bytes)
    try:
        return spool, new_output(output, selection, spool.identity)
    except BaseException:
        spool.close()
        raise


def _abandon(runners: Iterable[OutputRunner]) -> None:
    """Release what outputs hold that were not started."""
    for runner in runners:
        runner.abandon()


def _discard(opening: Future[_Change]) -> None:
    """Release what was opened too late."""
    if opening.exception() is None:
        opening.result().abandon()


def _deliver(runners: Sequence[OutputRunner], batch: FlowBatch) -> None:
    for runner in runners:
        if runner.schema.rows == batch.schema.rows:
            runner.queue.put(batch)


def _select(output: OutputConfig, schemas: Mapping[str, Schema], same: Collection[str]) -> FlowSelection:
    """Return the selection of an output. `same` are the kinds of rows whose outputs have its enrichments."""
    from flowbuf.enrich import load_enrichments

    schema = schemas[output.rows]
    others = [each for rows, each in schemas.items() if rows != output.rows]
    chosen = schema.only(*output.columns) if output.columns else schema
    pipeline = None
    if output.enrich:
        log = logging.LoggerAdapter(logger, {"output": output_name(output)})
        enriched = [each for each in others if each.rows in same]
        pipeline = load_enrichments(output.enrich, chosen, on_problem=log.warning, others=enriched)
        for reason in pipeline.left_out:
            log.info("enrichment left out for %s: %s", output.rows, reason)
        if not output.columns:
            chosen = chosen.enable(*pipeline.provides)
    try:
        return FlowSelection(
            chosen, output.where or None, output.address_form, pipeline, output.columns, others
        )
    except QueryError as error:
        raise QueryError(f"output {output_name(output)}, where: {error}") from error
