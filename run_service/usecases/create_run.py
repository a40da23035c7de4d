"""CreateRun: a run exists once, however often its creation is asked for."""

import datetime as dt
import uuid
from typing import Any

from common.errors import Refusal
from common.fingerprint import fingerprint
from run_service.doorbell import Doorbell
from run_service.inputs import CreateRun
from run_service.lifecycle import Status
from run_service.records import RunRecord
from run_service.store import RunStore, RunTransaction
from run_service.usecases.leases import microseconds
from run_service.usecases.refusals import run_not_found
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import RunIntent

AGENT_FLOW = "CHAT_HARNESS"
"""Every public execution comes from the chat harness; the column is kept for old readers."""


async def create_run(
    store: RunStore, doorbell: Doorbell, request: CreateRun, default_lease: dt.timedelta
) -> RunRecord:
    """Create a run in PENDING, or answer the one that the same request made before."""

    async def work(transaction: RunTransaction) -> tuple[RunRecord, bool]:
        return await _create(transaction, request, default_lease)

    run, created = await store.transact(work)
    if created:
        doorbell.ring(run.run_id, 1)
    return run


async def _create(
    transaction: RunTransaction, request: CreateRun, default_lease: dt.timedelta
) -> tuple[RunRecord, bool]:
    run_id = request.run_id or f"run-{uuid.uuid4()}"
    if request.request_id is None:
        now = await transaction.now()
    else:
        claimed, now = await transaction.claim_request(
            request.session_id,
            request.request_id,
            run_id=run_id,
            fingerprint=_request_fingerprint(request),
            claim=uuid.uuid4().hex,
        )
        if not claimed.own:
            return await _same_request(transaction, request, claimed.run_id, claimed.fingerprint), False
    lease = request.lease or default_lease
    pk = await transaction.insert_run(
        _run_row(request, run_id, now),
        {
            "head_seq": 1,
            "lease_us": microseconds(lease),
            "lease_expire_at": now + lease,
            "trace_id": request.trace_id,
            "content_fingerprint": _content_fingerprint(request),
        },
    )
    if pk is None:
        return await _same_run(transaction, request, run_id), False
    created = {"seq": 1, "type": RunEventType.RUN_EVENT_TYPE_RUN_CREATED, "record_time": now}
    await transaction.insert_events(pk, [created])
    return await transaction.run_by_pk(pk), True


def _run_row(request: CreateRun, run_id: str, now: dt.datetime) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "session_id": request.session_id,
        "query": request.query,
        "status": Status.PENDING,
        "agent_flow": AGENT_FLOW,
        "intent": intent_name(request.intent),
        "created_at": now,
        "updated_at": now,
    }


async def _same_request(
    transaction: RunTransaction, request: CreateRun, run_id: str, stored: str
) -> RunRecord:
    if stored != _request_fingerprint(request):
        raise Refusal(ErrorReason.ERROR_REASON_REQUEST_ID_CONFLICT, field="request_id")
    run = await transaction.run(run_id)
    if run is None:
        raise run_not_found(run_id)
    return run


async def _same_run(transaction: RunTransaction, request: CreateRun, run_id: str) -> RunRecord:
    """The run that has the run_id already, if it was created with the same content.

    A claim on the request_id, made before, stays and so binds the new request_id to this run. For a foreign
    or unmanaged run the refusal says nothing more: its caller must not learn whose it is.
    """
    run = await transaction.run(run_id)
    if run is None or run.session_id != request.session_id or run.head_seq is None:
        raise Refusal(ErrorReason.ERROR_REASON_RUN_CONFLICT)
    if await transaction.content_fingerprint(run.pk) != _content_fingerprint(request):
        raise Refusal(ErrorReason.ERROR_REASON_RUN_CONFLICT, run_id=run_id, field="run_id")
    return run


def _content_fingerprint(request: CreateRun) -> str:
    return fingerprint(_content(request))


def _request_fingerprint(request: CreateRun) -> str:
    return fingerprint({**_content(request), "run_id": request.run_id})


def _content(request: CreateRun) -> dict[str, Any]:
    return {
        "session_id": request.session_id,
        "query": request.query,
        "intent": request.intent,
        "trace_id": request.trace_id,
    }


def intent_name(intent: int | None) -> str | None:
    """The value of diagnosis_run.intent: the name without its prefix."""
    return None if intent is None else RunIntent.Name(intent).removeprefix("RUN_INTENT_")  # type: ignore[arg-type]
