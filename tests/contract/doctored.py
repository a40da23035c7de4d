"""Copies of the contracts with one thing wrong, as descriptors of a pool of their own."""

from collections.abc import Callable
from typing import Any

from google.protobuf import any_pb2, struct_pb2, wrappers_pb2
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from common.contract_check import files_of, services_in
from tests.contract.descriptors import AUDIT_SERVICE, RUN_SERVICE

F = FieldDescriptorProto
Files = dict[str, FileDescriptorProto]
Doctor = Callable[[Files], None]

AUDIT, EVENT, RUN, RUN_RPCS, INVOCATION = (
    f"superbizagent/{name}.proto"
    for name in (
        "audit/v1/audit_service",
        "run/v1/run_event",
        "run/v1/run",
        "run/v1/run_service",
        "audit/v1/tool_invocation",
    )
)


def files() -> Files:
    """Every file of the contracts, by name, free to be changed."""
    found: Files = {}
    for name, file in files_of([RUN_SERVICE, AUDIT_SERVICE]).items():
        file.CopyToProto(found.setdefault(name, FileDescriptorProto()))
    return found


def doctored(doctor: Doctor) -> list[ServiceDescriptor]:
    """Both services after the doctor was there."""
    changed = files()
    doctor(changed)
    return services_in(changed.values(), [RUN_SERVICE.full_name, AUDIT_SERVICE.full_name])


def message(within: FileDescriptorProto, name: str) -> DescriptorProto:
    """A message of a file."""
    return next(one for one in within.message_type if one.name == name)


def with_field(
    file: str, holder: str, name: str, kind: "F.Type.ValueType" = F.TYPE_STRING, **more: Any
) -> Doctor:
    """A doctor that adds a field to a message."""

    def change(changed: Files) -> None:
        given: dict[str, Any] = {"number": 900, "type": kind, "label": F.LABEL_OPTIONAL} | more
        message(changed[file], holder).field.add(name=name, **given)

    return change


def with_foreign(holder: str, type_name: str) -> Doctor:
    """A doctor that lets a message of AuditService hold one of protobuf's own types."""
    module = next(
        one
        for one in (any_pb2, struct_pb2, wrappers_pb2)
        if type_name in one.DESCRIPTOR.message_types_by_name
    )

    def change(changed: Files) -> None:
        name = module.DESCRIPTOR.name
        module.DESCRIPTOR.CopyToProto(changed.setdefault(name, FileDescriptorProto()))
        changed[AUDIT].dependency.append(name)
        with_field(AUDIT, holder, "extra", F.TYPE_MESSAGE, type_name=f".google.protobuf.{type_name}")(changed)

    return change


def with_map(changed: Files) -> None:
    """map<string, string> labels."""
    holder = message(changed[AUDIT], "ListByRunResponse")
    entry = holder.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    path = ".superbizagent.audit.v1.ListByRunResponse.LabelsEntry"
    holder.field.add(name="labels", number=900, type=F.TYPE_MESSAGE, label=F.LABEL_REPEATED, type_name=path)


def with_a_timestamp_that_is_none(changed: Files) -> None:
    """The name of a known message, and another message behind it."""
    timestamp = message(changed["google/protobuf/timestamp.proto"], "Timestamp")
    timestamp.field.add(name="note", number=3, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)


def with_a_hidden_message(changed: Files) -> None:
    """A body two messages below a response."""
    changed[INVOCATION].message_type.add(name="Inner").field.add(
        name="blob", number=1, type=F.TYPE_BYTES, label=F.LABEL_OPTIONAL
    )
    middle = changed[INVOCATION].message_type.add(name="Middle")
    path = ".superbizagent.audit.v1"
    middle.field.add(
        name="inner", number=1, type=F.TYPE_MESSAGE, label=F.LABEL_OPTIONAL, type_name=f"{path}.Inner"
    )
    with_field(INVOCATION, "ToolInvocation", "middle", F.TYPE_MESSAGE, type_name=f"{path}.Middle")(changed)


def with_a_tree(changed: Files) -> None:
    """A message that holds messages of its own type."""
    path = ".superbizagent.audit.v1.ToolInvocation"
    with_field(
        INVOCATION, "ToolInvocation", "children", F.TYPE_MESSAGE, label=F.LABEL_REPEATED, type_name=path
    )(changed)


def with_an_import(changed: Files) -> None:
    """An import that nothing uses yet."""
    struct_pb2.DESCRIPTOR.CopyToProto(
        changed.setdefault("google/protobuf/struct.proto", FileDescriptorProto())
    )
    changed[RUN].dependency.append("google/protobuf/struct.proto")


def with_the_run_in_the_audit(changed: Files) -> None:
    """A message that may hold text, inside of one that may not."""
    changed[AUDIT].dependency.append(RUN)
    with_field(AUDIT, "ListByRunResponse", "run", F.TYPE_MESSAGE, type_name=".superbizagent.run.v1.Run")(
        changed
    )
