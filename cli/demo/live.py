"""The second connection: follows the run's events beside the agent and keeps them for the check."""

import asyncio
import contextlib

import grpc

from cli.demo.show import Screen
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_service_pb2 import StreamRunEventsResponse
from superbizagent_client import RunEventStream, ServiceError, open_channel

_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""Channels to one address share a TCP connection otherwise."""

_PATIENCE_SECONDS = 2.0


class LiveView:
    """Shows each event as it arrives, until the run is final. Use it as an async context manager."""

    def __init__(self, address: str, run_id: str, screen: Screen) -> None:
        self._address = address
        self._run_id = run_id
        self._screen = screen
        self._task: asyncio.Task[bool] | None = None
        self._news = asyncio.Condition()
        self._caught_up = False
        self.events: list[RunEvent] = []

    async def __aenter__(self) -> "LiveView":
        channel = open_channel(self._address, options=_OWN_CONNECTION)
        self._task = asyncio.create_task(self._follow(channel))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def shown(self, count: int) -> None:
        """Return when the stream is live and `count` events were shown; after a while in any case."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS), self._news:
                await self._news.wait_for(lambda: self._caught_up and len(self.events) >= count)

    async def ended(self, seconds: float) -> bool:
        """Wait for the end of the stream, which says that the run is final; False if it did not come."""
        if self._task is None:
            return False
        done, _ = await asyncio.wait({self._task}, timeout=seconds)
        return bool(done) and self._task.result()

    async def _follow(self, channel: grpc.aio.Channel) -> bool:
        async with channel, RunEventStream(channel, self._run_id) as stream:
            try:
                async for message in stream.messages():
                    async with self._news:
                        self._take(message)
                        self._news.notify_all()
            except ServiceError as error:
                self._screen.agent(f"the stream broke: {error}")
                return False
            return True

    def _take(self, message: StreamRunEventsResponse) -> None:
        self._caught_up = self._caught_up or message.HasField("caught_up")
        if message.HasField("event"):
            self.events.append(message.event)
            self._screen.event(message.event)
