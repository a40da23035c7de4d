"""How a scenario says that a rule is broken, and how it reads a refusal."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from superbizagent_client import ServiceError, service_error

T = TypeVar("T")


class BrokenRule(Exception):
    """What was expected and what came instead."""


def expect(condition: object, rule: str) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise BrokenRule(rule)


def equal(actual: object, wanted: object, what: str) -> None:
    """Raise unless both are equal."""
    if actual != wanted:
        raise BrokenRule(f"{what}: expected {_short(wanted)}, got {_short(actual)}")


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused call: the typed error, and everything that crossed the wire, as text."""

    error: ServiceError
    sentence: str
    wire: str

    @property
    def summary(self) -> tuple[str, str]:
        return self.error.code.name, self.error.reason


async def answer(call: Awaitable[T]) -> T | Refused:
    """The reply of a call or its refusal, for races in which either may come.

    What only says that the service cannot be reached now is raised: it is no answer.
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        typed = service_error(error)
        trailers = repr(error.trailing_metadata())
        refused = Refused(typed, error.details() or "", f"{error.details()} {trailers}")
    if refused.error.transient:
        raise refused.error
    return refused


async def refused(call: Awaitable[Any], *summary: str, what: str) -> Refused:
    """The refusal of a call, which must have this code and reason."""
    found = await answer(call)
    if not isinstance(found, Refused):
        raise BrokenRule(f"{what}: expected {' '.join(summary)}, but the call was accepted")
    if summary:
        equal(found.summary, summary, what)
    return found


async def together(*calls: Awaitable[T]) -> list[T]:
    """Carry calls out at the same time. The first error ends them all, and is raised."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def beside(call: Awaitable[T], other: Awaitable[object]) -> T:
    """Carry both out at the same time; the result of the first."""
    results: list[Any] = await together(call, other)
    found: T = results[0]
    return found


def accepted(answers: Sequence[T | Refused]) -> list[T]:
    """Those that were accepted."""
    return [one for one in answers if not isinstance(one, Refused)]


def refusals(answers: Sequence[Any]) -> list[Refused]:
    """Those that were not."""
    return [one for one in answers if isinstance(one, Refused)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
