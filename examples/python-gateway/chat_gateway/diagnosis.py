"""What support looks at: the trace of a run, and what its user thought of it."""

from typing import Any

from google.protobuf.json_format import MessageToDict
from starlette.requests import Request
from starlette.responses import JSONResponse

from chat_gateway.inputs import json_body, text
from chat_gateway.services import Services
from superbizagent.run.v1.run_pb2 import Run
from superbizagent_client import ServiceError


async def trace(request: Request) -> JSONResponse:
    """GET /api/diagnosis/{session_id}/trace?runId=…: head, events and tool calls of this exact run.

    Without `runId` it is the session's latest run, as old pages ask for it; `resolved` says so. Two questions
    at the same time make that a guess, so new pages name the run that the metadata event gave them.
    """
    services: Services = request.app.state.services
    session_id, run_id = request.path_params["session_id"], request.query_params.get("runId")
    if run_id:
        run = await services.runs.get_run(run_id, session_id=session_id)
    else:
        run = await services.runs.get_latest_run(session_id)
    events = services.runs.list_run_events(run.run_id, session_id=session_id) if run.last_seq else None
    return JSONResponse(
        {
            "resolved": "exact" if run_id else "latest",
            "run": MessageToDict(run),
            "events": [MessageToDict(event) async for event in events] if events else [],
            "toolCalls": await _tool_calls(services, run),
        },
        headers={"Cache-Control": "no-store"},
    )


async def _tool_calls(services: Services, run: Run) -> list[dict[str, Any]] | None:
    """None if the audit is away: that is no reason to show nothing of the run."""
    calls = services.audit.list_by_run(run.run_id, session_id=run.session_id)
    try:
        return [MessageToDict(call) async for call in calls]
    except ServiceError as error:
        if not error.transient:
            raise
        return None


async def feedback(request: Request) -> JSONResponse:
    """POST /api/diagnosis/{session_id}/feedback: `runId` and `feedback`, a short code; "" takes it back."""
    services: Services = request.app.state.services
    body = await json_body(request)
    run = await services.runs.record_feedback(
        text(body, "runId"), request.path_params["session_id"], text(body, "feedback")
    )
    return JSONResponse({"run": MessageToDict(run)})
