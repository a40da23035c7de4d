"""Canonical invocations: what a tool was asked and what it answered, in full, in Redis and nowhere else.

The boundary writes one before it reports the call, so that evidence can be checked against what really came
back. It is fail-open: Redis may be slow, full or gone, the tool's result is the same, and what could not be
kept is counted. No body and no text of an error leaves this module: redis-py writes arguments into errors.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from superbizagent_client._canonical_layout import (
    BODIES,
    DEFAULT_PREFIX,
    VERSION,
    Layout,
    check_run_id,
    connect,
)
from superbizagent_client.delivery import DeliveryCounts, Losses
from superbizagent_client.outcome import Findings, ToolOutcome, utf8_bytes

if TYPE_CHECKING:
    from redis.asyncio import Redis

REDIS_TIMEOUT: Final = "REDIS_TIMEOUT"
REDIS_FAILED: Final = "REDIS_FAILED"
REDIS_AVOIDED: Final = "REDIS_AVOIDED"

_logger = logging.getLogger("superbizagent_client.canonical")


@dataclass(frozen=True, slots=True)
class CanonicalOptions:
    """Limits of canonical invocations; times in seconds.

    One lives for `ttl`, which must outlast its run and the check of its evidence. A body is cut at
    `max_bytes`. A write may take `deadline`; after one that failed no other is tried for `avoid`, so that a
    dead Redis does not cost every tool call its deadline. Losses are warned of at most once in `warning`.
    """

    ttl: float = 24 * 60 * 60.0
    max_bytes: int = 1024 * 1024
    deadline: float = 0.25
    avoid: float = 1.0
    warning: float = 60.0

    def __post_init__(self) -> None:
        if min(self.ttl, self.deadline) < 0.001 or self.max_bytes < 1:
            raise ValueError("ttl, max_bytes and deadline: must be greater than 0")


@dataclass(frozen=True, slots=True)
class Bodies:
    """What a tool was asked and what it answered. A body that is None is not kept; an empty one is."""

    request: str | bytes
    response: str | bytes | None = None
    projection: str | bytes | None = None

    def __repr__(self) -> str:
        return "Bodies(…)"


def bodies_of(request: str | bytes, result: object) -> Bodies:
    """What is kept of a call that returned `result`: text and bytes as they are, other values not at all."""
    if not isinstance(result, ToolOutcome):
        return Bodies(request, _body(result), _body(result))
    response = _body(result.response)
    return Bodies(request, _body(result.result) if response is None else response, _body(result.projection))


def _body(value: object) -> str | bytes | None:
    return value if isinstance(value, str | bytes) else None


@dataclass(frozen=True, slots=True)
class CanonicalInvocation:
    """One call of a tool, with its bodies."""

    session_id: str
    run_id: str
    tool_call_id: str
    tool_name: str
    findings: Findings
    bodies: Bodies


class CanonicalInvocations:
    """Keeps canonical invocations in Redis. One of these serves any number of runs.

    `redis` is a `redis.asyncio.Redis`, which stays its owner's; `from_url` makes one.
    """

    def __init__(
        self, redis: "Redis", *, prefix: str = DEFAULT_PREFIX, options: CanonicalOptions | None = None
    ) -> None:
        self._redis = redis
        self._layout = Layout(prefix)
        self._options = options or CanonicalOptions()
        self._losses: Losses[object] = Losses(_logger, "Canonical invocations", self._options.warning)
        self._stored = 0
        self._under_way = 0
        self._avoid_until = float("-inf")
        self._ours = False

    @classmethod
    def from_url(
        cls, url: str, *, prefix: str = DEFAULT_PREFIX, options: CanonicalOptions | None = None
    ) -> Self:
        """Connect to `redis://…` on demand. Needs the extra `superbizagent-client[redis]`."""
        options = options or CanonicalOptions()
        made = cls(connect(url, options.deadline), prefix=prefix, options=options)
        made._ours = True
        return made

    def counts(self) -> DeliveryCounts:
        """How many were stored, are on their way, and were lost (REDIS_TIMEOUT, REDIS_FAILED, …)."""
        return DeliveryCounts(self._stored, self._under_way, self._losses.by_reason())

    async def keep(self, invocation: CanonicalInvocation) -> bool:
        """Write one, within the deadline; False if it could not be kept. Only a cancellation is raised."""
        if time.monotonic() < self._avoid_until:
            self._losses.add(REDIS_AVOIDED)
            return False
        self._under_way += 1
        try:
            failed = await self._write(invocation)
        finally:
            self._under_way -= 1
        if failed:
            self._avoid_until = time.monotonic() + self._options.avoid
            self._losses.add(failed)
        else:
            self._stored += 1
        return not failed

    def lose(self, reason: str) -> None:
        """Count one that its caller could not even build; `reason` is a code."""
        self._losses.add(reason)

    async def aclose(self) -> None:
        """Close the connections of a client that `from_url` made."""
        if self._ours:
            await self._redis.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _write(self, invocation: CanonicalInvocation) -> str:
        """ "" if it was written, else why not, as a code."""
        try:
            check_run_id(invocation.run_id)
            key = self._layout.key(invocation.run_id, invocation.tool_call_id)
            content = self._content(invocation)
            async with asyncio.timeout(self._options.deadline):
                # One transaction: never a call without its end, and nothing of an earlier try stays behind.
                pipeline: Any = self._redis.pipeline(transaction=True)
                pipeline.delete(key)
                pipeline.hset(key, mapping=content)
                pipeline.pexpire(key, max(1, round(self._options.ttl * 1000)))
                await pipeline.execute()
        except TimeoutError:
            return REDIS_TIMEOUT
        except Exception:  # noqa: BLE001  # fail-open, and the error of redis-py may hold what was to be written
            return REDIS_FAILED
        return ""

    def _content(self, invocation: CanonicalInvocation) -> dict[str, str | bytes | int]:
        found, bodies = invocation.findings, invocation.bodies
        known: dict[str, str | bytes | int | None] = {
            "version": VERSION,
            "session_id": invocation.session_id,
            "run_id": invocation.run_id,
            "tool_call_id": invocation.tool_call_id,
            "tool_name": invocation.tool_name,
            "status": found.status,
            "success": int(found.success),
            "evidence_status": found.evidence_status,
            "error_code": found.error_code,
            "kept_at_ms": time.time_ns() // 1_000_000,
        }
        for name in BODIES:
            body: str | bytes | None = getattr(bodies, name)
            if body is not None:
                known[name] = cut(body, self._options.max_bytes)
                known[f"{name}_bytes"] = utf8_bytes(body)
        return {name: value for name, value in known.items() if value is not None}


def cut(body: str | bytes, most: int) -> bytes:
    """The body in UTF-8, at most `most` bytes of it and no half character."""
    if isinstance(body, bytes):
        return body[:most]
    # Before it is encoded: of many megabytes only the part that is kept is copied.
    encoded = body[:most].encode("utf-8", "surrogatepass")
    if len(encoded) <= most:
        return encoded
    end = most
    while encoded[end] & 0xC0 == 0x80:
        end -= 1
    return encoded[:end]
