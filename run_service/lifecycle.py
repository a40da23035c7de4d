"""The life of a run as a table: what each command does in each status. Pure: no gRPC, no SQL, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType


class Status(StrEnum):
    """The values of diagnosis_run.status."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FALLBACK = "FALLBACK"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Command(Enum):
    """What can be asked of a run. A finish is one command for each outcome."""

    START = "start"
    APPEND = "append"
    RENEW = "renew"
    FINISH_SUCCESS = "finish SUCCESS"
    FINISH_FALLBACK = "finish FALLBACK"
    FINISH_FAILED = "finish FAILED"
    FINISH_CANCELLED = "finish CANCELLED"
    CANCEL = "cancel"
    EXPIRE = "expire"


class Verdict(Enum):
    """What becomes of a command."""

    MOVE = "the run changes its status"
    STAY = "done, and the status stays"
    REPEAT = "only the repetition of what ended the run is answered"
    NOT_STARTED = "refused: the run is PENDING"
    ALREADY_FINISHED = "refused: the run is final"


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, and the status of the run after it."""

    verdict: Verdict
    status: Status


FINAL = frozenset({Status.SUCCESS, Status.FALLBACK, Status.FAILED, Status.CANCELLED})
MANAGED = frozenset(Status)

FINISH = MappingProxyType(
    {
        Status.SUCCESS: Command.FINISH_SUCCESS,
        Status.FALLBACK: Command.FINISH_FALLBACK,
        Status.FAILED: Command.FINISH_FAILED,
        Status.CANCELLED: Command.FINISH_CANCELLED,
    }
)
"""The finish command of each final status."""


def _row(status: Status, **decisions: "Status | Verdict") -> dict[tuple[Status, Command], Decision]:
    return {
        (status, Command[name]): (
            Decision(Verdict.MOVE, to) if isinstance(to, Status) else Decision(to, status)
        )
        for name, to in decisions.items()
    }


def _final(status: Status, *, cancel: Verdict) -> dict[tuple[Status, Command], Decision]:
    return _row(
        status,
        START=Verdict.ALREADY_FINISHED,
        APPEND=Verdict.ALREADY_FINISHED,
        RENEW=Verdict.ALREADY_FINISHED,
        FINISH_SUCCESS=Verdict.REPEAT,
        FINISH_FALLBACK=Verdict.REPEAT,
        FINISH_FAILED=Verdict.REPEAT,
        FINISH_CANCELLED=Verdict.REPEAT,
        CANCEL=cancel,
        EXPIRE=Verdict.ALREADY_FINISHED,
    )


TRANSITIONS: Mapping[tuple[Status, Command], Decision] = MappingProxyType(
    _row(
        Status.PENDING,
        START=Status.RUNNING,
        APPEND=Verdict.NOT_STARTED,
        RENEW=Verdict.STAY,
        FINISH_SUCCESS=Verdict.NOT_STARTED,
        FINISH_FALLBACK=Verdict.NOT_STARTED,
        FINISH_FAILED=Status.FAILED,
        FINISH_CANCELLED=Status.CANCELLED,
        CANCEL=Status.CANCELLED,
        EXPIRE=Status.FAILED,
    )
    | _row(
        Status.RUNNING,
        START=Verdict.STAY,
        APPEND=Verdict.STAY,
        RENEW=Verdict.STAY,
        FINISH_SUCCESS=Status.SUCCESS,
        FINISH_FALLBACK=Status.FALLBACK,
        FINISH_FAILED=Status.FAILED,
        FINISH_CANCELLED=Status.CANCELLED,
        CANCEL=Status.CANCELLED,
        EXPIRE=Status.FAILED,
    )
    | _final(Status.SUCCESS, cancel=Verdict.ALREADY_FINISHED)
    | _final(Status.FALLBACK, cancel=Verdict.ALREADY_FINISHED)
    | _final(Status.FAILED, cancel=Verdict.ALREADY_FINISHED)
    # A second cancel is the answer that its caller wanted.
    | _final(Status.CANCELLED, cancel=Verdict.STAY)
)
"""Every status with every command, so that a lookup cannot miss."""


def decide(status: Status, command: Command) -> Decision:
    """What `command` does to a run in `status`."""
    return TRANSITIONS[status, command]


def is_final(status: str | None) -> bool:
    """True for the four final statuses. A status that is missing or unknown is not final."""
    return status in FINAL
