"""AppendRunEvents: all or nothing, in order, each event once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from run_service.doorbell import Doorbell
from run_service.inputs import AppendRunEvents, EventInput
from run_service.lifecycle import Command, decide, is_final
from run_service.records import EventRecord, ManagedRun
from run_service.store import RunStore, RunTransaction
from run_service.usecases.create_run import intent_name
from run_service.usecases.leases import extended
from run_service.usecases.refusals import event_id_conflict, managed, require_allowed
from superbizagent.run.v1.run_event_pb2 import RunEventType

_EMPTY_ROW = dict.fromkeys(EventRecord._fields)


@dataclass(frozen=True, slots=True)
class Appended:
    """Where the events are stored, in the order of the request, and the head of the run."""

    seqs: list[int]
    last_seq: int


async def append_run_events(store: RunStore, doorbell: Doorbell, request: AppendRunEvents) -> Appended:
    """Store the events that are new and answer the seq of each."""

    async def work(transaction: RunTransaction) -> Appended:
        return await _append(transaction, request)

    appended = await store.transact(work, of_run=request.run_id)
    doorbell.ring(request.run_id, appended.last_seq)
    return appended


async def _append(transaction: RunTransaction, request: AppendRunEvents) -> Appended:
    run = managed(request.run_id, await transaction.lock(request.run_id))
    stored = await transaction.stored_events(run.pk, [event.event_id for event in request.events])
    appended, new, moved = judged(request, run, stored)
    if new:
        await transaction.insert_events(run.pk, new)
    if moved is not None:
        await transaction.change_control(
            run.pk, head_seq=moved.head_seq, lease_expire_at=moved.lease_expire_at
        )
    resolved = RunEventType.RUN_EVENT_TYPE_INTENT_RESOLVED
    intents = [event["intent"] for event in new if event["type"] == resolved]
    if intents:
        await transaction.change_run(run.pk, intent=intent_name(intents[-1]), updated_at=run.now)
    return appended


def judged(
    request: AppendRunEvents, run: ManagedRun, stored: Mapping[str, tuple[int, str]]
) -> tuple[Appended, list[dict[str, Any]], ManagedRun | None]:
    """What to answer, the rows of the events that are not stored yet, and the run as it is after them.

    None instead of the run if nothing of it moves, because it is final. Raises the refusal of a call.
    """
    seqs, new = _place(request, run, stored)
    if new:
        # Only new events need RUNNING: one whose acknowledgement was lost is answered in any state.
        require_allowed(request.run_id, decide(run.status, Command.APPEND))
    appended = Appended(seqs, run.head_seq + len(new))
    if is_final(run.status):
        return appended, new, None
    _, until = extended(run, None)
    return appended, new, run._replace(head_seq=appended.last_seq, lease_expire_at=until)


def _place(
    request: AppendRunEvents, run: ManagedRun, stored: Mapping[str, tuple[int, str]]
) -> tuple[list[int], list[dict[str, Any]]]:
    placed = dict(stored)
    seqs: list[int] = []
    new: list[dict[str, Any]] = []
    for index, event in enumerate(request.events):
        content = event.fingerprint()
        if event.event_id not in placed:
            seq = run.head_seq + len(new) + 1
            placed[event.event_id] = (seq, content)
            new.append(_row(event, content, seq, run))
        seq, placed_content = placed[event.event_id]
        if placed_content != content:
            raise event_id_conflict(request.run_id, index)
        seqs.append(seq)
    return seqs, new


def _row(event: EventInput, content: str, seq: int, run: ManagedRun) -> dict[str, Any]:
    return {**_EMPTY_ROW, **event.content(), "seq": seq, "fingerprint": content, "record_time": run.now}
