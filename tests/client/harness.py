"""A tool boundary with its senders, and tools that do as they are told."""

from dataclasses import dataclass
from typing import Any

import grpc

from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent_client import AuditRecorder, DeliveryOptions, EventSender, ToolBoundary
from tests.client.fakes import RUN_ID, SESSION_ID, FakeRunService


@dataclass
class Harness:
    """A boundary with its senders."""

    boundary: ToolBoundary
    recorder: AuditRecorder
    events: EventSender
    runs: FakeRunService

    async def settle(self) -> None:
        assert await self.events.flush()
        assert await self.recorder.flush()

    @property
    def appended(self) -> list[RunEventInput]:
        return [event for batch in self.runs.appends for event in batch]


def make_harness(channel: grpc.aio.Channel, runs: FakeRunService, **more: Any) -> Harness:
    options = DeliveryOptions(attempt=0.5, retry=0.5)
    recorder, events = AuditRecorder(channel, options=options), EventSender(channel, RUN_ID, options=options)
    boundary = ToolBoundary(session_id=SESSION_ID, run_id=RUN_ID, recorder=recorder, events=events, **more)
    return Harness(boundary, recorder, events, runs)


def returning(value: object) -> Any:
    async def tool() -> object:
        return value

    return tool


def raising(error: BaseException) -> Any:
    async def tool() -> object:
        raise error

    return tool
