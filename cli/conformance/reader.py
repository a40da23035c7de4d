"""Reads StreamRunEvents and checks, message by message, what every stream owes its reader."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Self

import grpc

from cli.conformance.expect import BrokenRule, equal, expect
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventType
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import ServiceError, service_error

WAIT_SECONDS: Final = 20.0
"""The longest silence: more than the 15 s after which a heartbeat is due."""


class Reader:
    """One call. `seqs` is what it delivered, `error` why it ended; None after OK."""

    def __init__(self, stub: RunServiceStub, run_id: str, after_seq: int = 0, **options: Any) -> None:
        request = pb.StreamRunEventsRequest(run_id=run_id, after_seq=after_seq, **options)
        self._call: Any = stub.StreamRunEvents(request)
        self.position = after_seq
        self.events: list[RunEvent] = []
        self.caught_up_at: int | None = None
        self.ended = False
        self.error: ServiceError | None = None

    @property
    def seqs(self) -> list[int]:
        return [event.seq for event in self.events]

    @property
    def final(self) -> bool:
        """RUN_FINISHED was delivered."""
        return bool(self.events) and self.events[-1].type == RunEventType.RUN_EVENT_TYPE_RUN_FINISHED

    async def next(self) -> pb.StreamRunEventsResponse | None:
        """The next message; None at the end of the call."""
        try:
            message = await asyncio.wait_for(self._call.read(), WAIT_SECONDS)
        except TimeoutError:
            raise BrokenRule(f"a stream was silent for {WAIT_SECONDS:.0f} s") from None
        except grpc.aio.AioRpcError as error:
            self.ended, self.error = True, service_error(error)
            return None
        if message is grpc.aio.EOF:
            self.ended = True
            return None
        if not isinstance(message, pb.StreamRunEventsResponse):
            raise BrokenRule("a message of a stream does not decode")
        self._check(message)
        return message

    def _check(self, message: pb.StreamRunEventsResponse) -> None:
        kind = message.WhichOneof("kind")
        if kind == "event":
            expect(not self.final, "an event came after RUN_FINISHED")
            equal(message.event.seq, self.position + 1, "the seq after the one before")
            self.events.append(message.event)
            self.position += 1
        elif kind == "caught_up":
            expect(self.caught_up_at is None, "caught_up came twice")
            self.caught_up_at = message.last_seq
        else:
            equal(kind, "heartbeat", "the kind of a message")
        equal(message.last_seq, self.position, f"last_seq of {kind}")

    async def until(self, condition: Callable[[Self], object]) -> Self:
        """Read until the condition holds."""
        while not condition(self):
            if await self.next() is None:
                if self.error is not None and self.error.transient:
                    raise self.error
                raise BrokenRule(f"a stream ended before its time, with {self.error or 'OK'}")
        return self

    async def to_seq(self, seq: int) -> Self:
        return await self.until(lambda reader: reader.position >= seq)

    async def caught_up(self) -> Self:
        return await self.until(lambda reader: reader.caught_up_at is not None)

    async def to_end(self) -> Self:
        """Read until the call ends, which must be with OK."""
        while await self.next() is not None:
            pass
        if self.error is not None:
            raise self.error if self.error.transient else BrokenRule(f"a stream ended with {self.error}")
        expect(self.caught_up_at is not None, "caught_up comes on every stream that ends with OK")
        return self

    def cut(self) -> None:
        """Hang up."""
        self._call.cancel()


async def read_all(stub: RunServiceStub, run_id: str, after_seq: int = 0, **options: Any) -> Reader:
    """Read one call to its end."""
    return await Reader(stub, run_id, after_seq, **options).to_end()
