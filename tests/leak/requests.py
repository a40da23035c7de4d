"""A request that passes, for every method of both services, with every field set that can be."""

import datetime as dt
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1 import run_service_pb2 as run
from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent.run.v1.run_pb2 import RunStatus, RunView
from tests.leak.caller import Caller, Metadata
from tests.leak.walk import SERVICES
from tests.support.audit import fields
from tests.support.run import create_request, event, finish_request, new_run_id, seconds

SESSION = "leak-session"
_PATH = f"/{SERVICES[0].full_name}/"


class Requests:
    """Makes them. `running` is a run that all of them may use."""

    def __init__(self, caller: Caller, metadata: Metadata) -> None:
        self._caller = caller
        self._metadata = metadata
        self.running = ""

    async def begin(self) -> None:
        """Make the run that is shared."""
        self.running = await self.running_run()

    async def for_method(self, name: str, place: str = "") -> Message:
        """A new request of a method, in which `place` may be set."""
        made: Message = await _MAKERS[name](self, place)
        return made

    async def create(self) -> str:
        """A new run."""
        answer = await self._ask("CreateRun", create_request(session_id=SESSION))
        return run.CreateRunResponse.FromString(answer).run.run_id

    async def running_run(self) -> str:
        """A new run that is started."""
        run_id = await self.create()
        await self._ask("StartRun", run.StartRunRequest(run_id=run_id, lease=seconds(3000)))
        return run_id

    async def _ask(self, method: str, request: Message) -> bytes:
        answer = await self._caller.unary(
            _PATH + method, request.SerializeToString(), metadata=self._metadata
        )
        assert answer.replies, answer
        return answer.replies[0]


def _moment() -> Timestamp:
    moment = Timestamp()
    moment.FromDatetime(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    return moment


def _create(**given: Any) -> Message:
    return create_request(
        session_id=SESSION,
        run_id=new_run_id(),
        intent=3,
        trace_id=uuid.uuid4().hex,
        request_id=uuid.uuid4().hex,
        lease=seconds(60),
        **given,
    )


def _event() -> RunEventInput:
    return event(
        "TOOL_FINISHED",
        step_id=1,
        step_code="STEP",
        evidence_status="FOUND",
        error_code="CODE",
        intent=3,
        release_outcome=1,
        duration_ms=1,
        input_token_count=1,
        output_token_count=1,
        result_bytes=1,
        occur_time=_moment(),
    )


def _call() -> ToolInvocationInput:
    return ToolInvocationInput(
        **fields(
            session_id=SESSION,
            step_id=1,
            evidence_status="FOUND",
            agent_result_bytes=1,
            l0_match_count=1,
            l1_match_count=1,
            is_truncated=True,
            duration_ms=1,
            success=True,
            error_code="CODE",
        )
    )


async def _finish(requests: Requests, _: str) -> Message:
    return finish_request(
        await requests.running_run(),
        intent=3,
        answer="because",
        published_result_json="{}",
        error_code="CODE",
        total_token_count=1,
        step_count=1,
        tool_call_count=1,
        total_duration_ms=1,
    )


async def _cancel(requests: Requests, _: str) -> Message:
    return run.CancelRunRequest(run_id=await requests.create(), reason_code="CODE")


async def _search(_: Requests, __: str) -> Message:
    return audit.SearchToolInvocationsRequest(
        session_id=SESSION,
        tool_name="query_logs",
        retrieval_layer="HARNESS",
        success=True,
        start_time=_moment(),
        end_time=_moment(),
    )


async def _summarize(_: Requests, place: str) -> Message:
    if place == "session_id":
        return audit.SummarizeToolInvocationsRequest()
    return audit.SummarizeToolInvocationsRequest(run_id=new_run_id())


def _of_run(make: Callable[[str], Message]) -> Callable[[Requests, str], Awaitable[Message]]:
    async def maker(requests: Requests, _: str) -> Message:
        return make(requests.running)

    return maker


_MAKERS: dict[str, Callable[[Requests, str], Awaitable[Message]]] = {
    "CreateRun": _of_run(lambda _: _create()),
    "StartRun": _of_run(lambda id_: run.StartRunRequest(run_id=id_, lease=seconds(3000))),
    "AppendRunEvents": _of_run(
        lambda id_: run.AppendRunEventsRequest(run_id=id_, events=[event(), _event()])
    ),
    "RenewRunLease": _of_run(lambda id_: run.RenewRunLeaseRequest(run_id=id_, lease=seconds(60))),
    "FinishRun": _finish,
    "CancelRun": _cancel,
    "RecordFeedback": _of_run(
        lambda id_: run.RecordFeedbackRequest(run_id=id_, session_id=SESSION, feedback="+1")
    ),
    "GetRun": _of_run(
        lambda id_: run.GetRunRequest(run_id=id_, session_id=SESSION, view=RunView.RUN_VIEW_BASIC)
    ),
    "GetLatestRun": _of_run(
        lambda _: run.GetLatestRunRequest(session_id=SESSION, view=RunView.RUN_VIEW_BASIC)
    ),
    "ListRuns": _of_run(
        lambda _: run.ListRunsRequest(session_id=SESSION, status=RunStatus.RUN_STATUS_RUNNING, page_size=3)
    ),
    "ListRunEvents": _of_run(
        lambda id_: run.ListRunEventsRequest(run_id=id_, session_id=SESSION, page_size=3)
    ),
    "StreamRunEvents": _of_run(lambda id_: run.StreamRunEventsRequest(run_id=id_, session_id=SESSION)),
    "RecordToolInvocation": _of_run(lambda _: audit.RecordToolInvocationRequest(invocation=_call())),
    "BatchRecordToolInvocations": _of_run(
        lambda _: audit.BatchRecordToolInvocationsRequest(invocations=[_call(), _call()])
    ),
    "ListByRun": _of_run(lambda id_: audit.ListByRunRequest(run_id=id_, session_id=SESSION, page_size=3)),
    "SearchToolInvocations": _search,
    "SummarizeToolInvocations": _summarize,
}
