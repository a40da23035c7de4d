"""Walks descriptors: what can travel inside of a message, and which files a service is made of."""

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor import Descriptor, FileDescriptor, MethodDescriptor, ServiceDescriptor


def messages_of(methods: Iterable[MethodDescriptor]) -> dict[str, Descriptor]:
    """Every message that a call of one of these methods can carry, by full name."""
    return reachable(message for method in methods for message in (method.input_type, method.output_type))


def reachable(roots: Iterable[Descriptor]) -> dict[str, Descriptor]:
    """The messages that can travel inside of `roots`, by full name, and they themselves."""
    found: dict[str, Descriptor] = {}
    waiting = list(roots)
    while waiting:
        message = waiting.pop()
        if message.full_name not in found:
            found[message.full_name] = message
            waiting += _inside(message)
    return found


def contains_itself(message: Descriptor) -> bool:
    """True if a message of this type can hold one of its own type."""
    return message.full_name in reachable(_inside(message))


def files_of(services: Iterable[ServiceDescriptor]) -> dict[str, FileDescriptor]:
    """The files of the services with all that they import, by name."""
    found: dict[str, FileDescriptor] = {}
    waiting = [service.file for service in services]
    while waiting:
        file = waiting.pop()
        if file.name not in found:
            found[file.name] = file
            waiting += file.dependencies
    return found


def _inside(message: Descriptor) -> Iterator[Descriptor]:
    for field in message.fields:
        if field.message_type is not None:
            yield field.message_type
