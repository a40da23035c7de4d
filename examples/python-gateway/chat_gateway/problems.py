"""Errors of the services as HTTP answers. Decided by the reason, which says more than gRPC's code."""

import math
from collections.abc import Mapping
from typing import Any, Final

import grpc
from starlette.requests import Request
from starlette.responses import JSONResponse

from superbizagent_client import ServiceError

STATUS_BY_REASON: Final[Mapping[str, int]] = {
    # The browser's request breaks a rule.
    "INVALID_FIELD": 400,
    "UNKNOWN_FIELD": 400,
    "CREDENTIAL_SHAPED": 400,
    "TOOL_NOT_ALLOWED": 400,
    "PAGE_TOKEN_INVALID": 400,
    # There is no such run, or it is another session's: the two look alike on purpose.
    "RUN_NOT_FOUND": 404,
    # The request is fine, the state is not.
    "RUN_CONFLICT": 409,
    "REQUEST_ID_CONFLICT": 409,
    "EVENT_ID_CONFLICT": 409,
    "TOOL_CALL_CONFLICT": 409,
    "RUN_NOT_STARTED": 409,
    "RUN_ALREADY_FINISHED": 409,
    "RUN_NOT_MANAGED": 409,
    # Last-Event-ID is a position that this run does not have, or no longer.
    "SEQ_BEYOND_HEAD": 416,
    "SEQ_PURGED": 410,
    # Come back later.
    "SLOW_CONSUMER": 503,
    "OVERLOADED": 503,
    "DRAINING": 503,
    "STORE_UNAVAILABLE": 503,
    "STORE_CONFLICT": 503,
    "DEADLINE_EXCEEDED": 504,
    # Nothing that a browser could do about: our own token is wrong, or the service has a bug.
    "UNAUTHENTICATED": 502,
    "ROLE_REQUIRED": 502,
    "INTERNAL": 502,
}

_STATUS_BY_CODE: Final = {
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
"""For statuses without a reason, which gRPC itself made: nobody listens, a line was cut."""


_FIELD_NAMES: Final = {
    "session_id": "sessionId",
    "query": "message",
    "request_id": "requestId",
    "run_id": "runId",
}
"""What the services call a field, and what the browser called it."""


class BadRequest(Exception):
    """What the gateway itself refuses; `field` is the name in the browser's request."""

    def __init__(self, field: str, status: int = 400) -> None:
        super().__init__(field)
        self.field = field
        self.status = status


def status_of(error: ServiceError) -> int:
    """The HTTP status that says the same."""
    return STATUS_BY_REASON.get(error.reason) or _STATUS_BY_CODE.get(error.code, 502)


def problem(error: ServiceError) -> dict[str, Any]:
    """What a browser is told: codes, a field's name, a reference for whoever runs the services. No text."""
    known = {
        "reason": error.reason or error.code.name,
        "field": _FIELD_NAMES.get(error.field, error.field),
        "status": error.status,
        "oldestSeq": error.oldest_seq,
        "reference": error.reference,
    }
    return {name: value for name, value in known.items() if value}


async def _service_error(_: Request, error: ServiceError) -> JSONResponse:
    status = status_of(error)
    headers = {"Retry-After": str(math.ceil(error.retry_after or 1))} if status == 503 else None
    return JSONResponse(problem(error), status, headers)


async def _bad_request(_: Request, error: BadRequest) -> JSONResponse:
    return JSONResponse({"reason": "INVALID_FIELD", "field": error.field}, error.status)


EXCEPTION_HANDLERS: Final[Mapping[Any, Any]] = {ServiceError: _service_error, BadRequest: _bad_request}
