"""EvidenceGuard: what backs a claim, and what does not."""

import logging
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from superbizagent_client import (
    Backing,
    CanonicalInvocations,
    CanonicalOptions,
    EvidenceGuard,
    EvidenceUnavailableError,
)
from superbizagent_client.canonical import Bodies, CanonicalInvocation
from superbizagent_client.outcome import Findings
from tests.client.fakes import RUN_ID, SESSION_ID
from tests.support.redis_server import RedisServer

OTHER_RUN = RUN_ID.replace("1", "2")


@pytest.fixture(params=[False, True], ids=["bytes", "decoded"])
async def redis(redis_server: RedisServer, request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_server.url, decode_responses=request.param) as client:
        yield client


async def keep(
    redis: Redis,
    tool_call_id: str,
    *,
    run_id: str = RUN_ID,
    status: str = "READY",
    success: bool = True,
    evidence: str | None = "EVIDENCE_FOUND",
) -> None:
    canonical = CanonicalInvocations(redis, options=CanonicalOptions(deadline=5))
    found = Findings(status, success=success, evidence_status=evidence)
    bodies = Bodies("hunter2", "hunter2", "hunter2")
    assert await canonical.keep(
        CanonicalInvocation(SESSION_ID, run_id, tool_call_id, "query_logs", found, bodies)
    )


async def test_a_claim_is_backed_if_each_call_that_it_names_is_evidence_of_this_run(redis: Redis) -> None:
    await keep(redis, "found")
    await keep(redis, "also-found")
    await keep(redis, "foreign", run_id=OTHER_RUN)
    await keep(redis, "failed", status="FAILED", success=False)
    await keep(redis, "ready-but-failed", success=False)
    await keep(redis, "odd", status="UNKNOWN")
    await keep(redis, "nothing", evidence="NO_EVIDENCE")
    await keep(redis, "silent", evidence=None)
    claims = {
        "backed": ["found", "also-found", "found"],
        "foreign": ["found", "foreign"],
        "made up": ["call_77"],
        "failed": ["failed"],
        "ready but failed": ["ready-but-failed"],
        "odd": ["odd"],
        "nothing": ["nothing"],
        "silent": ["silent"],
        "no calls": [],
        "no id": ["", "*", "found:x}", "ü", "x" * 400],
    }
    checked = await EvidenceGuard(redis, deadline=5).check(RUN_ID, claims)
    assert [name for name, claim in checked.items() if claim.backed] == ["backed"]
    assert {name: set(claim.calls.values()) for name, claim in checked.items()} == {
        "backed": {Backing.BACKED},
        "foreign": {Backing.BACKED, Backing.MISSING},
        "made up": {Backing.MISSING},
        "failed": {Backing.NOT_READY},
        "ready but failed": {Backing.NOT_READY},
        "odd": {Backing.NOT_READY},
        "nothing": {Backing.NO_EVIDENCE},
        "silent": {Backing.NO_EVIDENCE},
        "no calls": set(),
        "no id": {Backing.MISSING},
    }
    assert list(checked) == list(claims)


async def test_what_counts_as_evidence_is_the_callers_to_say(redis: Redis) -> None:
    await keep(redis, "partly", evidence="EVIDENCE_PARTIAL")
    guard = EvidenceGuard(redis, evidence={"EVIDENCE_FOUND", "EVIDENCE_PARTIAL"}, deadline=5)
    assert (await guard.check(RUN_ID, {1: ["partly"]}))[1].backed
    assert not (await EvidenceGuard(redis, deadline=5).check(RUN_ID, {1: ["partly"]}))[1].backed


async def test_what_lies_under_a_key_must_say_itself_that_it_is_this_call(
    redis: Redis,
) -> None:
    await keep(redis, "real")
    prefix = f"superbizagent:canonical:{{{RUN_ID}}}"
    await redis.copy(f"{prefix}:real", f"{prefix}:copied")
    await redis.hset(f"{prefix}:forged", mapping={"status": "READY", "success": "1"})
    checked = await EvidenceGuard(redis, deadline=5).check(
        RUN_ID, {1: ["copied"], 2: ["forged"], 3: ["real"]}
    )
    assert [claim.backed for claim in checked.values()] == [False, False, True]


async def test_only_metadata_of_this_runs_calls_is_read(redis_server: RedisServer, redis: Redis) -> None:
    await keep(redis, "found")
    await keep(redis, "found", run_id=OTHER_RUN)
    async with redis.monitor() as monitor:
        async with Redis.from_url(redis_server.url) as asking:
            await EvidenceGuard(asking, deadline=5).check(RUN_ID, {1: ["found", "unknown"]})
            await asking.echo("the end")
        commands: list[str] = []
        async for told in monitor.listen():
            if "the end" in told["command"]:
                break
            commands.append(told["command"])
    read = [command for command in commands if not command.upper().startswith(("CLIENT", "HELLO"))]
    assert len(read) == 2
    assert all(RUN_ID in command and command.upper().startswith("HMGET") for command in read)
    assert not any(
        word in command.split() for command in read for word in ("request", "response", "projection")
    )


async def test_many_calls_are_read_in_parts(redis: Redis) -> None:
    for number in range(20):
        await keep(redis, f"call_{number}")
    claims = {number: [f"call_{number}"] for number in range(1200)}
    checked = await EvidenceGuard(redis, deadline=20).check(RUN_ID, claims)
    assert [number for number, claim in checked.items() if claim.backed] == list(range(20))
    with pytest.raises(ValueError, match="must not name more than"):
        await EvidenceGuard(redis).check(RUN_ID, {1: [str(number) for number in range(10_001)]})


@pytest.mark.parametrize("trouble", ["gone", "hangs", "another kind of value"])
async def test_without_redis_nothing_is_backed_and_nothing_is_said_of_what_was_kept(
    redis_server: RedisServer, redis: Redis, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    await keep(redis, "found")
    if trouble == "gone":
        redis_server.kill()
    elif trouble == "hangs":
        redis_server.pause()
    else:
        await redis.set(f"superbizagent:canonical:{{{RUN_ID}}}:odd", "hunter2")
    with caplog.at_level(logging.DEBUG), pytest.raises(EvidenceUnavailableError) as raised:
        await EvidenceGuard(redis, deadline=0.3).check(RUN_ID, {1: ["found", "odd"]})
    assert raised.value.__context__ is None
    assert "hunter2" not in caplog.text + str(raised.value)


async def test_a_run_is_named_exactly(redis: Redis) -> None:
    with pytest.raises(ValueError, match="run_id: must be"):
        await EvidenceGuard(redis).check("run-*", {})
