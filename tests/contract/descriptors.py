"""The contracts as their descriptors say them, for the tests that walk them."""

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor

from superbizagent.audit.v1 import audit_service_pb2, tool_invocation_pb2
from superbizagent.error.v1 import error_reason_pb2
from superbizagent.run.v1 import run_event_pb2, run_pb2, run_service_pb2

FILES: tuple[FileDescriptor, ...] = (
    run_pb2.DESCRIPTOR,
    run_event_pb2.DESCRIPTOR,
    run_service_pb2.DESCRIPTOR,
    tool_invocation_pb2.DESCRIPTOR,
    audit_service_pb2.DESCRIPTOR,
    error_reason_pb2.DESCRIPTOR,
)
RUN_SERVICE: ServiceDescriptor = run_service_pb2.DESCRIPTOR.services_by_name["RunService"]
AUDIT_SERVICE: ServiceDescriptor = audit_service_pb2.DESCRIPTOR.services_by_name["AuditService"]


def messages() -> Iterator[Descriptor]:
    """Every message of the contracts, nested ones too."""
    for file in FILES:
        for message in file.message_types_by_name.values():
            yield from _with_nested(message)


def fields() -> Iterator[FieldDescriptor]:
    """Every field of every message."""
    for message in messages():
        yield from message.fields


def _with_nested(message: Descriptor) -> Iterator[Descriptor]:
    yield message
    for nested in message.nested_types:
        yield from _with_nested(nested)
