"""Puts the layers around every method, once: the only interceptor of the server.

grpc asks an interceptor for the handler of each single call, so composing there would build all closures anew
for every call. Here the composed handler is kept by method name; names of unknown methods are not kept,
because callers choose them.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Any

import grpc

from common.errors import invalid_field
from common.server.call import Context, Handler, Layer, MaybeHandler, Method, MethodHandler

_UNDECODABLE = object()
_UNDECODABLE_RULE = "must be an encoded message of the method's request type"


class LayeredMethods(grpc.aio.ServerInterceptor):
    """`layers` go around the methods of `services`, `standard_layers` around all others; outermost first."""

    def __init__(
        self, services: Collection[str], layers: Sequence[Layer], standard_layers: Sequence[Layer]
    ) -> None:
        self._services = frozenset(services)
        self._layers = layers
        self._standard_layers = standard_layers
        self._composed: dict[str, MethodHandler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[MaybeHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> MaybeHandler:
        path = handler_call_details.method
        composed = self._composed.get(path)
        if composed is None:
            found = await continuation(handler_call_details)
            if found is None:
                return None
            composed = self._composed[path] = self._compose(path, found)
        return composed

    def _compose(self, path: str, found: MethodHandler) -> MethodHandler:
        service, _, name = path.lstrip("/").partition("/")
        method = Method(service, name, streams=found.response_streaming)
        handler = _as_coroutine(found)
        for layer in reversed(self._layers if service in self._services else self._standard_layers):
            handler = layer(method, handler)
        make = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[found.request_streaming, found.response_streaming]
        return make(
            handler,
            request_deserializer=_decoder(found.request_deserializer),
            response_serializer=_encoder(found.response_serializer),
        )


def decoding(_: Method, inner: Handler) -> Handler:
    """Layer: bytes that do not decode are the caller's fault, told like any other wrong field."""

    async def call(request: Any, context: Context) -> Any:
        if request is _UNDECODABLE:
            raise invalid_field("request", _UNDECODABLE_RULE)
        return await inner(request, context)

    return call


def _decoder(decode: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """A deserialiser that raises nothing: grpc would answer with the library's text."""

    def decode_or_mark(raw: bytes) -> Any:
        try:
            return raw if decode is None else decode(raw)
        except Exception:  # noqa: BLE001 - whatever the parser raises, the bytes do not decode
            return _UNDECODABLE

    return decode_or_mark


def _encoder(encode: Callable[[Any], bytes] | None) -> Callable[[Any], bytes]:
    """A serialiser that passes bytes on: streams send frames that were encoded once for all readers."""

    def encode_unless_bytes(reply: Any) -> bytes:
        return reply if encode is None or isinstance(reply, bytes) else encode(reply)

    return encode_unless_bytes


def _as_coroutine(found: MethodHandler) -> Handler:
    """The handler in the one form that the layers know: `async def (request, context)`."""
    handler: Any = (
        found.unary_unary or found.unary_stream or found.stream_unary or found.stream_stream  # one is set
    )
    if inspect.isasyncgenfunction(handler):
        handler = _writing(handler)
    elif not inspect.iscoroutinefunction(handler):
        # What generated base classes hold for a method that the servicer does not have.
        handler = _not_implemented
    return _reading(handler) if found.request_streaming else handler


def _writing(generator: Callable[[Any, Context], AsyncIterator[Any]]) -> Handler:
    async def call(request: Any, context: Context) -> None:
        async for reply in generator(request, context):
            await context.write(reply)

    return call


async def _not_implemented(_: Any, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "The method is not implemented.")


def _reading(inner: Handler) -> Handler:
    async def call(requests: AsyncIterator[Any], context: Context) -> Any:
        return await inner(_decoded(requests), context)

    return call


async def _decoded(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        if request is _UNDECODABLE:
            raise invalid_field("request", _UNDECODABLE_RULE)
        yield request
