"""Parts of the services that fail, with all that they were given in the text of the error."""

import asyncio
import logging
import threading
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

from common.server import process
from run_service import servicer


def inject(fault: str) -> None:
    """Make RunService's CreateRun, or the start of the process, fail in one of the ways below."""
    name, _, text = fault.partition(":")
    if name == "main":
        process.run_until_signal = _failing(text)
    else:
        vars(servicer)["create_run"] = _WAYS[name]


def _failing(text: str) -> Callable[..., Coroutine[Any, Any, int]]:
    async def fail(*_: Any) -> int:
        raise RuntimeError(text)

    return fail


async def _raise(*given: Any) -> Any:
    raise LookupError({"request": repr(given)}) from ValueError(repr(given))


async def _group(*given: Any) -> Any:
    raise ExceptionGroup(repr(given), [ValueError(repr(given)), OSError(repr(given), repr(given))])


async def _cancel(*given: Any) -> Any:
    raise asyncio.CancelledError(repr(given))


async def _elsewhere(*given: Any) -> Any:
    """Everything that prints by itself: tasks, threads, callbacks, warnings, loggers, finalisers."""

    async def forgotten() -> None:
        raise ValueError(repr(given))

    def fail() -> None:
        raise ValueError(repr(given))

    class Finalised:
        def __del__(self) -> None:
            fail()

    loop = asyncio.get_running_loop()
    task = loop.create_task(forgotten(), name=repr(given))
    await asyncio.wait([task])
    del task
    loop.call_soon(fail)
    thread = threading.Thread(target=fail, name=repr(given))
    thread.start()
    await asyncio.to_thread(thread.join)
    warnings.warn(repr(given), stacklevel=1)
    logging.getLogger("sqlalchemy.engine").error("failed: %s", given, exc_info=ValueError(repr(given)))
    logging.getLogger(repr(given)).error("a logger of that name")
    Finalised()
    return await _raise(*given)


_WAYS = {"raise": _raise, "group": _group, "cancel": _cancel, "elsewhere": _elsewhere}
