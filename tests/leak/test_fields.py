"""Whatever a caller puts into a field: refused, it is nowhere; a text, it is where texts are."""

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunView
from tests.leak.caller import all_of
from tests.leak.conversation import Conversation
from tests.leak.fields_walk import Walk
from tests.leak.ledger import FULL
from tests.leak.requests import Requests
from tests.leak.walk import METHODS, path_of, places


async def test_every_request_of_these_tests_passes_without_a_canary(talk: Conversation) -> None:
    """Otherwise a canary might be refused for something else."""
    requests = Requests(talk.runs, talk.stack.metadata)
    await requests.begin()
    for method in METHODS:
        for place in {place.path[0] if place.path else "" for place in places(method)}:
            request = await requests.for_method(method.name, place)
            if method.name == "SummarizeToolInvocations" and place == "session_id":
                request.session_id = "s"  # type: ignore[attr-defined]
            caller = talk.runs if "run.v1" in method.full_name else talk.audits
            send = caller.stream if method.name.startswith("Stream") else caller.unary
            answer = await send(path_of(method), request.SerializeToString(), metadata=talk.stack.metadata)
            assert answer.replies, (method.name, place, answer)


async def test_no_field_of_any_request_lets_a_body_through(talk: Conversation) -> None:
    walk = Walk(talk.stack, talk.runs, talk.audits, Requests(talk.runs, talk.stack.metadata))
    calls = await walk.all_fields()
    assert calls > 2000
    assert walk.wrong == []
    await all_of([_read(talk, run_id) for run_id in walk.kept])
    assert await talk.leaks() == []


async def _read(talk: Conversation, run_id: str) -> None:
    """Read a run in every way there is."""
    service = path_of(METHODS[0]).rpartition("/")[0]

    async def ask(name: str, request: bytes, sink: str = "reply") -> None:
        send = talk.runs.stream if name.startswith("Stream") else talk.runs.unary
        await send(f"{service}/{name}", request, sink, metadata=talk.stack.metadata)

    await ask("GetRun", pb.GetRunRequest(run_id=run_id).SerializeToString())
    full = pb.GetRunRequest(run_id=run_id, view=RunView.RUN_VIEW_FULL)
    await ask("GetRun", full.SerializeToString(), FULL)
    await ask("ListRunEvents", pb.ListRunEventsRequest(run_id=run_id).SerializeToString())
    await ask("StreamRunEvents", pb.StreamRunEventsRequest(run_id=run_id).SerializeToString(), "stream")
