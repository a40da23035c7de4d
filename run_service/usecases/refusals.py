"""The refusals of RunService, each made in one place."""

from common.errors import Refusal
from run_service.lifecycle import MANAGED, Decision, Status, Verdict
from run_service.records import LockedRun, ManagedRun
from superbizagent.error.v1.error_reason_pb2 import ErrorReason as R


def run_not_found(run_id: str = "") -> Refusal:
    """The same for a run that does not exist and for one of another session."""
    return Refusal(R.ERROR_REASON_RUN_NOT_FOUND, run_id=run_id)


def run_not_managed(run_id: str) -> Refusal:
    """A run without a control row, or in a status that is none of ours."""
    return Refusal(R.ERROR_REASON_RUN_NOT_MANAGED, run_id=run_id)


def managed(run_id: str, run: LockedRun | None) -> ManagedRun:
    """The run, if there is one and this service may move it; otherwise the refusal is raised."""
    if run is None:
        raise run_not_found(run_id)
    if run.head_seq is None or run.lease_us is None or run.status not in MANAGED:
        raise run_not_managed(run_id)
    return ManagedRun(
        run.pk,
        Status(run.status),
        run.now,
        run.head_seq,
        run.lease_us,
        run.lease_expire_at,
        run.start_time,
        run.finish_fingerprint,
    )


def require_allowed(run_id: str, decision: Decision) -> None:
    """Refuse what the table of transitions refuses; the details name the status that won."""
    if decision.verdict is Verdict.NOT_STARTED:
        raise Refusal(R.ERROR_REASON_RUN_NOT_STARTED, run_id=run_id, status=decision.status)
    if decision.verdict is Verdict.ALREADY_FINISHED:
        raise already_finished(run_id, decision.status)


def already_finished(run_id: str, status: Status) -> Refusal:
    """The run is final with `status`."""
    return Refusal(R.ERROR_REASON_RUN_ALREADY_FINISHED, run_id=run_id, status=status)


def event_id_conflict(run_id: str, index: int) -> Refusal:
    """The event at `index` of the request is stored with other content."""
    return Refusal(R.ERROR_REASON_EVENT_ID_CONFLICT, run_id=run_id, field=f"events[{index}].event_id")


def seq_beyond_head(run_id: str, head: int) -> Refusal:
    """after_seq lies beyond the head of the run."""
    return Refusal(R.ERROR_REASON_SEQ_BEYOND_HEAD, run_id=run_id, field="after_seq", last_seq=head)


def seq_purged(run_id: str, oldest_seq: int) -> Refusal:
    """Events after after_seq are gone."""
    return Refusal(R.ERROR_REASON_SEQ_PURGED, run_id=run_id, oldest_seq=oldest_seq)
