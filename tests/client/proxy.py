"""A TCP proxy that can cut, swallow, delay and refuse: what happens to connections to a server."""

import asyncio
import contextlib
import socket
import struct


class Proxy:
    """Forwards to one port; `address` is what clients connect to.

    While it `swallows` nothing arrives on either side, and nobody is told. `delay` is how many seconds each
    piece of what is sent is held back.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.connections = 0
        self.swallows = False
        self.delay = 0.0
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        return self._port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def reset_all(self) -> None:
        """Every connection ends with a RST, as after the crash of a machine in the middle."""
        for writer in tuple(self._writers):
            raw = writer.get_extra_info("socket")
            if raw is not None:
                with contextlib.suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def stop_listening(self) -> None:
        """New connections are refused from now on; `start` listens on the same port again."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def aclose(self) -> None:
        self.stop_listening()
        self.reset_all()
        while self._tasks:  # one that connects just now has yet to find its end aborted
            self.reset_all()
            await asyncio.wait(tuple(self._tasks), timeout=0.05)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(up_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, up_writer))
                group.create_task(self._pump(up_reader, writer))
        finally:
            for end in (writer, up_writer):
                end.transport.abort()
                self._writers.discard(end)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if not self.swallows:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()
