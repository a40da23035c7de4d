"""GET /metrics over plain HTTP, in the event loop of the services: no thread, no framework.

Whoever can reach the address may ask, and learns counts only. What it costs is bounded: few connections, a
short time and a short request for each, one answer, and the connection is closed.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from common.address import UNBINDABLE_RULE, Address
from common.log import get_logger
from common.settings import SettingsError

_MOST_CONNECTIONS = 16
_SECONDS = 5.0
"""For a whole exchange: a scraper gives up after ten, and one that sends nothing holds a place."""
_MOST_BYTES = 8192

_log = get_logger("metrics")


class MetricsEndpoint:
    """Serves `page`, the counts as they stand when somebody asks, at METRICS_LISTEN."""

    def __init__(self, address: Address, page: Callable[[], Awaitable[bytes]]) -> None:
        self.address = address
        self._page = page
        self._open = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises SettingsError if the address cannot be had."""
        with contextlib.suppress(OSError):
            self._server = await asyncio.start_server(
                self._answer, self.address.host, self.address.port, limit=_MOST_BYTES
            )
        if self._server is None:
            raise SettingsError("METRICS_LISTEN", UNBINDABLE_RULE)
        self.address = self.address.with_port(self._server.sockets[0].getsockname()[1])
        _log.info("serving metrics", address=str(self.address), port=self.address.port)

    async def stop(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            # Whatever a peer does, nothing of it is worth a line of the log.
            with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
                if self._open <= _MOST_CONNECTIONS:
                    async with asyncio.timeout(_SECONDS):
                        writer.write(await self._reply(await _request_line(reader)))
                        await writer.drain()
        finally:
            self._open -= 1
            writer.close()

    async def _reply(self, request_line: bytes) -> bytes:
        method, _, rest = request_line.partition(b" ")
        path, _, version = rest.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST)
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED)
        if path.partition(b"?")[0] != b"/metrics":
            return _response(HTTPStatus.NOT_FOUND)
        return _response(HTTPStatus.OK, await self._page(), head_only=method == b"HEAD")


async def _request_line(reader: asyncio.StreamReader) -> bytes:
    """The first line of a request, whose headers are read to their end and forgotten."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return b""
    return head.split(b"\r\n", 1)[0]


def _response(status: HTTPStatus, body: bytes = b"", *, head_only: bool = False) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if head_only else body)
