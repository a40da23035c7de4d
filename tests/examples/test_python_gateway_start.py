"""examples/python-gateway as its readme says to start it, with the packages that it names."""

import ast
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import httpx

from tests.examples.browser import Browser
from tests.examples.programs import Program, running
from tests.support.run_server import ROOT, RunServer
from tests.support.waiting import until

EXAMPLE = ROOT / "examples" / "python-gateway"


def documented_command() -> list[str]:
    found = re.search(r"^\.venv/bin/(uvicorn .+)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    assert found
    program, *arguments = shlex.split(found[1])
    arguments[arguments.index("--port") + 1] = "0"
    return [str(Path(sys.executable).parent / program), *arguments]


def address_of(program: Program) -> str:
    found = re.search(r"running on (http://\S+)", "\n".join(program.errors))
    return found[1] if found else ""


async def test_the_documented_command_serves_the_gateway(run_server: RunServer, audit_address: str) -> None:
    environment = {
        "RUN_ADDRESS": run_server.address,
        "AUDIT_ADDRESS": audit_address,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "protos"))),
    }
    async with running(documented_command(), environment, ROOT) as program:
        await until(lambda: address_of(program) or program.process.returncode is not None, 30)
        assert address_of(program), program.said
        base = address_of(program)
        async with (
            httpx.AsyncClient(base_url=base, timeout=30, trust_env=False) as http,
            Browser(http).ask() as page,
        ):
            await page.read_all()
        program.process.terminate()
        await program.end()
    assert page.received[-1].data["status"] == "SUCCESS"


def test_it_needs_nothing_of_the_services_but_their_client() -> None:
    roots = set[str]()
    for source in EXAMPLE.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom):
                roots.add(str(node.module).partition(".")[0])
            elif isinstance(node, ast.Import):
                roots |= {name.name.partition(".")[0] for name in node.names}
    foreign = roots - set(sys.stdlib_module_names) - {"chat_gateway", "starlette", "google", "grpc"}
    assert foreign == {"superbizagent", "superbizagent_client"}


def test_its_packages_are_those_that_it_is_tested_with() -> None:
    named = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["dependencies"]
    locked = re.findall(r"^[a-z0-9-]+==[^\s;]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    ours = [one for one in named if not one.startswith("superbizagent-client==")]
    assert [one for one in ours if one not in locked] == []
