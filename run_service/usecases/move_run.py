"""StartRun, RenewRunLease and RecordFeedback."""

import datetime as dt

from run_service.doorbell import Doorbell
from run_service.inputs import RecordFeedback, RenewRunLease, StartRun
from run_service.lifecycle import Command, Verdict, decide
from run_service.records import RunRecord
from run_service.store import RunStore, RunTransaction
from run_service.usecases.leases import extended
from run_service.usecases.refusals import managed, require_allowed, run_not_found
from superbizagent.run.v1.run_event_pb2 import RunEventType


async def start_run(store: RunStore, doorbell: Doorbell, request: StartRun) -> RunRecord:
    """Move a run from PENDING to RUNNING; on a RUNNING run only its lease moves."""

    async def work(transaction: RunTransaction) -> RunRecord:
        run = managed(request.run_id, await transaction.lock(request.run_id))
        decision = decide(run.status, Command.START)
        require_allowed(request.run_id, decision)
        lease_us, until = extended(run, request.lease)
        control: dict[str, object] = {"lease_us": lease_us, "lease_expire_at": until}
        if decision.verdict is Verdict.MOVE:
            control |= {"head_seq": run.head_seq + 1, "start_time": run.now}
            started = {
                "seq": run.head_seq + 1,
                "type": RunEventType.RUN_EVENT_TYPE_RUN_STARTED,
                "record_time": run.now,
            }
            await transaction.insert_events(run.pk, [started])
            await transaction.change_run(run.pk, status=decision.status, updated_at=run.now)
        await transaction.change_control(run.pk, **control)
        return await transaction.run_by_pk(run.pk)

    return rung(doorbell, await store.transact(work, of_run=request.run_id))


async def renew_run_lease(store: RunStore, request: RenewRunLease) -> dt.datetime:
    """Keep a run alive; answer until when. A final run is refused with its status."""

    async def work(transaction: RunTransaction) -> dt.datetime:
        run = managed(request.run_id, await transaction.lock(request.run_id))
        require_allowed(request.run_id, decide(run.status, Command.RENEW))
        lease_us, until = extended(run, request.lease)
        await transaction.change_control(run.pk, lease_us=lease_us, lease_expire_at=until)
        return until

    return await store.transact(work, of_run=request.run_id)


async def record_feedback(store: RunStore, request: RecordFeedback) -> RunRecord:
    """Set or clear the user's feedback. created_at stays, and with it which run is the latest."""

    async def work(transaction: RunTransaction) -> RunRecord:
        run = await transaction.lock(request.run_id)
        if run is None or run.session_id != request.session_id:
            raise run_not_found(request.run_id)
        await transaction.change_run(run.pk, feedback=request.feedback or None, updated_at=run.now)
        return await transaction.run_by_pk(run.pk)

    return await store.transact(work, of_run=request.run_id)


def rung(doorbell: Doorbell, run: RunRecord) -> RunRecord:
    """Ring for the head of a run after a commit."""
    doorbell.ring(run.run_id, run.head_seq or 0)
    return run
