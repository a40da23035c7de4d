"""Which id a tool call has in its run.

Frameworks do not promise ids that are unique in a run: some number calls per turn, some send none, some send
hundreds of characters or put a signature in it. Without this rule such calls would be lost from the audit.
"""

import contextlib
import hashlib
import threading
import uuid
from collections.abc import Hashable, Iterator
from contextvars import ContextVar

from superbizagent_contract import kinds

_running: ContextVar[str | None] = ContextVar("superbizagent_tool_call_id", default=None)


def current_tool_call_id() -> str | None:
    """Inside a tool: the id that its call has in the run, to be cited by the answer. None elsewhere."""
    return _running.get()


@contextlib.contextmanager
def running_tool_call(tool_call_id: str | None) -> Iterator[None]:
    """While a tool runs."""
    before = _running.get()
    _running.set(tool_call_id)
    try:
        yield
    finally:
        _running.set(before)  # not reset(): the tool may have been closed in another context


def fresh_tool_call_id() -> str:
    """An id that no other call has."""
    return f"tc-{uuid.uuid4()}"


class ToolCallIds:
    """The ids of one run's tool calls; give each run its own.

    A framework's id is passed on when it fits the grammar, does not look like a credential and is new in the
    run. Otherwise the id is `tc-`, 32 hex digits of SHA-256(framework id), `-` and the call's ordinal in the
    run; a call without an id (None or empty) gets `tc-` and a UUID.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_attempt: dict[Hashable, str] = {}
        self._used: set[str] = set()
        self._calls = 0

    def assign(self, framework_id: str | None, attempt_key: Hashable | None = None) -> str:
        """The id of a call; tried again with the same `attempt_key` it keeps the one it got first."""
        with self._lock:
            known = None if attempt_key is None else self._by_attempt.get(attempt_key)
            if known is not None:
                return known
            self._calls += 1
            assigned = self._choose(framework_id)
            self._used.add(assigned)
            if attempt_key is not None:
                self._by_attempt[attempt_key] = assigned
            return assigned

    def _choose(self, framework_id: str | None) -> str:
        if not framework_id:
            return fresh_tool_call_id()
        if kinds.IDENTIFIER.admits(framework_id) and framework_id not in self._used:
            return framework_id
        # surrogatepass: an id with half an emoji is odd, not an error.
        digest = hashlib.sha256(framework_id.encode("utf-8", "surrogatepass")).hexdigest()
        derived = f"tc-{digest[:32]}-{self._calls}"
        # Taken only if a framework sent this very text as an id before.
        return derived if derived not in self._used else fresh_tool_call_id()
