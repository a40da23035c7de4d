"""Passes the trace of a request on: W3C's `traceparent`, which the services put into their logs as trace_id.

https://www.w3.org/TR/trace-context/#traceparent-header
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar

_FORM = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)

_current: ContextVar[str | None] = ContextVar("superbizagent_traceparent", default=None)


@contextmanager
def traced(traceparent: str | None) -> Iterator[None]:
    """Let every call that begins in this block, and in tasks that it starts, carry `traceparent`.

    Give it what a gateway was sent: a header of another form, or None, is not passed on and fails nothing.
    """
    given = traceparent if traceparent is not None and _FORM.fullmatch(traceparent) else None
    token = _current.set(given)
    try:
        yield
    finally:
        _current.reset(token)


def current_traceparent() -> str | None:
    """What calls carry now."""
    return _current.get()


def context_of_trace() -> Context:
    """A context for work in the background: of the request that starts it, it keeps the trace alone."""
    context = Context()
    context.run(_current.set, _current.get())
    return context
