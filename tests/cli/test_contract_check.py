"""`contract-check`: of what is installed, and of servers, sound and unsound, that say what they serve."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha import reflection_pb2_grpc

from common.contract_check import contract_digest
from tests.cli.commands import one_line, run
from tests.cli.conftest import Pair
from tests.contract import doctored as d
from tests.contract.descriptors import AUDIT_SERVICE, RUN_SERVICE
from tests.support.callers import auth_file
from tests.support.run_server import run_as_process

OURS = {RUN_SERVICE.full_name: d.RUN_RPCS, AUDIT_SERVICE.full_name: d.AUDIT}


class Server(reflection_pb2_grpc.ServerReflectionServicer):
    """Says of itself whatever a test gives. It answers each file alone, as some servers do."""

    def __init__(self, files: d.Files, *others: str) -> None:
        self.files = files
        self.others = others

    async def ServerReflectionInfo(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            if request.HasField("list_services"):
                names = [*OURS, *self.others, "grpc.health.v1.Health"]
                services = [pb.ServiceResponse(name=name) for name in names]
                yield pb.ServerReflectionResponse(
                    list_services_response=pb.ListServiceResponse(service=services)
                )
                continue
            name = request.file_by_filename or OURS[request.file_containing_symbol]
            found = [self.files[name].SerializeToString()] if name in self.files else []
            yield pb.ServerReflectionResponse(
                file_descriptor_response=pb.FileDescriptorResponse(file_descriptor_proto=found)
            )


Check = Callable[..., Any]


@pytest_asyncio.fixture
async def check(tmp_path: Path) -> AsyncIterator[Check]:
    """Checks a server that says of itself what the test gives."""
    started: list[grpc.aio.Server] = []

    async def checked(servicer: Server) -> Any:
        server = grpc.aio.server()
        add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
        add(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        started.append(server)
        return await asyncio.to_thread(run, "contract-check", "--target", f"127.0.0.1:{port}", cwd=tmp_path)

    yield checked
    for server in started:
        await server.stop(None)


def test_what_is_installed_is_proved_with_its_digests(tmp_path: Path) -> None:
    done = run("contract-check", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for services in ([RUN_SERVICE], [AUDIT_SERVICE], [RUN_SERVICE, AUDIT_SERVICE]):
        assert contract_digest(services) in done.stdout
    assert "ok: nothing but metadata fits in" in done.stdout
    for text in ("query", "answer", "published_result_json"):
        assert f"\n  {text} " in done.stdout


def test_running_services_have_the_same_digests_as_what_is_installed(pair: Pair, tmp_path: Path) -> None:
    for address, service in ((pair.run, RUN_SERVICE), (pair.audit, AUDIT_SERVICE)):
        done = run("contract-check", "--target", address, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{contract_digest([service])}  {service.full_name}\n" in done.stdout
        assert "not the contract of this installation" not in done.stdout


async def test_a_server_that_answers_files_one_by_one_is_checked_as_well(check: Check) -> None:
    done = await check(Server(d.files()))
    assert (done.returncode, done.stderr) == (0, "")
    assert contract_digest([RUN_SERVICE, AUDIT_SERVICE]) in done.stdout


async def test_a_breach_is_named_and_is_exit_code_1(check: Check) -> None:
    files = d.files()
    d.with_field(d.INVOCATION, "ToolInvocation", "raw_output")(files)
    done = await check(Server(files))
    assert done.returncode == 1
    assert "2 breaches" in done.stdout
    assert (
        "superbizagent.audit.v1.ToolInvocation.raw_output is a string without a grammar kind" in done.stdout
    )
    assert "not the contract of this installation" in done.stdout
    assert "ok:" not in done.stdout


async def test_another_service_beside_ours_is_a_breach(check: Check) -> None:
    done = await check(Server(d.files(), "evil.Dump\x1b[31m"))
    assert done.returncode == 1
    assert "  evil.Dump?[31m is served too, and is none of our services\n" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("broken", ["missing", "garbage"])
async def test_what_is_not_sound_is_one_line_without_the_server_s_words(check: Check, broken: str) -> None:
    files = d.files()
    if broken == "missing":
        del files["superbizagent/error/v1/error_reason.proto"]
    else:
        files[d.RUN] = FileDescriptorProto(name=d.RUN, dependency=["hunter2\x1b"])
    line = one_line(await check(Server(files)), 1)
    assert "describes its contracts in a way that is not sound" in line
    assert "hunter2" not in line


async def test_a_guarded_server_wants_an_operator(tmp_path: Path) -> None:
    tokens = str(auth_file(tmp_path))
    async with run_as_process(tmp_path / "runs.db", AUTH_FILE=tokens) as server:

        async def told(token: str = "") -> Any:
            checked = partial(run, "contract-check", "--target", server.address, cwd=tmp_path, TOKEN=token)
            return await asyncio.to_thread(checked)

        assert "wants a valid token" in one_line(await told(), 2)
        assert "wants a role that may do this" in one_line(await told("gw-token"), 2)
        assert (await told("ops-token")).returncode == 0


async def test_a_server_without_reflection_says_so(tmp_path: Path) -> None:
    async with run_as_process(tmp_path / "runs.db", REFLECTION="false") as server:
        done = await asyncio.to_thread(run, "contract-check", "--target", server.address, cwd=tmp_path)
    assert "does not serve reflection" in one_line(done, 1)


def test_a_wrong_target_is_told_without_being_repeated(tmp_path: Path) -> None:
    assert "hunter2" not in one_line(run("contract-check", "--target", "hunter2", cwd=tmp_path), 2)
