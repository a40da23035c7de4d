"""A refusal as gRPC carries it: code, fixed sentence, and google.rpc details in the trailers."""

from typing import NamedTuple

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from common.error_table import ANSWERS
from common.errors import Refusal
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

DOMAIN = "superbizagent"
DETAILS_KEY = "grpc-status-details-bin"
PUSHBACK_KEY = "grpc-retry-pushback-ms"

_REASON_PREFIX = "ERROR_REASON_"
_RETRIED = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})
_DEFAULT_RETRY_SECONDS = 1.0

# Trailers of more than 8 KiB are cut off by many peers, and the real code with them. Ten violations of at
# most 128 + 200 characters stay well below; more tell nobody more.
_MAX_VIOLATIONS = 10


class Answer(NamedTuple):
    """What the context is aborted with."""

    code: grpc.StatusCode
    sentence: str
    trailers: tuple[tuple[str, str | bytes], ...]


def reason_name(refusal: Refusal) -> str:
    """The reason as ErrorInfo and the log name it: without its prefix."""
    return ErrorReason.Name(refusal.reason).removeprefix(_REASON_PREFIX)


def code_of(refusal: Refusal) -> grpc.StatusCode:
    """The code that the table gives to the reason."""
    return grpc.StatusCode[ANSWERS[refusal.reason].code]


def to_answer(refusal: Refusal) -> Answer:
    """Everything that a caller is told about a refusal."""
    code = code_of(refusal)
    sentence = ANSWERS[refusal.reason].sentence
    details: list[Message] = [
        ErrorInfo(reason=reason_name(refusal), domain=DOMAIN, metadata=refusal.metadata())
    ]
    trailers: list[tuple[str, str | bytes]] = []
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        details.append(
            BadRequest(
                field_violations=[
                    BadRequest.FieldViolation(field=violation.field, description=violation.rule)
                    for violation in refusal.violations[:_MAX_VIOLATIONS]
                ]
            )
        )
    if code in _RETRIED:
        seconds = _DEFAULT_RETRY_SECONDS if refusal.retry_after is None else refusal.retry_after
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(round(seconds * 1000))
        details.append(retry)
        trailers.append((PUSHBACK_KEY, str(round(seconds * 1000))))
    status = Status(code=code.value[0], message=sentence, details=[_packed(detail) for detail in details])
    trailers.append((DETAILS_KEY, status.SerializeToString()))
    return Answer(code, sentence, tuple(trailers))


def _packed(detail: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(detail)
    return packed
