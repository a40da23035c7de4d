"""How a run ends: FinishRun, CancelRun, and the reaper. One way to the final status for all three."""

import datetime as dt
from typing import Any

from run_service.doorbell import Doorbell
from run_service.inputs import CancelRun, FinishRun
from run_service.lifecycle import FINISH, Command, Status, Verdict, decide
from run_service.records import ManagedRun, RunRecord, Totals
from run_service.store import RunStore, RunTransaction
from run_service.usecases.create_run import intent_name
from run_service.usecases.move_run import rung
from run_service.usecases.refusals import already_finished, managed, require_allowed
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome
from superbizagent_contract import limits

LEASE_EXPIRED = "RUN_LEASE_EXPIRED"
"""error_code of a run whose executor was not heard of in time."""

_MILLISECOND = dt.timedelta(milliseconds=1)


async def finish_run(store: RunStore, doorbell: Doorbell, request: FinishRun) -> RunRecord:
    """End a run with its outcome; the same finish again answers the same."""
    outcome = Status(ReleaseOutcome.Name(request.release_outcome).removeprefix("RELEASE_OUTCOME_"))  # type: ignore[arg-type]
    content = request.fingerprint()

    async def work(transaction: RunTransaction) -> RunRecord:
        run = managed(request.run_id, await transaction.lock(request.run_id))
        decision = decide(run.status, FINISH[outcome])
        require_allowed(request.run_id, decision)
        if decision.verdict is Verdict.MOVE:
            await _end(
                transaction,
                run,
                outcome,
                error_code=request.error_code,
                given=_given(request),
                finish_fingerprint=content,
            )
        elif run.finish_fingerprint != content:
            raise already_finished(request.run_id, run.status)
        return await transaction.run_by_pk(run.pk)

    return rung(doorbell, await store.transact(work, of_run=request.run_id))


async def cancel_run(store: RunStore, doorbell: Doorbell, request: CancelRun) -> RunRecord:
    """End a run that has not ended; a cancelled one answers the same."""

    async def work(transaction: RunTransaction) -> RunRecord:
        run = managed(request.run_id, await transaction.lock(request.run_id))
        decision = decide(run.status, Command.CANCEL)
        require_allowed(request.run_id, decision)
        if decision.verdict is Verdict.MOVE:
            await _end(transaction, run, decision.status, error_code=request.reason_code)
        return await transaction.run_by_pk(run.pk)

    return rung(doorbell, await store.transact(work, of_run=request.run_id))


async def expire_run(store: RunStore, doorbell: Doorbell, run_id: str) -> bool:
    """End a run whose lease has run out, judged again under its lock; True if this call ended it."""

    async def work(transaction: RunTransaction) -> int | None:
        # Whoever holds the lock may be about to renew the lease, and others wait to be looked at.
        locked = await transaction.lock(run_id, wait=False)
        if locked is None or locked.lease_expire_at is None or locked.lease_expire_at >= locked.now:
            return None
        if locked.status not in (Status.PENDING, Status.RUNNING):
            # Somebody else ended it in diagnosis_run: it is not ours to move, and no longer to be looked at.
            await transaction.change_control(locked.pk, lease_expire_at=None)
            return None
        run = managed(run_id, locked)
        await _end(transaction, run, decide(run.status, Command.EXPIRE).status, error_code=LEASE_EXPIRED)
        return run.head_seq + 1

    head = await store.transact(work)
    if head is not None:
        doorbell.ring(run_id, head)
    return head is not None


def _given(request: FinishRun) -> dict[str, Any]:
    """The columns of diagnosis_run that a finish names; the rest is derived or stays."""
    published = request.published_result_json
    given = {
        "intent": intent_name(request.intent),
        "answer": request.answer,
        "published_result": None if published is None else published.text,
        "total_duration_ms": request.total_duration_ms,
        "total_token_count": request.total_token_count,
        "step_count": request.step_count,
        "tool_call_count": request.tool_call_count,
    }
    return {name: value for name, value in given.items() if value is not None}


async def _end(
    transaction: RunTransaction,
    run: ManagedRun,
    status: Status,
    *,
    error_code: str | None,
    given: dict[str, Any] | None = None,
    finish_fingerprint: str | None = None,
) -> None:
    """Write the final status, RUN_FINISHED and the control row: all in this transaction, or nothing."""
    derived = _derived(run, await transaction.totals(run.pk))
    columns = derived | (given or {})
    seq = run.head_seq + 1
    finished = {
        "seq": seq,
        "type": RunEventType.RUN_EVENT_TYPE_RUN_FINISHED,
        "status": status,
        "release_outcome": ReleaseOutcome.Value(f"RELEASE_OUTCOME_{status}"),
        "error_code": error_code,
        "record_time": run.now,
    }
    await transaction.insert_events(run.pk, [finished])
    await transaction.change_run(run.pk, status=status, release_outcome=status, updated_at=run.now, **columns)
    await transaction.change_control(
        run.pk,
        head_seq=seq,
        lease_expire_at=None,
        finish_time=run.now,
        error_code=error_code,
        finish_fingerprint=finish_fingerprint,
    )


def _derived(run: ManagedRun, totals: Totals) -> dict[str, int]:
    """What the run's own record adds up to. What cannot be derived is left out: absent is not 0."""
    duration = None if run.start_time is None else (run.now - run.start_time) // _MILLISECOND
    derived = {
        "total_duration_ms": duration,
        "step_count": totals.step_count,
        "tool_call_count": totals.tool_call_count,
        "total_token_count": totals.total_token_count,
    }
    return {
        name: min(max(value, 0), limits.MAX_INT32) for name, value in derived.items() if value is not None
    }
