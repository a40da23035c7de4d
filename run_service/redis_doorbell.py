"""The doorbell between processes: Redis pub/sub, one connection for each process.

The connection speaks RESP3, in which a subscriber may publish too. Pub/sub loses what was said while nobody
was connected, so listeners look into the database after every reconnect. Redis away costs latency only: rings
are merged while they wait (only the highest seq of a run matters) and dropped when nothing can be sent.
"""

import asyncio
import contextlib
import random
from typing import Any

from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from common.background import start_task
from common.log import get_logger
from common.metrics import Counter
from run_service.doorbell import Listener, Missed

_CHANNEL = "sba:run:"
_CONNECT_SECONDS = 2.0
_PING_SECONDS = 5.0
"""A connection that was silent for two pings is given up: the other side may be stopped or unreachable."""
_MOST_WAITING = 10_000
_LONGEST_BACKOFF_SECONDS = 2.0

_log = get_logger(__name__)


class RedisDoorbell:
    """Rings in this process at once, and in the others through Redis at `url`."""

    def __init__(self, url: str, disconnects: Counter | None = None) -> None:
        # Without the defaults of the library: it would retry by itself, and time out blocking reads.
        self._pool = ConnectionPool.from_url(
            url,
            protocol=3,
            socket_timeout=None,
            socket_connect_timeout=_CONNECT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        self._listeners: list[Listener] = []
        self._missed: list[Missed] = []
        self._watched: set[str] = set()
        self._commands: list[tuple[str, str]] = []  # SUBSCRIBE and UNSUBSCRIBE, in order
        self._rings: dict[str, int] = {}
        self._work = asyncio.Event()
        self._heard = 0.0
        self._task: asyncio.Task[None] | None = None
        self.connected = False
        self._disconnects = Counter() if disconnects is None else disconnects

    def ring(self, run_id: str, seq: int) -> None:
        """Call the listeners here at once and those of other processes soon."""
        self._tell(run_id, seq)
        if self.connected and len(self._rings) < _MOST_WAITING:
            self._rings[run_id] = max(seq, self._rings.get(run_id, 0))
            self._work.set()

    def listen(self, listener: Listener, missed: Missed) -> None:
        """Add a listener for the life of the process."""
        self._listeners.append(listener)
        self._missed.append(missed)

    def watch(self, run_id: str) -> None:
        """Hear the rings of other processes for this run."""
        self._watched.add(run_id)
        self._command("SUBSCRIBE", run_id)

    def unwatch(self, run_id: str) -> None:
        """Hear them no longer."""
        self._watched.discard(run_id)
        self._command("UNSUBSCRIBE", run_id)

    def start(self) -> None:
        """Connect, and stay connected."""
        if self._task is None:
            self._task = start_task(self._run(), "redis-doorbell")

    async def close(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _command(self, name: str, run_id: str) -> None:
        if self.connected:  # otherwise the next connection subscribes to all that is watched
            self._commands.append((name, run_id))
            self._work.set()

    def _tell(self, run_id: str, seq: int) -> None:
        for listener in self._listeners:
            listener(run_id, seq)

    def _say_missed(self) -> None:
        for missed in self._missed:
            missed()

    async def _run(self) -> None:
        backoff = 0.05
        while True:
            connection: Any = self._pool.make_connection()  # type: ignore[no-untyped-call]
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await connection.connect()
                backoff = 0.05
                await self._serve(connection)
            except (RedisError, OSError, TimeoutError, ValueError) as error:
                self._disconnects.add()
                _log.warning("doorbell disconnected", error_type=type(error).__name__)
            finally:
                self.connected = False
                self._commands.clear()
                self._rings.clear()
                with contextlib.suppress(RedisError, OSError, TimeoutError):
                    await connection.disconnect(nowait=True)
            # Jitter: the replicas must not all come back at the same moment.
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))  # noqa: S311
            backoff = min(2 * backoff, _LONGEST_BACKOFF_SECONDS)

    async def _serve(self, connection: Any) -> None:
        self._heard = asyncio.get_running_loop().time()
        self.connected = True
        if self._watched:
            await connection.send_command("SUBSCRIBE", *(_CHANNEL + run_id for run_id in self._watched))
        self._say_missed()
        _log.info("doorbell connected")
        reader = asyncio.create_task(self._read(connection), name="redis-doorbell-read")
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PING_SECONDS):
                        await self._work.wait()
                if reader.done():
                    reader.result()
                async with asyncio.timeout(_PING_SECONDS):
                    await self._send(connection)
                if asyncio.get_running_loop().time() - self._heard > 2 * _PING_SECONDS:
                    raise TimeoutError
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _send(self, connection: Any) -> None:
        self._work.clear()
        commands, self._commands = self._commands, []
        rings, self._rings = self._rings, {}
        packed: list[tuple[str | int, ...]] = [(name, _CHANNEL + run_id) for name, run_id in commands]
        packed += [("PUBLISH", _CHANNEL + run_id, seq) for run_id, seq in rings.items()]
        await connection.send_packed_command(connection.pack_commands(packed or [("PING",)]))

    async def _read(self, connection: Any) -> None:
        try:
            while True:
                reply = await connection.read_response(push_request=True)
                self._heard = asyncio.get_running_loop().time()
                kind = reply[0] if isinstance(reply, list) and reply else None
                if kind == "message":
                    self._take(str(reply[1]), str(reply[2]))
                elif kind == "subscribe":
                    self._say_missed()  # whatever was rung before the subscription was in force
        finally:
            self._work.set()  # the writer must see that the connection is gone

    def _take(self, channel: str, text: str) -> None:
        # Anybody may publish on a Redis: what is no seq is no ring.
        if text.isascii() and text.isdigit() and len(text) <= 19:
            self._tell(channel.removeprefix(_CHANNEL), int(text))
