"""`superbizagent watch`: a run's events as they happen, over cuts and restarts."""

import asyncio

from rich.console import Console
from rich.text import Text

from cli.connection import (
    ONE_TRY,
    RUN_SERVICE,
    Service,
    checked_run_id,
    checked_session_id,
    service_address,
    settings_and_access,
)
from cli.errors import DONE
from cli.event_line import HEADING, event_line
from cli.run_head import head_line, status_name
from cli.terminal import new_console, print_line, style_of
from cli.words import counted, safe
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventType
from superbizagent_client import RunClient, RunEventStream, SeqPurgedError, ServiceError


def watch(run_id: str, *, run: str | None, session: str | None) -> int:
    """Follow a run until it is final; the exit code."""
    run_id, session = checked_run_id(run_id), checked_session_id(session)
    settings, access = settings_and_access()
    address = service_address(RUN_SERVICE, run, settings)

    async def follow() -> None:
        async with Service(RUN_SERVICE, address, access) as service:
            with service.explained():
                await _follow(new_console(), service, run_id, session)

    asyncio.run(follow())
    return DONE


async def _follow(console: Console, service: Service, run_id: str, session: str | None) -> None:
    # Asked first: whether the run can be found at all. From then on only its end ends the watching.
    head = await RunClient(service.channel, options=ONE_TRY).get_run(run_id, session_id=session)
    print_line(console, head_line(head))
    print_line(console, Text(HEADING, style="dim"))
    cut = _Cut(console)
    status = status_name(head.status)
    seen = 0
    async with RunEventStream(
        service.channel, run_id, session_id=session, on_retry=cut.on_retry, purged="snapshot"
    ) as stream:
        async for message in stream.messages():
            cut.over(stream.last_seq)
            if message.HasField("event"):
                seen += 1
                print_line(console, event_line(message.event))
                status = _status_after(message.event, status)
    print_line(console, Text(f"{status} after {counted(seen, 'event')}", style=style_of(status)))


def _status_after(event: RunEvent, status: str) -> str:
    finished = event.type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED
    return safe(event.status) if finished and event.status else status


class _Cut:
    """Says when the stream was lost and when it is back, not at each of the attempts between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._attempts = 0

    def on_retry(self, error: ServiceError, seconds: float) -> None:
        if isinstance(error, SeqPurgedError):
            self._say(f"-- events before seq {error.oldest_seq} were purged")
            return
        if self._attempts == 0:
            why = " ".join(word for word in (error.code.name, error.reason) if word)
            self._say(f"-- connection lost ({why}), trying again in {seconds:.1f} s")
        self._attempts += 1

    def over(self, last_seq: int) -> None:
        if self._attempts:
            self._say(f"-- reconnected after {counted(self._attempts, 'attempt')}, at seq {last_seq}")
        self._attempts = 0

    def _say(self, line: str) -> None:
        print_line(self._console, Text(line, style="yellow"))
