"""Descriptors that came from elsewhere, such as the reflection of a running server.

They live in a pool of their own: what a server says about itself never mixes with the generated code.
"""

from collections.abc import Collection

from google.protobuf.descriptor import FieldDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message


class DescriptorError(Exception):
    """The files do not make up descriptors. Holds no text from below."""


def foreign_file(raw: bytes) -> FileDescriptorProto | None:
    """The file that somebody sent; None if it is none, or has names that cannot be read.

    The parser takes any bytes for a name, and whoever reads it later would fail.
    """
    try:
        file = FileDescriptorProto.FromString(raw)
    except DecodeError:
        return None
    return file if _is_readable(file) else None


def _is_readable(message: Message) -> bool:
    """False if any string in it is no UTF-8: protobuf then hands out bytes, or fails where it is read."""
    for field, value in message.ListFields():
        for one in value if field.is_repeated else (value,):
            if field.type == FieldDescriptor.TYPE_STRING and not isinstance(one, str):
                return False
            if field.message_type is not None and not _is_readable(one):
                return False
    return True


def missing_imports(files: Collection[FileDescriptorProto]) -> set[str]:
    """Names of files that are imported and not there."""
    return {name for file in files for name in file.dependency} - {file.name for file in files}


def services_in(files: Collection[FileDescriptorProto], names: Collection[str]) -> list[ServiceDescriptor]:
    """The services of these names, in files from `foreign_file`.

    Raises DescriptorError if the files are not whole or not sound.
    """
    pool = DescriptorPool()
    services = None
    try:
        for file in _dependencies_first(files):
            pool.AddSerializedFile(file.SerializeToString())
        services = [pool.FindServiceByName(name) for name in sorted(names)]
    except (TypeError, KeyError, ValueError):
        pass
    # Raised out here: the cause quotes what a foreign server sent.
    if services is None:
        raise DescriptorError
    return services


def _dependencies_first(files: Collection[FileDescriptorProto]) -> list[FileDescriptorProto]:
    left = {file.name: file for file in files}
    ordered: list[FileDescriptorProto] = []
    while left:
        ready = [file for file in left.values() if not any(name in left for name in file.dependency)]
        if not ready:
            raise ValueError  # a circle, which no sound set of files has
        ordered += [left.pop(file.name) for file in ready]
    return ordered
