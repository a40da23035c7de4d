"""A process that serves until it is told to stop, alone or as a supervisor of workers that do."""

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.metadata import version
from typing import TypeAlias

from common.log import configure_logging, get_logger
from common.log_capture import capture_loop_errors, capture_process_output
from common.metrics import Metrics, MetricsEndpoint
from common.server.server import GrpcServer
from common.settings import Settings

Build: TypeAlias = Callable[[Settings], Awaitable[Sequence[GrpcServer]]]
"""A composition root. It runs inside the event loop that will serve; with workers it runs in each of them, so
it is a function of a module."""

COLLECT_AFTER = 10_000
"""New objects after which the garbage collector looks through them. By default that is after 700: the objects
of calls that are still carried out are looked through again and again, in a sixth of all CPU time."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = get_logger("process")


def run_process(settings: Settings, build: Build, listens: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code.

    `listens` names the settings of the addresses that `build` serves. Raises StartError, which the command
    shows as one line.
    """
    set_up(settings)
    if settings.workers > 1:
        from common.server.workers import supervise

        return supervise(settings, build, listens)
    return asyncio.run(_run(settings, build))


def set_up(settings: Settings, worker: int | None = None) -> None:
    """What a process needs before anything else. `worker` is its number, if it is one of several."""
    configure_logging(settings.log_level, settings.log_format, worker=worker)
    capture_process_output()
    _leave_no_core()


def _leave_no_core() -> None:
    """A core file would hold every question, answer, token and password that is in memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


async def _run(settings: Settings, build: Build) -> int:
    capture_loop_errors(asyncio.get_running_loop())
    return await run_until_signal(settings, await build(settings))


async def run_until_signal(settings: Settings, servers: Sequence[GrpcServer]) -> int:
    """Start the servers, wait for a signal, drain them; the exit code of `serve_until`."""
    told = told_by_signal(servers)
    endpoint = _metrics_endpoint(settings, servers)

    async def announce() -> None:
        if endpoint is not None:
            await endpoint.start()
        # Only now: what forbids to serve is one line, the command's.
        _log.info("starting", pid=os.getpid(), settings=settings.shown())

    try:
        return await serve_until(told, servers, announce)
    finally:
        if endpoint is not None:  # last, so that the drain can be watched
            await endpoint.stop()


async def serve_until(
    told: asyncio.Event, servers: Sequence[GrpcServer], before_serving: Callable[[], Awaitable[None]]
) -> int:
    """Bind the servers, serve until `told` is set, drain them; 0 after the drain.

    1 if a server ended by itself: a process that lives and serves nothing would not be started again.
    `before_serving` is done once the addresses are there; if `told` is set by then, nothing is served.
    """
    try:
        for server in servers:
            server.bind()
        await before_serving()
        if not told.is_set():
            for server in servers:
                await server.start()
            _collect_less()
            await _until_told_or_ended(told, servers)
    finally:
        # Also when a server could not start: the others are stopped and their stores closed.
        await asyncio.gather(*(server.drain() for server in servers))
    if told.is_set():
        return 0
    _log.critical("a server ended by itself")
    return 1


def _collect_less() -> None:
    """Let the garbage collector leave alone what the process is made of, and look less often at the rest."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def _metrics_endpoint(settings: Settings, servers: Sequence[GrpcServer]) -> MetricsEndpoint | None:
    """None without METRICS_LISTEN. The servers of one process count into the same metrics."""
    if settings.metrics_listen is None or not servers:
        return None
    # Only here: a process that serves no metrics does not load the library.
    from common.metrics.exposition import Exposition

    metrics = servers[0].metrics
    process_gauges(metrics)
    exposition = Exposition(metrics)

    async def page() -> bytes:
        return exposition.text()

    return MetricsEndpoint(settings.metrics_listen, page)


def process_gauges(metrics: Metrics) -> None:
    """Put what a process knows of itself into its metrics."""
    label = (version("superbizagent"),)
    metrics.gauge("tasks", "Tasks of the event loop.", read=lambda: len(asyncio.all_tasks()))
    meaning = "The version that runs."
    metrics.gauge("build_info", meaning, "version", read=lambda: {label: 1}, over_workers="max")


async def _until_told_or_ended(told: asyncio.Event, servers: Sequence[GrpcServer]) -> None:
    waiting = asyncio.create_task(told.wait())
    # Not cancelled: what they wait for is the end of the server, which would be cancelled with them.
    ended = [asyncio.create_task(server.ended()) for server in servers]
    await asyncio.wait([waiting, *ended], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def told_by_signal(
    servers: Sequence[GrpcServer], numbers: Iterable[signal.Signals] = SIGNALS
) -> asyncio.Event:
    """Set by SIGTERM and SIGINT, or by the `numbers` that are given.

    A second signal does not wait for the drain: it ends the process at once, as that signal does by default.
    SIGHUP reads AUTH_FILE again where one is set, and does what it does by default where none is.
    """
    loop = asyncio.get_running_loop()
    told = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        for one in numbers:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        # Logged once a second signal works as it should.
        _log.info("stopping", signal=number.name)
        told.set()

    def on_hangup() -> None:
        for server in servers:
            server.reload_tokens()

    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    if any(server.asks_for_tokens for server in servers):
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
    return told
