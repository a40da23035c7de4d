"""Whether what an answer claims is backed by what the tools of this very run came back with."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from superbizagent_client._canonical_layout import (
    DEFAULT_PREFIX,
    JUDGED_FIELDS,
    VERSION,
    Layout,
    check_run_id,
)
from superbizagent_client.outcome import READY
from superbizagent_contract import kinds

if TYPE_CHECKING:
    from redis.asyncio import Redis

ClaimT = TypeVar("ClaimT")

EVIDENCE_FOUND: Final = "EVIDENCE_FOUND"
MAX_CALLS: Final = 10_000
"""Tool calls that one check may name; no run has nearly as many."""

_CALLS_A_READ = 500


class Backing(StrEnum):
    """What a tool_call_id is worth as evidence."""

    BACKED = "BACKED"
    """The call is in this run, ready, successful, and found evidence."""
    MISSING = "MISSING"
    """No such call is kept for this run: it is another run's, made up, was not kept, or is too old."""
    NOT_READY = "NOT_READY"
    """The call failed, or is not in the status READY."""
    NO_EVIDENCE = "NO_EVIDENCE"
    """The call came back and found nothing."""


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """What the calls of one claim are worth. An id that no call can have is MISSING like an unknown one."""

    calls: Mapping[str, Backing]

    @property
    def backed(self) -> bool:
        """True if the claim names calls and each of them is evidence."""
        return bool(self.calls) and all(backing is Backing.BACKED for backing in self.calls.values())


class EvidenceUnavailableError(Exception):
    """The canonical invocations cannot be read, so nothing is known about a claim: publish none."""

    def __init__(self) -> None:
        super().__init__("the canonical invocations cannot be read")


class EvidenceGuard:
    """Checks claims against the canonical invocations of one run, and reads nothing else.

    The audit is no evidence: it is allowed to lose rows, and has no bodies. The guard is not fail-open: if
    Redis does not answer within `deadline` seconds, EvidenceUnavailableError is raised.
    """

    def __init__(
        self,
        redis: "Redis",
        *,
        prefix: str = DEFAULT_PREFIX,
        evidence: Collection[str] = frozenset({EVIDENCE_FOUND}),
        deadline: float = 1.0,
    ) -> None:
        self._redis = redis
        self._layout = Layout(prefix)
        self._evidence = frozenset(evidence)
        self._deadline = deadline

    async def check(self, run_id: str, claims: Mapping[ClaimT, Iterable[str]]) -> dict[ClaimT, ClaimCheck]:
        """For each claim, by whatever it is called, what the tool_call_ids that it names are worth."""
        check_run_id(run_id)
        named = {claim: tuple(ids) for claim, ids in claims.items()}
        asked = {one for ids in named.values() for one in ids}
        if len(asked) > MAX_CALLS:
            raise ValueError(f"claims: must not name more than {MAX_CALLS} tool calls")
        known = await self._read(run_id, sorted(one for one in asked if kinds.IDENTIFIER.admits(one)))
        return {
            claim: ClaimCheck({one: known.get(one, Backing.MISSING) for one in ids})
            for claim, ids in named.items()
        }

    async def _read(self, run_id: str, ids: list[str]) -> dict[str, Backing]:
        rows: list[list[object]] = []
        failed = False
        try:
            async with asyncio.timeout(self._deadline):
                for start in range(0, len(ids), _CALLS_A_READ):
                    pipeline: Any = self._redis.pipeline(transaction=False)
                    for one in ids[start : start + _CALLS_A_READ]:
                        pipeline.hmget(self._layout.key(run_id, one), list(JUDGED_FIELDS))
                    rows += await pipeline.execute()
        except Exception:  # noqa: BLE001  # whatever it was, its text stays here
            failed = True
        if failed:
            raise EvidenceUnavailableError
        return {one: self._judge(run_id, one, row) for one, row in zip(ids, rows, strict=True)}

    def _judge(self, run_id: str, tool_call_id: str, row: list[object]) -> Backing:
        found = {name: _text(value) for name, value in zip(JUDGED_FIELDS, row, strict=True)}
        # What lies under the key must say itself that it is this call.
        if (found["version"], found["run_id"], found["tool_call_id"]) != (VERSION, run_id, tool_call_id):
            return Backing.MISSING
        if found["status"] != READY or found["success"] != "1":
            return Backing.NOT_READY
        return Backing.BACKED if found["evidence_status"] in self._evidence else Backing.NO_EVIDENCE


def _text(value: object) -> str:
    """Redis answers bytes or, with decode_responses, text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
