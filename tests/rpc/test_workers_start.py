"""What keeps workers from serving is one line and exit code 2, as for a process alone."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from common.server.workers.reserved import reserved
from common.settings import Settings, SettingsError
from tests.cli.commands import SECONDS, Finished, environment, one_line
from tests.conftest import StartRunProcess
from tests.support.workers import start_two

TAKEN = "run_service: SUPERBIZ_RUN_LISTEN must be a free address of this machine: it cannot be bound"


def ended(folder: Path, *arguments: str, module: str = "run_service", **settings: str) -> Finished:
    """`python -m run_service`, or another module, that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=environment(folder, **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


async def test_a_taken_port_is_one_clear_line(start_run_process: StartRunProcess, tmp_path: Path) -> None:
    process = await start_two(start_run_process)
    sharing = socket.create_server(("127.0.0.1", 0), reuse_port=True)
    with sharing, socket.create_server(("127.0.0.1", 0)) as alone:
        taken = [process.address, *(f"127.0.0.1:{one.getsockname()[1]}" for one in (sharing, alone))]
        for address in taken:
            for workers in ("1", "2"):
                done = await asyncio.to_thread(ended, tmp_path, RUN_LISTEN=address, WORKERS=workers)
                assert one_line(done, 2) == TAKEN


def test_a_held_port_is_free_for_workers_only() -> None:
    settings = Settings.from_env({"SUPERBIZ_RUN_LISTEN": "127.0.0.1:0", "SUPERBIZ_AUDIT_LISTEN": "[::1]:0"})
    with reserved(settings, ("RUN_LISTEN",)) as placed:
        # Before any worker listens, too: two supervisors may start at the same time.
        with pytest.raises(SettingsError), reserved(placed, ("RUN_LISTEN",)):
            pass
        place = placed.run_listen.host, placed.run_listen.port
        with pytest.raises(OSError, match="in use"):
            socket.create_server(place)
        with socket.create_server(place, reuse_port=True), socket.create_server(place, reuse_port=True):
            pass
    socket.create_server(place).close()


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        ([], {"AUTH_FILE": "/no/such/file"}, "SUPERBIZ_AUTH_FILE must be "),
        ([], {"TLS_CERT": "/no/such/file", "TLS_KEY": "/no/such/file"}, "SUPERBIZ_TLS_CERT must be "),
        ([], {"RUN_LISTEN": "0.0.0.0:0"}, "SUPERBIZ_RUN_LISTEN must be "),
        ([], {"RUN_LISTEN": "no.such.host.invalid:0"}, "SUPERBIZ_RUN_LISTEN must be "),
        ([], {"RUN_LISTEN": "192.0.2.1:0"}, "SUPERBIZ_RUN_LISTEN must be "),
        (["--workers", "hunter2"], {}, "SUPERBIZ_WORKERS must be a whole number of 1 to 64"),
        (["--workers=0"], {}, "SUPERBIZ_WORKERS must be a whole number of 1 to 64"),
        (["--workers="], {}, "SUPERBIZ_WORKERS must be a whole number of 1 to 64"),
        (["hunter2"], {}, "takes no arguments but --workers N"),
    ],
)
def test_what_forbids_to_serve_is_one_line_of_all_processes(
    arguments: list[str], settings: dict[str, str], said: str, tmp_path: Path
) -> None:
    line = one_line(
        ended(tmp_path, *arguments, **({"RUN_LISTEN": "127.0.0.1:0", "WORKERS": "2"} | settings)), 2
    )
    assert line.startswith(f"run_service: {said}")
    assert "hunter2" not in line


def test_workers_that_all_fail_at_the_start_end_the_whole_and_tell_no_value(tmp_path: Path) -> None:
    given = {"RUN_LISTEN": "127.0.0.1:0", "WORKERS": "2", "LOG_FORMAT": "json", "AUTH_FILE": "hunter2"}
    done = ended(tmp_path, module="tests.support.broken_main", **given)
    assert (done.returncode, done.stdout) == (1, "")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {line["worker"] for line in lines if line["event"] == "uncaught exception"} == {1, 2}
    assert [line["event"] for line in lines].count("no worker starts") == 1
    assert "hunter2" not in done.stderr
