"""What the layers of the server are made of.

A layer gets a method and the handler below it and returns the handler to use instead. That happens once a
method, when it is first called; a call then costs only the coroutines of the layers.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

from common.errors import Refusal
from common.server.auth import Metadata

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only
MaybeHandler: TypeAlias = "MethodHandler | None"

Handler: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
"""Takes a request (an iterator of them, if the method streams requests) and the context. Returns the reply; a
handler of a streaming method writes its replies to the context and returns None."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method as the layers see it."""

    service: str  # full protobuf name
    name: str
    streams: bool  # True if it answers a stream
    reads_late: bool = False  # True if the layers get an iterator, and arrival.py reads its one message


Layer: TypeAlias = Callable[[Method, Handler], Handler]

Door: TypeAlias = Callable[[Method, Metadata], Refusal | None]
"""Judges a call by its method and metadata alone, before any of its messages is read."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What stands around a method.

    `outer` layers see every call, also those that a door refuses; the first door that refuses is answered;
    `inner` layers see what was let in. Outermost first.
    """

    outer: Sequence[Layer]
    doors: Sequence[Door]
    inner: Sequence[Layer]
