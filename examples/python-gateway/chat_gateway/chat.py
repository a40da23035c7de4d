"""Questions, and the events of the runs that answer them."""

import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from google.protobuf.json_format import MessageToDict
from starlette.requests import Request

from chat_gateway.executions import Executions
from chat_gateway.inputs import flag, json_body, position, text
from chat_gateway.problems import BadRequest, problem
from chat_gateway.services import Services
from chat_gateway.sse import HEARTBEAT, EventStreamResponse, sse
from superbizagent.run.v1.run_pb2 import Run, RunStatus, RunView
from superbizagent.run.v1.run_service_pb2 import StreamRunEventsResponse
from superbizagent_client import RunEventStream, ServiceError, StreamOptions

_GIVE_UP_SECONDS = 30.0
"""A service that is away for longer ends the response; the browser comes back with its Last-Event-ID."""


async def ask(request: Request) -> EventStreamResponse:
    """POST /api/chat: `sessionId`, `message`, optional `requestId` and `cancelOnDisconnect`.

    A browser makes `requestId` once for its question; asking again with it follows the same run.
    """
    services, executions = request.app.state.services, request.app.state.executions
    body = await json_body(request)
    question, request_id = text(body, "message"), text(body, "requestId", uuid.uuid4().hex)
    leave = flag(body, "cancelOnDisconnect")
    run = await services.runs.create_run(text(body, "sessionId"), question, request_id=request_id)
    executions.start(run, question, request_id)
    return await _follow(services, run, 0, executions if leave else None)


async def resume(request: Request) -> EventStreamResponse:
    """GET /api/chat/{run_id}/events?sessionId=…: goes on behind Last-Event-ID."""
    services = request.app.state.services
    session_id = request.query_params.get("sessionId")
    if not session_id:
        raise BadRequest("sessionId")  # an absent one would mean any session
    run = await services.runs.get_run(request.path_params["run_id"], session_id=session_id)
    return await _follow(services, run, position(request), None)


async def _follow(
    services: Services, run: Run, after_seq: int, cancels: Executions | None
) -> EventStreamResponse:
    stream = RunEventStream(
        services.run_channel,
        run.run_id,
        session_id=run.session_id,
        after_seq=after_seq,
        options=StreamOptions(give_up_after=_GIVE_UP_SECONDS),
    )
    # The first message comes at once. Waiting for it turns a refusal into an HTTP status.
    first = await stream.next_message()
    return EventStreamResponse(_events(services, run, stream, first, cancels))


async def _events(
    services: Services,
    run: Run,
    stream: RunEventStream,
    first: StreamRunEventsResponse | None,
    cancels: Executions | None,
) -> AsyncGenerator[bytes, None]:
    final = False
    try:
        yield sse("metadata", {"runId": run.run_id, "sessionId": run.session_id})
        message = first
        while message is not None:
            yield _as_sse(message)
            message = await stream.next_message()
        final = True
        yield sse("answer", await _answer(services, run))
    except ServiceError as error:
        yield sse("problem", problem(error))
    finally:
        await stream.aclose()
        if cancels is not None and not final:
            cancels.cancel(run.run_id)


def _as_sse(message: StreamRunEventsResponse) -> bytes:
    if message.HasField("event"):
        # By the contract an event holds nothing that a browser must not see. A type that is newer than this
        # gateway goes on as its number.
        return sse("run", MessageToDict(message.event), message.event.seq)
    return HEARTBEAT


async def _answer(services: Services, run: Run) -> dict[str, Any]:
    """What was released. A run that failed or was cancelled has no answer, only its status and a code."""
    full = await services.runs.get_run(run.run_id, session_id=run.session_id, view=RunView.RUN_VIEW_FULL)
    published = full.published_result_json
    return {
        "status": RunStatus.Name(full.status).removeprefix("RUN_STATUS_"),
        "answer": full.answer if full.HasField("answer") else None,
        "publishedResult": json.loads(published) if published else None,
        "errorCode": full.error_code or None,
    }
