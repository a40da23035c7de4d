"""GetRun, GetLatestRun and ListRuns."""

from dataclasses import dataclass
from typing import Protocol

from common.page_token import make_token, read_token
from run_service.inputs import GetLatestRun, GetRun, ListRuns
from run_service.records import RunRecord
from run_service.usecases.refusals import run_not_found
from superbizagent.run.v1.run_pb2 import RunStatus, RunView


class RunReader(Protocol):
    """What these use-cases need of the store."""

    async def run(self, run_id: str, *, full: bool) -> RunRecord | None: ...

    async def latest_run(self, session_id: str, *, full: bool) -> RunRecord | None: ...

    async def runs_of_session(
        self, session_id: str, status: str | None, after_pk: int | None, most: int
    ) -> list[RunRecord]: ...

    async def runs_of_all(self, status: str, after_pk: int | None, most: int) -> list[RunRecord]: ...


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page of runs. The token is empty on the last page."""

    runs: list[RunRecord]
    next_page_token: str


async def get_run(store: RunReader, request: GetRun) -> RunRecord:
    """One run by its exact id, of the given session if one is given."""
    run = await store.run(request.run_id, full=request.view == RunView.RUN_VIEW_FULL)
    if run is None or (request.session_id is not None and run.session_id != request.session_id):
        raise run_not_found(request.run_id)
    return run


async def get_latest_run(store: RunReader, request: GetLatestRun) -> RunRecord:
    """The run of a session that was created last. For old clients: new ones name the run."""
    run = await store.latest_run(request.session_id, full=request.view == RunView.RUN_VIEW_FULL)
    if run is None:
        raise run_not_found()
    return run


async def list_runs(store: RunReader, request: ListRuns) -> RunPage:
    """A page of the runs of a session, newest first, or of all sessions by status."""
    status = status_name(request.status)
    query = ("runs", request.session_id, status)
    position = read_token(query, request.page_token, 1)
    after_pk = position[0] if position else None
    if request.session_id is None:
        # The gate lets no request pass that has neither session nor status.
        runs = await store.runs_of_all(status or "", after_pk, request.page_size + 1)
    else:
        runs = await store.runs_of_session(request.session_id, status, after_pk, request.page_size + 1)
    return _page(query, runs, request.page_size)


def _page(query: tuple[str, str | None, str | None], runs: list[RunRecord], size: int) -> RunPage:
    """Cut a page to its size. One row more was read: only if it is there, is there a next page."""
    if len(runs) <= size:
        return RunPage(runs, "")
    return RunPage(runs[:size], make_token(query, (runs[size - 1].pk,)))


def status_name(status: int) -> str | None:
    """The value of diagnosis_run.status; None for UNSPECIFIED."""
    if status == RunStatus.RUN_STATUS_UNSPECIFIED:
        return None
    return RunStatus.Name(status).removeprefix("RUN_STATUS_")  # type: ignore[arg-type]
