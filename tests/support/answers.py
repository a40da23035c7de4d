"""Asks a server with one fake method and reads how the call was refused."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from common.server import Context
from superbizagent.run.v1 import run_service_pb2
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.fake_service import run_service, served, settings
from tests.support.statuses import Refused, refused

Behaviour = Callable[[Any, Context], Awaitable[Any]]


async def answer_of(behaviour: Behaviour, *, own_deadline: float | None = None, **overrides: str) -> Refused:
    """How a unary call that behaves so is answered."""
    async with served(run_service(GetRun=behaviour), config=settings(**overrides)) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await RunServiceStub(channel).GetRun(
                run_service_pb2.GetRunRequest(run_id="r"), timeout=own_deadline
            )
    return refused(caught.value)


async def answer_of_stream(behaviour: Behaviour, **overrides: str) -> Refused:
    """How a stream that behaves so ends."""
    async with served(run_service(StreamRunEvents=behaviour), config=settings(**overrides)) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _message in RunServiceStub(channel).StreamRunEvents(
                run_service_pb2.StreamRunEventsRequest(run_id="r")
            ):
                pass
    return refused(caught.value)


async def first_reply(call: Any) -> Any:
    """The reply of a unary call, or the first one of a stream."""
    return await (call.read() if hasattr(call, "read") else call)
