"""A signal ends the demo where it waits, never in the middle of an import or of the event loop's own work.

A handler that raises may be called where Python cannot pass an exception on; then a traceback is printed.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

ResultT = TypeVar("ResultT")

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Signals wait until the block ends, or `stoppable` is ready for them."""
    handlers = {number: signal.getsignal(number) for number in ENDING}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def stoppable(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await `work`; a signal cancels it. Signals that are ignored stay so."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101  # a coroutine that runs has one
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, task.cancel)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    try:
        return await work
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
