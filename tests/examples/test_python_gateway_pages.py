"""examples/python-gateway: traces, feedback, and what is refused."""

import json
from typing import Any

import grpc
import pytest

from chat_gateway.problems import STATUS_BY_REASON, status_of
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent_client import ServiceError
from tests.examples.browser import Browser, Page
from tests.examples.conftest import StartGateway
from tests.support.run import create_run, new_run_id
from tests.support.run_server import RunServer

STRANGER = "sess-stranger"
FREE_TEXT = "password=hunter2"


async def asked(browser: Browser) -> Page:
    async with browser.ask() as page:
        return await page.read_all()


async def test_a_trace_is_that_of_the_exact_run(start_gateway: StartGateway) -> None:
    async with start_gateway() as browser:
        older, newer = await asked(browser), await asked(browser)
        exact = (await browser.trace(runId=older.run_id)).json()
        latest = (await browser.trace()).json()
    assert (exact["resolved"], exact["run"]["runId"]) == ("exact", older.run_id)
    assert [int(event["seq"]) for event in exact["events"]] == older.seqs
    assert [call["toolName"] for call in exact["toolCalls"]] == ["query_logs", "lookup_knowledge"]
    assert {call["runId"] for call in exact["toolCalls"]} == {older.run_id}
    assert (latest["resolved"], latest["run"]["runId"]) == ("latest", newer.run_id)


async def test_a_trace_shows_no_text(start_gateway: StartGateway) -> None:
    async with start_gateway() as browser:
        page = await asked(browser)
        trace = (await browser.trace(runId=page.run_id)).text
    for text in ("Why is the payment", "GATEWAY_TIMEOUT", "provider"):
        assert text not in trace


async def test_an_audit_that_is_away_does_not_hide_the_run(start_gateway: StartGateway) -> None:
    async with start_gateway(audit="127.0.0.1:1") as browser:
        page = await asked(browser)
        trace = (await browser.trace(runId=page.run_id)).json()
    assert trace["run"]["status"] == "RUN_STATUS_SUCCESS"
    assert trace["toolCalls"] is None


async def test_feedback_is_set_and_taken_back(start_gateway: StartGateway) -> None:
    async with start_gateway() as browser:
        page = await asked(browser)
        given = await browser.feedback(runId=page.run_id, feedback="UP")
        taken = await browser.feedback(runId=page.run_id, feedback="")
    assert given.json()["run"]["feedback"] == "UP"
    assert "feedback" not in taken.json()["run"]


async def test_a_run_of_another_session_looks_like_one_that_does_not_exist(
    start_gateway: StartGateway, run_server: RunServer
) -> None:
    async with start_gateway() as browser:
        page = await asked(browser)
        stranger = Browser(browser.http, STRANGER)
        for run_id in (page.run_id, new_run_id()):
            async with stranger.come_back(run_id, 0) as refused:
                await refused.response.aread()
            answers = [
                refused.response,
                await stranger.trace(runId=run_id),
                await stranger.feedback(runId=run_id, feedback="UP"),
            ]
            assert [answer.status_code for answer in answers] == [404, 404, 404]
            assert {answer.text for answer in answers} == {'{"reason":"RUN_NOT_FOUND"}'}


async def test_a_stream_without_a_session_is_refused(start_gateway: StartGateway) -> None:
    async with start_gateway() as browser:
        page = await asked(browser)
        answer = await browser.http.get(f"/api/chat/{page.run_id}/events")
    assert (answer.status_code, answer.json()) == (400, {"reason": "INVALID_FIELD", "field": "sessionId"})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"message": "?"}, "sessionId"),
        ({"sessionId": FREE_TEXT, "message": "?"}, "sessionId"),
        ({"sessionId": f"\ud83d{FREE_TEXT}", "message": "?"}, "sessionId"),
        ({"sessionId": "sess-1", "message": ""}, "message"),
        ({"sessionId": "sess-1", "message": {"text": FREE_TEXT}}, "message"),
        ({"sessionId": "sess-1", "message": "?", "requestId": FREE_TEXT}, "requestId"),
        ({"sessionId": "sess-1", "message": "?", "cancelOnDisconnect": FREE_TEXT}, "cancelOnDisconnect"),
        ([FREE_TEXT], "body"),
    ],
)
async def test_a_bad_question_is_refused_by_its_field_and_never_repeated(
    start_gateway: StartGateway, body: Any, field: str
) -> None:
    async with start_gateway() as browser:
        answer = await browser.http.post("/api/chat", content=json.dumps(body))
    assert (answer.status_code, answer.json()) == (400, {"reason": "INVALID_FIELD", "field": field})


async def test_bodies_that_are_no_json_or_too_large_are_refused(start_gateway: StartGateway) -> None:
    async with start_gateway() as browser:
        broken = await browser.http.post("/api/chat", content=b"{")
        large = await browser.http.post("/api/chat", content=b" " * 300_000)
    assert (broken.status_code, large.status_code) == (400, 413)


@pytest.mark.parametrize(("given", "status"), [("9999", 416), ("-1", 400), ("x", 400), ("9" * 40, 400)])
async def test_a_position_that_the_run_does_not_have_is_refused(
    start_gateway: StartGateway, given: str, status: int
) -> None:
    async with start_gateway() as browser:
        page = await asked(browser)
        answer = await browser.http.get(
            f"/api/chat/{page.run_id}/events",
            params={"sessionId": browser.session_id},
            headers={"Last-Event-ID": given},
        )
    assert answer.status_code == status


async def test_a_request_id_with_another_question_is_a_conflict(
    start_gateway: StartGateway, run_server: RunServer
) -> None:
    await create_run(run_server.stub, session_id="sess-web", request_id="question-1")
    async with start_gateway() as browser, browser.ask("Something else?", requestId="question-1") as page:
        await page.response.aread()
    assert page.response.status_code == 409
    assert page.response.json() == {"reason": "REQUEST_ID_CONFLICT", "field": "requestId"}


def test_every_reason_has_an_http_status() -> None:
    names = set(ErrorReason.DESCRIPTOR.values_by_name) - {"ERROR_REASON_UNSPECIFIED"}
    assert set(STATUS_BY_REASON) == {name.removeprefix("ERROR_REASON_") for name in names}


def test_statuses_that_grpc_itself_makes_have_one_too() -> None:
    assert status_of(ServiceError(grpc.StatusCode.UNAVAILABLE)) == 503
    assert status_of(ServiceError(grpc.StatusCode.DEADLINE_EXCEEDED)) == 504
    assert status_of(ServiceError(grpc.StatusCode.UNIMPLEMENTED)) == 502
