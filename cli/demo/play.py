"""The demo from beginning to end, on services that are just starting."""

import asyncio
import time
import uuid
from dataclasses import dataclass

from cli.access import Access
from cli.connection import AUDIT_SERVICE, ONE_TRY, RUN_SERVICE, Service
from cli.demo import check
from cli.demo.agent import ScriptedAgent, Sources
from cli.demo.answer import Answer
from cli.demo.check import Fact
from cli.demo.live import LiveView
from cli.demo.log_search import query_logs
from cli.demo.misbehave import Misbehaviour, misbehave
from cli.demo.question import QUESTION
from cli.demo.ready import address_of, serving
from cli.demo.show import Screen
from cli.demo.stage import AUDIT, RUN, Stage
from cli.errors import NOT_THERE, CommandError
from cli.trace import fetch_run, fetch_tool_calls
from cli.trace_view import show_run, show_tool_calls
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_pb2 import Run
from superbizagent_client import AuditRecorder, EventSender, RunClient

_WHOLE_SECONDS = 40.0
_STREAM_SECONDS = 5.0
_REQUEST_ID = "demo-1"
_EVENTS_OF_THE_SERVICE = 2  # RUN_CREATED and RUN_STARTED, before the agent's first


async def play(stage: Stage, screen: Screen, question: str) -> tuple[str, list[Fact]]:
    """Play the demo; the run's id and what was checked. Raises CommandError if it cannot go on."""
    started = time.monotonic()
    try:
        async with (
            asyncio.timeout(_WHOLE_SECONDS),
            Service(RUN_SERVICE, await address_of(stage, RUN), Access()) as runs,
            Service(AUDIT_SERVICE, await address_of(stage, AUDIT), Access()) as audits,
        ):
            for service, name in ((runs, RUN), (audits, AUDIT)):
                await serving(stage, service)
                screen.line(f"{service.name} serves at {service.address}, process {stage.pid(name)}")
            screen.line(f"both after {time.monotonic() - started:.1f} s; database and logs in {stage.folder}")
            return await _Play(stage, screen, question, runs, audits).whole()
    except TimeoutError:
        raise CommandError(f"not done after {_WHOLE_SECONDS:.0f} s", NOT_THERE) from None


@dataclass(frozen=True, slots=True)
class _Play:
    stage: Stage
    screen: Screen
    question: str
    runs: Service
    audits: Service

    @property
    def _client(self) -> RunClient:
        return RunClient(self.runs.channel, options=ONE_TRY)

    async def whole(self) -> tuple[str, list[Fact]]:
        done = await self._misbehave()
        run = await self._create_run()
        answer, live = await self._diagnose(run)
        self.screen.answer(answer.text)
        stored = await self._show_trace(run)
        return run.run_id, await self._check(done, run, answer, live, stored)

    async def _misbehave(self) -> Misbehaviour:
        self.screen.heading("2  A misbehaving caller", "it sends the audit what the audit must not take")
        done = await misbehave(self.audits.channel)
        for cause, count in done.told.most_common():
            self.screen.line(f"{count} x refused: {cause.reason} {cause.field}")
        self.screen.line(f"{done.stored} x stored: its well-formed records")
        return done

    async def _create_run(self) -> Run:
        self.screen.heading("3  The question", self.question)
        session_id = f"demo-{uuid.uuid4().hex[:8]}"
        with self.runs.explained():
            return await self._client.create_run(session_id, self.question, request_id=_REQUEST_ID)

    async def _diagnose(self, run: Run) -> tuple[Answer, "_Seen"]:
        """The agent works, the stream is shown beside it."""
        self.screen.open_columns()
        sources = Sources(list(self.stage.logs.values()), self.stage.database)
        async with (
            LiveView(self.runs.address, run.run_id, self.screen) as live,
            AuditRecorder(self.audits.channel) as recorder,
        ):
            await live.shown(1)
            with self.runs.explained():
                # The same request_id: the run that was created goes on.
                async with self._client.run(run.session_id, self.question, request_id=_REQUEST_ID) as active:
                    await live.shown(_EVENTS_OF_THE_SERVICE)
                    beside = _Beside(self.screen, live, active.events)
                    agent = ScriptedAgent(active, active.boundary(recorder), beside)
                    answer = await agent.answer(self.question, sources)
            await recorder.flush()
            return answer, _Seen(ended=await live.ended(_STREAM_SECONDS), events=live.events)

    async def _show_trace(self, run: Run) -> list[RunEvent]:
        self.screen.heading("4  The trace", f"as `superbizagent trace {run.run_id}` shows it")
        trace = await fetch_run(self.runs, run.run_id)
        show_run(self.screen.console, trace.run, trace.events)
        calls = await fetch_tool_calls(self.audits, run.run_id)
        show_tool_calls(self.screen.console, calls.invocations, calls.groups, truncated=calls.truncated)
        return trace.events

    async def _check(
        self, done: Misbehaviour, run: Run, answer: Answer, live: "_Seen", stored: list[RunEvent]
    ) -> list[Fact]:
        database, logs = self.stage.database, self.stage.logs
        logged = (await query_logs([logs[AUDIT]], AUDIT_SERVICE, ())).result
        found = [check.every_tool_found_something(run.run_id, database)] if self.question == QUESTION else []
        return [
            check.refusals_are_in_the_log(done, logged.refusals),
            check.refusals_stored_nothing(done, database),
            check.every_tool_is_audited(run.run_id, database),
            *found,
            check.live_equals_stored(live.events, stored, ended=live.ended),
            await check.answer_is_published(self.runs, run.run_id, answer.text, grounded=answer.grounded),
            check.bodies_stay_out(database, list(logs.values()), [answer.text]),
        ]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What came over the second connection, and whether the stream ended by itself."""

    ended: bool
    events: list[RunEvent]


class _Beside:
    """Lets the agent's column and the events' column keep step."""

    def __init__(self, screen: Screen, live: LiveView, events: EventSender) -> None:
        self.say = screen.agent
        self._live = live
        self._events = events

    async def in_step(self) -> None:
        """Return when all that the agent sent is on the screen."""
        await self._live.shown(_EVENTS_OF_THE_SERVICE + self._events.counts().delivered)
