"""Every way to let a body into the contracts is caught, and the place is named."""

from typing import Any

import pytest

from common.contract_check import DescriptorError, breaches_of, contract_digest, missing_imports, services_in
from superbizagent_contract.metadata_only import BODY_WORDS
from tests.contract import doctored as d
from tests.contract.descriptors import AUDIT_SERVICE, RUN_SERVICE
from tests.contract.doctored import AUDIT, EVENT, INVOCATION, RUN, RUN_RPCS, Doctor, F, with_field

REPEATED: dict[str, Any] = {"label": F.LABEL_REPEATED}

DOCTORS: dict[str, tuple[Doctor, str, str]] = {
    "bytes in the audit": (
        with_field(INVOCATION, "ToolInvocationInput", "digest", F.TYPE_BYTES),
        "ToolInvocationInput.digest",
        "bytes",
    ),
    "bytes in a run": (with_field(RUN, "Run", "digest", F.TYPE_BYTES), "Run.digest", "bytes"),
    "a group": (
        with_field(EVENT, "RunEvent", "more", F.TYPE_GROUP, type_name=".superbizagent.run.v1.RunEvent"),
        "RunEvent.more",
        "group",
    ),
    "any": (d.with_foreign("ListByRunResponse", "Any"), "google.protobuf.Any", "of others"),
    "a struct": (d.with_foreign("ListByRunResponse", "Struct"), "google.protobuf.Struct", "of others"),
    "a value": (d.with_foreign("ListByRunRequest", "Value"), "google.protobuf.Value", "of others"),
    "a wrapped string": (
        d.with_foreign("ListByRunResponse", "StringValue"),
        "google.protobuf.StringValue",
        "of others",
    ),
    "a map": (d.with_map, "ListByRunResponse.labels", "map"),
    "a string without a kind": (with_field(EVENT, "RunEvent", "detail_id"), "RunEvent.detail_id", "kind"),
    "a string without a kind in a run": (with_field(RUN, "Run", "title"), "Run.title", "kind"),
    "a list of identifiers": (
        with_field(RUN_RPCS, "ListRunEventsRequest", "tool_name", **REPEATED),
        "ListRunEventsRequest.tool_name",
        "list of strings",
    ),
    "a list of numbers": (
        with_field(EVENT, "RunEventInput", "codepoints", F.TYPE_INT32, **REPEATED),
        "RunEventInput.codepoints",
        "list of single values",
    ),
    "a text field of a run in an event": (
        with_field(EVENT, "RunEvent", "answer"),
        "RunEvent.answer",
        "text",
    ),
    "a text field in another request": (
        with_field(RUN_RPCS, "CancelRunRequest", "answer"),
        "CancelRunRequest.answer",
        "text",
    ),
    "a run in the audit": (d.with_the_run_in_the_audit, "Run.query", "must hold metadata only"),
    "bytes far below": (d.with_a_hidden_message, "Inner.blob", "bytes"),
    "a tree": (d.with_a_tree, "ToolInvocation", "hold itself"),
    "an import": (d.with_an_import, RUN, "imports"),
    "a false timestamp": (d.with_a_timestamp_that_is_none, "google.protobuf.Timestamp", "not the message"),
    "a number called like a body": (
        with_field(EVENT, "RunEventInput", "prompt", F.TYPE_INT64),
        "RunEventInput.prompt",
        "name that bodies have",
    ),
    "a string called like a measure": (
        with_field(INVOCATION, "ToolInvocation", "response_bytes"),
        "ToolInvocation.response_bytes",
        "name that bodies have",
    ),
}


@pytest.mark.parametrize(("doctor", "place", "rule"), DOCTORS.values(), ids=DOCTORS)
def test_it_is_caught(doctor: Doctor, place: str, rule: str) -> None:
    found = breaches_of(d.doctored(doctor))
    assert [one for one in found if one.place.endswith(place) and rule in one.rule], found


@pytest.mark.parametrize("word", sorted(BODY_WORDS))
def test_a_field_of_an_event_is_not_called_like_a_body(word: str) -> None:
    for name in (word, f"tool_{word}", f"{word}_id"):
        found = breaches_of(d.doctored(with_field(EVENT, "RunEvent", name, F.TYPE_BOOL)))
        assert [one.place for one in found] == [f"superbizagent.run.v1.RunEvent.{name}"]


@pytest.mark.parametrize("name", ["request_bytes", "result_count", "sql_ms"])
def test_a_measure_of_a_body_is_no_body(name: str) -> None:
    assert breaches_of(d.doctored(with_field(RUN_RPCS, "ListRunEventsResponse", name, F.TYPE_INT64))) == []


def test_every_doctor_changes_the_digest_and_the_order_of_things_does_not() -> None:
    services = [RUN_SERVICE, AUDIT_SERVICE]
    digests = {name: contract_digest(d.doctored(doctor)) for name, (doctor, _, _) in DOCTORS.items()}
    assert digests.pop("a false timestamp") == contract_digest(services)  # held to its shape instead
    assert contract_digest(services) not in digests.values()
    assert len(set(digests.values())) == len(digests)

    def shuffle(changed: d.Files) -> None:
        for file in changed.values():
            file.message_type.sort(key=lambda one: one.name[::-1])
            for message in file.message_type:
                message.field.sort(key=lambda field: field.name)
            file.source_code_info.location.add(leading_comments="a comment")

    assert contract_digest(d.doctored(shuffle)) == contract_digest(reversed(services))


def test_files_that_are_not_whole_are_an_error_without_their_words() -> None:
    changed = d.files()
    del changed["superbizagent/run/v1/run.proto"]
    assert missing_imports(changed.values()) == {"superbizagent/run/v1/run.proto"}
    with pytest.raises(DescriptorError) as caught:
        services_in(changed.values(), [RUN_SERVICE.full_name])
    assert str(caught.value) == ""
    assert caught.value.__context__ is None


def test_files_that_import_each_other_in_a_circle_are_an_error() -> None:
    changed = d.files()
    changed[EVENT].dependency.append(RUN_RPCS)
    with pytest.raises(DescriptorError):
        services_in(changed.values(), [RUN_SERVICE.full_name])


def test_a_service_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DescriptorError):
        services_in(d.files().values(), ["superbizagent.run.v1.Nothing"])


def test_the_audit_alone_is_checked_alone() -> None:
    found = breaches_of([d.doctored(with_field(AUDIT, "ListByRunRequest", "sql"))[0]])
    assert [one.rule for one in found] == [
        "has a name that bodies have",
        "is a string without a grammar kind",
    ]
