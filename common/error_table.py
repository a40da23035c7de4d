"""The one table from reasons to gRPC codes and to the sentences that callers read.

Codes are named, not imported, so that this file can be read and tested without a server. Each sentence is
fixed and at most 200 ASCII characters: a long text in the trailers would push the real code out.
"""

from typing import NamedTuple

from superbizagent.error.v1.error_reason_pb2 import ErrorReason as R


class Answer(NamedTuple):
    """What a caller gets for a reason: the name of a grpc.StatusCode, and a sentence."""

    code: str
    sentence: str


ANSWERS: dict["R.ValueType", Answer] = {
    R.ERROR_REASON_INVALID_FIELD: Answer(
        "INVALID_ARGUMENT", "A field of the request breaks a rule; the details name both."
    ),
    R.ERROR_REASON_UNKNOWN_FIELD: Answer(
        "INVALID_ARGUMENT", "The request carries a protobuf field that this version does not know."
    ),
    R.ERROR_REASON_CREDENTIAL_SHAPED: Answer(
        "INVALID_ARGUMENT", "A field of the request has the shape of a credential; the details name it."
    ),
    R.ERROR_REASON_TOOL_NOT_ALLOWED: Answer(
        "INVALID_ARGUMENT", "The tool is not on the list of allowed tools."
    ),
    R.ERROR_REASON_PAGE_TOKEN_INVALID: Answer(
        "INVALID_ARGUMENT", "The page token is not one of this query; start again without it."
    ),
    R.ERROR_REASON_RUN_NOT_FOUND: Answer("NOT_FOUND", "There is no such run."),
    R.ERROR_REASON_RUN_CONFLICT: Answer("ALREADY_EXISTS", "The run_id is taken by a run with other content."),
    R.ERROR_REASON_REQUEST_ID_CONFLICT: Answer(
        "ALREADY_EXISTS", "The request_id was used in this session with other content."
    ),
    R.ERROR_REASON_EVENT_ID_CONFLICT: Answer(
        "ALREADY_EXISTS", "The event_id is stored in this run with other content."
    ),
    R.ERROR_REASON_TOOL_CALL_CONFLICT: Answer(
        "ALREADY_EXISTS", "The tool_call_id is recorded in this run with other content."
    ),
    R.ERROR_REASON_RUN_NOT_STARTED: Answer("FAILED_PRECONDITION", "The run is not started."),
    R.ERROR_REASON_RUN_ALREADY_FINISHED: Answer(
        "FAILED_PRECONDITION", "The run is final; the details name its status."
    ),
    R.ERROR_REASON_RUN_NOT_MANAGED: Answer(
        "FAILED_PRECONDITION", "The run was not created by this service and can only be read."
    ),
    R.ERROR_REASON_SEQ_BEYOND_HEAD: Answer(
        "OUT_OF_RANGE", "after_seq lies beyond the head of the run; the details name the head."
    ),
    R.ERROR_REASON_SEQ_PURGED: Answer(
        "OUT_OF_RANGE", "Events after after_seq were purged; the details name the oldest one stored."
    ),
    R.ERROR_REASON_SLOW_CONSUMER: Answer(
        "RESOURCE_EXHAUSTED",
        "The reader took nothing for too long; resume from the last seq that was received.",
    ),
    R.ERROR_REASON_OVERLOADED: Answer("RESOURCE_EXHAUSTED", "The service is overloaded; try again later."),
    R.ERROR_REASON_DRAINING: Answer("UNAVAILABLE", "The server is shutting down; try again elsewhere."),
    R.ERROR_REASON_STORE_UNAVAILABLE: Answer("UNAVAILABLE", "The store does not answer; try again."),
    R.ERROR_REASON_STORE_CONFLICT: Answer(
        "ABORTED", "The write lost against other writes and nothing of it was stored; try again."
    ),
    R.ERROR_REASON_DEADLINE_EXCEEDED: Answer("DEADLINE_EXCEEDED", "The call took longer than its deadline."),
    R.ERROR_REASON_UNAUTHENTICATED: Answer("UNAUTHENTICATED", "The call carries no valid token."),
    R.ERROR_REASON_ROLE_REQUIRED: Answer("PERMISSION_DENIED", "The caller has no role that may do this."),
    R.ERROR_REASON_INTERNAL: Answer(
        "INTERNAL", "The service failed; its log has more under the reference in the details."
    ),
}
