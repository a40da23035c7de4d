"""For every field of RunService's requests: a request that passes, and values that must not."""

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from superbizagent.run.v1 import run_service_pb2 as pb
from tests.support.run import create_request, event, finish_request
from tests.support.run_server import RunServer

TEXTS_OF_ATTACKERS = [
    "' OR 1=1; --",
    "password=hunter2",
    "a\nb",
    "x" * 5000,
    "é",
    "\u0661",
    "a b",
    "{0}",
    "%s",
]

IDENTIFIER: list[Any] = ["", ".a", ":a", "a" * 65, "a\n", *TEXTS_OF_ATTACKERS]
CODE: list[Any] = ["", "lower", "1A", "_A", "A" * 65, "A\n", *TEXTS_OF_ATTACKERS]
STATUS: list[Any] = [*CODE, "A" * 33]
EVIDENCE: list[Any] = [*CODE, "A" * 21]
COUNT: list[Any] = [-1, -(2**31)]
ENUM: list[Any] = [0, 99, -1, 2**31 - 1]
RUN_ID: list[Any] = [*IDENTIFIER, "run-1", "RUN-0f8fad5b-d9cb-469f-a165-70867728950e", "run-" + "F" * 36]
TRACE: list[Any] = ["", "0" * 31, "0" * 33, "F" * 32, "0" * 32 + "\n", *TEXTS_OF_ATTACKERS]
LEASE: list[Any] = [
    Duration(),
    Duration(nanos=999_999_999),
    Duration(seconds=86_400, nanos=1),
    Duration(seconds=-5),
    Duration(seconds=5, nanos=-1),
    Duration(seconds=2**63 - 1),
]
MOMENT: list[Any] = [
    Timestamp(),
    Timestamp(seconds=946_684_799),
    Timestamp(seconds=4_133_980_800),
    Timestamp(seconds=1_700_000_000, nanos=-1),
    Timestamp(seconds=2**63 - 1),
]
JSON: list[Any] = [
    *("", "null", "[]", '"x"', "1", "{", '{"a":"\\u0000"}', '{"a":NaN}', '{"a":1E400}', '{"a":"\\ud800"}'),
    *('{"a":1,"a":1}', '{"a":18446744073709551616}', '{"a":0.12345678901234567890}', "{} {}", "\ufeff{}"),
    *('{"a":' * 31 + "1" + "}" * 31, '{"a":' * 10_000 + "1" + "}" * 10_000, '{"a":"' + "x" * 2**20 + '"}'),
]

WRITES: dict[str, tuple[Message, dict[str, list[Any]]]] = {
    "CreateRun": (
        create_request(),
        {
            "session_id": IDENTIFIER,
            "query": ["", "x" * 16_001, "a\0b", "😀" * 16_001],
            "run_id": RUN_ID,
            "intent": ENUM,
            "trace_id": TRACE,
            "request_id": IDENTIFIER,
            "lease": LEASE,
        },
    ),
    "StartRun": (pb.StartRunRequest(run_id="r"), {"run_id": IDENTIFIER, "lease": LEASE}),
    "RenewRunLease": (pb.RenewRunLeaseRequest(run_id="r"), {"run_id": IDENTIFIER, "lease": LEASE}),
    "AppendRunEvents": (pb.AppendRunEventsRequest(run_id="r", events=[event()]), {"run_id": IDENTIFIER}),
    "FinishRun": (
        finish_request("r"),
        {
            "run_id": IDENTIFIER,
            "release_outcome": ENUM,
            "intent": ENUM,
            "answer": ["a\0b", "x" * (2**20 + 1), "😀" * (2**18 + 1)],
            "published_result_json": JSON,
            "error_code": CODE,
            "total_token_count": COUNT,
            "step_count": COUNT,
            "tool_call_count": COUNT,
            "total_duration_ms": COUNT,
        },
    ),
    "CancelRun": (pb.CancelRunRequest(run_id="r"), {"run_id": IDENTIFIER, "reason_code": CODE}),
    "RecordFeedback": (
        pb.RecordFeedbackRequest(run_id="r", session_id="s"),
        {
            "run_id": IDENTIFIER,
            "session_id": IDENTIFIER,
            "feedback": ["_a", "a" * 17, "👍", *TEXTS_OF_ATTACKERS],
        },
    ),
}
EVENT: dict[str, list[Any]] = {
    "event_id": IDENTIFIER,
    "type": [0, 1, 2, 3, 99, -1],
    "step_id": [0, -1, -(2**63)],
    "step_code": CODE,
    "tool_call_id": IDENTIFIER,
    "tool_name": ["", "1a", "_a", "a" * 65, "made_up_tool", "QUERY_LOGS", *TEXTS_OF_ATTACKERS],
    "status": STATUS,
    "evidence_status": EVIDENCE,
    "error_code": CODE,
    "intent": ENUM,
    "release_outcome": ENUM,
    "duration_ms": COUNT,
    "input_token_count": COUNT,
    "output_token_count": COUNT,
    "result_bytes": COUNT,
    "occur_time": MOMENT,
}
READS: dict[str, tuple[Message, dict[str, list[Any]]]] = {
    "GetRun": (
        pb.GetRunRequest(run_id="r"),
        {"run_id": IDENTIFIER, "session_id": IDENTIFIER, "view": [99, -1]},
    ),
    "GetLatestRun": (pb.GetLatestRunRequest(session_id="s"), {"session_id": IDENTIFIER, "view": [99, -1]}),
    "ListRuns": (
        pb.ListRunsRequest(session_id="s"),
        {
            "session_id": IDENTIFIER,
            "status": [99, -1],
            "page_size": [-1],
            "page_token": ["a b", "=" * 4, "a" * 257],
        },
    ),
    "ListRunEvents": (
        pb.ListRunEventsRequest(run_id="r"),
        {"run_id": IDENTIFIER, "session_id": IDENTIFIER, "after_seq": [-1], "page_size": [-1]},
    ),
}


def changed_request(request: Message, name: str, value: Any) -> Message:
    """A copy with another value in one field."""
    changed = type(request)()
    changed.CopyFrom(request)
    if isinstance(value, Message):
        getattr(changed, name).CopyFrom(value)
    else:
        setattr(changed, name, value)
    return changed


def all_rows(server: RunServer) -> list[Any]:
    """Everything that RunService has stored."""
    names = ("diagnosis_run", "sba_run_control", "sba_run_event", "sba_run_request")
    return [server.sql(f"SELECT * FROM {name}") for name in names]  # noqa: S608 - our own names
