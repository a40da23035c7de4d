"""The one exception by which a use-case answers an error, and the one by which a service does not start.

A refusal holds a reason of the contract, ids and numbers. It never holds text from below (a driver, a parser,
a caller), so whatever prints it leaks nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from superbizagent.error.v1.error_reason_pb2 import ErrorReason


@dataclass(frozen=True, slots=True)
class Violation:
    """A field that broke a rule: the path of the field in the request, and the rule as a fixed sentence."""

    field: str
    rule: str


class Refusal(Exception):
    """The call is refused for `reason`. Whatever applies goes into the error's metadata.

    `field` is the first field that is wrong, `violations` names all of them; `retry_after` is in seconds.
    """

    def __init__(
        self,
        reason: "ErrorReason.ValueType",
        *,
        field: str = "",
        violations: Sequence[Violation] = (),
        run_id: str = "",
        status: str = "",
        last_seq: int | None = None,
        oldest_seq: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(ErrorReason.Name(reason))
        self.reason = reason
        self.field = field or (violations[0].field if violations else "")
        self.violations = tuple(violations)
        self.run_id = run_id
        self.status = status
        self.last_seq = last_seq
        self.oldest_seq = oldest_seq
        self.retry_after = retry_after

    def at(self, last_seq: int) -> "Refusal":
        """The same refusal, met by a stream that stands at `last_seq`; one that names a seq keeps it."""
        return Refusal(
            self.reason,
            field=self.field,
            violations=self.violations,
            run_id=self.run_id,
            status=self.status,
            last_seq=last_seq if self.last_seq is None else self.last_seq,
            oldest_seq=self.oldest_seq,
            retry_after=self.retry_after,
        )

    def metadata(self) -> dict[str, str]:
        """What google.rpc.ErrorInfo.metadata says: only the keys that apply."""
        numbers = {"last_seq": self.last_seq, "oldest_seq": self.oldest_seq}
        texts = {"run_id": self.run_id, "status": self.status, "field": self.field}
        return {key: text for key, text in texts.items() if text} | {
            key: str(number) for key, number in numbers.items() if number is not None
        }


class StartError(Exception):
    """Why a service does not start. Fit to be shown as one line; a command then ends with exit code 2."""


def invalid_field(field: str, rule: str) -> Refusal:
    """INVALID_FIELD for one field."""
    return Refusal(ErrorReason.ERROR_REASON_INVALID_FIELD, violations=[Violation(field, rule)])


def store_unavailable() -> Refusal:
    """STORE_UNAVAILABLE: the database does not answer now; trying again in a second is worth it."""
    return Refusal(ErrorReason.ERROR_REASON_STORE_UNAVAILABLE, retry_after=1.0)
