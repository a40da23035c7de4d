"""The rules of "metadata only" over descriptors: what a field may be, and what it may be called.

A breach names a place of the contract and a rule. Places of a foreign server are its own words; whoever
prints them makes them safe first.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor

from common.contract_check.walk import contains_itself, files_of, messages_of
from superbizagent_contract import STRING_FIELDS
from superbizagent_contract.metadata_only import (
    BODY_WORDS,
    HARMLESS_NAMES,
    MEASURES,
    METADATA_ONLY,
    REPEATED_NUMBERS,
    TEXT_FIELDS,
)

OURS = "superbizagent."

_F = FieldDescriptor
_TIME_SHAPE = [("seconds", _F.TYPE_INT64, False), ("nanos", _F.TYPE_INT32, False)]
_TIMES = {
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.protobuf.Duration": "google/protobuf/duration.proto",
}


class Breach(NamedTuple):
    """A place of a contract that breaks a rule."""

    place: str
    rule: str

    def __str__(self) -> str:
        return f"{self.place} {self.rule}"


def breaches_of(services: Sequence[ServiceDescriptor]) -> list[Breach]:
    """Every breach in what the services consist of; none if they can carry metadata only."""
    every = messages_of(method for service in services for method in service.methods)
    strict = metadata_only_messages(services)
    found = {breach for file in files_of(services).values() for breach in _of_file(file)}
    for message in every.values():
        found.update(_of_message(message))
    for message in strict.values():
        found.update(_of_strict_message(message))
    return sorted(found)


def metadata_only_messages(services: Sequence[ServiceDescriptor]) -> dict[str, Descriptor]:
    """The messages that may hold no text at all."""
    return messages_of(
        method
        for service in services
        for method in service.methods
        if METADATA_ONLY & {service.full_name, method.full_name}
    )


def _of_file(file: FileDescriptor) -> Iterator[Breach]:
    for dependency in file.dependencies:
        if not dependency.name.startswith("superbizagent/") and dependency.name not in _TIMES.values():
            yield Breach(file.name, "imports a file of others that holds more than times")
    if file.extensions_by_name:
        yield Breach(file.name, "extends messages with fields that are in no message")


def _of_message(message: Descriptor) -> Iterator[Breach]:
    name = message.full_name
    if name in _TIMES:
        shape = [(field.name, field.type, field.is_repeated) for field in message.fields]
        if shape != _TIME_SHAPE:
            yield Breach(name, "is not the message of that name: seconds and nanos and nothing else")
        return
    if not name.startswith(OURS):
        yield Breach(name, "is a message of others, which may hold anything")
        return
    if message.is_extendable or message.extensions:
        yield Breach(name, "can be extended with any field")
    for field in message.fields:
        yield from _of_field(field)


def _of_field(field: FieldDescriptor) -> Iterator[Breach]:
    if field.type == _F.TYPE_BYTES:
        yield Breach(field.full_name, "is bytes, which hold anything")
    elif field.type == _F.TYPE_GROUP:
        yield Breach(field.full_name, "is a group")
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        yield Breach(field.full_name, "is a map, whose keys are names that no grammar knows")
    elif field.type == _F.TYPE_STRING:
        yield from _of_string(field)


def _of_string(field: FieldDescriptor) -> Iterator[Breach]:
    text = TEXT_FIELDS.get(field.name)
    if text is not None and field.full_name.rpartition(".")[0] not in text.messages:
        yield Breach(field.full_name, "is a text in a message that is not on the list of those with one")
    elif text is None and field.name not in STRING_FIELDS:
        yield Breach(field.full_name, "is a string without a grammar kind")
    if field.is_repeated:
        yield Breach(field.full_name, "is a list of strings, which can spell a text")


def _of_strict_message(message: Descriptor) -> Iterator[Breach]:
    if message.full_name in _TIMES:
        return
    if contains_itself(message):
        yield Breach(message.full_name, "can hold itself: a tree of any shape")
    for field in message.fields:
        name = field.full_name
        if field.type == _F.TYPE_STRING and field.name in TEXT_FIELDS:
            yield Breach(name, "is a text in what must hold metadata only")
        if field.is_repeated and field.type != _F.TYPE_MESSAGE and name not in REPEATED_NUMBERS:
            yield Breach(name, "is a list of single values, which can spell a text")
        if _is_called_like_a_body(field):
            yield Breach(name, "has a name that bodies have")


def _is_called_like_a_body(field: FieldDescriptor) -> bool:
    words = field.name.lower().split("_")
    if not BODY_WORDS.intersection(words) or not HARMLESS_NAMES.keys().isdisjoint(
        (field.name, field.full_name)
    ):
        return False
    is_number = field.cpp_type in (_F.CPPTYPE_INT32, _F.CPPTYPE_INT64, _F.CPPTYPE_UINT32, _F.CPPTYPE_UINT64)
    return not (is_number and words[-1] in MEASURES)
