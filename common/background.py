"""Tasks that serve many calls and belong to none of them."""

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def start_task(work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
    """Start `work` in a context of its own.

    A task takes over the context of whoever starts it. What one call starts for all would go on under that
    call's name: its log lines would tell of a caller and a trace that have nothing to do with them.
    """
    return asyncio.create_task(work, name=name, context=Context())
