"""`migrate` on SQLite: both schemas come up, --check touches nothing."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.cli.commands import one_line, run

_TABLES = {"diagnosis_run", "tool_invocation", "sba_run_event", "sba_schema_version"}


def _tables(path: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_migrate_brings_both_schemas_up_and_may_be_repeated(tmp_path: Path) -> None:
    first = run("migrate", cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert "create table diagnosis_run" in first.stdout
    assert "would do" not in first.stdout
    assert _tables(tmp_path / "superbizagent.db") >= _TABLES
    again = run("migrate", cwd=tmp_path)
    assert again.returncode == 0
    assert again.stdout.count("up to date") == 2


def test_check_reports_what_is_missing_and_touches_nothing(tmp_path: Path) -> None:
    checked = run("migrate", "--check", cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (1, "")
    assert "would do" in checked.stdout
    assert "create table tool_invocation" in checked.stdout
    assert list(tmp_path.iterdir()) == []


def test_check_finds_nothing_after_migrate(tmp_path: Path) -> None:
    assert run("migrate", cwd=tmp_path).returncode == 0
    before = (tmp_path / "superbizagent.db").read_bytes()
    checked = run("migrate", "--check", cwd=tmp_path)
    assert checked.returncode == 0
    assert checked.stdout.count("up to date") == 2
    assert (tmp_path / "superbizagent.db").read_bytes() == before


def test_check_sees_a_half_migrated_file_and_leaves_it_alone(tmp_path: Path) -> None:
    assert run("migrate", cwd=tmp_path).returncode == 0
    path = tmp_path / "superbizagent.db"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE sba_run_event")
        connection.execute("DELETE FROM sba_schema_version WHERE service = 'run'")
    before = path.read_bytes()
    checked = run("migrate", "--check", cwd=tmp_path)
    assert checked.returncode == 1
    assert "create table sba_run_event" in checked.stdout
    assert "create table diagnosis_run" not in checked.stdout
    assert path.read_bytes() == before


@pytest.mark.parametrize(("ahead", "code"), [("-1 day", 0), ("+4 minutes", 0), ("+2 hours", 1)])
def test_check_shows_the_newest_row_beside_the_clock_and_stops_at_one_from_the_future(
    ahead: str, code: int, tmp_path: Path
) -> None:
    assert run("migrate", cwd=tmp_path).returncode == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "superbizagent.db")) as connection, connection:
        connection.execute(
            "INSERT INTO tool_invocation (session_id, tool_name, input_params, output_preview, created_at) "
            "VALUES ('s', 'query_logs', '{}', 'SELECT 1', datetime('now', ?))",
            (ahead,),
        )
    checked = run("migrate", "--check", cwd=tmp_path)
    assert checked.returncode == code
    assert "newest row of audit: 2" in checked.stdout
    assert "the database's clock: 2" in checked.stdout
    assert ("DATABASE_TIME_ZONE is wrong" in checked.stdout) == (code == 1)


def test_check_sees_the_history_of_the_java_migrations(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "superbizagent.db")) as connection, connection:
        connection.execute("CREATE TABLE flyway_schema_history (version VARCHAR(50), success BOOLEAN)")
        connection.execute("INSERT INTO flyway_schema_history VALUES ('005', 1)")
    for options in ([], ["--check"]):
        found = run("migrate", *options, cwd=tmp_path)
        assert found.returncode == 1
        said = [line for line in found.stdout.splitlines() if "run the Java migrations first" in line]
        assert [line.split(":")[0] for line in said] == ["in the way of run", "in the way of audit"]
    assert _tables(tmp_path / "superbizagent.db") == {"flyway_schema_history"}


@pytest.mark.parametrize("options", [[], ["--take-over"]])
def test_a_database_that_does_not_answer_is_exit_code_1(options: list[str], tmp_path: Path) -> None:
    url = "mysql+aiomysql://user:never-shown@127.0.0.1:1/db"
    line = one_line(run("migrate", *options, cwd=tmp_path, DATABASE_URL=url), 1)
    assert line == "superbizagent migrate: the database of SUPERBIZ_DATABASE_URL does not answer"


def test_a_file_that_is_no_database_is_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "superbizagent.db").write_text("this is a letter, not a database " * 50)
    for options in ([], ["--check"]):
        one_line(run("migrate", *options, cwd=tmp_path), 1)
