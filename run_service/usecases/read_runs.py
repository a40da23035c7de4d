"""GetRun, GetLatestRun and ListRuns."""

import contextlib
import datetime as dt
from dataclasses import dataclass
from typing import Protocol

from common.page_token import make_token, page_token_invalid, read_token
from run_service.inputs import GetLatestRun, GetRun, ListRuns
from run_service.records import RunRecord
from run_service.usecases.refusals import run_not_found
from superbizagent.run.v1.run_pb2 import RunStatus, RunView

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


class RunReader(Protocol):
    """What these use-cases need of the store."""

    async def run(self, run_id: str, *, full: bool) -> RunRecord | None: ...

    async def latest_run(self, session_id: str, *, full: bool) -> RunRecord | None: ...

    async def runs_of_session(
        self, session_id: str, status: str | None, after: tuple[dt.datetime, int] | None, most: int
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
    if request.session_id is None:
        position = read_token(query, request.page_token, 1)
        # The gate lets no request pass that has neither session nor status.
        runs = await store.runs_of_all(status or "", position[0] if position else None, request.page_size + 1)
    else:
        position = read_token(query, request.page_token, 2)
        after = (_created_at(position[0]), position[1]) if position else None
        runs = await store.runs_of_session(request.session_id, status, after, request.page_size + 1)
    return _page(query, runs, request.page_size)


def _created_at(microseconds: int) -> dt.datetime:
    # No row has a time that a datetime cannot hold; a token that names one was made up.
    with contextlib.suppress(OverflowError):
        return _EPOCH + microseconds * _MICROSECOND
    raise page_token_invalid()


def _page(query: tuple[str, str | None, str | None], runs: list[RunRecord], size: int) -> RunPage:
    """Cut a page to its size. One row more was read: only if it is there, is there a next page."""
    if len(runs) <= size:
        return RunPage(runs, "")
    last = runs[size - 1]
    # The time counts only if the row is deleted meanwhile: one that has none readable ends the list then.
    created_us = 0 if last.created_at is None else (last.created_at - _EPOCH) // _MICROSECOND
    position = (last.pk,) if query[1] is None else (created_us, last.pk)
    return RunPage(runs[:size], make_token(query, position))


def status_name(status: int) -> str | None:
    """The value of diagnosis_run.status; None for UNSPECIFIED."""
    if status == RunStatus.RUN_STATUS_UNSPECIFIED:
        return None
    return RunStatus.Name(status).removeprefix("RUN_STATUS_")  # type: ignore[arg-type]
