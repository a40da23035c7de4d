"""Canonical invocations: what is kept of a tool call in Redis, and when."""

import asyncio

import grpc
import pytest
from redis.asyncio import Redis

from superbizagent_client import CanonicalInvocations, CanonicalOptions, ToolOutcome, current_tool_call_id
from superbizagent_client.canonical import cut
from tests.client.fakes import RUN_ID, SESSION_ID, FakeAuditService, FakeRunService
from tests.client.harness import Harness, make_harness, raising, returning
from tests.client.kept import PREFIX, all_keys, closing, stored
from tests.support.redis_server import RedisServer
from tests.support.waiting import until


async def test_a_call_is_kept_in_full_under_its_run_and_id_until_its_time_is_over(
    redis: Redis, kept: Harness
) -> None:
    outcome = ToolOutcome(
        result=[1, 2],
        response="raw: größer 🧪",
        projection="shown",
        evidence_status="EVIDENCE_FOUND",
    )
    returned = await kept.boundary.call("query_logs", "größe > 1", returning(outcome), framework_id="call_0")
    assert returned is outcome
    found = await stored(redis, "call_0")
    assert int(found.pop("kept_at_ms")) > 0
    assert {name: value.decode() for name, value in found.items()} == {
        "version": "1",
        "session_id": SESSION_ID,
        "run_id": RUN_ID,
        "tool_call_id": "call_0",
        "tool_name": "query_logs",
        "status": "READY",
        "success": "1",
        "evidence_status": "EVIDENCE_FOUND",
        "request": "größe > 1",
        "request_bytes": "11",
        "response": "raw: größer 🧪",
        "response_bytes": "18",
        "projection": "shown",
        "projection_bytes": "5",
    }
    (key,) = await all_keys(redis)
    assert key == f"{PREFIX}:{{{RUN_ID}}}:call_0"
    assert 90_000 < await redis.pttl(key) <= 100_000


@pytest.mark.parametrize(
    ("value", "response", "projection"),
    [
        ("text", b"text", b"text"),
        (b"\x00\xff", b"\x00\xff", b"\x00\xff"),
        ({"no": "text"}, None, None),
        (ToolOutcome(result="text"), b"text", None),
        (ToolOutcome(result=1, projection=""), None, b""),
        (ToolOutcome(result="text", response=b"raw"), b"raw", None),
    ],
    ids=repr,
)
async def test_what_is_text_is_kept_and_other_values_are_not_guessed_at(
    redis: Redis, kept: Harness, value: object, response: bytes | None, projection: bytes | None
) -> None:
    await kept.boundary.call("query_logs", b"q", returning(value), framework_id="call_0")
    found = await stored(redis, "call_0")
    assert (found.get("response"), found.get("projection")) == (response, projection)


async def test_a_failed_call_is_kept_as_failed_without_its_text(redis: Redis, kept: Harness) -> None:
    with pytest.raises(ValueError, match="hunter2"):
        await kept.boundary.call("query_logs", "q", raising(ValueError("hunter2")), framework_id="call_0")
    found = await stored(redis, "call_0")
    assert (found["status"], found["success"], found["error_code"]) == (b"FAILED", b"0", b"TOOL_ERROR")
    assert b"hunter2" not in b"".join(found.values())
    assert "response" not in found


async def test_a_call_tried_again_leaves_nothing_of_its_first_try(redis: Redis, kept: Harness) -> None:
    with pytest.raises(TimeoutError):
        await kept.boundary.call("query_logs", "first", raising(TimeoutError()), attempt_key=1)
    await kept.boundary.call("query_logs", "second", returning({}), attempt_key=1)
    (key,) = await all_keys(redis)
    found = await stored(redis, key.rpartition(":")[2])
    assert (found["status"], found["request"]) == (b"READY", b"second")
    assert not {"error_code", "response"} & set(found)


async def test_what_is_kept_is_settled_before_the_agent_goes_on_and_before_the_audit_hears(
    redis_server: RedisServer, redis: Redis, kept: Harness, audits: FakeAuditService
) -> None:
    await redis.ping()
    redis_server.pause()
    call = asyncio.create_task(kept.boundary.call("query_logs", "q", returning(1), framework_id="call_0"))
    await until(lambda: kept.boundary._canonical.counts().pending)  # type: ignore[union-attr]
    await kept.settle()
    assert not call.done()
    assert (audits.rows, kept.recorder.counts().pending) == ({}, 0)
    redis_server.resume()
    assert await call == 1
    assert await stored(redis, "call_0")
    await kept.settle()
    assert audits.tool_call_ids == ["call_0"]


async def test_a_body_is_cut_at_the_limit_and_its_whole_size_is_known(
    redis: Redis, channel: grpc.aio.Channel, runs: FakeRunService
) -> None:
    canonical = CanonicalInvocations(redis, options=CanonicalOptions(deadline=5, max_bytes=10))
    async with closing(make_harness(channel, runs, canonical=canonical)) as harness:
        await harness.boundary.call("query_logs", "ü" * 1000, returning("x" * 10), framework_id="call_0")
    found = await stored(redis, "call_0")
    assert (found["request"].decode(), found["request_bytes"]) == ("ü" * 5, b"2000")
    assert (found["response"], found["response_bytes"]) == (b"x" * 10, b"10")


@pytest.mark.parametrize("most", range(1, 14))
def test_no_character_is_cut_in_half(most: int) -> None:
    text = "aü€🧪bü"
    kept = cut(text, most)
    assert len(kept) <= most
    assert text.startswith(kept.decode())
    assert len(kept) > most - 4 or kept.decode() == text
    assert cut("\ud83d" * 3, 100) == "\ud83d".encode("utf-8", "surrogatepass") * 3


async def test_an_id_that_the_boundary_made_is_known_inside_the_tool(redis: Redis, kept: Harness) -> None:
    async def tool() -> str:
        return f"[{current_tool_call_id()}] nothing"

    cited = await kept.boundary.call("query_logs", "q", tool, framework_id="x" * 400)
    assert current_tool_call_id() is None
    assert (await stored(redis, cited[1:].partition("]")[0]))["projection"].decode() == cited
