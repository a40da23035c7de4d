"""One description of a method for both faces: how its request is made, and what of its response is told.

A face is a class with `call`; its methods are made from the descriptions by the descriptors below, with the
signature of the function that makes the request. So neither face repeats the other.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from google.protobuf.message import Message

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Method(Generic[P, AnswerT]):
    """A short call. The request is made once, before the first attempt: repetitions carry the same ids."""

    rpc: str
    request: Callable[P, Message]
    answer: Callable[[Any], AnswerT]


@dataclass(frozen=True, slots=True)
class PagedMethod(Generic[P, ItemT]):
    """A list. `turn` makes the request for the next page of it, or answers False behind the last one."""

    rpc: str
    request: Callable[P, Message]
    items: Callable[[Any], Iterable[ItemT]]
    turn: Callable[[Any, Any], bool]


def next_token(request: Any, response: Any) -> bool:
    """How lists with page tokens turn. A page may be empty and still have a next one."""
    request.page_token = response.next_page_token
    return bool(request.page_token)


class AsyncFace(Protocol):
    """What AsyncCall and AsyncPages stand on."""

    async def call(self, rpc: str, request: Message) -> Any:
        """Make the call, or raise ServiceError."""


class SyncFace(Protocol):
    """What SyncCall and SyncPages stand on."""

    def call(self, rpc: str, request: Message) -> Any:
        """Make the call, or raise ServiceError."""


class AsyncCall(Generic[P, AnswerT]):
    """A coroutine method."""

    def __init__(self, method: Method[P, AnswerT]) -> None:
        self._method = method
        self.__doc__ = method.request.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: AsyncFace, owner: type) -> Callable[P, Coroutine[Any, Any, AnswerT]]: ...
    def __get__(
        self, face: AsyncFace | None, owner: type
    ) -> Self | Callable[P, Coroutine[Any, Any, AnswerT]]:
        if face is None:
            return self
        method = self._method

        async def call(*args: P.args, **kwargs: P.kwargs) -> AnswerT:
            return method.answer(await face.call(method.rpc, method.request(*args, **kwargs)))

        return _documented(call, method.request)


class SyncCall(Generic[P, AnswerT]):
    """A method."""

    def __init__(self, method: Method[P, AnswerT]) -> None:
        self._method = method
        self.__doc__ = method.request.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: SyncFace, owner: type) -> Callable[P, AnswerT]: ...
    def __get__(self, face: SyncFace | None, owner: type) -> Self | Callable[P, AnswerT]:
        if face is None:
            return self
        method = self._method

        def call(*args: P.args, **kwargs: P.kwargs) -> AnswerT:
            return method.answer(face.call(method.rpc, method.request(*args, **kwargs)))

        return _documented(call, method.request)


class AsyncPages(Generic[P, ItemT]):
    """A method that answers an async iterator over all pages; a page is read when its first item is due."""

    def __init__(self, method: PagedMethod[P, ItemT]) -> None:
        self._method = method
        self.__doc__ = method.request.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: AsyncFace, owner: type) -> Callable[P, AsyncIterator[ItemT]]: ...
    def __get__(self, face: AsyncFace | None, owner: type) -> Self | Callable[P, AsyncIterator[ItemT]]:
        if face is None:
            return self
        method = self._method

        async def items(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[ItemT]:
            request, more = method.request(*args, **kwargs), True
            while more:
                response = await face.call(method.rpc, request)
                for item in method.items(response):
                    yield item
                more = method.turn(request, response)

        return _documented(items, method.request)


class SyncPages(Generic[P, ItemT]):
    """The same with an iterator."""

    def __init__(self, method: PagedMethod[P, ItemT]) -> None:
        self._method = method
        self.__doc__ = method.request.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> Self: ...
    @overload
    def __get__(self, face: SyncFace, owner: type) -> Callable[P, Iterator[ItemT]]: ...
    def __get__(self, face: SyncFace | None, owner: type) -> Self | Callable[P, Iterator[ItemT]]:
        if face is None:
            return self
        method = self._method

        def items(*args: P.args, **kwargs: P.kwargs) -> Iterator[ItemT]:
            request, more = method.request(*args, **kwargs), True
            while more:
                response = face.call(method.rpc, request)
                yield from method.items(response)
                more = method.turn(request, response)

        return _documented(items, method.request)


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def _documented(function: FunctionT, like: Callable[..., Any]) -> FunctionT:
    function.__name__, function.__doc__ = like.__name__, like.__doc__
    return function
