"""The gate under anything: bytes become a checked model, or a refusal that says nothing of them."""

import traceback
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from audit_service import inputs as audit_inputs
from common.errors import Refusal
from common.gate import Gate
from common.server.status_details import to_answer
from run_service import inputs as run_inputs
from superbizagent.audit.v1 import audit_service_pb2
from superbizagent.run.v1 import run_service_pb2
from superbizagent_contract import DEFAULT_TOOLS, STRING_FIELDS, kinds

GATE = Gate(DEFAULT_TOOLS)
MODELS: dict[type[Message], type[BaseModel]] = {
    run_service_pb2.CreateRunRequest: run_inputs.CreateRun,
    run_service_pb2.StartRunRequest: run_inputs.StartRun,
    run_service_pb2.AppendRunEventsRequest: run_inputs.AppendRunEvents,
    run_service_pb2.RenewRunLeaseRequest: run_inputs.RenewRunLease,
    run_service_pb2.FinishRunRequest: run_inputs.FinishRun,
    run_service_pb2.CancelRunRequest: run_inputs.CancelRun,
    run_service_pb2.RecordFeedbackRequest: run_inputs.RecordFeedback,
    run_service_pb2.GetRunRequest: run_inputs.GetRun,
    run_service_pb2.GetLatestRunRequest: run_inputs.GetLatestRun,
    run_service_pb2.ListRunsRequest: run_inputs.ListRuns,
    run_service_pb2.ListRunEventsRequest: run_inputs.ListRunEvents,
    run_service_pb2.StreamRunEventsRequest: run_inputs.StreamRunEvents,
    audit_service_pb2.RecordToolInvocationRequest: audit_inputs.RecordToolInvocationInput,
    audit_service_pb2.ListByRunRequest: audit_inputs.ListByRunInput,
    audit_service_pb2.SearchToolInvocationsRequest: audit_inputs.SearchToolInvocationsInput,
    audit_service_pb2.SummarizeToolInvocationsRequest: audit_inputs.SummarizeToolInvocationsInput,
}
"""Every request but the batch, whose items pass one by one."""

_F = FieldDescriptor
_EDGES = (0, 1, -1, 2**31 - 1, -(2**31), 999_999_999, 1_700_000_000)
_INT32 = st.sampled_from(_EDGES) | st.integers(-(2**31), 2**31 - 1)
_INT64 = st.sampled_from((*_EDGES, 2**63 - 1, -(2**63))) | st.integers(-(2**63), 2**63 - 1)
_MARK = "Zq7Xw"
_TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    st.from_regex(kinds.IDENTIFIER.pattern, fullmatch=True),
    st.sampled_from(("A", "query_logs", "{}", "0" * 32, "run-0f8fad5b-d9cb-469f-a165-70867728950e", "")),
)
_VALUES: dict[int, st.SearchStrategy[Any]] = {
    _F.TYPE_INT32: _INT32,
    _F.TYPE_ENUM: st.integers(-2, 12) | _INT32,
    _F.TYPE_INT64: _INT64,
    _F.TYPE_BOOL: st.booleans(),
    _F.TYPE_STRING: _TEXTS,
}


@st.composite
def filled(draw: st.DrawFn, kind: type[Message]) -> Message:
    """A message of any shape that its type allows."""
    message = kind()
    _fill(draw, message)
    return message


def _fill(draw: st.DrawFn, message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        if not draw(st.booleans()):
            continue
        if field.message_type is None:
            setattr(message, field.name, draw(_VALUES[field.type]))
        elif field.is_repeated:
            for _ in range(draw(st.integers(1, 3))):
                _fill(draw, getattr(message, field.name).add())
        else:
            getattr(message, field.name).SetInParent()
            _fill(draw, getattr(message, field.name))


def _judge(message: Message) -> BaseModel | Refusal:
    try:
        return GATE.write(MODELS[type(message)], message)
    except Refusal as refusal:
        return refusal


def _assert_sound(answer: BaseModel | Refusal) -> None:
    if isinstance(answer, Refusal):
        assert answer.__cause__ is None
        assert answer.__context__ is None
        assert all(kinds.FIELD_PATH.fits(violation.field) for violation in answer.violations)
        assert sum(len(key) + len(value) for key, value in to_answer(answer).trailers) < 8192
        return
    for name, value in answer:
        items = value if isinstance(value, tuple) else (value,)
        for item in items:
            if isinstance(item, BaseModel):
                _assert_sound(item)
            elif isinstance(item, str) and name in STRING_FIELDS:
                assert STRING_FIELDS[name].admits(item), name


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_any_message_becomes_a_model_in_the_grammar_or_a_refusal(
    kind: type[Message], data: st.DataObject
) -> None:
    _assert_sound(_judge(data.draw(filled(kind))))


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
@given(data=st.data(), raw=st.binary(max_size=40), place=st.integers(0, 200))
def test_any_bytes_that_decode_become_a_model_in_the_grammar_or_a_refusal(
    kind: type[Message], data: st.DataObject, raw: bytes, place: int
) -> None:
    whole = data.draw(filled(kind)).SerializeToString()
    message = kind()
    try:
        message.ParseFromString(whole[:place] + raw + whole[place:])
    except DecodeError:
        return
    _assert_sound(_judge(message))


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_refusal_repeats_nothing_of_a_message_with_several_wrong_fields(
    kind: type[Message], data: st.DataObject
) -> None:
    message = data.draw(filled(kind))
    for field in message.DESCRIPTOR.fields:
        if field.type == _F.TYPE_STRING and field.name in STRING_FIELDS:
            setattr(message, field.name, f" {_MARK}{field.name}")
    answer = _judge(message)
    if isinstance(answer, Refusal):
        shown = (repr(answer), repr(vars(answer)), "".join(traceback.format_exception(answer)))
        assert not any(_MARK in text for text in (*shown, repr(to_answer(answer))))
