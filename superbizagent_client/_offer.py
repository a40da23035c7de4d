"""A message on its way to a service, with the caller's say in what happens if it is refused."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from superbizagent_client.tracing import current_traceparent

MessageT = TypeVar("MessageT")


@dataclass(frozen=True, slots=True)
class Offer(Generic[MessageT]):
    """`on_refused` is asked at most once for each reason, so two refusals never play ball for ever."""

    message: MessageT
    on_refused: Callable[[MessageT, str], MessageT | None] | None
    answered: frozenset[str] = frozenset()
    traceparent: str | None = field(default_factory=current_traceparent)
    """Of whoever handed it in; the task that delivers it serves many."""

    def replacement(self, reason: str) -> "Offer[MessageT] | None":
        """What to offer in the place of this message, which was refused for `reason`; None if it is lost."""
        if self.on_refused is None or reason in self.answered:
            return None
        try:
            message = self.on_refused(self.message, reason)
        except Exception:  # noqa: BLE001  # the caller's hook: its fault costs this message and nothing else
            return None
        if message is None:
            return None
        return Offer(message, self.on_refused, self.answered | {reason}, self.traceparent)


def traceparent_of(offers: Iterable[Offer[Any]]) -> str | None:
    """What the call that delivers `offers` carries: nothing if they are of several traces."""
    found = {offer.traceparent for offer in offers}
    return found.pop() if len(found) == 1 else None
