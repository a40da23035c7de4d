"""What tools are asked and what they answer is in Redis, and nowhere else: looked for with canaries."""

import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import astuple, dataclass, field
from pathlib import Path

import grpc
import pytest
from redis.asyncio import Redis

from superbizagent_client import (
    AuditRecorder,
    CanonicalInvocations,
    CanonicalOptions,
    EvidenceGuard,
    RunClient,
    ToolOutcome,
    open_channel,
)
from tests.client.kept import all_keys
from tests.support.audit import AuditServer, audit_in_process
from tests.support.redis_server import RedisServer
from tests.support.run_server import RunServer


@pytest.fixture
async def audit_server(tmp_path: Path) -> AsyncIterator[AuditServer]:
    async with audit_in_process(tmp_path / "audit.db") as server:
        yield server


def canary() -> str:
    """A text that nobody else says."""
    return f"password={secrets.token_hex(12)}"


@dataclass(frozen=True)
class Canaries:
    """What a tool is asked and answers, and the text of its failure."""

    request: str = field(default_factory=canary)
    response: str = field(default_factory=canary)
    projection: str = field(default_factory=canary)
    failure: str = field(default_factory=canary)

    async def tool(self) -> ToolOutcome[str]:
        return ToolOutcome(result=self.projection, response=self.response, projection=self.projection)

    async def failing(self) -> str:
        raise ValueError(self.failure)

    def found_in(self, places: list[str]) -> list[str]:
        secret = [text.partition("=")[2] for text in astuple(self)]
        return [place for place in places if any(text in place for text in secret)]


async def make(trouble: str, redis_server: RedisServer, redis: Redis) -> None:
    if trouble == "gone":
        redis_server.kill()
    elif trouble == "hangs":
        redis_server.pause()
    elif trouble == "full":
        await redis.config_set("maxmemory", "1")


async def everything_in(redis: Redis) -> str:
    found: list[object] = [await redis.hgetall(key) for key in await all_keys(redis)]
    return str(found)


def files_of(*databases: Path) -> list[str]:
    """With their journals."""
    files = [file for path in databases for file in path.parent.glob(f"{path.name}*")]
    assert len(files) >= len(databases)
    return [file.read_bytes().decode("latin-1") for file in files]


async def a_run_with_two_calls(
    channel: grpc.aio.Channel,
    recorder: AuditRecorder,
    canonical: CanonicalInvocations,
    canaries: Canaries,
) -> list[str]:
    """What there is to read of it afterwards; its exact id first."""
    client = RunClient(channel)
    async with client.run("sess-1", "why?") as run:
        boundary = run.boundary(recorder, canonical=canonical)
        await boundary.call("query_logs", canaries.request, canaries.tool, framework_id="call_0")
        with pytest.raises(ValueError, match=canaries.failure):
            await boundary.call("query_logs", canaries.request, canaries.failing, framework_id="call_1")
        await run.finish(published_result={"calls": 2})
    events = [event async for event in client.list_run_events(run.run_id)]
    assert await recorder.flush()
    return [run.run_id, str(events), repr(run), repr(boundary), repr(recorder.lost_items())]


@pytest.mark.parametrize("trouble", ["none", "gone", "hangs", "full"])
async def test_bodies_are_in_redis_and_nowhere_else(
    run_server: RunServer,
    audit_server: AuditServer,
    redis_server: RedisServer,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    trouble: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    canaries = Canaries()
    options = CanonicalOptions(deadline=5 if trouble == "none" else 0.3)
    async with (
        open_channel(run_server.address) as channel,
        open_channel(audit_server.address) as audit_channel,
        AuditRecorder(audit_channel) as recorder,
        CanonicalInvocations.from_url(redis_server.url, options=options) as canonical,
    ):
        await make(trouble, redis_server, redis)
        places = await a_run_with_two_calls(channel, recorder, canonical, canaries)
    assert len(audit_server.sql("SELECT id FROM tool_invocation")) == 2
    assert canonical.counts().lost_total == (0 if trouble == "none" else 2)
    if trouble == "none":
        kept = await everything_in(redis)
        assert all(text in kept for text in (canaries.request, canaries.response, canaries.projection))
        assert canaries.failure not in kept
        guard = EvidenceGuard(redis, deadline=5)
        places.append(str(await guard.check(places[0], {"claim": ["call_0", "call_1"]})))
    places += [caplog.text, *capfd.readouterr(), *files_of(run_server.path, audit_server.path)]
    assert canaries.found_in(places) == []
