"""AppendRunEvents of many runs at once: calls that arrive together share their statements and one commit.

Each call is judged by the same rules as alone, in the order of arrival. A call whose run somebody else holds
just then, or does not exist, is carried out alone, where waiting for it holds up nobody.
"""

from collections.abc import Sequence
from typing import Any

from common.errors import Refusal
from common.group_commit import BatchMeter, GroupCommitter
from run_service.doorbell import Doorbell
from run_service.inputs import AppendRunEvents
from run_service.records import LockedRun, ManagedRun
from run_service.store import BatchTransaction, RunStore
from run_service.usecases.append_events import Appended, append_run_events, judged
from run_service.usecases.refusals import managed
from superbizagent.run.v1.run_event_pb2 import RunEventType

Outcome = Appended | Refusal | None
"""None: the run could not be had at once."""

_MOST_SHARING_A_COMMIT = 500  # events, as many as one call may have
_MOST_WAITING = 10_000  # events: a few megabytes, and some seconds of commits


class EventAppender:
    """Appends events to runs; close it after the last call."""

    def __init__(self, store: RunStore, doorbell: Doorbell, meter: BatchMeter) -> None:
        self._store = store
        self._doorbell = doorbell
        self._commits: GroupCommitter[AppendRunEvents, Outcome] = GroupCommitter(
            self._commit,
            max_batch=_MOST_SHARING_A_COMMIT,
            max_waiting=_MOST_WAITING,
            size=lambda request: len(request.events),
            meter=meter,
        )

    async def append(self, request: AppendRunEvents) -> Appended:
        """Store the events that are new and answer the seq of each."""
        outcome = None if _resolves_intent(request) else await self._commits.submit(request)
        if outcome is None:
            return await append_run_events(self._store, self._doorbell, request)
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        """Return when every call that was accepted is settled."""
        await self._commits.aclose()

    async def _commit(self, requests: Sequence[AppendRunEvents]) -> Sequence[Outcome]:
        async def work(transaction: BatchTransaction) -> list[Outcome]:
            return await _append_all(transaction, requests)

        outcomes = await self._store.transact_batch(work)
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, Appended):
                self._doorbell.ring(request.run_id, outcome.last_seq)
        return outcomes


def _resolves_intent(request: AppendRunEvents) -> bool:
    """These events change the row of the run too: once in its life, so alone."""
    resolved = RunEventType.RUN_EVENT_TYPE_INTENT_RESOLVED
    return any(event.type == resolved for event in request.events)


async def _append_all(transaction: BatchTransaction, requests: Sequence[AppendRunEvents]) -> list[Outcome]:
    locked = await transaction.lock_free({request.run_id for request in requests})
    if not locked:
        return [None] * len(requests)
    pks = {run.run_id: run.pk for run in locked}
    batch = _Batch(
        *await transaction.read(
            locked,
            [
                (pks[request.run_id], event.event_id)
                for request in requests
                if request.run_id in pks
                for event in request.events
            ],
        )
    )
    outcomes = [batch.outcome(request) for request in requests]
    await transaction.commit(batch.rows, batch.moved.values())
    return outcomes


class _Batch:
    """What the calls of a batch add up to, one after the other."""

    def __init__(self, runs: dict[str, LockedRun], stored: dict[int, dict[str, tuple[int, str]]]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.moved: dict[str, ManagedRun] = {}
        """Runs as they are after the calls so far."""
        self._runs = runs
        self._stored = stored

    def outcome(self, request: AppendRunEvents) -> Outcome:
        """Judge a call by what is stored and by the calls before it."""
        if request.run_id not in self._runs:
            return None
        try:
            return self._append(request)
        except Refusal as refusal:
            return refusal

    def _append(self, request: AppendRunEvents) -> Appended:
        run = self.moved.get(request.run_id) or managed(request.run_id, self._runs[request.run_id])
        stored = self._stored.setdefault(run.pk, {})
        appended, new, moved = judged(request, run, stored)
        self.rows += [{"run_pk": run.pk, **event} for event in new]
        stored |= {event["event_id"]: (event["seq"], event["fingerprint"]) for event in new}
        if moved is not None:
            self.moved[request.run_id] = moved
        return appended
