"""Cancels the task that works inside a block, and tells that cancellation from everybody else's."""

import asyncio


class Interruption:
    """As asyncio.timeout does it: what was asked for here is taken back on the way out."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._asked_before = 0
        self._asked = False
        self._over = False

    def arm(self) -> None:
        """The running task enters the block."""
        self._task = asyncio.current_task()
        self._asked_before = self._task.cancelling() if self._task else 0

    def cancel(self) -> None:
        """Cancel the task, once, and only while it is in the block."""
        if self._task is not None and not self._asked and not self._over:
            self._asked = True
            self._task.cancel()

    def disarm(self) -> None:
        """The task leaves the block."""
        if self._task is not None and self._asked and not self._over:
            self._task.uncancel()
        self._over = True

    def caused(self, error: BaseException | None) -> bool:
        """True if the error is the cancellation that was asked for here, and nobody else asked for one."""
        return self._asked and isinstance(error, asyncio.CancelledError) and not self.others_asked

    @property
    def others_asked(self) -> bool:
        """True if somebody else wants the task to stop. Ask behind `disarm`."""
        return self._task is not None and self._task.cancelling() > self._asked_before

    async def wait_for(self, work: asyncio.Task[None]) -> None:
        """Wait behind `disarm`; a cancellation of ours that arrives this late is not raised."""
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                if self.others_asked or not self._asked:
                    raise
