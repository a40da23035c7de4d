"""A server that says back what it is sent, in every part of an answer: what a search must find."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from tests.leak.caller import DETAILS, Caller, Heard


async def _say(request: bytes, context: Any) -> bytes:
    return request


async def _stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
    yield request


async def _fail(request: bytes, context: Any) -> bytes:
    text = request.decode()
    packed = AnyMessage()
    packed.Pack(ErrorInfo(reason="R", domain="d", metadata={"field": text}))
    details = Status(code=3, message=text, details=[packed]).SerializeToString()
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text, ((DETAILS, details), ("x-said", text)))
    return b""


class _Echo(grpc.GenericRpcHandler):  # type: ignore[misc, unused-ignore]
    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method
        if name == "/echo/Stream":
            return grpc.unary_stream_rpc_method_handler(_stream)
        return grpc.unary_unary_rpc_method_handler(_fail if name == "/echo/Fail" else _say)


@contextlib.asynccontextmanager
async def echoing(heard: Heard) -> AsyncIterator[Caller]:
    """A caller of it, whose answers are heard with those of the services."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Caller(channel, heard)
    finally:
        await server.stop(0)
