"""What is secret in the URL of a database is never said, whatever is wrong with it."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.leak.ledger import Fate, Ledger
from tests.leak.processes import Process, process
from tests.leak.stack import output_leaks
from tests.support.engines import Engine


def _urls(ledger: Ledger, server: str) -> dict[str, str]:
    """URLs of databases that cannot be had, each with a password that is a canary."""

    def secret() -> str:
        return ledger.bare("secret", Fate.SECRET, "a database URL").mark

    address = server.rpartition("@")[2]
    return {
        "wrong password": f"mysql+aiomysql://root:{secret()}@{address}/mysql",
        "wrong user": f"mysql+aiomysql://nobody:{secret()}@{address}/mysql",
        "password of signs": f"mysql+aiomysql://nobody:%40%3A%2F{secret()}%3F%23%25@{address}/mysql",
        "secret in the query": f"{server}/nowhere?unix_socket={secret()}",
        "unknown database": f"{server}/nowhere?charset=utf8mb4",
        "unknown option": f"{server}/mysql?{secret()}={secret()}",
        "nobody listens": f"mysql+aiomysql://root:{secret()}@127.0.0.1:9/mysql",
        "unknown host": f"mysql+aiomysql://root:{secret()}@nowhere.invalid:3306/mysql",
    }


OF_THE_SERVER = ("wrong password", "unknown database")
"""Each server has words of its own for these."""


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
def test_what_is_secret_in_a_url_is_never_said(
    ledger: Ledger, get_engine: Callable[[str], Engine], tmp_path: Path, name: str
) -> None:
    server = get_engine(name).server_url
    assert server is not None
    urls = _urls(ledger, server)
    cases = urls if name == "mariadb" else OF_THE_SERVER
    with contextlib.ExitStack() as running:
        started = {
            case: [
                running.enter_context(_started(ledger, tmp_path / f"{number}", urls[case], *command))
                for command in (("cli.main", "migrate"), ("run_service",))
            ]
            for number, case in enumerate(cases)
        }
        for case, (migration, service) in started.items():
            assert migration.wait() in (1, 2), case
            assert migration.err.count(b"\n") == 2, (case, migration.err)
            assert output_leaks(ledger, migration, "start", "start") == [], case
            service.await_line(r"service is not ready|Error")
            service.popen.terminate()
            service.wait()
            assert output_leaks(ledger, service, "start", "start") == [], case


def _started(
    ledger: Ledger, folder: Path, url: str, *command: str
) -> contextlib.AbstractContextManager[Process]:
    settings = {"DATABASE_URL": url, "RUN_LISTEN": "127.0.0.1:0", "LOG_LEVEL": "DEBUG"}
    return process(ledger, folder / command[0], *command, **settings)
