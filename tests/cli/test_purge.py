"""`purge` as a process, beside the services whose database it works on."""

import contextlib
import signal
import sqlite3
from pathlib import Path
from typing import Any

import grpc
import pytest

from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.cli.commands import await_text, one_line, run, started
from tests.cli.conftest import Pair
from tests.support.audit import record_request
from tests.support.run import append, event, finish_run, running_run

LONG_AGO = "2020-01-01 00:00:00.000000"


def _sql(folder: Path, statement: str, *values: Any) -> list[Any]:
    path = folder / "superbizagent.db"
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def _make_old(folder: Path) -> None:
    _sql(folder, "UPDATE sba_run_control SET finish_time = ? WHERE finish_time IS NOT NULL", LONG_AGO)
    _sql(folder, "UPDATE tool_invocation SET created_at = ?", LONG_AGO)


@pytest.fixture
async def old_run(pair: Pair) -> str:
    """A finished run of long ago, with two events of its own and an audited tool call."""
    async with grpc.aio.insecure_channel(pair.run) as runs, grpc.aio.insecure_channel(pair.audit) as audits:
        stub = RunServiceStub(runs)
        run_id = (await running_run(stub)).run_id
        await append(stub, run_id, event(), event("TOOL_STARTED"))
        await finish_run(stub, run_id)
        await AuditServiceStub(audits).RecordToolInvocation(record_request(run_id=run_id))
    _make_old(pair.folder)
    return run_id


def test_a_dry_run_says_what_the_real_one_then_does(pair: Pair, old_run: str) -> None:
    def purge(*options: str) -> list[str]:
        done = run("purge", "--older-than", "90d", *options, cwd=pair.folder)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    limit, *would = purge("--dry-run")
    assert limit.startswith("before 20")
    assert limit.endswith(" UTC, by the database's clock")
    assert would == [
        "5 events of 1 finished run would be deleted",
        "1 audited tool call would be deleted",
    ]
    assert purge()[1:] == ["5 events of 1 finished run deleted", "1 audited tool call deleted"]
    assert purge()[1:] == ["0 events of 0 finished runs deleted", "0 audited tool calls deleted"]
    assert _sql(pair.folder, "SELECT run_id FROM diagnosis_run") == [(old_run,)]
    assert _sql(pair.folder, "SELECT * FROM sba_tool_invocation_key") == []


def test_a_purged_run_is_still_watched_and_traced(pair: Pair, old_run: str) -> None:
    run("purge", "--older-than", "1h", cwd=pair.folder)
    watched = run("watch", "--run", pair.run, old_run, cwd=pair.folder)
    assert (watched.returncode, watched.stderr) == (0, "")
    assert "-- events before seq 6 were purged" in watched.stdout
    assert watched.stdout.splitlines()[-1] == "SUCCESS after 0 events"
    traced = run("trace", *pair.options, old_run, cwd=pair.folder)
    assert (traced.returncode, traced.stderr) == (0, "")
    assert "those before seq 6 were purged" in traced.stdout
    assert "none are audited" in traced.stdout


def test_what_is_younger_than_the_limit_stays(pair: Pair, old_run: str) -> None:
    done = run("purge", "--older-than", "99999d", cwd=pair.folder)
    assert "0 events" in done.stdout
    assert len(_sql(pair.folder, "SELECT * FROM sba_run_event")) == 5


@pytest.mark.parametrize("age", ["90", "d", "0d", "-1d", "90 d", "100000d", "90w", "hunter2", "\u0669d"])
def test_an_age_that_is_none_is_told_without_being_repeated(age: str, tmp_path: Path) -> None:
    line = one_line(run("purge", f"--older-than={age}", cwd=tmp_path), 2)
    assert "--older-than must be a number" in line
    assert "hunter2" not in line


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert "there is no database file" in one_line(run("purge", "--older-than", "90d", cwd=tmp_path), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_not_migrated_is_left_alone(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "superbizagent.db").close()
    assert "is not migrated" in one_line(run("purge", "--older-than", "90d", cwd=tmp_path), 1)


def test_broken_off_it_says_how_far_it_came_and_goes_on_when_it_is_run_again(
    pair: Pair, old_run: str
) -> None:
    """Many rows, so that it is still at work when it is told to stop."""
    _sql(
        pair.folder,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) "
        "INSERT INTO tool_invocation (session_id, tool_name, input_params, created_at) "
        "SELECT 's', 'query_logs', '{}', ? FROM n",
        LONG_AGO,
    )
    folder = pair.folder.parent / "purge"
    folder.mkdir()
    url = f"sqlite+aiosqlite:///{pair.folder.resolve()}/superbizagent.db"
    with started("purge", "--older-than", "90d", cwd=folder, DATABASE_URL=url) as process:
        await_text(folder / "out", "events of 1 finished run")
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130
    said = (folder / "out").read_text()
    assert "deleted, then it was broken off" in said
    left = len(_sql(pair.folder, "SELECT id FROM tool_invocation"))
    assert 0 < left <= 40001  # all of them where it was told before it came to the first
    done = run("purge", "--older-than", "90d", cwd=pair.folder)
    assert f"{left} audited tool calls deleted" in done.stdout
