"""The trace that a call belongs to: what W3C's `traceparent` header says, as far as it is well formed.

Of the header only the trace id is kept, 32 hex digits that the caller chose; it stands in the log lines of
the call and nowhere else. A header of another form is passed over: tracing must never fail a call.
"""

import re
from collections.abc import Iterable
from contextvars import ContextVar

TRACEPARENT = "traceparent"

# Version 00, and later ones, which may add parts: https://www.w3.org/TR/trace-context/#versioning-of-traceparent
_FORM = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{0,200})?", re.ASCII
)

current_trace_id: ContextVar[str | None] = ContextVar("current_trace_id", default=None)
"""The trace id of the call that this task works for; None outside of calls and of traces."""


def trace_id_of(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """The trace id that a call's metadata names; None without one, with two, or with an ill-formed one."""
    found: str | None = None
    for key, value in metadata:
        if key == TRACEPARENT:
            if found is not None:
                return None
            match = _FORM.fullmatch(value) if isinstance(value, str) else None
            if match is None or (value[:2] == "00" and len(value) != 55):
                return None
            found = match[1]
    return found
