"""Where canonical invocations live in Redis, and what each field of one is called.

One hash for each call, under `{prefix}:{<run_id>}:<tool_call_id>`. The braces are part of the key: they put
all calls of a run on one node of a Redis cluster. docs/clients.md has the table of the fields.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from superbizagent_contract import kinds

if TYPE_CHECKING:
    from redis.asyncio import Redis

DEFAULT_PREFIX: Final = "superbizagent:canonical"
VERSION: Final = "1"

BODIES: Final = ("request", "response", "projection")
"""Each is kept up to the limit, beside its whole size in `<name>_bytes`."""

JUDGED_FIELDS: Final = ("version", "run_id", "tool_call_id", "status", "success", "evidence_status")
"""What EvidenceGuard reads of a call; no body is among them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Keys under one prefix."""

    prefix: str = DEFAULT_PREFIX

    def __post_init__(self) -> None:
        if not self.prefix or "{" in self.prefix or "}" in self.prefix:
            raise ValueError("prefix: must be a text without braces")

    def key(self, run_id: str, tool_call_id: str) -> str:
        """The key of one call. Both ids must have been checked: they are parts of it."""
        return f"{self.prefix}:{{{run_id}}}:{tool_call_id}"


def check_run_id(run_id: str) -> None:
    """Refuse what is no run id, before it becomes a part of a key."""
    if not kinds.RUN_ID.admits(run_id):
        raise ValueError(f"run_id: {kinds.RUN_ID.rule}")


def connect(url: str, deadline: float) -> "Redis":
    """A client for `url` that gives up on a connection after `deadline`; the package is only needed here."""
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise RuntimeError("Redis needs its package: pip install 'superbizagent-client[redis]'") from None
    # One repetition: a connection that died while it was idle is found out by using it.
    retry = Retry(NoBackoff(), 1)
    return Redis.from_url(url, socket_timeout=deadline, socket_connect_timeout=deadline, retry=retry)
