"""Canonical invocations make no trouble: not for a cancelled agent, not without Redis, not to newcomers."""

import asyncio
import importlib
import sys
import uuid

import grpc
import pytest
from redis.asyncio import Redis

from superbizagent_client import CanonicalInvocations, CanonicalOptions
from superbizagent_client.canonical import Bodies, CanonicalInvocation
from superbizagent_client.outcome import Findings
from tests.client.fakes import FakeAuditService, FakeRunService
from tests.client.harness import Harness, make_harness, raising, returning
from tests.client.kept import all_keys, closing, stored
from tests.support.redis_server import RedisServer
from tests.support.waiting import until


async def test_a_task_cancelled_while_its_call_is_kept_stays_cancelled_and_the_call_is_audited(
    redis_server: RedisServer, redis: Redis, kept: Harness, audits: FakeAuditService
) -> None:
    await redis.ping()
    redis_server.pause()
    call = asyncio.create_task(kept.boundary.call("query_logs", "q", returning(1), framework_id="call_0"))
    await until(lambda: kept.boundary._canonical.counts().pending)  # type: ignore[union-attr]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    redis_server.resume()
    await kept.settle()
    (row,) = audits.rows.values()
    assert row.status == "READY"
    # The connection of the half-told write is not used again: the next call gets its own answer.
    assert await kept.boundary.call("query_logs", "next", returning(2), framework_id="call_1") == 2
    assert (await stored(redis, "call_1"))["request"] == b"next"


async def test_a_cancelled_tool_is_not_kept_and_does_not_wait(
    redis_server: RedisServer, redis: Redis, kept: Harness
) -> None:
    redis_server.pause()
    with pytest.raises(asyncio.CancelledError):
        await kept.boundary.call("query_logs", "q", raising(asyncio.CancelledError()))
    redis_server.resume()
    assert await all_keys(redis) == []


@pytest.mark.parametrize("trouble", ["gone", "hangs", "full", "another kind of value"])
async def test_a_redis_in_trouble_changes_no_result_and_costs_one_deadline_a_while(
    redis_server: RedisServer,
    redis: Redis,
    channel: grpc.aio.Channel,
    runs: FakeRunService,
    audits: FakeAuditService,
    trouble: str,
) -> None:
    options = CanonicalOptions(deadline=0.3, avoid=60)
    canonical = CanonicalInvocations.from_url(redis_server.url, options=options)
    reason = "REDIS_TIMEOUT" if trouble == "hangs" else "REDIS_FAILED"
    if trouble == "gone":
        redis_server.kill()
    elif trouble == "hangs":
        redis_server.pause()
    elif trouble == "full":
        await redis.config_set("maxmemory", "1")
    else:
        canonical._layout = type("Broken", (), {"key": lambda *_: object()})()  # a fault of our own
    loop = asyncio.get_running_loop()
    value, error = object(), KeyError("x")
    async with closing(make_harness(channel, runs, canonical=canonical)) as harness:
        started = loop.time()
        for _ in range(20):
            assert await harness.boundary.call("query_logs", "q", returning(value)) is value
            with pytest.raises(KeyError) as raised:
                await harness.boundary.call("query_logs", "q", raising(error))
            assert raised.value is error
        assert loop.time() - started < 2
        await harness.settle()
    assert canonical.counts().lost == {reason: 1, "REDIS_AVOIDED": 39}
    assert len(audits.rows) == 40
    await canonical.aclose()


async def test_a_redis_that_comes_back_is_used_again(
    redis_server: RedisServer, channel: grpc.aio.Channel, runs: FakeRunService
) -> None:
    options = CanonicalOptions(deadline=2, avoid=0.01)
    canonical = CanonicalInvocations.from_url(redis_server.url, options=options)
    async with canonical, closing(make_harness(channel, runs, canonical=canonical)) as harness:
        await harness.boundary.call("query_logs", "q", returning(1))
        redis_server.kill()
        await harness.boundary.call("query_logs", "q", returning(1))
        await redis_server.start()
        await until_stored(harness, canonical, 2)
    assert canonical.counts().lost_total >= 1


async def until_stored(harness: Harness, canonical: CanonicalInvocations, count: int) -> None:
    async with asyncio.timeout(5):
        while canonical.counts().delivered < count:
            await harness.boundary.call("query_logs", "q", returning(1))
            await asyncio.sleep(0.01)


async def test_what_is_no_run_reaches_no_key(redis: Redis) -> None:
    canonical = CanonicalInvocations(redis, options=CanonicalOptions(deadline=5))
    found = Findings("READY", success=True)
    bad = CanonicalInvocation("s", "run-*", "call_0", "query_logs", found, Bodies(uuid.uuid4().hex))
    assert not await canonical.keep(bad)
    assert await all_keys(redis) == []


def test_redis_is_needed_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "redis" or name.startswith("redis.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    importlib.import_module("superbizagent_client.evidence")
    with pytest.raises(RuntimeError, match=r"superbizagent-client\[redis\]") as raised:
        CanonicalInvocations.from_url("redis://user:hunter2@127.0.0.1:1/0")
    assert "hunter2" not in str(raised.value)


def test_limits_are_checked_once() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        CanonicalOptions(ttl=0)
    with pytest.raises(ValueError, match="braces"):
        CanonicalInvocations.from_url("redis://127.0.0.1:1/0", prefix="a{b}")
