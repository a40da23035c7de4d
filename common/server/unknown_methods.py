"""A server of grpc whose calls to unknown methods are answered before anybody reads their path.

The loop of grpc.aio that takes calls reads the path of such a call as UTF-8 and lets the error out if it is
none (seen in grpcio 1.85): one packet from anybody would end the loop, and with it the whole server. Every
method that is served is registered with the core of grpc, which knows its path by its bytes; what the loop
asks for beside those can only be a call to a method that is not there.
"""

import asyncio
import contextlib
import importlib
from typing import Any

import grpc

_core: Any = importlib.import_module("grpc._cython.cygrpc")

UNKNOWN_METHOD = "Method not found!"
"""The words of the core itself."""


class _Server(_core.AioServer):  # type: ignore[misc]  # has no stubs
    """Never hands a call to an unknown method on to the loop that would read its path."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._refusing: set[asyncio.Task[None]] = set()

    async def _request_call(self) -> Any:
        while True:
            state = await super()._request_call()
            task = asyncio.create_task(_refuse(state))
            self._refusing.add(task)
            task.add_done_callback(self._refusing.discard)


async def _refuse(state: Any) -> None:
    # As late as grpc itself would: a client that is told while it still sends reports an error of its own.
    await asyncio.sleep(0)
    context = _core._ServicerContext(state, None, None, asyncio.get_running_loop())  # noqa: SLF001
    # The caller may be gone, and abort ends with an error of its own.
    with contextlib.suppress(Exception):
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, UNKNOWN_METHOD)


def new_grpc_server(**arguments: Any) -> grpc.aio.Server:
    """What grpc.aio.server() makes, on top of that."""
    usual = _core.AioServer
    _core.AioServer = _Server
    try:
        return grpc.aio.server(**arguments)
    finally:
        _core.AioServer = usual
