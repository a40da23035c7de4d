"""examples/java-gateway, compiled with Debian's grpc-java and run against the real services."""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conftest import StartRunProcess
from tests.examples.following import SEEN, follow_over_cuts
from tests.examples.older import older_contracts, run_with_the_newest_type
from tests.examples.programs import run, running
from tests.examples.protected import protected_services
from tests.support.java import Stubs, generate
from tests.support.run import running_run
from tests.support.run_server import ROOT, RunServer

pytestmark = pytest.mark.timeout(240)  # protoc, javac and a JVM on a busy machine

EXAMPLE = ROOT / "examples" / "java-gateway"
CHECK, FOLLOW = "com.superbizagent.example.Check", "com.superbizagent.example.Follow"


@pytest.fixture(scope="session")
def classes(java_stubs: Stubs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, compiled."""
    folder = tmp_path_factory.mktemp("java-gateway")
    java_stubs.compile(sorted(EXAMPLE.rglob("*.java")), folder)
    return folder


async def test_the_whole_way_of_a_gateway_goes_well_behind_tls_and_tokens(
    java_stubs: Stubs, classes: Path, tmp_path: Path
) -> None:
    check = java_stubs.command(classes, CHECK)
    async with protected_services(tmp_path, role="gateway") as services:
        said = await run([*check, services.run_address, services.audit_address], services.access)
    assert said.splitlines()[-1] == "all is well", said
    assert len(re.findall("^ok ", said, re.MULTILINE)) >= 20, said


async def test_one_thing_that_is_not_as_it_should_be_is_named_and_fails_the_check(
    java_stubs: Stubs, classes: Path, tmp_path: Path
) -> None:
    """An operator may do what the check expects to be refused."""
    check = java_stubs.command(classes, CHECK)
    async with (
        protected_services(tmp_path, role="operator") as services,
        running([*check, services.run_address, services.audit_address], services.access) as program,
    ):
        assert await program.end() == 1, program.said
    assert [line for line in program.lines if line.startswith("WRONG")] == [
        "WRONG the runs of all sessions are for operators: OK and not PERMISSION_DENIED ROLE_REQUIRED"
    ]


async def test_a_type_that_an_older_client_does_not_know_is_passed_over(
    java_stubs: Stubs, classes: Path, run_server: RunServer, tmp_path: Path
) -> None:
    protos = older_contracts(tmp_path)
    files = sorted(str(one.relative_to(protos)) for one in protos.glob("superbizagent/run/v1/*.proto"))
    old_stubs = generate(tmp_path / "old", [protos], files)
    run_id = await run_with_the_newest_type(run_server)
    said = await run([*java_stubs.command(classes, FOLLOW, old_stubs), run_server.address, run_id])
    assert said.splitlines() == [
        "1 RUN_CREATED",
        "2 RUN_STARTED",
        "3 a type that this client does not know: 10",
        "4 STEP_STARTED",
        "5 RUN_FINISHED",
        "final",
    ]


async def test_neither_a_cut_line_nor_a_restart_of_the_service_loses_or_repeats_an_event(
    java_stubs: Stubs, classes: Path, start_run_process: StartRunProcess
) -> None:
    follow = await follow_over_cuts(java_stubs.command(classes, FOLLOW), start_run_process)
    assert follow.lines == SEEN, follow.said
    assert any(line.startswith("cut: UNAVAILABLE DRAINING") for line in follow.errors), follow.said


async def test_an_error_that_no_repetition_repairs_ends_the_program(
    java_stubs: Stubs, classes: Path, run_server: RunServer
) -> None:
    run_id = (await running_run(run_server.stub)).run_id
    command = [*java_stubs.command(classes, FOLLOW), run_server.address, run_id, "sess-of-somebody-else"]
    async with running(command) as follow:
        assert await follow.end() == 1
    assert follow.errors == ["error: NOT_FOUND RUN_NOT_FOUND"]


def test_the_maven_project_names_classes_and_contracts_that_exist() -> None:
    """Maven itself is not run here; its sources are, compiled by javac."""
    pom = ET.parse(EXAMPLE / "pom.xml").getroot()  # noqa: S314  # it is our own file
    found = {one.tag.partition("}")[2]: (one.text or "").strip() for one in pom.iter()}
    source = EXAMPLE / "src" / "main" / "java" / f"{found['exec.mainClass'].replace('.', '/')}.java"
    assert source.is_file()
    protos = found["protoSourceRoot"].replace("${project.basedir}", str(EXAMPLE))
    assert Path(protos).resolve() == ROOT / "protos"


async def test_the_lines_for_people_without_maven_build_and_run_it(
    java_stubs: Stubs, run_server: RunServer, audit_address: str, tmp_path: Path
) -> None:
    """`java_stubs` says what is lacking where there is no Java."""
    text = (EXAMPLE / "README.md").read_text("utf-8").partition("## Without Maven")[2]
    lines = text.partition("```sh\n")[2].partition("```")[0]
    placed = lines.replace("127.0.0.1:50051", run_server.address).replace("127.0.0.1:50052", audit_address)
    script = placed.replace("build/java-gateway", str(tmp_path)).replace(".venv/bin/python", sys.executable)
    said = await run(["sh", "-ec", f"cd {ROOT}\n{script}"])
    assert said.splitlines()[-1] == "all is well", said
