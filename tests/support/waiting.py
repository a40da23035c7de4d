"""Waits on conditions; tests never sleep for a guessed time."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Return as soon as the condition holds; fail after the time limit."""
    end = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < end, "the condition did not come true in time"
        await asyncio.sleep(0.005)
