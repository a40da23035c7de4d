"""The file of a SQLite database: the texts of all runs stand in it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.database import Database, migrate
from run_service.store import SCHEMA


@pytest.fixture(autouse=True)
def everybody_may_read() -> Iterator[None]:
    """Under the most generous umask."""
    before = os.umask(0)
    yield
    os.umask(before)


async def modes(path: Path) -> set[int]:
    """The permissions of the file, and of those that SQLite keeps beside it, while it is in use."""
    database = Database(f"sqlite+aiosqlite:///{path}", 2)
    try:
        await migrate(database, SCHEMA)
        return {found.stat().st_mode & 0o777 for found in path.parent.iterdir()}
    finally:
        await database.close()


async def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    assert await modes(tmp_path / "runs.db") == {0o600}


async def test_one_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "runs.db").touch(mode=0o640)
    assert await modes(tmp_path / "runs.db") == {0o640}
