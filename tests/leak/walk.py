"""Walks the descriptors of both services: every place of every request in which a canary can be put."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

from superbizagent.audit.v1 import audit_service_pb2
from superbizagent.run.v1 import run_service_pb2
from superbizagent_contract import TEXT_FIELDS

SERVICES = [
    run_service_pb2.DESCRIPTOR.services_by_name["RunService"],
    audit_service_pb2.DESCRIPTOR.services_by_name["AuditService"],
]
METHODS: list[MethodDescriptor] = [method for service in SERVICES for method in service.methods]
READS = ("Get", "List", "Stream", "Search", "Summarize")

_F = FieldDescriptor
_BITS = {_F.TYPE_INT32: 32, _F.TYPE_ENUM: 32, _F.TYPE_INT64: 64}
_UNKNOWN_FIELD = b"\xc2\x3e"  # number 1000, bytes


@dataclass(frozen=True)
class Place:
    """A field, by its path in the request; an empty path is the request itself."""

    method: MethodDescriptor
    path: tuple[str, ...]
    field: FieldDescriptor | None

    @property
    def name(self) -> str:
        return ".".join((self.method.name, *self.path))

    @property
    def is_string(self) -> bool:
        return self.field is not None and self.field.type == _F.TYPE_STRING

    @property
    def is_text(self) -> bool:
        return self.field is not None and self.field.name in TEXT_FIELDS

    @property
    def is_message(self) -> bool:
        return self.field is None or self.field.type == _F.TYPE_MESSAGE

    @property
    def bits(self) -> int:
        """Of a number; 0 of anything else."""
        return 0 if self.field is None else _BITS.get(self.field.type, 0)


def path_of(method: MethodDescriptor) -> str:
    """As gRPC calls it."""
    return f"/{method.containing_service.full_name}/{method.name}"


def is_read(method: MethodDescriptor) -> bool:
    """True if the method changes nothing."""
    return method.name.startswith(READS)


def places(method: MethodDescriptor) -> list[Place]:
    """Every place of the request, however deep."""
    found = [Place(method, (), None)]
    found += [Place(method, path, field) for path, field in _fields(method.input_type, ())]
    return found


def _fields(message: Descriptor, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], FieldDescriptor]]:
    for field in message.fields:
        path = (*above, field.name)
        yield path, field
        if field.message_type is not None:
            yield from _fields(field.message_type, path)


def put(request: Message, path: Sequence[str], value: Any) -> None:
    """Set the field at a path; of a list, in its last item."""
    *above, name = path
    target = _target(request, above)
    setattr(target, name, value)


def put_unknown(request: Message, path: Sequence[str], value: bytes) -> None:
    """Add a field that no contract knows to the message at a path."""
    size = len(value)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    target = _target(request, path)
    target.MergeFromString(_UNKNOWN_FIELD + length + value)


def _target(request: Message, path: Sequence[str]) -> Any:
    target: Any = request
    for name in path:
        inner = getattr(target, name)
        target = inner if isinstance(inner, Message) else inner[-1]
    return target
