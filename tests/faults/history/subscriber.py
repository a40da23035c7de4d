"""Subscribers: they join a run anywhere, leave, resume on another replica, until they are told its end."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import grpc

from superbizagent_client import RunEventStream, ServiceError, StreamOptions
from tests.faults.history.facts import event_of
from tests.faults.history.history import COMPLETE, History, Segment

STREAM_OPTIONS: Final = StreamOptions(silence=4.0, max_backoff=1.0)
_MOST = 3  # subscribers of one run
_ALL = 1_000_000  # more events than any run has


@dataclass
class Watching:
    """The subscribers of one run."""

    tasks: list["asyncio.Task[None]"]

    def run_is_over(self, known: bool) -> None:
        """`known`: the run has ended for sure, so each of them is owed the end. Otherwise they leave."""
        if not known:
            for task in self.tasks:
                task.cancel()


@dataclass
class Audience:
    """All subscribers. `channels` lead to one replica each."""

    history: History
    channels: Sequence[grpc.aio.Channel]
    most: int = _MOST
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)

    def watch(self, run_id: str, dice: random.Random, count: int | None = None) -> Watching:
        """Follow a run with a few subscribers, or with `count`."""
        many = dice.randint(0, self.most) if count is None else count
        started = [
            asyncio.create_task(self._subscribe(run_id, random.Random(dice.random())))  # noqa: S311
            for _ in range(many)
        ]
        self.tasks.update(started)
        for task in started:
            task.add_done_callback(self.tasks.discard)
        return Watching(started)

    async def ended(self, seconds: float) -> int:
        """Wait until all have seen the end of their runs; how many have not."""
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=seconds)
        return len(self.tasks)

    async def _subscribe(self, run_id: str, dice: random.Random) -> None:
        position = 0
        while True:
            # Most resume where they were; some have forgotten it, as a page that is loaded anew.
            after_seq = position if dice.random() < 0.8 else dice.randint(0, position)
            segment = self.history.join(run_id, after_seq)
            await self._follow(segment, dice)
            position = segment.events[-1][0] if segment.events else after_seq
            if segment.end:
                return

    async def _follow(self, segment: Segment, dice: random.Random) -> None:
        slow = dice.random() < 0.1
        await follow(
            self.history,
            dice.choice(self.channels),
            segment,
            patience=dice.choice((1, 5, 20, _ALL, _ALL)),
            rest=lambda: dice.uniform(0, 0.05) if slow else 0,
        )


async def follow(
    history: History,
    channel: grpc.aio.Channel,
    segment: Segment,
    *,
    patience: int = _ALL,
    rest: Callable[[], float] = lambda: 0,
) -> None:
    """Read until the end, or `patience` events; `rest` is for how many seconds to rest after each."""
    async with RunEventStream(
        channel,
        segment.run_id,
        after_seq=segment.after_seq,
        options=STREAM_OPTIONS,
        on_retry=lambda _error, _seconds: history.counts.update(["stream reopened"]),
    ) as stream:
        try:
            async for event in stream:
                segment.events.append((event.seq, event_of(event)))
                if len(segment.events) >= patience:
                    return
                if seconds := rest():
                    await asyncio.sleep(seconds)
            segment.end = COMPLETE
        except ServiceError as error:
            segment.end = error.reason or error.code.name
