"""Readers of StreamRunEvents that check, message by message, what every stream owes its reader."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from run_service.stream.open_stream import OpenStreams
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventType
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import Refused, decode
from tests.support.run import running_run
from tests.support.run_server import RunServer

WAIT_SECONDS = 20.0
"""How long a reader waits for a message before its test fails."""


class Reader:
    """One call. `seqs` is what it delivered; `refusal` why it ended, None after OK."""

    def __init__(self, stub: RunServiceStub, run_id: str, after_seq: int = 0, **options: Any) -> None:
        session_id: str | None = options.pop("session_id", None)
        request = pb.StreamRunEventsRequest(run_id=run_id, session_id=session_id, after_seq=after_seq)
        self.call: Any = stub.StreamRunEvents(request, **options)
        self.after_seq = after_seq
        self.position = after_seq
        self.events: list[RunEvent] = []
        self.caught_up_at: int | None = None
        self.heartbeats: list[int] = []
        self.ended = False
        self.refusal: Refused | None = None

    @property
    def seqs(self) -> list[int]:
        return [event.seq for event in self.events]

    @property
    def code(self) -> grpc.StatusCode | None:
        """How the call ended; None while it is open."""
        if not self.ended:
            return None
        return grpc.StatusCode.OK if self.refusal is None else self.refusal.code

    async def next(self, seconds: float = WAIT_SECONDS) -> pb.StreamRunEventsResponse | None:
        """The next message, checked; None at the end of the call."""
        try:
            message = await asyncio.wait_for(self.call.read(), seconds)
        except grpc.aio.AioRpcError as error:
            self.ended, self.refusal = True, decode(error)
            return None
        if message is grpc.aio.EOF:
            self.ended = True
            code = await self.call.code()
            assert code is grpc.StatusCode.OK, code
            return None
        assert isinstance(message, pb.StreamRunEventsResponse)
        self._check(message)
        return message

    def _check(self, message: pb.StreamRunEventsResponse) -> None:
        kind = message.WhichOneof("kind")
        if kind == "event":
            assert message.event.seq == self.position + 1, (message.event.seq, self.position)
            assert not self.final, "an event after RUN_FINISHED"
            self.events.append(message.event)
            self.position += 1
        elif kind == "caught_up":
            assert self.caught_up_at is None, "caught_up twice"
            self.caught_up_at = message.last_seq
        else:
            assert kind == "heartbeat", kind
            self.heartbeats.append(message.last_seq)
        assert message.last_seq == self.position, (message, self.position)

    @property
    def final(self) -> bool:
        """RUN_FINISHED was delivered."""
        return bool(self.events) and self.events[-1].type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED

    async def until(self, condition: Callable[["Reader"], bool]) -> "Reader":
        """Read until the condition holds; the end of the call fails the test."""
        while not condition(self):
            assert await self.next() is not None, f"the stream ended: {self.refusal}"
        return self

    async def to_seq(self, seq: int) -> "Reader":
        return await self.until(lambda reader: reader.position >= seq)

    async def caught_up(self) -> "Reader":
        return await self.until(lambda reader: reader.caught_up_at is not None)

    async def to_end(self) -> "Reader":
        while await self.next() is not None:
            pass
        return self

    def cut(self) -> None:
        """Hang up."""
        self.call.cancel()


async def read_all(stub: RunServiceStub, run_id: str, after_seq: int = 0, **options: Any) -> Reader:
    """Read one call to its end."""
    return await Reader(stub, run_id, after_seq, **options).to_end()


def open_streams(server: RunServer) -> OpenStreams:
    """The gauge of open streams of a server in this process."""
    assert server.server is not None
    drain: Callable[[], Awaitable[None]] = server.server._services[0].drain_streams
    streams = drain.__self__  # type: ignore[attr-defined]
    assert isinstance(streams, OpenStreams)
    return streams


def stream_tasks() -> list[str]:
    """Names of the tasks of this process that serve streams."""
    names = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
    return sorted(name for name in names if name.startswith(("run-feed", "event-hub", "HandleEx", "stalled")))


def pk_of(server: RunServer, run_id: str) -> int:
    """diagnosis_run.id of a run."""
    pk: int = server.sql("SELECT id FROM diagnosis_run WHERE run_id = ?", run_id)[0][0]
    return pk


def grow(server: RunServer, run_id: str, count: int) -> int:
    """Add many events at once by SQL, as another replica without a doorbell would; the new head."""
    pk = pk_of(server, run_id)
    (head,) = server.sql("SELECT head_seq FROM sba_run_control WHERE run_pk = ?", pk)[0]
    server.sql(
        "INSERT INTO sba_run_event"
        " (run_pk, seq, event_id, fingerprint, type, step_id, step_code, record_time)"
        " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " SELECT ?, ? + i, 'bulk-' || (? + i), '', ?, i, ?, '2026-01-01 00:00:00.000000' FROM n",
        count,
        pk,
        head,
        head,
        RunEventType.RUN_EVENT_TYPE_STEP_STARTED,
        "S" + "X" * 63,
    )
    server.sql("UPDATE sba_run_control SET head_seq = ? WHERE run_pk = ?", head + count, pk)
    return int(head) + count


@contextlib.asynccontextmanager
async def narrow(address: str, window: int = 1024) -> AsyncIterator[RunServiceStub]:
    """A client whose transport takes next to nothing before the application reads."""
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", window),
    ]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield RunServiceStub(channel)


async def stalled_run(server: RunServer) -> str:
    """A run with more events than a narrow reader's transport takes."""
    run_id = (await running_run(server.stub)).run_id
    grow(server, run_id, 300)
    return run_id
