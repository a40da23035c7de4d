"""Metadata-only by construction: what the messages could carry at all, by the checker of the product."""

from google.protobuf.descriptor import FieldDescriptor

from common.contract_check import breaches_of, messages_of, metadata_only_messages
from superbizagent_contract import STRING_FIELDS, TEXT_FIELDS
from superbizagent_contract.metadata_only import (
    BODY_WORDS,
    HARMLESS_NAMES,
    METADATA_ONLY,
    REPEATED_NUMBERS,
)
from tests.contract.descriptors import AUDIT_SERVICE, RUN_SERVICE, fields, messages

SERVICES = [RUN_SERVICE, AUDIT_SERVICE]


def test_the_contracts_break_no_rule() -> None:
    assert breaches_of(SERVICES) == []


def test_every_message_is_reached_by_a_call_so_that_none_goes_unchecked() -> None:
    reached = messages_of(method for service in SERVICES for method in service.methods)
    assert {message.full_name for message in messages()} == {
        name for name in reached if name.startswith("superbizagent.")
    }


def test_everything_of_the_audit_and_of_events_may_hold_metadata_only() -> None:
    strict = {name.rpartition(".")[2] for name in metadata_only_messages(SERVICES)}
    audit = {
        name.rpartition(".")[2]
        for name in messages_of(AUDIT_SERVICE.methods)
        if name.startswith("superbizagent.audit.")
    }
    assert audit <= strict
    assert {"RunEvent", "RunEventInput", "ListRunEventsResponse", "StreamRunEventsResponse"} <= strict
    assert "Run" not in strict


def test_what_the_rules_name_exists() -> None:
    """A name that was left behind would excuse whoever takes it next."""
    methods = {method.full_name for service in SERVICES for method in service.methods}
    names = {name for field in fields() for name in (field.name, field.full_name)}
    assert methods | {service.full_name for service in SERVICES} >= METADATA_ONLY
    assert set(HARMLESS_NAMES) <= names
    assert set(REPEATED_NUMBERS) <= {field.full_name for field in fields()}
    assert all(BODY_WORDS.intersection(name.rpartition(".")[2].split("_")) for name in HARMLESS_NAMES)


def test_every_declared_kind_is_used_by_a_field() -> None:
    strings = {field.name for field in fields() if field.type == FieldDescriptor.TYPE_STRING}
    assert set(STRING_FIELDS) | set(TEXT_FIELDS) == strings
    assert not set(TEXT_FIELDS) & set(STRING_FIELDS)


def test_text_exists_in_three_fields_of_two_requests_and_the_run_only() -> None:
    assert {name: sorted(text.messages) for name, text in TEXT_FIELDS.items()} == {
        "query": ["superbizagent.run.v1.CreateRunRequest", "superbizagent.run.v1.Run"],
        "answer": ["superbizagent.run.v1.FinishRunRequest", "superbizagent.run.v1.Run"],
        "published_result_json": ["superbizagent.run.v1.FinishRunRequest", "superbizagent.run.v1.Run"],
    }
    assert all(len(text.reason) > 20 for text in TEXT_FIELDS.values())
    holders = {field.full_name for field in fields() if field.name in TEXT_FIELDS}
    assert holders == {f"{message}.{name}" for name, text in TEXT_FIELDS.items() for message in text.messages}


def test_no_kind_of_string_can_hold_a_space_a_line_or_a_control_character() -> None:
    for kind in STRING_FIELDS.values():
        for character in (
            " ",
            "\n",
            "\r",
            "\t",
            "\x00",
            "\x1b",
            "\x7f",
            "\x9b",
            "\u202e",
            "'",
            '"',
            ";",
            "=",
        ):
            assert not kind.fits(f"A{character}A")
            assert not kind.fits(f"a{character}")
            assert not kind.fits(character)
