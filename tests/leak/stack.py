"""Both services in one process on a database and a Redis of their own, with every sink of theirs at hand."""

import asyncio
import contextlib
import hashlib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url

from superbizagent_client import SyncRunClient, open_sync_channel
from tests.leak import rows
from tests.leak.canaries import Canary
from tests.leak.ledger import DATABASE, Fate, Ledger
from tests.leak.legacy import Legacy, put_legacy_rows
from tests.leak.processes import Process, process, run
from tests.leak.redis_ear import RedisEar
from tests.support.engines import Engine, free_port, fresh_database, run_sql
from tests.support.java_database import java_tables
from tests.support.redis_server import RedisServer

FORMATS: Final = {"sqlite": "console", "mariadb": "json", "mysql": "console"}


@dataclass
class Stack:
    """`token` is one of an operator. `legacy` says what was in the database before."""

    ledger: Ledger
    engine: Engine
    url: str
    process: Process
    addresses: dict[str, str]
    token: str
    legacy: Legacy
    redis: RedisEar | None
    metrics: str
    read_log: int = 0
    """Bytes of the log that were searched already."""

    @property
    def run(self) -> str:
        return self.addresses["RunService"]

    @property
    def audit(self) -> str:
        return self.addresses["AuditService"]

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What each call shows."""
        return (("authorization", f"Bearer {self.token}"),)

    @property
    def client_settings(self) -> dict[str, str]:
        """What a command needs to call the services."""
        return {"RUN_LISTEN": self.run, "AUDIT_LISTEN": self.audit, "TOKEN": self.token}

    async def leaks(self) -> list[str]:
        """Search what the services have written so far: database, Redis, outputs, files."""
        planted = self.ledger.bare("word", Fate.PLANTED, "the database")
        row = {"session_id": "planted", "tool_name": planted.mark, "input_params": "{}"}
        await rows.insert(self.url, "tool_invocation", [row | {"created_at": "2020-01-01 00:00:00.000000"}])
        found = self.ledger.search(DATABASE, await rows.everything(self.url), planted)
        if self.engine.server_url is not None:
            await run_sql(self.url, f"SELECT '{planted.mark}'")
            found += self.ledger.search("sql", await rows.statements(self.url), planted)
        if self.redis is not None:
            heard = self.redis.everything(planted)
            assert b'"PUBLISH" "sba:run:' in heard, "nobody rang"
            found += self.ledger.search("redis", heard, planted)
        metrics = await asyncio.to_thread(self._metrics)
        assert b"superbizagent_serving{" in metrics
        found += self.ledger.search("metrics", metrics + planted.mark.encode(), planted)
        return found + output_leaks(self.ledger, self.process)

    def _metrics(self) -> bytes:
        with urllib.request.urlopen(f"http://{self.metrics}/metrics") as reply:
            return bytes(reply.read())

    def log_leaks(self) -> list[str]:
        """Search what the log says since it was searched last."""
        log = self.process.err
        planted, _, _ = log.partition(b"\n")
        since = log[max(self.read_log - 100, 0) :]
        self.read_log = len(log)
        return self.ledger.search("log", planted + b"\n" + since, self.process.planted)


def output_leaks(ledger: Ledger, printed: Process, out: str = "out", log: str = "log") -> list[str]:
    """Search what a process has printed and written."""
    return [
        *ledger.search(out, printed.out, printed.planted),
        *ledger.search(log, printed.err, printed.planted),
        *ledger.search("files", printed.files, printed.planted),
    ]


@contextlib.contextmanager
def stack(ledger: Ledger, engine: Engine, folder: Path, redis: RedisServer | None) -> Iterator[Stack]:
    """Start it: on a server an adopted database of an older application, with its rows."""
    with asyncio.Runner() as runner, contextlib.ExitStack() as cleared:
        database = fresh_database(engine, folder)
        url = runner.run(database.__aenter__())
        cleared.callback(lambda: runner.run(database.__aexit__(None, None, None)))
        legacy = _prepare(ledger, runner, engine, url, folder)
        settings = {"LOG_FORMAT": FORMATS[engine.name], "METRICS_LISTEN": f"127.0.0.1:{free_port()}"}
        settings |= _database(ledger, runner, cleared, engine, url)
        ear = None
        if redis is not None:
            ear = RedisEar(redis, _secret(ledger, "the password of Redis").mark)
            cleared.callback(ear.close)
            settings["REDIS_URL"] = ear.url
        token = _secret(ledger, "a token")
        (folder / "auth").write_text(_auth_line(token) + "\n")
        settings["AUTH_FILE"] = str(folder / "auth")
        printed = cleared.enter_context(process(ledger, folder / "serve", *_SERVE, **_COMMON, **settings))
        addresses = printed.addresses(2)
        printed.await_line("service is ready", 2)
        if ear is not None:
            printed.await_line("doorbell connected")
            _ring(addresses["RunService"], token)
        metrics = settings["METRICS_LISTEN"]
        started = Stack(ledger, engine, url, printed, addresses, token.mark, legacy, ear, metrics)
        yield started
        assert runner.run(started.leaks()) == []
        printed.popen.terminate()
        assert printed.wait() == 0
        assert output_leaks(ledger, printed) == []


def _ring(address: str, token: Canary) -> None:
    """Start a run, so that something is published whichever tests are chosen."""
    with open_sync_channel(address, token=token.mark) as channel:
        SyncRunClient(channel).create_run("sess-rings", "a run that somebody hears of")


_SERVE = ("cli.main", "serve")
_COMMON = {
    "RUN_LISTEN": "127.0.0.1:0",
    "AUDIT_LISTEN": "127.0.0.1:0",
    "LOG_LEVEL": "DEBUG",
    "DRAIN_SECONDS": "2",
}


def _database(
    ledger: Ledger, runner: asyncio.Runner, cleared: contextlib.ExitStack, engine: Engine, url: str
) -> dict[str, str]:
    """The settings for the database. A server gets an account with a secret, and logs what it is sent."""
    if engine.server_url is None:
        # The event loop then names slow callbacks, with their arguments.
        return {"DATABASE_URL": url, "pythonasynciodebug": "1"}
    secret = _secret(ledger, "the password of the database").mark
    parsed = make_url(url)
    name = f"leak-{secret[-6:]}"
    account = f"'{name}'@'%'"
    create = f"CREATE USER {account} IDENTIFIED BY '{secret}'"
    grant = f"GRANT ALL ON `{parsed.database}`.* TO {account}"
    runner.run(run_sql(url, create, grant, *rows.LOG_STATEMENTS))
    cleared.callback(lambda: runner.run(run_sql(url, *rows.LOG_NO_STATEMENTS, f"DROP USER {account}")))
    with_secret = parsed.set(username=name, password=secret)
    return {"DATABASE_URL": with_secret.render_as_string(hide_password=False)}


def _prepare(ledger: Ledger, runner: asyncio.Runner, engine: Engine, url: str, folder: Path) -> Legacy:
    """The tables and the old rows; an older application made them first where there can be one."""
    legacy = None
    if engine.server_url is not None:
        runner.run(java_tables(url))
        legacy = runner.run(put_legacy_rows(ledger, url))
    migration = run(ledger, folder / "migrate", "cli.main", "migrate", DATABASE_URL=url)
    assert migration.popen.returncode == 0, migration.err
    assert output_leaks(ledger, migration, "cli", "cli") == []
    return legacy or runner.run(put_legacy_rows(ledger, url))


def _secret(ledger: Ledger, place: str) -> Canary:
    return ledger.bare("secret", Fate.SECRET, place)


def _auth_line(token: Canary) -> str:
    return f"holder {hashlib.sha256(token.mark.encode()).hexdigest()} operator"
