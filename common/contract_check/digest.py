"""The digest of a contract: the same for generated code and for every server of that contract.

It does not depend on comments, on the order in which a file declares things, or on who serves the
descriptors; a name, number, type, option or import more or less changes it.
"""

import hashlib
from collections.abc import Iterable
from operator import attrgetter

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from common.contract_check.walk import files_of

_name = attrgetter("name")
_FOREIGN = "google/protobuf/"
"""Not part of it: those files are held to their shape, and their comments and options are not ours."""


def contract_digest(services: Iterable[ServiceDescriptor]) -> str:
    """SHA-256, in hex, of the files of these services in their canonical form."""
    files = FileDescriptorSet()
    for name, file in sorted(files_of(services).items()):
        if not name.startswith(_FOREIGN):
            file.CopyToProto(proto := FileDescriptorProto())
            files.file.append(canonical(proto))
    return hashlib.sha256(files.SerializeToString(deterministic=True)).hexdigest()


def canonical(file: FileDescriptorProto) -> FileDescriptorProto:
    """A copy without source info, with everything that has no order of its own in order of name or number."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("source_code_info")
    publicly = {copy.dependency[index] for index in copy.public_dependency}
    weakly = {copy.dependency[index] for index in copy.weak_dependency}
    copy.dependency.sort()
    copy.public_dependency[:] = _indexes(copy, publicly)
    copy.weak_dependency[:] = _indexes(copy, weakly)
    copy.message_type.sort(key=_name)
    copy.enum_type.sort(key=_name)
    copy.service.sort(key=_name)
    for message in copy.message_type:
        _arrange(message)
    for enum in copy.enum_type:
        _arrange_values(enum)
    for service in copy.service:
        service.method.sort(key=_name)
    return copy


def _indexes(file: FileDescriptorProto, names: set[str]) -> list[int]:
    return [index for index, name in enumerate(file.dependency) if name in names]


def _arrange(message: DescriptorProto) -> None:
    oneofs = [oneof.name for oneof in message.oneof_decl]
    message.oneof_decl.sort(key=_name)
    places = {oneof.name: place for place, oneof in enumerate(message.oneof_decl)}
    for field in message.field:
        if field.HasField("oneof_index"):
            field.oneof_index = places[oneofs[field.oneof_index]]
        if field.json_name == _json_name(field.name):
            # Some compilers write down what follows from the name anyway.
            field.ClearField("json_name")
    message.field.sort(key=lambda field: field.number)
    message.nested_type.sort(key=_name)
    message.enum_type.sort(key=_name)
    for nested in message.nested_type:
        _arrange(nested)
    for enum in message.enum_type:
        _arrange_values(enum)


def _arrange_values(enum: EnumDescriptorProto) -> None:
    enum.value.sort(key=lambda value: (value.number, value.name))


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
