"""One attempt of a short call, with every way it can fail turned into a value."""

import asyncio
from typing import TypeVar

import grpc

from superbizagent_client.errors import ServiceError, channel_closed, service_error

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


async def attempt(
    method: grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT, seconds: float
) -> ResponseT | ServiceError:
    """Call `method` with a deadline of its own; only the cancellation of the calling task is raised."""
    try:
        return await method(request, timeout=seconds)
    except grpc.RpcError as error:
        return service_error(error)
    except grpc.aio.UsageError:
        return channel_closed()
    except asyncio.CancelledError:
        if was_cancelled():
            raise
        # grpc.aio raises CancelledError also in tasks that nobody cancelled, when their channel is closed.
        return channel_closed()


def was_cancelled() -> bool:
    """True if somebody asked the running task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
