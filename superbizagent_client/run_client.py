"""RunService's calls, typed, for programs with and without an event loop; and runs as a context."""

from typing import Any

import grpc
from google.protobuf.message import Message

from superbizagent.run.v1.run_pb2 import RunIntent
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import _run_methods as methods
from superbizagent_client._calls import CallOptions, call, call_sync
from superbizagent_client._methods import AsyncCall, AsyncPages, SyncCall, SyncPages
from superbizagent_client.active_run import ActiveRun
from superbizagent_client.run_options import RunOptions


class RunClient:
    """RunService over a channel of `open_channel`. Raises ServiceError.

    Calls that only transient errors keep back are repeated, always with the same ids.
    """

    def __init__(self, channel: grpc.aio.Channel, *, options: CallOptions | None = None) -> None:
        self._channel = channel
        self._stub = RunServiceStub(channel)
        self._options = options or CallOptions()

    def run(
        self,
        session_id: str,
        query: str,
        *,
        run_id: str | None = None,
        intent: RunIntent.ValueType | None = None,
        trace_id: str | None = None,
        request_id: str | None = None,
        options: RunOptions | None = None,
    ) -> ActiveRun:
        """A run from its creation to its end: `async with client.run(session_id, query) as run:`.

        The first five arguments are those of `create_run`. With the `request_id` of a run that is not final
        yet the same run goes on.
        """
        options = options or RunOptions()
        request = methods.create_run(
            session_id,
            query,
            run_id=run_id,
            intent=intent,
            trace_id=trace_id,
            request_id=request_id,
            lease=options.lease,
        )
        return ActiveRun(self._channel, self, request, options)

    async def call(self, rpc: str, request: Message) -> Any:
        """Make a short call by its name, repeated while only transient errors keep it back."""
        return await call(getattr(self._stub, rpc), request, self._options)

    create_run = AsyncCall(methods.CREATE_RUN)
    start_run = AsyncCall(methods.START_RUN)
    finish_run = AsyncCall(methods.FINISH_RUN)
    cancel_run = AsyncCall(methods.CANCEL_RUN)
    record_feedback = AsyncCall(methods.RECORD_FEEDBACK)
    get_run = AsyncCall(methods.GET_RUN)
    get_latest_run = AsyncCall(methods.GET_LATEST_RUN)
    list_runs = AsyncPages(methods.LIST_RUNS)
    list_run_events = AsyncPages(methods.LIST_RUN_EVENTS)


class SyncRunClient:
    """RunService over a channel of `open_sync_channel`. Raises ServiceError.

    Calls that only transient errors keep back are repeated, always with the same ids.
    """

    def __init__(self, channel: grpc.Channel, *, options: CallOptions | None = None) -> None:
        self._stub = RunServiceStub(channel)  # type: ignore[arg-type]  # generated for both, typed for grpc.aio
        self._options = options or CallOptions()

    def call(self, rpc: str, request: Message) -> Any:
        """Make a short call by its name, repeated while only transient errors keep it back."""
        return call_sync(getattr(self._stub, rpc), request, self._options)

    create_run = SyncCall(methods.CREATE_RUN)
    start_run = SyncCall(methods.START_RUN)
    finish_run = SyncCall(methods.FINISH_RUN)
    cancel_run = SyncCall(methods.CANCEL_RUN)
    record_feedback = SyncCall(methods.RECORD_FEEDBACK)
    get_run = SyncCall(methods.GET_RUN)
    get_latest_run = SyncCall(methods.GET_LATEST_RUN)
    list_runs = SyncPages(methods.LIST_RUNS)
    list_run_events = SyncPages(methods.LIST_RUN_EVENTS)
