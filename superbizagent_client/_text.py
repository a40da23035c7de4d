"""Texts on their way into a request. What the service is bound to refuse is refused here.

protobuf's own error for half an emoji holds the whole text, and a message over gRPC's limit comes back
without a reason; these say which field it is and nothing of what is in it.
"""

import json
from collections.abc import Mapping
from typing import Any

import grpc

from superbizagent_client.errors import ErrorDetails, FieldViolation, InvalidRequestError
from superbizagent_contract import limits


def checked_query(query: str) -> str:
    """The query, if the service may take it."""
    return _checked("query", query, limits.MAX_QUERY_BYTES)


def checked_answer(answer: str | None) -> str | None:
    """The answer, if the service may take it."""
    return None if answer is None else _checked("answer", answer, limits.MAX_ANSWER_BYTES)


def published_json(result: Mapping[str, Any] | None) -> str | None:
    """The published result as JSON."""
    if result is None:
        return None
    field = "published_result_json"
    try:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = ""
    if not text:
        raise _invalid(field, "must be a JSON object without NaN and Infinity")
    return _checked(field, text, limits.MAX_PUBLISHED_RESULT_BYTES)


def _checked(field: str, text: str, most: int) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        size = -1
    if size < 0:
        raise _invalid(field, "must not contain an unpaired surrogate")
    if size > most:
        raise _invalid(field, f"must be at most {most:,} bytes of UTF-8")
    return text


def _invalid(field: str, rule: str) -> InvalidRequestError:
    details = ErrorDetails(reason="INVALID_FIELD", field=field, violations=(FieldViolation(field, rule),))
    return InvalidRequestError(grpc.StatusCode.INVALID_ARGUMENT, details)
