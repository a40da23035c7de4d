"""The line between the supervisor and one worker: a socket pair, with one JSON array a line.

Each end sees the death of the other as the end of the line, whatever killed it.
"""

import asyncio
import contextlib
import json
import socket
from typing import Any, Self

_MOST_BYTES = 16 * 1024 * 1024

BOUND = "bound"
"""Worker: it has its addresses and waits for GO."""
REFUSED = "refused"
"""Worker: it does not start; with the one line that says why."""
COUNTS = "counts"
"""Supervisor: how far has it counted? Worker: so far."""
GO = "go"
"""Supervisor: serve."""
STOP = "stop"
"""Supervisor: drain and end. Saying it twice changes nothing."""
RELOAD = "reload"
"""Supervisor: read AUTH_FILE again."""


class Line:
    """One end. Neither side ever waits for the other to read: what is said is short, or was asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """The line over one end of a socket pair."""
        return cls(*await asyncio.open_connection(sock=end, limit=_MOST_BYTES))

    def say(self, what: str, value: Any = None) -> None:
        """Say something; nothing happens if nobody is there any more."""
        self._writer.write(json.dumps([what, value]).encode("ascii") + b"\n")

    async def hear(self) -> tuple[str, Any] | None:
        """What the other side says next; None once it is gone."""
        line = b""
        with contextlib.suppress(ConnectionError):
            line = await self._reader.readline()
        if not line.endswith(b"\n"):
            return None
        what, value = json.loads(line)
        return what, value

    async def close(self) -> None:
        """Hang up; what was said is sent, if somebody reads it."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
