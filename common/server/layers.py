"""Puts the layers around every method, once: the only interceptor of the server.

grpc asks an interceptor for the handler of each single call, so composing there would build all closures anew
for every call. Here the composed handler is kept by method name; names of unknown methods are not kept,
because callers choose them.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message

from common.errors import Refusal, invalid_field
from common.server.auth import Metadata
from common.server.call import Context, Door, Handler, Layer, MaybeHandler, Method, MethodHandler, Stack
from common.server.wire import crowded_field
from common.trace_context import current_trace_id, trace_id_of

MAX_SMALL_REQUEST_BYTES = 64 * 1024
"""A request of health, or of a method that answers a stream: a name, some ids. It is held as long as the
stream is open, so one of 4 MiB, sent as a few kilobytes compressed, would be a hole in the memory."""


class _Unusable(NamedTuple):
    """What stands for a request that was not decoded, and why."""

    field: str
    rule: str


_UNDECODABLE = _Unusable("request", "must be an encoded message of the method's request type")
_TOO_LARGE = _Unusable("request", "must be at most 64 KiB for this method")


class LayeredMethods(grpc.aio.ServerInterceptor):
    """`ours` stands around the methods of `services`, `standard` around all others."""

    def __init__(self, services: Collection[str], ours: Stack, standard: Stack) -> None:
        self._services = frozenset(services)
        self._ours = ours
        self._standard = standard
        self._composed: dict[str, _Composed] = {}

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
        metadata = handler_call_details.invocation_metadata or ()
        # grpc runs interceptor and handler in one task a call: what is set here, the call's log lines have.
        trace_id = trace_id_of(metadata)
        if trace_id is not None:
            current_trace_id.set(trace_id)
        return composed.handler_for(metadata)

    def _compose(self, path: str, found: MethodHandler) -> "_Composed":
        service, _, name = path.lstrip("/").partition("/")
        ours = service in self._services
        small = found.response_streaming or not ours
        late = small and not found.request_streaming
        method = Method(service, name, streams=found.response_streaming, reads_late=late)
        stack = self._ours if ours else self._standard
        let_in = _around(method, _as_coroutine(found), [*stack.outer, *stack.inner])
        return _Composed(
            method,
            stack.doors,
            _make(let_in, found, request_streaming=found.request_streaming or late, small=small),
            # As one that streams requests: grpc reads the request of any other before it calls the handler.
            _make(_around(method, _refuse, stack.outer), found, request_streaming=True, small=small),
        )


class _Composed(NamedTuple):
    """The handlers of a method: for calls that are let in, and for those that are not."""

    method: Method
    doors: Sequence[Door]
    let_in: MethodHandler
    refused: MethodHandler

    def handler_for(self, metadata: Metadata) -> MethodHandler:
        for door in self.doors:
            refusal = door(self.method, metadata)
            if refusal is not None:
                _refusal.set(refusal)
                return self.refused
        return self.let_in


_refusal: ContextVar[Refusal] = ContextVar("refusal")
"""What the refusing handler of this call answers; grpc runs interceptor and handler in one task a call."""


async def _refuse(_: Any, __: Context) -> None:
    raise _refusal.get()


def _around(method: Method, handler: Handler, layers: Sequence[Layer]) -> Handler:
    for layer in reversed(layers):
        handler = layer(method, handler)
    return handler


def _make(handler: Handler, found: MethodHandler, *, request_streaming: bool, small: bool) -> MethodHandler:
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[request_streaming, found.response_streaming]
    return make(
        handler,
        request_deserializer=_decoder(found.request_deserializer, small=small),
        response_serializer=_encoder(found.response_serializer),
    )


def decoding(_: Method, inner: Handler) -> Handler:
    """Layer: bytes that do not decode are the caller's fault, told like any other wrong field."""

    async def call(request: Any, context: Context) -> Any:
        if isinstance(request, _Unusable):
            raise invalid_field(request.field, request.rule)
        return await inner(request, context)

    return call


def _decoder(decode: Callable[[bytes], Any] | None, *, small: bool) -> Callable[[bytes], Any]:
    """A deserialiser that raises nothing: grpc would answer with the library's text."""

    def decode_or_mark(raw: bytes) -> Any:
        if small and len(raw) > MAX_SMALL_REQUEST_BYTES:
            return _TOO_LARGE
        try:
            if decode is None:
                return raw
            number = crowded_field(raw)
            return decode(raw) if number is None else _crowded(decode(b""), number)
        except Exception:  # noqa: BLE001 - whatever the parser raises, the bytes do not decode
            return _UNDECODABLE

    return decode_or_mark


def _crowded(empty: Message, number: int) -> _Unusable:
    field = empty.DESCRIPTOR.fields_by_number.get(number)
    return _Unusable(field.name if field is not None else "request", "must have fewer items")


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
        if isinstance(request, _Unusable):
            raise invalid_field(request.field, request.rule)
        yield request
