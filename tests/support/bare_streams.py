"""A server of grpc.aio with nothing around it: `python -m tests.support.bare_streams`; prints its port.

StreamRunEvents answers one ready-made message and then waits, as a stream of a quiet run does. What it costs
is what the library costs.
"""

import asyncio
from typing import Any

import grpc

from common.server.options import SERVER_OPTIONS
from superbizagent.run.v1 import run_service_pb2 as pb

FRAME = pb.StreamRunEventsResponse(caught_up=pb.CaughtUp(), last_seq=2).SerializeToString()


async def stream(_: bytes, context: Any) -> None:
    """One message, then silence until the caller goes."""
    await context.write(FRAME)
    await asyncio.Event().wait()


async def main() -> None:
    """Serve until the process is killed."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    handlers: dict[str, Any] = {"StreamRunEvents": grpc.unary_stream_rpc_method_handler(stream)}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("superbizagent.run.v1.RunService", handlers),)
    )
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)  # noqa: T201
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
