"""What a running server says about its contracts, by gRPC reflection."""

import contextlib
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2 as pb

from cli.connection import CALL_SECONDS, Service
from cli.errors import NOT_THERE, CommandError
from common.contract_check import OURS, DescriptorError, foreign_file, missing_imports, services_in
from superbizagent_client import service_error

# Both versions have the same messages; servers have one of them or both.
_METHODS: Final = (
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
)
_STANDARD: Final = ("grpc.health.", "grpc.reflection.")
_MOST_FILES: Final = 100


class Reflected(NamedTuple):
    """What a server serves: our services as it describes them, and the names of all others."""

    services: list[ServiceDescriptor]
    others: list[str]


async def reflected(server: Service) -> Reflected:
    """Ask a server. Raises CommandError if it does not say, or says something that is not sound."""
    where = f"{server.name} at {server.address}"
    for method in _METHODS:
        try:
            names, files = await _Reflection(server, method).everything()
        except grpc.RpcError as error:
            failed = service_error(error)
        else:
            return _described(where, names, files)
        if failed.code is not grpc.StatusCode.UNIMPLEMENTED:
            raise server.explain(failed)
    raise CommandError(f"{where} does not serve reflection", NOT_THERE)


def _described(where: str, names: list[str], files: list[FileDescriptorProto]) -> Reflected:
    ours = [name for name in names if name.startswith(OURS)]
    if not ours:
        raise CommandError(f"{where} serves none of our services", NOT_THERE)
    services = None
    with contextlib.suppress(DescriptorError):
        services = services_in(files, ours)
    if services is None:
        raise CommandError(f"{where} describes its contracts in a way that is not sound", NOT_THERE)
    return Reflected(services, [name for name in names if not name.startswith((OURS, *_STANDARD))])


class _Reflection:
    """Questions to the reflection of a server, each in a call of its own."""

    def __init__(self, server: Service, method: str) -> None:
        # One question a call: on the wire that is the same as a stream of them. A real one that is refused at
        # once loses its status in grpc.aio (1.85) now and then.
        self._ask = server.channel.unary_stream(
            method, pb.ServerReflectionRequest.SerializeToString, pb.ServerReflectionResponse.FromString
        )

    async def everything(self) -> tuple[list[str], list[FileDescriptorProto]]:
        """The names of all services, and the files of ours with all that those import."""
        listed = await self._answer(pb.ServerReflectionRequest(list_services=""))
        names = [one.name for one in listed.list_services_response.service]
        files: dict[str, FileDescriptorProto] = {}
        for name in names:
            if name.startswith(OURS):
                _add(files, await self._answer(pb.ServerReflectionRequest(file_containing_symbol=name)))
        # Some servers answer a file alone, without its imports.
        while (missing := missing_imports(files.values())) and len(files) < _MOST_FILES:
            before = len(files)
            for name in sorted(missing):
                _add(files, await self._answer(pb.ServerReflectionRequest(file_by_filename=name)))
            if len(files) == before:
                break
        return names, list(files.values())

    async def _answer(self, question: pb.ServerReflectionRequest) -> pb.ServerReflectionResponse:
        call: Any = self._ask(question, timeout=CALL_SECONDS)
        answer = await call.read()
        call.cancel()
        return answer if isinstance(answer, pb.ServerReflectionResponse) else pb.ServerReflectionResponse()


def _add(files: dict[str, FileDescriptorProto], answer: pb.ServerReflectionResponse) -> None:
    for raw in answer.file_descriptor_response.file_descriptor_proto:
        file = foreign_file(raw)
        if file is not None:  # what is missing then is not sound
            files.setdefault(file.name, file)
