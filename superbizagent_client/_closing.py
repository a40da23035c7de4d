"""Work that goes on when the task that asked for it was cancelled."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from superbizagent_client.tracing import context_of_trace

_running: set[asyncio.Task[None]] = set()
"""The event loop holds tasks weakly; these are nobody else's."""


def in_background(work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """Start the work, which bounds itself in time, in a task of its own. RuntimeError without a loop."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work(), context=context_of_trace())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task
