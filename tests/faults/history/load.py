"""Gateways and subscribers that work until they are stopped, and remember everything."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from superbizagent_client import AuditClient, RunClient, open_channel
from tests.faults.history.caller import CALL_OPTIONS, Caller
from tests.faults.history.gateway import Gateway
from tests.faults.history.history import History
from tests.faults.history.subscriber import Audience
from tests.support.waiting import until

RUN_WRITES: Final = "append answered"
AUDIT_WRITES: Final = "record answered"
_OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)


@dataclass
class Load:
    """A load that works. `callers` are those of its gateways."""

    history: History
    callers: list[Caller]
    audience: Audience
    gateways: "list[asyncio.Task[None]]"
    stopping: asyncio.Event

    def another_caller(self, dice: Random, *, cuts: float | None = None) -> Caller:
        """One more, by the connection of the first; it hangs up on no call if `cuts` is 0."""
        first = self.callers[0]
        return Caller(self.history, first.runs, first.audits, dice, first.cuts if cuts is None else cuts)

    @property
    def acknowledged(self) -> int:
        """Calls that were answered so far."""
        return sum(count for kind, count in self.history.counts.items() if kind.endswith("answered"))

    async def progress(
        self, more: int, seconds: float, kinds: tuple[str, ...] = (RUN_WRITES, AUDIT_WRITES)
    ) -> None:
        """Return when `more` writes of each kind were acknowledged; a gateway that failed fails here."""
        counts = self.history.counts
        wanted = {kind: counts[kind] + more for kind in kinds}

        def done() -> bool:
            for task in self.gateways:
                if task.done():
                    task.result()
            return all(counts[kind] >= count for kind, count in wanted.items())

        await until(done, seconds)

    async def stop(self, seconds: float) -> None:
        """Every gateway ends its run, every subscriber of an ended run is told the end."""
        self.stopping.set()
        async with asyncio.timeout(seconds):
            await asyncio.gather(*self.gateways)
        waiting = await self.audience.ended(seconds)
        assert not waiting, f"{waiting} subscribers wait for the end of {sorted(self._unfinished())}"

    def _unfinished(self) -> set[str]:
        """Runs whose newest segment goes on."""
        newest = {segment.run_id: segment for segment in self.history.segments}
        return {run_id for run_id, segment in newest.items() if not segment.end}


@contextlib.asynccontextmanager
async def working(
    run_target: str, audit_target: str, replicas: Sequence[str], *, seed: int, gateways: int
) -> AsyncIterator[Load]:
    """A load on services. Gateways dial the targets; each subscriber dials one of `replicas`."""
    history = History()
    async with contextlib.AsyncExitStack() as stack:

        async def channel(target: str) -> Any:
            return await stack.enter_async_context(open_channel(target, options=_OWN_CONNECTION))

        audience = Audience(history, [await channel(address) for address in replicas])
        callers = [
            Caller(
                history,
                RunClient(await channel(run_target), options=CALL_OPTIONS),
                AuditClient(await channel(audit_target), options=CALL_OPTIONS),
                Random(f"{seed}-{number}"),  # noqa: S311
            )
            for number in range(gateways)
        ]
        stopping = asyncio.Event()
        tasks = [asyncio.create_task(Gateway(caller, audience).work(stopping)) for caller in callers]
        try:
            yield Load(history, callers, audience, tasks, stopping)
        finally:
            for task in (*tasks, *audience.tasks):
                task.cancel()
            await asyncio.gather(*tasks, *audience.tasks, return_exceptions=True)
