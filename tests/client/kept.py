"""What lies in Redis of canonical invocations."""

import contextlib
from collections.abc import AsyncIterator

from redis.asyncio import Redis

from tests.client.fakes import RUN_ID
from tests.client.harness import Harness

PREFIX = "superbizagent:canonical"


@contextlib.asynccontextmanager
async def closing(harness: Harness) -> AsyncIterator[Harness]:
    """Close its senders in the end."""
    yield harness
    await harness.events.aclose()
    await harness.recorder.aclose()


async def stored(redis: Redis, tool_call_id: str, run_id: str = RUN_ID) -> dict[str, bytes]:
    """The fields of one call."""
    found = await redis.hgetall(f"{PREFIX}:{{{run_id}}}:{tool_call_id}")
    return {as_text(name): value for name, value in found.items() if isinstance(value, bytes)}


async def all_keys(redis: Redis) -> list[str]:
    """Every key there is."""
    return [as_text(key) for key in await redis.keys("*")]


def as_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
