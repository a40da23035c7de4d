"""What rows of an older application hold comes out in full views of runs, and nowhere else."""

from google.protobuf.message import Message

from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as run
from superbizagent.run.v1.run_pb2 import RunStatus, RunView
from tests.leak.caller import Answer, all_of
from tests.leak.conversation import Conversation
from tests.leak.ledger import FULL
from tests.leak.legacy import RUN, SESSION
from tests.support.run import event, finish_request


class _Reader:
    """Reads whatever there is to read."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk

    async def ask(self, method: str, request: Message, sink: str = "reply") -> Answer:
        service = "audit.v1.AuditService" if "ToolInvocation" in method or method == "ListByRun" else ""
        caller = self._talk.audits if service else self._talk.runs
        send = caller.stream if method.startswith("Stream") else caller.unary
        path = f"/superbizagent.{service or 'run.v1.RunService'}/{method}"
        return await send(path, request.SerializeToString(), sink, metadata=self._talk.stack.metadata)

    async def run(self, run_id: str) -> None:
        """A run in every view, and what its stream says of it."""
        found = await self.ask("GetRun", run.GetRunRequest(run_id=run_id))
        assert found.replies, found
        await self.ask("GetRun", run.GetRunRequest(run_id=run_id, view=RunView.RUN_VIEW_FULL), FULL)
        await self.ask("ListRunEvents", run.ListRunEventsRequest(run_id=run_id))
        await self.ask("StreamRunEvents", run.StreamRunEventsRequest(run_id=run_id), "stream")

    async def writes(self, run_id: str) -> None:
        """Writes to a run that is none of ours are refused, by what its row says of it."""
        for method, request in (
            ("StartRun", run.StartRunRequest(run_id=run_id)),
            ("AppendRunEvents", run.AppendRunEventsRequest(run_id=run_id, events=[event()])),
            ("RenewRunLease", run.RenewRunLeaseRequest(run_id=run_id)),
            ("FinishRun", finish_request(run_id)),
            ("CancelRun", run.CancelRunRequest(run_id=run_id)),
        ):
            assert (await self.ask(method, request)).reason == "RUN_NOT_MANAGED"
        given = run.CreateRunRequest(session_id=SESSION, query="why?", run_id=run_id)
        assert not (await self.ask("CreateRun", given)).replies

    async def pages(
        self, method: str, request: audit.ListByRunRequest | audit.SearchToolInvocationsRequest
    ) -> int:
        """All pages of audited calls; how many calls."""
        count = 0
        while True:
            reply = (await self.ask(method, request)).replies[0]
            page = audit.ListByRunResponse.FromString(reply)  # the other response is like it
            count += len(page.invocations)
            if not page.next_page_token:
                return count
            request.page_token = page.next_page_token


async def test_old_runs_say_nothing_but_metadata(talk: Conversation) -> None:
    reader = _Reader(talk)
    assert len(talk.stack.legacy.run_ids) > 100
    await all_of([reader.run(run_id) for run_id in talk.stack.legacy.run_ids])
    await all_of([reader.writes(run_id) for run_id in talk.stack.legacy.run_ids[::4]])
    for status in RunStatus.values():
        await reader.ask("ListRuns", run.ListRunsRequest(session_id=SESSION, status=status, page_size=1000))
    await reader.ask("ListRuns", run.ListRunsRequest(status=RunStatus.RUN_STATUS_SUCCESS, page_size=1000))
    await reader.ask("GetLatestRun", run.GetLatestRunRequest(session_id=SESSION))
    await reader.ask(
        "GetLatestRun", run.GetLatestRunRequest(session_id=SESSION, view=RunView.RUN_VIEW_FULL), FULL
    )
    assert await talk.leaks() == []


async def test_old_tool_calls_say_nothing_but_metadata(talk: Conversation) -> None:
    reader = _Reader(talk)
    of_run = await reader.pages("ListByRun", audit.ListByRunRequest(run_id=RUN, page_size=50))
    assert of_run > 100
    await reader.pages("ListByRun", audit.ListByRunRequest(run_id=RUN, session_id=SESSION))
    for search in (
        audit.SearchToolInvocationsRequest(session_id=SESSION),
        audit.SearchToolInvocationsRequest(tool_name="query_logs"),
        audit.SearchToolInvocationsRequest(retrieval_layer="L0"),
    ):
        assert await reader.pages("SearchToolInvocations", search) > 100
    for summary in (
        audit.SummarizeToolInvocationsRequest(run_id=RUN),
        audit.SummarizeToolInvocationsRequest(session_id=SESSION),
    ):
        answer = await reader.ask("SummarizeToolInvocations", summary)
        assert audit.SummarizeToolInvocationsResponse.FromString(answer.replies[0]).groups
    assert await talk.leaks() == []
