"""What is stored as the services tell it: for who cannot read the rows, and to compare with the rows."""

from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunStatus, RunView
from superbizagent_client import AuditClient, RunClient
from tests.faults.history.facts import Counts, event_of, invocation_of
from tests.faults.history.history import History
from tests.faults.history.stored import Stored, StoredRow, StoredRun


async def read_back(history: History, runs: RunClient, audits: AuditClient) -> Stored:
    """All runs of the sessions of a history, and all audit rows of its runs.

    No call tells the keys: they are taken to be what they must be.
    """
    stored = Stored()
    for session_id in {call.given["session_id"] for call in history.of_kind("create")}:
        async for found in runs.list_runs(session_id):
            stored.runs[found.run_id] = await run_as_told(found.run_id, runs)
    for call in history.of_kind("create"):
        if call.answered:
            stored.requests[call.given["session_id"], call.key] = call.answer["run_id"]
    for run_id in {call.run_id for call in history.of_kind("record")}:
        stored.rows += await rows_as_told(run_id, audits)
    stored.keys = {(row.run_id, row.given.tool_call_id): row.id for row in stored.rows}
    return stored


async def run_as_told(run_id: str, runs: RunClient) -> StoredRun:
    """A run with its events."""
    run = await runs.get_run(run_id, view=RunView.RUN_VIEW_FULL)
    events = [(one.seq, event_of(one)) async for one in runs.list_run_events(run_id)]
    return StoredRun(
        run_id,
        run.session_id,
        RunStatus.Name(run.status).removeprefix("RUN_STATUS_"),
        _outcome(run),
        run.answer if run.HasField("answer") else None,
        run.feedback if run.HasField("feedback") else None,
        Counts(*(_count(run, name) for name in ("step_count", "tool_call_count", "total_token_count"))),
        run.last_seq,
        run.error_code if run.HasField("error_code") else None,
        has_lease=run.HasField("lease_expire_time"),
        has_finish_time=run.HasField("finish_time"),
        events=events,
    )


async def rows_as_told(run_id: str, audits: AuditClient) -> list[StoredRow]:
    """The audit of a run."""
    return [
        StoredRow(one.id, one.run_id, one.session_id, invocation_of(one))
        async for one in audits.list_by_run(run_id)
    ]


def _outcome(run: Run) -> str | None:
    if not run.HasField("release_outcome"):
        return None
    return ReleaseOutcome.Name(run.release_outcome).removeprefix("RELEASE_OUTCOME_")


def _count(run: Run, name: str) -> int | None:
    return getattr(run, name) if run.HasField(name) else None  # type: ignore[arg-type]
