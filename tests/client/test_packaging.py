"""The client's wheel: what is in it, what it brings along, and that it works where nothing else is."""

import asyncio
import tarfile
from pathlib import Path

import pytest

from tests.client.wheels import CLIENT, ROOT, Environment, build, closure, contents, names_of, project
from tests.support.run_server import RunServer

pytestmark = pytest.mark.timeout(300)  # wheels are built, environments made, perhaps packages fetched

PACKAGES = {"superbizagent", "superbizagent_client", "superbizagent_contract"}
SERVERS = {
    *("common", "run_service", "audit_service", "cli"),
    *("sqlalchemy", "aiosqlite", "aiomysql", "pydantic", "structlog", "rich", "redis"),
}
"""What a gateway must not get."""

PROGRAM = """
import asyncio, importlib.util, sys

import superbizagent_client as client
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType

foreign = [name for name in sys.argv[2:] if importlib.util.find_spec(name)]
assert not foreign, foreign
assert client.__file__.startswith(sys.prefix), client.__file__


async def main():
    async with client.open_channel(sys.argv[1]) as channel:
        async with client.RunClient(channel).run("sess-1", "why?") as run:
            run.send(RunEventInput(type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=1))
            await run.finish(answer="done")
        print([event.seq async for event in client.RunEventStream(channel, run.run_id)])
    try:
        client.CanonicalInvocations.from_url("redis://127.0.0.1:1/0")
    except RuntimeError as error:
        print(error)


asyncio.run(main())
with client.open_sync_channel(sys.argv[1]) as channel:
    print(len(list(client.SyncRunClient(channel).list_runs("sess-1"))))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(CLIENT, tmp_path_factory.mktemp("client"))


def test_the_wheel_holds_the_client_the_grammar_and_the_contracts_and_nothing_else(wheel: Path) -> None:
    files = contents(wheel)
    assert {name.partition("/")[0] for name in files} == PACKAGES | {"superbizagent_client-0.1.0.dist-info"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= files.keys()
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]
    assert "superbizagent_client-0.1.0.dist-info/licenses/LICENSE" in files


def test_its_files_are_those_of_the_servers_wheel_byte_by_byte(wheel: Path, tmp_path: Path) -> None:
    def shared(files: dict[str, bytes]) -> dict[str, bytes]:
        return {name: text for name, text in files.items() if name.partition("/")[0] in PACKAGES}

    assert shared(contents(wheel)) == shared(contents(build(ROOT, tmp_path)))


def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(CLIENT, tmp_path / "archive", "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("superbizagent_client-*")
    assert contents(build(unpacked, tmp_path / "again")) == contents(wheel)


def test_it_says_of_itself_what_the_servers_wheel_says() -> None:
    client, servers = project(CLIENT), project(ROOT)
    for name in ("version", "requires-python", "license", "classifiers"):
        assert client[name] == servers[name], name
    assert set(client["dependencies"]) < set(servers["dependencies"])
    assert set(client["optional-dependencies"]["redis"]) < set(servers["dependencies"])
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_it_requires_grpc_and_protobuf_and_no_server_package() -> None:
    required = names_of(project(CLIENT)["dependencies"])
    assert required == {"grpcio", "protobuf", "googleapis-common-protos"}
    assert closure(required) - required <= {"typing-extensions"}


async def test_it_works_where_nothing_is_but_what_it_requires(
    wheel: Path, tmp_path: Path, run_server: RunServer
) -> None:
    """An import that the wheel does not declare fails here; nothing is fetched."""
    environment = Environment(tmp_path / "venv")
    environment.unpack(wheel)
    for name in closure(names_of(project(CLIENT)["dependencies"])):
        environment.link(name)
    assert set(environment.importable()) & SERVERS == set()
    assert await run_program(environment, run_server.address) == [
        "[1, 2, 3, 4]",
        "Redis needs its package: pip install 'superbizagent-client[redis]'",
        "1",
    ]


async def test_installing_it_into_an_empty_environment_brings_no_server_package(
    wheel: Path, tmp_path: Path, run_server: RunServer
) -> None:
    environment = Environment(tmp_path / "venv")
    await asyncio.to_thread(environment.install, wheel)
    required = names_of(project(CLIENT)["dependencies"])
    assert environment.installed() == {"superbizagent-client"} | closure(required)
    assert set(environment.importable()) & SERVERS == set()
    assert len(await run_program(environment, run_server.address)) == 3


async def run_program(environment: Environment, address: str) -> list[str]:
    """Isolated: neither this directory nor this process's environment helps it."""
    command = [str(environment.python), "-I", "-W", "error", "-c", PROGRAM, address, *sorted(SERVERS)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, complained = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, complained.decode()
    return said.decode().splitlines()
