"""Errors of the services as typed exceptions.

An error is decided by its `reason`. Everything that an exception holds or prints has been checked against the
grammar of the contract: a text that a proxy, a driver or a strange server put there is left behind.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Final, Protocol

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from superbizagent_contract import kinds

DOMAIN: Final = "superbizagent"
CHANNEL_CLOSED: Final = "CHANNEL_CLOSED"
"""Reason of an error of this package itself: the channel was closed under a call."""

_NUMBER = re.compile(r"[0-9]{1,19}")
_RULE = re.compile(r"[ -~]{0,200}")
_MAX_RETRY_AFTER = 3600.0

_TRANSIENT = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
    }
)
# Without a reason these are made by gRPC or a proxy from a reset stream; the services always give a reason.
_TRANSIENT_WITHOUT_REASON = frozenset(
    {grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
)


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A field of the request that broke a rule; the rule is a fixed sentence of the service."""

    field: str
    rule: str


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What a status carries beside its code. Empty or None: the service did not say."""

    reason: str = ""
    field: str = ""
    run_id: str = ""
    status: str = ""
    reference: str = ""
    last_seq: int | None = None
    oldest_seq: int | None = None
    retry_after: float | None = None
    violations: tuple[FieldViolation, ...] = ()


class ServiceError(Exception):
    """A call failed with `code`; `reason` is the name of an ErrorReason without its prefix, or "".

    `field` is the first field that was refused and `violations` all of them, `status` the run's status that
    stood in the way, `last_seq` and `oldest_seq` positions of a stream, `retry_after` seconds to wait before
    the call is repeated, `reference` an id to give to whoever runs the service.
    """

    def __init__(self, code: grpc.StatusCode, details: ErrorDetails | None = None) -> None:
        details = details or ErrorDetails()
        super().__init__(code, details)
        self.code = code
        self.reason = details.reason
        self.field = details.field
        self.run_id = details.run_id
        self.status = details.status
        self.reference = details.reference
        self.last_seq = details.last_seq
        self.oldest_seq = details.oldest_seq
        self.retry_after = details.retry_after
        self.violations = details.violations

    @property
    def transient(self) -> bool:
        """True if the same call may succeed later."""
        if self.code in _TRANSIENT:
            return True
        return not self.reason and self.code in _TRANSIENT_WITHOUT_REASON

    def __str__(self) -> str:
        known = {"field": self.field, "status": self.status, "reference": self.reference}
        words = [self.code.name, self.reason, *(f"{name}={text}" for name, text in known.items() if text)]
        return " ".join(word for word in words if word)


class InvalidRequestError(ServiceError):
    """INVALID_ARGUMENT: the request breaks a rule; `field` and `violations` say which."""


class RunNotFoundError(ServiceError):
    """NOT_FOUND: there is no such run, or it belongs to another session."""


class ConflictError(ServiceError):
    """ALREADY_EXISTS: the id was used with other content."""


class RunStateError(ServiceError):
    """FAILED_PRECONDITION: the run is not started, is final (see `status`), or is not managed."""


class RunEndedElsewhere(RunStateError):
    """Somebody else ended the run that is worked on here, perhaps the reaper. `status` is how it ended."""


class RunCancelledElsewhere(RunEndedElsewhere):
    """Somebody else cancelled the run that is worked on here."""


class SeqBeyondHeadError(ServiceError):
    """OUT_OF_RANGE: after_seq lies beyond the run's head, which is `last_seq`."""


class SeqPurgedError(ServiceError):
    """OUT_OF_RANGE: events after the position were purged; `oldest_seq` is the first that is still there."""


class AccessDeniedError(ServiceError):
    """UNAUTHENTICATED or PERMISSION_DENIED: no valid token, or no role that may do this."""


class BrokenStreamError(ServiceError):
    """A stream broke its promises several times in a row: a gap in seq, or an end before RUN_FINISHED."""


_BY_REASON: dict[str, type[ServiceError]] = {
    "SEQ_BEYOND_HEAD": SeqBeyondHeadError,
    "SEQ_PURGED": SeqPurgedError,
}
_BY_CODE: dict[grpc.StatusCode, type[ServiceError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: RunNotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: ConflictError,
    grpc.StatusCode.FAILED_PRECONDITION: RunStateError,
    grpc.StatusCode.UNAUTHENTICATED: AccessDeniedError,
    grpc.StatusCode.PERMISSION_DENIED: AccessDeniedError,
}


class _FailedCall(Protocol):
    def code(self) -> grpc.StatusCode: ...
    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


def service_error(error: grpc.RpcError) -> ServiceError:
    """The typed error of a failed call, of grpc.aio or of grpc. Raise it `from None`.

    The original holds the transport's texts and should not travel along.
    """
    call: _FailedCall = error  # type: ignore[assignment]  # both flavours of RpcError have these two methods
    details = _decode(call.trailing_metadata() or ())
    kind = _BY_REASON.get(details.reason) or _BY_CODE.get(call.code(), ServiceError)
    return kind(call.code(), details)


def ended_elsewhere(run_id: str, status: str) -> RunEndedElsewhere:
    """The error of a run that somebody else ended."""
    kind = RunCancelledElsewhere if status == "CANCELLED" else RunEndedElsewhere
    details = ErrorDetails(reason="RUN_ALREADY_FINISHED", run_id=run_id, status=status)
    return kind(grpc.StatusCode.FAILED_PRECONDITION, details)


def channel_closed() -> ServiceError:
    """The error of a call whose channel was closed."""
    return ServiceError(grpc.StatusCode.CANCELLED, ErrorDetails(reason=CHANNEL_CLOSED))


def _decode(trailers: Iterable[tuple[str, str | bytes]]) -> ErrorDetails:
    found: dict[str, object] = {}
    for key, value in trailers:
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            found |= _from_status(value)
        elif key == "grpc-retry-pushback-ms" and isinstance(value, str) and _NUMBER.fullmatch(value):
            found.setdefault("retry_after", min(int(value) / 1000, _MAX_RETRY_AFTER))
    return ErrorDetails(**found)  # type: ignore[arg-type]  # each key was read by the reader of that field


def _from_status(raw: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    info, bad_request, retry = ErrorInfo(), BadRequest(), RetryInfo()
    try:
        for detail in Status.FromString(raw).details:
            if detail.Unpack(info) and info.domain == DOMAIN:
                found |= _from_info(info)
            elif detail.Unpack(bad_request):
                found["violations"] = _violations(bad_request)
            elif detail.Unpack(retry):
                delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
                found["retry_after"] = min(max(delay, 0.0), _MAX_RETRY_AFTER)
    except DecodeError:
        return found  # what was readable so far
    return found


def _from_info(info: ErrorInfo) -> dict[str, object]:
    found: dict[str, object] = {"reason": info.reason} if kinds.CODE.fits(info.reason) else {}
    for field in fields(ErrorDetails):
        read = _READERS.get(field.name)
        value = read(info.metadata[field.name]) if read and field.name in info.metadata else None
        if value is not None:
            found[field.name] = value
    return found


def _violations(bad_request: BadRequest) -> tuple[FieldViolation, ...]:
    return tuple(
        FieldViolation(violation.field, violation.description)
        for violation in bad_request.field_violations
        if kinds.FIELD_PATH.admits(violation.field) and _RULE.fullmatch(violation.description)
    )


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def _text(kind: kinds.Kind) -> Callable[[str], object]:
    return lambda text: text if kind.admits(text) else None


_READERS: dict[str, Callable[[str], object]] = {
    "field": _text(kinds.FIELD_PATH),
    "run_id": _text(kinds.IDENTIFIER),
    "status": _text(kinds.STATUS),
    "reference": _text(kinds.IDENTIFIER),
    "last_seq": _number,
    "oldest_seq": _number,
}
