"""`flowbuf collect`: receive the flows of live exporters."""

from __future__ import annotations

import atexit
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flowbuf.cli import end_with_threads
from flowbuf.cli.collect_log import start_log, write_counts
from flowbuf.cli.collect_outputs import new_output
from flowbuf.cli.options import UsageProblem, split_values
from flowbuf.cli.output.columnar import need
from flowbuf.cli.output.streams import open_errors, print_text
from flowbuf.collect.config import LIVE, CollectConfig, OutputConfig, format_config, read_config
from flowbuf.collect.http import HttpServer, parse_address
from flowbuf.collect.listen import Address
from flowbuf.collect.outputs.output import Output
from flowbuf.collect.service import Service
from flowbuf.collect.settings import Setting, settings_of
from flowbuf.collect.systemd import activated_listeners
from flowbuf.collect.takeover import take_over
from flowbuf.collect.totals import format_totals
from flowbuf.errors import ConfigError, FlowbufError, QueryError
from flowbuf.schema import Schema
from flowbuf.selection import FlowSelection

if TYPE_CHECKING:
    from flowbuf.cli.live.view import LiveView

__all__ = ["collect"]

logger = logging.getLogger("flowbuf.collect")

REPEAT_SECONDS = 0.2
"""Time in which further signals are part of the first one. Programs such as `timeout` send it twice."""

MORE_BUFFER = (
    "the kernel granted receive buffers of {granted:,} bytes instead of {wanted:,}; datagrams of a burst may "
    "be lost; run: sysctl -w net.core.rmem_max={rmem_max}"
)

ONE_WORKER = (
    "systemd opens one socket per address, so one worker receives instead of {}; for more, let the collector "
    "open its sockets"
)


def _option(each: Setting) -> Callable[[Any], Any]:
    """Return the option of a setting. Its value is that of the command line, or None."""
    many = each.kind == "list"
    help = each.help + (f"  [{'|'.join(each.choices)}]" if each.choices else "")
    default = each.describe_default()
    shown = f"  [default: {default}]" if default else ""
    names = [f"--{each.name.replace('_', '-')}", each.name]
    if each.name == "to":
        names = ["-o", "--output", "to"]
        many = True
    if each.kind == "flag":
        return click.option(*names, is_flag=True, default=None, help=help)
    return click.option(
        *names,
        multiple=many,
        callback=split_values if each.kind == "list" else None,
        metavar=each.metavar or "VALUE",
        default=None,
        help=help + shown,
    )


_SHARED = {each.name: each for each in settings_of(CollectConfig)}
_OF_OUTPUTS = [each for each in settings_of(OutputConfig) if each.name not in _SHARED]
"""Settings of outputs with an option. `rows` of an output follows from {rows} in its destination."""


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for each in reversed((*_SHARED.values(), *_OF_OUTPUTS)):
        command = _option(each)(command)
    return command


@click.command()
@click.argument("file", required=False, metavar="[FILE.toml]")
@_settings_options
@click.option(
    "--takeover",
    is_flag=True,
    help="Continue the work of the collector that runs on these addresses, without losing a datagram.",
)
@click.option("--live", is_flag=True, help="Show counters and top talkers on the terminal; see above.")
@click.option("--print-config", is_flag=True, help="Print the configuration file of these options, and exit.")
def collect(file: str | None, takeover: bool, live: bool, print_config: bool, **options: Any) -> None:
    """Receive flows of live exporters, and write them.

    FILE.toml can have the same options as keys. The options of an output apply to each -o. In the file, each
    [[output]] has its own.

    To upgrade a running collector, start the new one with the same addresses and --takeover. It gets the
    sockets and the templates. The old one writes its flows, and ends with status 0.

    --rows flows,counters also receives the counter samples of sFlow. {rows} in -o makes one output per kind.

    --live shows exporters, rates, losses, queues and the top talkers of the first output. Without -o, flows
    are only shown. The key q ends the collector.

    Ctrl-C or SIGTERM ends the collector after all received flows are written. The last line on stderr has the
    totals. The exit status is 1 if a worker or an output lost flows. Datagrams that the kernel dropped do not
    change it.

    \b
    Examples:
      flowbuf collect -o flows/
      flowbuf collect --listen 0.0.0.0:2055 --listen '[::]:6343' -o flows/ --rotate 1m
      flowbuf collect --listen 127.0.0.1:2055 -o - --where 'dst_port = 53'
      flowbuf collect --listen tcp://0.0.0.0:4739 -o flows/
      flowbuf collect --rows flows,counters -o 'data/{rows}/'
      flowbuf collect --live --live-top src_addr,dst_port
      flowbuf collect --listen 0.0.0.0:2055 -o flows/ --print-config >collector.toml
      flowbuf collect collector.toml
      flowbuf collect collector.toml --takeover
    """
    try:
        with open_errors():
            config = _read(file, options, live)
        if print_config:
            print_text("\n".join(format_config(config)))
        else:
            _run(config, takeover, live, lambda: _read(file, options, live))
    except FlowbufError as error:
        raise UsageProblem(str(error), lines=isinstance(error, QueryError)) from error


def _read(file: str | None, options: dict[str, Any], live: bool) -> CollectConfig:
    """Return the configuration of the file and of the command line."""
    return _merge(read_config(file) if file else CollectConfig(), options, live)


def _merge(config: CollectConfig, options: dict[str, Any], live: bool) -> CollectConfig:
    """Return the configuration with the options of the command line.

    Raises:
        ConfigError: a value is invalid, or an option cannot be combined with the outputs of the file.
    """
    given = _read_options(_SHARED.values(), options)
    shared = _read_options(_OF_OUTPUTS, options)
    destinations = shared.pop("to", ("null:",) if live and not config.outputs else ())
    if shared and not destinations:
        option = "--" + next(iter(shared)).replace("_", "-")
        raise ConfigError(f"{option} needs an output; add -o, or set the key in the file")
    outputs = tuple(OutputConfig(to=to, **shared) for to in destinations)
    return replace(config, **given, outputs=outputs or config.outputs)


def _read_options(settings: Iterable[Setting], options: dict[str, Any]) -> dict[str, Any]:
    """Return the given options among these settings."""
    context = click.get_current_context()
    values: dict[str, Any] = {}
    for each in settings:
        if context.get_parameter_source(each.name) == ParameterSource.DEFAULT:
            continue
        value = options[each.name]
        if each.name == "to":
            values["to"] = value
        else:
            values[each.name] = each.convert(value)
    return values


def _run(config: CollectConfig, takeover: bool, live: bool, read_again: Callable[[], CollectConfig]) -> None:
    if not config.outputs:
        raise ConfigError("no output; add -o flows/ for Parquet files, or -o - for JSON lines")
    need("pyarrow", "collect", "flowbuf collect")
    start_log(config.log, config.log_limit)
    if not live:
        _collect(config, takeover, read_again, None)
        return
    from flowbuf.cli.live.log import LiveLog
    from flowbuf.cli.live.view import LiveView

    with LiveLog(logger) as log:
        _collect(config, takeover, read_again, LiveView(log))


def _collect(
    config: CollectConfig, takeover: bool, read_again: Callable[[], CollectConfig], view: LiveView | None
) -> None:
    metrics = parse_address(config.metrics) if config.metrics else None
    given = [Address.parse(text) for text in config.listen]
    activated = activated_listeners([address for address in given if address.transport == "tls"])
    if activated and config.workers > 1:
        logger.warning("%s", ONE_WORKER.format(config.workers))

    def adjust(settings: CollectConfig) -> CollectConfig:
        """Return the settings with the addresses of the sockets that systemd has opened, if any."""
        addresses = tuple(str(each.address) for each in activated)
        return replace(settings, listen=addresses, workers=1) if activated else settings

    config = adjust(config)
    if not config.listen:
        raise ConfigError("no address to listen on; add --listen 0.0.0.0:2055")
    handover = take_over([Address.parse(text) for text in config.listen]) if takeover else None

    def load(settings: CollectConfig) -> tuple[CollectConfig, Sequence[Schema]]:
        schemas = settings.load_schemas()
        return (view.extend(settings, schemas[0]) if view else settings), schemas

    def make_output(output: OutputConfig, selection: FlowSelection, spool: str) -> Output:
        if view and output.to == LIVE:
            return view.new_output(output, selection)
        return new_output(output, selection, spool)

    service = Service(*load(config), make_output, handover, activated, lambda: load(adjust(read_again())))
    _check_buffers(service, config)
    shown = view.shown(service) if view else contextlib.nullcontext()
    with _handled_signals(service):
        with _serving(service, metrics, takeover), shown:
            service.run()
        write_counts()  # the totals are the last line
        _report_end(service)


def _report_end(service: Service) -> None:
    """Log the totals. Exit with status 1 if flows were lost."""
    totals = service.read_counters()
    logger.info("%s", format_totals(totals))
    lost = totals.intake.lost_flows + totals.intake.lost_datagrams
    status = int(lost > 0 or any(each.dropped.total() for each in totals.outputs.values()))
    if service.unanswered:
        atexit.register(end_with_threads, status)  # before pyarrow, which would wait for the object store
    if status:
        click.get_current_context().exit(status)


def _check_buffers(service: Service, config: CollectConfig) -> None:
    """Warn if a receive buffer is smaller than requested."""
    listener = min(service.intake.datagram_listeners, key=lambda each: each.buffer_bytes, default=None)
    wanted = config.receive_buffer
    if listener is not None and listener.buffer_bytes < wanted:
        text = MORE_BUFFER.format(granted=listener.buffer_bytes, wanted=wanted, rmem_max=wanted)
        logger.warning("%s", text, extra={"listener": str(listener.address)})


@contextlib.contextmanager
def _serving(service: Service, address: Address | None, patient: bool) -> Iterator[None]:
    """Serve metrics inside the block, if they have an address.

    If `patient`, wait until the running collector releases the address.
    """
    if address is None:
        yield
        return
    need("prometheus_client", "collect", "--metrics")
    with HttpServer(address, service, patient):
        yield


@contextlib.contextmanager
def _handled_signals(service: Service) -> Iterator[None]:
    """Handle signals inside the block.

    SIGHUP reads the configuration again. The first SIGINT or SIGTERM stops the service. One after
    REPEAT_SECONDS acts as usual. SIGHUP has no effect then: a closed terminal must not lose the last flows.
    """
    first = float("inf")
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore(*numbers: signal.Signals) -> None:
        for number in numbers:
            signal.signal(number, before[number])

    def stop(number: int, frame: Any) -> None:
        nonlocal first
        service.stop()
        first = min(first, time.monotonic())
        if time.monotonic() - first >= REPEAT_SECONDS:
            restore(signal.SIGINT, signal.SIGTERM)
            signal.raise_signal(number)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, lambda number, frame: service.request_reload())
    try:
        yield
    finally:
        restore(*numbers)
