"""A message on its way to a service, with the caller's say in what happens if it is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

MessageT = TypeVar("MessageT")


@dataclass(frozen=True, slots=True)
class Offer(Generic[MessageT]):
    """`on_refused` is asked at most once for each reason, so two refusals never play ball for ever."""

    message: MessageT
    on_refused: Callable[[MessageT, str], MessageT | None] | None
    answered: frozenset[str] = frozenset()

    def replacement(self, reason: str) -> "Offer[MessageT] | None":
        """What to offer in the place of this message, which was refused for `reason`; None if it is lost."""
        if self.on_refused is None or reason in self.answered:
            return None
        try:
            message = self.on_refused(self.message, reason)
        except Exception:  # noqa: BLE001  # the caller's hook: its fault costs this message and nothing else
            return None
        return None if message is None else Offer(message, self.on_refused, self.answered | {reason})
