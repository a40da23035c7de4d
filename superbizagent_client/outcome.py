"""What a tool call came to, measured and filtered so that every value fits the grammar of the contract."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent_contract import kinds, limits
from superbizagent_contract.kinds import Kind

ResultT = TypeVar("ResultT")

READY: Final = "READY"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"
UNKNOWN: Final = "UNKNOWN"

TOOL_ERROR: Final = "TOOL_ERROR"
TOOL_CANCELLED: Final = "TOOL_CANCELLED"

ErrorClassifier = Callable[[BaseException], str | None]
"""Gives an exception its stable code, such as "QUERY_TIMEOUT"; None: the default. It must not use texts."""

_FIRST_SECOND: Final = int(datetime(limits.FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp())
_END_SECOND: Final = int(datetime(limits.LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome(Generic[ResultT]):
    """A tool's result with what the audit should know about it. A tool may as well return a plain value.

    `projection` is what the agent is shown; the services get only its size. Give `agent_result_bytes` instead
    if the size alone is at hand. `response` is what came back before it was projected; it goes to the
    canonical invocations, if they are kept, and nowhere else. A status outside of the grammar is recorded as
    UNKNOWN, another such code is left out, and a number beyond 2^31-1 stops there: a wrong value here never
    disturbs the tool.
    """

    result: ResultT
    projection: str | bytes | None = None
    response: str | bytes | None = None
    agent_result_bytes: int | None = None
    status: str = READY
    evidence_status: str | None = None
    success: bool = True
    error_code: str | None = None
    l0_match_count: int | None = None
    l1_match_count: int | None = None
    is_truncated: bool | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What is recorded of a finished call."""

    status: str
    success: bool
    error_code: str | None = None
    evidence_status: str | None = None
    agent_result_bytes: int | None = None
    l0_match_count: int | None = None
    l1_match_count: int | None = None
    is_truncated: bool | None = None


def findings_of(result: object) -> Findings:
    """What a returned value says: a ToolOutcome all it has, text or bytes their size, others nothing."""
    if isinstance(result, ToolOutcome):
        return _findings_of_outcome(result)
    size = utf8_bytes(result) if isinstance(result, str | bytes) else None
    return Findings(READY, success=True, agent_result_bytes=size)


def _findings_of_outcome(outcome: ToolOutcome[Any]) -> Findings:
    size = outcome.agent_result_bytes
    if isinstance(outcome.projection, str | bytes):
        size = utf8_bytes(outcome.projection)
    success = outcome.success is True
    return Findings(
        status=admitted(kinds.STATUS, outcome.status) or UNKNOWN,
        success=success,
        error_code=admitted(kinds.CODE, outcome.error_code) or (None if success else TOOL_ERROR),
        evidence_status=admitted(kinds.EVIDENCE_STATUS, outcome.evidence_status),
        agent_result_bytes=count(size),
        l0_match_count=count(outcome.l0_match_count),
        l1_match_count=count(outcome.l1_match_count),
        is_truncated=outcome.is_truncated if isinstance(outcome.is_truncated, bool) else None,
    )


def classified(classify: ErrorClassifier | None, error: BaseException) -> str | None:
    """The code that the caller's classifier gives the error, if it has one that fits the grammar."""
    if classify is None:
        return None
    try:
        return admitted(kinds.CODE, classify(error))
    except Exception:  # noqa: BLE001  # the caller's classifier: without an answer the default code stands
        return None


def utf8_bytes(text: str | bytes) -> int:
    """The size in UTF-8 bytes. A lone surrogate counts three, as does the U+FFFD that would replace it."""
    if isinstance(text, bytes) or text.isascii():  # known without a copy, also for many megabytes
        size = len(text)
    else:
        size = len(text.encode("utf-8", "surrogatepass"))
    return min(size, limits.MAX_INT32)


def admitted(kind: Kind, value: object) -> str | None:
    """The value if the kind admits it."""
    return value if isinstance(value, str) and kind.admits(value) else None


def count(value: object) -> int | None:
    """A count, a size or a duration as the contract takes it; None if it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return min(value, limits.MAX_INT32)


def row_id(value: object) -> int | None:
    """The id of a step as the contract takes it; None if it is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value <= limits.MAX_INT64 else None


def now() -> Timestamp | None:
    """The time by this machine's clock; None if that clock is so wrong that the contract would refuse it."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    if not _FIRST_SECOND <= seconds < _END_SECOND:
        return None
    return Timestamp(seconds=seconds, nanos=rest)
