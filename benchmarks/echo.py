"""The limit: a server of grpc.aio with the same messages and options and nothing between; prints its port.

`python -m benchmarks.echo [--reuse-port PORT]`. Unary methods decode their request and answer a ready-made
reply. StreamRunEvents says that its subscriber is caught up, then sends as many ready-made frames as Ring
asks for.
"""

import argparse
import asyncio
from typing import Any

import grpc
from google.protobuf.message import Message

from benchmarks import ready_made
from common.server.options import SERVER_OPTIONS
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as pb

RING = "/benchmarks.Echo/Ring"
"""Takes a decimal number: so many more frames go to every subscriber."""

_REPLIES: dict[str, tuple[type[Message], Message]] = {
    ready_made.RECORD: (audit.RecordToolInvocationRequest, ready_made.RECORDED),
    ready_made.APPEND: (pb.AppendRunEventsRequest, ready_made.APPENDED),
    ready_made.GET_RUN: (pb.GetRunRequest, ready_made.RUN),
}


def _answering(asked: type[Message], reply: Message) -> Any:
    async def answer(_: Message, __: Any) -> Message:
        return reply

    return grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=asked.FromString, response_serializer=type(reply).SerializeToString
    )


class _Streams:
    """Subscribers, and how many frames each of them is to get."""

    def __init__(self) -> None:
        self._frames = 0
        self._rung = asyncio.Event()

    async def stream(self, _: bytes, context: Any) -> None:
        """One frame that tells no event, then what Ring asks for; bytes, which nobody serialises."""
        await context.write(ready_made.CAUGHT_UP)
        sent = 0
        while True:
            while sent < self._frames:
                await context.write(ready_made.FRAME)
                sent += 1
            await self._rung.wait()

    async def ring(self, count: bytes, _: Any) -> bytes:
        """More frames for everybody."""
        self._frames += int(count)
        self._rung.set()
        self._rung = asyncio.Event()
        return b""


def _add(server: grpc.aio.Server, handlers: dict[str, Any]) -> None:
    """As generated code does it: the core knows each method by its path."""
    for path, handler in handlers.items():
        _, service, method = path.split("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        server.add_registered_method_handlers(service, {method: handler})


async def _serve(port: int | None) -> None:
    options = dict(SERVER_OPTIONS) | {"grpc.so_reuseport": int(port is not None)}
    server = grpc.aio.server(options=list(options.items()))
    streams = _Streams()
    _add(server, {path: _answering(*messages) for path, messages in _REPLIES.items()})
    _add(server, {ready_made.STREAM: grpc.unary_stream_rpc_method_handler(streams.stream)})
    _add(server, {RING: grpc.unary_unary_rpc_method_handler(streams.ring)})
    print(server.add_insecure_port(f"127.0.0.1:{port or 0}"), flush=True)
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reuse-port", type=int, metavar="PORT", help="share this port with others")
    asyncio.run(_serve(parser.parse_args().reuse_port))


if __name__ == "__main__":
    main()
