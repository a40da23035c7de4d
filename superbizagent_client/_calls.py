"""Short calls: one attempt with every way it can fail turned into a value, and calls that are repeated."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from superbizagent_client._backoff import Backoff
from superbizagent_client.errors import ServiceError, channel_closed, service_error

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_INITIAL_BACKOFF = 0.1
_LONGEST_BACKOFF = 2.0


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Times of short calls in seconds. `attempt` is what one may take.

    Calls that only transient errors keep back are repeated until `retry` is over, which outlasts a restart;
    then the last error is raised. Together a call takes `attempt` + `retry` at most.
    """

    attempt: float = 5.0
    retry: float = 10.0


class Patience:
    """Decides how often one call is repeated."""

    def __init__(self, options: CallOptions) -> None:
        self._backoff = Backoff(_INITIAL_BACKOFF, _LONGEST_BACKOFF)
        self._give_up_at = time.monotonic() + options.retry

    def pause(self, error: ServiceError) -> float:
        """Seconds to wait before the next attempt; raises the error if there is none."""
        delay = self._backoff.delay(error.retry_after)
        if not error.transient or time.monotonic() + delay > self._give_up_at:
            raise error
        return delay


async def call(
    method: grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT], request: RequestT, options: CallOptions
) -> ResponseT:
    """Call `method` until it answers or fails for good."""
    patience = Patience(options)
    while True:
        answer = await attempt(method, request, options.attempt)
        if not isinstance(answer, ServiceError):
            return answer
        await asyncio.sleep(patience.pause(answer))


def call_sync(
    method: "grpc.UnaryUnaryMultiCallable[RequestT, ResponseT]", request: RequestT, options: CallOptions
) -> ResponseT:
    """The same without an event loop."""
    patience = Patience(options)
    while True:
        answer: ResponseT | ServiceError = _attempt_sync(method, request, options.attempt)
        if not isinstance(answer, ServiceError):
            return answer
        time.sleep(patience.pause(answer))


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


def _attempt_sync(method: Any, request: RequestT, seconds: float) -> Any:
    try:
        return method(request, timeout=seconds)
    except grpc.RpcError as error:
        return service_error(error)
    except ValueError:  # what grpc raises where grpc.aio has a UsageError
        return channel_closed()


def was_cancelled() -> bool:
    """True if somebody asked the running task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
