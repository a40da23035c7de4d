"""No refusal repeats the value that it refuses: not in its text, its details, its chain of causes."""

import traceback
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from common.errors import Refusal
from common.gate import Gate
from common.server.status_details import to_answer
from run_service import inputs
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent_contract import DEFAULT_TOOLS, JsonRuleError, parse_published_json
from tests.support.run import create_request, event, finish_request, seconds

GATE = Gate(DEFAULT_TOOLS)
MARK = "Qz7Xv"

VALID: dict[type[BaseModel], Message] = {
    inputs.CreateRun: create_request(
        run_id="run-0f8fad5b-d9cb-469f-a165-70867728950e", trace_id="0" * 32, request_id="q", lease=seconds(5)
    ),
    inputs.StartRun: pb.StartRunRequest(run_id="r"),
    inputs.RenewRunLease: pb.RenewRunLeaseRequest(run_id="r"),
    inputs.FinishRun: finish_request("r"),
    inputs.CancelRun: pb.CancelRunRequest(run_id="r"),
    inputs.RecordFeedback: pb.RecordFeedbackRequest(run_id="r", session_id="s"),
    inputs.GetRun: pb.GetRunRequest(run_id="r"),
    inputs.GetLatestRun: pb.GetLatestRunRequest(session_id="s"),
    inputs.ListRuns: pb.ListRunsRequest(session_id="s"),
    inputs.ListRunEvents: pb.ListRunEventsRequest(run_id="r"),
    inputs.StreamRunEvents: pb.StreamRunEventsRequest(run_id="r"),
}


def _fields(message: Message, *types: int) -> list[str]:
    return [field.name for field in message.DESCRIPTOR.fields if field.type in types]


STRINGS = [
    (model, name)
    for model, valid in VALID.items()
    for name in _fields(valid, FieldDescriptor.TYPE_STRING)
    if name not in ("query", "answer", "published_result_json")
]
EVENT_STRINGS = _fields(event(), FieldDescriptor.TYPE_STRING)
NUMBERS = [
    (model, name)
    for model, valid in VALID.items()
    for name in _fields(valid, FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)
]

SECRETS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).map(
        lambda text: f" {MARK}{text}"
    ),
    st.sampled_from(
        [
            f"DROP TABLE {MARK}; --",
            f"password={MARK}",
            f"mysql://root:{MARK}@db:3306/x",
            f"eyJ{MARK}.eyJ{MARK}.sig",
            f"sk-{MARK}" + "a" * 30,
            f"ghp_{MARK}" + "a" * 30,
            f"{MARK}" * 1000,
            f"{{{MARK}}}",
            f"%s %({MARK})s {{0}} {{field}}",
            f"\U0010ffff{MARK}👩‍👩‍👧‍👦",
        ]
    ),
)


def _assert_silent(refusal: Refusal, *traces: str) -> None:
    answer = to_answer(refusal)
    shown = [
        str(refusal),
        repr(refusal),
        repr(refusal.args),
        repr(refusal.violations),
        repr(refusal.metadata()),
        answer.sentence,
        "".join(traceback.format_exception(refusal)),
        *(str(value) for _, value in answer.trailers),
    ]
    assert refusal.__cause__ is None
    assert refusal.__context__ is None
    assert [text for text in shown for trace in traces if trace in text] == []


def _refusal(model: type[BaseModel], message: Message) -> Refusal:
    with pytest.raises(Refusal) as caught:
        GATE.write(model, message)
    return caught.value


def _copy(model: type[BaseModel], name: str, value: Any) -> Message:
    message = type(VALID[model])()
    message.CopyFrom(VALID[model])
    setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    ("model", "name"), STRINGS, ids=[f"{model.__name__}.{name}" for model, name in STRINGS]
)
@settings(max_examples=40)
@given(value=SECRETS)
def test_a_refused_string_is_not_repeated(model: type[BaseModel], name: str, value: str) -> None:
    found = _refusal(model, _copy(model, name, value))
    assert found.field == name
    _assert_silent(found, MARK)


@pytest.mark.parametrize("name", EVENT_STRINGS)
@settings(max_examples=40)
@given(value=SECRETS)
def test_a_refused_string_of_an_event_is_not_repeated(name: str, value: str) -> None:
    events = [event(), event(**{name: value})]
    found = _refusal(inputs.AppendRunEvents, pb.AppendRunEventsRequest(run_id="r", events=events))
    assert found.field == f"events[1].{name}"
    _assert_silent(found, MARK)


@pytest.mark.parametrize(
    ("model", "name"), NUMBERS, ids=[f"{model.__name__}.{name}" for model, name in NUMBERS]
)
@settings(max_examples=40)
@given(value=st.integers(-2_000_000_000, -1_000_000))
def test_a_refused_number_is_not_repeated(model: type[BaseModel], name: str, value: int) -> None:
    _assert_silent(_refusal(model, _copy(model, name, value)), str(value), str(-value))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":"{MARK}"',
        f'{{"{MARK}":1,"{MARK}":2}}',
        f'{{"a":"{MARK}\\u0000"}}',
        f'{{"a":"{MARK}\\ud800"}}',
        f'["{MARK}"]',
        f'{{"{MARK}":NaN}}',
        f'{{"{MARK}":1E400}}',
        f'{{"{MARK}":' + '{"a":' * 40 + "1" + "}" * 41,
        f'{{"{MARK}":' + "[" * 100_000,
        MARK,
    ],
    ids=range(10),
)
def test_a_refused_document_is_not_repeated(text: str) -> None:
    found = _refusal(inputs.FinishRun, _copy(inputs.FinishRun, "published_result_json", text))
    assert found.field == "published_result_json"
    _assert_silent(found, MARK)
    with pytest.raises(JsonRuleError) as caught:
        parse_published_json(text)
    assert MARK not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(("name", "value"), [("query", f"{MARK}\0"), ("query", MARK * 16_000), ("query", "")])
def test_a_refused_query_is_not_repeated(name: str, value: str) -> None:
    _assert_silent(_refusal(inputs.CreateRun, _copy(inputs.CreateRun, name, value)), MARK)


@pytest.mark.parametrize("value", [f"{MARK}\0", MARK * 300_000])
def test_a_refused_answer_is_not_repeated(value: str) -> None:
    _assert_silent(_refusal(inputs.FinishRun, _copy(inputs.FinishRun, "answer", value)), MARK)


def test_the_longest_answer_to_a_refusal_fits_into_the_trailers() -> None:
    events = [RunEventInput(event_id=" " * 500, tool_name=" ", type=99) for _ in range(500)]  # type: ignore[arg-type]
    found = _refusal(inputs.AppendRunEvents, pb.AppendRunEventsRequest(run_id="r", events=events))
    assert sum(len(key) + len(value) for key, value in to_answer(found).trailers) < 8192
