"""Scenarios: pages give each row that was there before the first page exactly once."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from cli.conformance import requests as make
from cli.conformance.deployment import Deployment
from cli.conformance.expect import equal, expect, refused, together
from cli.conformance.scenario import Area
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunStatus

AREA: Final = Area("paging")

_ROWS = 23
_PAGE = 5

TOKEN_REFUSED = ("INVALID_ARGUMENT", "PAGE_TOKEN_INVALID")


async def _pages(
    read: Callable[[Any], Awaitable[Any]], request: Any, between: Callable[[], Awaitable[object]]
) -> list[Any]:
    """All pages; `between` is done after each."""
    found = []
    while True:
        page = await read(request)
        found.append(page)
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token
        await between()


def _check_ids(seen: list[Any], before: set[Any], what: str) -> None:
    equal(len(seen), len(set(seen)), f"{what} that came, and distinct ones among them")
    expect(before <= set(seen), f"all {what} from before the first page come")


@AREA.scenario("runs of a session are paged newest first, each once, while more are created")
async def runs_of_a_session(deployment: Deployment) -> None:
    session = make.new_id("sess")
    made = await together(
        *(
            make.created(deployment.runs(one), session_id=session, run_id=make.new_run_id())
            for one in range(_ROWS)
        )
    )
    request = pb.ListRunsRequest(session_id=session, page_size=_PAGE)
    pages = await _pages(
        deployment.runs(1).ListRuns,
        request,
        lambda: make.created(deployment.runs(), session_id=session, run_id=make.new_run_id()),
    )
    runs = [run for page in pages for run in page.runs]
    _check_ids([run.run_id for run in runs], {run.run_id for run in made}, "runs")
    times = [run.create_time.ToNanoseconds() for run in runs]
    equal(times, sorted(times, reverse=True), "the order of create_time")
    expect(all(len(page.runs) <= _PAGE for page in pages), "no page is larger than page_size")
    expect(not any(run.query for run in runs), "lists are in the basic view")
    await _tokens_are_bound(deployment, pages[0].next_page_token, session)


async def _tokens_are_bound(deployment: Deployment, token: str, session: str) -> None:
    for what, other in (
        ("another session", pb.ListRunsRequest(session_id=make.new_id("sess"), page_token=token)),
        (
            "another status",
            pb.ListRunsRequest(session_id=session, status=RunStatus.RUN_STATUS_PENDING, page_token=token),
        ),
        ("a changed token", pb.ListRunsRequest(session_id=session, page_token=f"{token}A")),
    ):
        refusal = await refused(deployment.runs().ListRuns(other), *TOKEN_REFUSED, what=what)
        equal([one.field for one in refusal.error.violations], ["page_token"], f"the field refused: {what}")


@AREA.scenario("runs of a session are filtered by the status that they have")
async def runs_by_status(deployment: Deployment) -> None:
    session = make.new_id("sess")
    runs = deployment.runs()
    made = [await make.created(runs, session_id=session, run_id=make.new_run_id()) for _ in range(6)]
    for run in made[::2]:
        await make.cancel(runs, run.run_id)
    for status, wanted in (("CANCELLED", made[::2]), ("PENDING", made[1::2]), ("SUCCESS", [])):
        request = pb.ListRunsRequest(session_id=session, status=RunStatus.Value(f"RUN_STATUS_{status}"))
        listed = (await deployment.runs(1).ListRuns(request)).runs
        equal([run.run_id for run in listed], [run.run_id for run in wanted][::-1], f"runs in {status}")


@AREA.scenario("events are paged by after_seq; head and finality are of one moment")
async def events_of_a_run(deployment: Deployment) -> None:
    runs = deployment.runs()
    run_id = (await make.started(runs)).run_id
    await make.append(runs, run_id, *(make.event() for _ in range(20)))
    page = await runs.ListRunEvents(pb.ListRunEventsRequest(run_id=run_id, after_seq=5, page_size=7))
    equal([one.seq for one in page.events], list(range(6, 13)), "seqs of a page")
    equal((page.last_seq, page.run_final), (22, False), "head and finality of a running run")
    await make.finish(runs, run_id)
    page = await deployment.runs(1).ListRunEvents(pb.ListRunEventsRequest(run_id=run_id, after_seq=23))
    equal((len(page.events), page.last_seq, page.run_final), (0, 23, True), "the page behind the end")
    equal([one.seq for one in await make.events_of(runs, run_id, 7)], list(range(1, 24)), "seqs of all pages")


@AREA.scenario("audit rows of a run are paged in the order of their ids, each once, while more are recorded")
async def audit_rows_of_a_run(deployment: Deployment) -> None:
    run_id, session = make.new_run_id(), make.new_id("sess")

    def record() -> Awaitable[audit.RecordToolInvocationResponse]:
        request = make.record_request(run_id=run_id, session_id=session)
        return deployment.audits().RecordToolInvocation(request)

    made = await together(*(record() for _ in range(_ROWS)))
    request = audit.ListByRunRequest(run_id=run_id, page_size=_PAGE)
    pages = await _pages(deployment.audits(1).ListByRun, request, record)
    ids = [row.id for page in pages for row in page.invocations]
    _check_ids(ids, {reply.id for reply in made}, "rows")
    equal(ids, sorted(ids), "the order of ids")
    other = audit.ListByRunRequest(run_id=make.new_run_id(), page_token=pages[0].next_page_token)
    await refused(deployment.audits().ListByRun(other), *TOKEN_REFUSED, what="a token of another run")


@AREA.scenario("a search is paged newest first, each row once")
async def a_search(deployment: Deployment) -> None:
    session = make.new_id("sess")
    made = await together(
        *(
            deployment.audits(one).RecordToolInvocation(make.record_request(session_id=session))
            for one in range(_ROWS)
        )
    )

    async def nothing() -> None: ...

    request = audit.SearchToolInvocationsRequest(session_id=session, page_size=_PAGE)
    pages = await _pages(deployment.audits(1).SearchToolInvocations, request, nothing)
    ids = [row.id for page in pages for row in page.invocations]
    equal(ids, sorted((reply.id for reply in made), reverse=True), "ids that were found")


@AREA.scenario("page_size 0 is 100, a huge one is no error, a negative one is refused")
async def page_sizes(deployment: Deployment) -> None:
    runs, audits = deployment.runs(), deployment.audits()
    run = await make.started(runs)
    await make.append(runs, run.run_id, *(make.event() for _ in range(150)))
    for size, wanted in ((0, 100), (2_000_000_000, 152)):
        page = await runs.ListRunEvents(pb.ListRunEventsRequest(run_id=run.run_id, page_size=size))
        equal(len(page.events), wanted, f"events of a page of size {size}")
    for what, call in (
        ("runs", runs.ListRuns(pb.ListRunsRequest(session_id=run.session_id, page_size=-1))),
        ("events", runs.ListRunEvents(pb.ListRunEventsRequest(run_id=run.run_id, page_size=-1))),
        ("rows", audits.ListByRun(audit.ListByRunRequest(run_id=run.run_id, page_size=-1))),
    ):
        refusal = await refused(call, "INVALID_ARGUMENT", "INVALID_FIELD", what=f"a negative page of {what}")
        equal([one.field for one in refusal.error.violations], ["page_size"], "the field refused")
