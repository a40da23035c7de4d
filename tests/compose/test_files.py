"""The files that compose is made of keep their promises; what a running stack shows is tested on one."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tools import compose_env

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+==\S+)", re.MULTILINE)


@pytest.mark.parametrize("part", ["requirements-runtime.lock", "requirements-build.lock"])
def test_the_image_gets_the_very_versions_that_were_tested(part: str) -> None:
    tested = set(REQUIREMENT.findall((ROOT / "requirements.lock").read_text()))
    installed = set(REQUIREMENT.findall((ROOT / part).read_text()))
    assert installed
    assert installed <= tested


def test_no_developer_tool_is_in_the_image() -> None:
    names = {one.partition("==")[0] for one in REQUIREMENT.findall(_text("requirements-runtime.lock"))}
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "grpcio-tools", "hatchling", "buf-bin"}


def test_no_password_has_a_default() -> None:
    used = re.findall(r"\$\{(\w*PASSWORD)([^}]*)", _text("docker-compose.yml"))
    assert {name for name, _ in used} == set(compose_env.PASSWORDS)
    assert all(rest.startswith(":?") for _, rest in used)


def test_every_published_port_is_of_this_machine_only() -> None:
    ports = re.findall(r"^ +ports: (.*)$", _text("docker-compose.yml"), re.MULTILINE)
    assert len(ports) == 2
    assert all(line.startswith('["127.0.0.1:') for line in ports)


def test_passwords_are_random_private_and_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env = tmp_path / ".env"
    monkeypatch.setattr(compose_env, "ENV", env)
    env.write_text("RUN_PORTS=50051\nMYSQL_PASSWORD=chosen")
    compose_env.main()
    first = env.read_text()
    compose_env.main()
    assert env.read_text() == first
    assert first.startswith("RUN_PORTS=50051\nMYSQL_PASSWORD=chosen\n")
    given = dict(line.split("=") for line in first.splitlines())
    made = [given["MYSQL_ROOT_PASSWORD"], given["REDIS_PASSWORD"]]
    assert all(re.fullmatch("[0-9a-f]{48}", one) for one in made)
    assert made[0] != made[1]
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert not any(one in capsys.readouterr().out for one in made)


def test_passwords_are_not_committed_and_not_in_the_image() -> None:
    assert ".env" in _text(".gitignore").splitlines()
    ignored = _text(".dockerignore").splitlines()
    assert "*" in ignored
    assert "!.env" not in ignored


def test_the_compose_test_says_what_to_do_when_nothing_runs(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("SUPERBIZ_")}
    found = subprocess.run(
        [sys.executable, "-m", "tools.compose_test"],
        cwd=ROOT,
        env=own | {"PATH": f"{tmp_path}{os.pathsep}{own['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, "make compose-up" in found.stderr) == (1, True)


def _text(name: str) -> str:
    return (ROOT / name).read_text()
