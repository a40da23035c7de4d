"""A load that goes on through failures as docs/clients.md asks, and remembers what was acknowledged."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc

from cli.conformance import requests as make
from superbizagent.audit.v1.audit_service_pb2 import RecordToolInvocationRequest
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import RunEventStream, service_error

T = TypeVar("T")

CALL_SECONDS: Final = 5.0
_BATCHES: Final = 12


@dataclass
class RunLedger:
    """What one run's writer was told, and what its readers saw."""

    session_id: str
    run_id: str = ""
    status: str = ""
    last_seq: int = 0
    events: dict[int, str] = field(default_factory=dict)
    rows: dict[int, str] = field(default_factory=dict)
    streamed: list[list[RunEvent]] = field(default_factory=list)


class SteadyLoad:
    """Writers that work on one run after the other, each run followed by two streams.

    `counts` says what was acknowledged, and how often a call had to be repeated or a stream reopened.
    """

    def __init__(
        self,
        runs: RunServiceStub,
        audits: AuditServiceStub,
        readers: list[grpc.aio.Channel],
        *,
        pause: float = 0.02,
    ) -> None:
        self.runs = runs
        self.audits = audits
        self.ledgers: list[RunLedger] = []
        self.counts: Counter[str] = Counter()
        self._readers = readers
        self._pause = pause
        self._stopping = asyncio.Event()
        self._changed = asyncio.Condition()

    def stop(self) -> None:
        """Let each writer finish the run it is at."""
        self._stopping.set()

    async def write(self) -> None:
        """One writer; returns after `stop`."""
        while not self._stopping.is_set():
            await self._one_run()

    async def progress(self, *kinds: str, more: int = 20) -> None:
        """Wait until `more` further writes of each kind were acknowledged."""
        wanted = {kind: self.counts[kind] + more for kind in kinds}
        async with self._changed:
            await self._changed.wait_for(
                lambda: all(self.counts[kind] >= count for kind, count in wanted.items())
            )

    async def _one_run(self) -> None:
        ledger = RunLedger(make.new_id("sess"))
        request = make.create_request(session_id=ledger.session_id, request_id=make.new_id("req"))
        ledger.run_id = (
            await self._told("create", lambda: self._call(self.runs.CreateRun, request))
        ).run.run_id
        self.ledgers.append(ledger)
        following = [asyncio.create_task(self._follow(ledger, channel)) for channel in self._readers]
        start = pb.StartRunRequest(run_id=ledger.run_id)
        await self._told("start", lambda: self._call(self.runs.StartRun, start))
        for number in range(_BATCHES):
            await asyncio.gather(self._append(ledger, 1 + number % 4), self._record(ledger))
            await asyncio.sleep(self._pause)  # a steady pace, not a benchmark
        finish = make.finish_request(ledger.run_id, answer="Done.")
        run = (await self._told("finish", lambda: self._call(self.runs.FinishRun, finish))).run
        ledger.status, ledger.last_seq = make.status_name(run), run.last_seq
        await asyncio.gather(*following)

    async def _append(self, ledger: RunLedger, count: int) -> None:
        events = [make.event() for _ in range(count)]
        request = make.append_request(ledger.run_id, *events)
        reply = await self._told("append", lambda: self._call(self.runs.AppendRunEvents, request))
        ledger.events.update(zip(reply.seqs, (event.event_id for event in events), strict=True))
        self.counts["event"] += count

    async def _record(self, ledger: RunLedger) -> None:
        ids = {"run_id": ledger.run_id, "session_id": ledger.session_id}
        given = make.invocation(tool_call_id=uuid.uuid4().hex, **ids)
        request = RecordToolInvocationRequest(invocation=given)
        reply = await self._told("audit", lambda: self._call(self.audits.RecordToolInvocation, request))
        ledger.rows[reply.id] = given.tool_call_id

    async def _follow(self, ledger: RunLedger, channel: grpc.aio.Channel) -> None:
        def lost(_error: object, _seconds: float) -> None:
            self.counts["stream reopened"] += 1

        stream = RunEventStream(channel, ledger.run_id, on_retry=lost)
        ledger.streamed.append([event async for event in stream])
        self.counts["stream ended"] += 1

    async def _told(self, kind: str, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat the same call until it is acknowledged. What no repetition repairs is raised."""
        while True:
            try:
                reply = await call()
            except grpc.aio.AioRpcError as caught:
                error = service_error(caught)
            else:
                await self._count(kind)
                return reply
            if not error.transient:
                raise error
            self.counts["repeated call"] += 1
            await asyncio.sleep(min(error.retry_after or 0.2, 1.0))

    async def _count(self, kind: str) -> None:
        async with self._changed:
            self.counts[kind] += 1
            self._changed.notify_all()

    @staticmethod
    async def _call(method: Any, request: object) -> Any:
        return await method(request, timeout=CALL_SECONDS)
