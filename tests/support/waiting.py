"""Waits on conditions; tests never sleep for a guessed time."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Return as soon as the condition holds; fail after the time limit."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, "the condition did not come true in time"
        await asyncio.sleep(0.005)


async def until_async(condition: Callable[[], Any], seconds: float = 5.0) -> None:
    """The same for a condition that may be a coroutine."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.005)
