"""Metadata-only by construction: what the messages could carry at all."""

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from superbizagent.run.v1.run_event_pb2 import RunEvent, RunEventInput
from superbizagent.run.v1.run_service_pb2 import ListRunEventsResponse, StreamRunEventsResponse
from superbizagent_contract import STRING_FIELDS, TEXT_FIELDS
from tests.contract.descriptors import (
    AUDIT_SERVICE,
    FILES,
    RUN_SERVICE,
    fields,
    messages,
    of_service,
    reachable,
)

TEXTS = {"query", "answer", "published_result_json"}
ALLOWED_IMPORTS = {"google/protobuf/timestamp.proto", "google/protobuf/duration.proto"}
ALLOWED_FOREIGN_MESSAGES = {"google.protobuf.Timestamp", "google.protobuf.Duration"}


def _text_fields(*roots: Descriptor) -> set[str]:
    return {
        field.name
        for message in reachable(*roots).values()
        for field in message.fields
        if field.type == FieldDescriptor.TYPE_STRING and field.name not in STRING_FIELDS
    }


def test_no_field_is_bytes_or_a_group() -> None:
    kinds = {FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_GROUP}
    assert [field.full_name for field in fields() if field.type in kinds] == []


def test_no_message_is_a_map_entry() -> None:
    assert [message.full_name for message in messages() if message.GetOptions().map_entry] == []


def test_messages_from_outside_are_timestamp_and_duration_only() -> None:
    used = {field.message_type.full_name for field in fields() if field.message_type is not None}
    foreign = {name for name in used if not name.startswith("superbizagent.")}
    assert foreign <= ALLOWED_FOREIGN_MESSAGES


def test_files_from_outside_are_timestamp_and_duration_only() -> None:
    imports = {dependency.name for file in FILES for dependency in file.dependencies}
    assert {name for name in imports if not name.startswith("superbizagent/")} <= ALLOWED_IMPORTS


def test_no_message_has_extensions_or_reserved_room_for_other_peoples_fields() -> None:
    assert [file.name for file in FILES if file.extensions_by_name] == []
    assert [message.full_name for message in messages() if message.is_extendable] == []


def test_every_string_field_has_a_kind_or_is_one_of_the_three_texts() -> None:
    strings = {field.name for field in fields() if field.type == FieldDescriptor.TYPE_STRING}
    assert strings - set(STRING_FIELDS) == TEXTS
    assert set(TEXT_FIELDS) == TEXTS


def test_every_declared_kind_is_used_by_a_field() -> None:
    strings = {field.name for field in fields() if field.type == FieldDescriptor.TYPE_STRING}
    assert set(STRING_FIELDS) <= strings


def test_text_exists_in_three_requests_and_the_run_only() -> None:
    holders = {
        (message.name, field.name)
        for message in messages()
        for field in message.fields
        if field.name in TEXTS
    }
    assert holders == {
        ("CreateRunRequest", "query"),
        ("FinishRunRequest", "answer"),
        ("FinishRunRequest", "published_result_json"),
        ("Run", "query"),
        ("Run", "answer"),
        ("Run", "published_result_json"),
    }


def test_nothing_that_audit_service_sends_or_takes_can_hold_text() -> None:
    assert _text_fields(*of_service(AUDIT_SERVICE)) == set()


@pytest.mark.parametrize("message", [ListRunEventsResponse, StreamRunEventsResponse, RunEvent, RunEventInput])
def test_no_event_list_and_no_stream_can_hold_text(message: type) -> None:
    assert _text_fields(message.DESCRIPTOR) == set()  # type: ignore[attr-defined]


def test_run_service_holds_no_text_but_the_three() -> None:
    assert _text_fields(*of_service(RUN_SERVICE)) == TEXTS
