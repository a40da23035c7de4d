"""Carries a plan out: restartable, once although several try, the version record last.

DDL does not roll back on MySQL, so every step is one that may find its work done; a run that was broken off
is simply run again.
"""

import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.connecting import LOCK_WAIT_SECONDS
from common.database.engine import Database
from common.database.migration.clock import newest_row_ahead
from common.database.migration.plan import Plan, make_plan
from common.database.migration.schema import Schema, stored_version, version_record

Progress = Callable[[str], None]

_LOCK_SECONDS = 60


class MigrationProblemError(Exception):
    """The database cannot be migrated as it is; nothing was touched. `problems` are sentences for people."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Report:
    """What a migration did, or what a check found that it would do."""

    service: str
    steps: list[str]
    problems: list[str]
    newest_row: dt.datetime | None
    now: dt.datetime

    @property
    def clean(self) -> bool:
        """True if there is nothing to do and nothing in the way."""
        return not self.steps and not self.problems


async def check(
    database: Database, schema: Schema, *, zone: dt.tzinfo = dt.UTC, take_over: bool = False
) -> Report:
    """Say what `migrate` would do. Touches nothing."""

    async def look(connection: AsyncConnection) -> tuple[Plan, dt.datetime | None, dt.datetime]:
        plan = await make_plan(database, connection, schema, take_over=take_over)
        newest, now = await newest_row_ahead(database, connection, schema, zone, plan)
        return plan, newest, now

    plan, newest, now = await database.read(look, unhurried=True)
    steps = [description for description, _ in plan.steps]
    if not plan.problems and not steps and await stored_version(database, schema) != schema.version:
        steps.append(f"record version {schema.version}")
    return Report(schema.service, steps, plan.problems, newest, now)


async def migrate(
    database: Database,
    schema: Schema,
    *,
    zone: dt.tzinfo = dt.UTC,
    take_over: bool = False,
    progress: Progress = lambda _: None,
) -> bool:
    """Bring the schema of one service up; True if anything had to be done. Raises MigrationProblemError."""
    if await stored_version(database, schema) == schema.version:
        return False

    async def carry_out(connection: AsyncConnection) -> None:
        plan = await make_plan(database, connection, schema, take_over=take_over)
        await newest_row_ahead(database, connection, schema, zone, plan)
        if plan.problems:
            raise MigrationProblemError(plan.problems)
        for description, statement in plan.steps:
            progress(description)
            await connection.exec_driver_sql(statement)
        if not database.is_sqlite:
            # A change of the schema has ended the transaction; the version is replaced in one.
            await connection.exec_driver_sql("BEGIN")
        await connection.execute(version_record.delete().where(version_record.c.service == schema.service))
        await connection.execute(
            version_record.insert().values(
                service=schema.service, version=schema.version, applied_at=database.now()
            )
        )

    await database.write(carry_out if database.is_sqlite else _alone(carry_out), unhurried=True)
    return True


def _alone(
    work: Callable[[AsyncConnection], Awaitable[None]],
) -> Callable[[AsyncConnection], Awaitable[None]]:
    """`work` under a lock of the server: of two that start at once, the second finds the work done."""

    async def locked(connection: AsyncConnection) -> None:
        # A table that is in use is waited for: elsewhere a statement gives up after seconds.
        await connection.exec_driver_sql(f"SET lock_wait_timeout = {_LOCK_SECONDS}")
        got = await connection.exec_driver_sql("SELECT GET_LOCK('sba_migrate', %s)", (_LOCK_SECONDS,))
        if got.scalar_one() != 1:
            raise MigrationProblemError([f"another migration has run for more than {_LOCK_SECONDS} s"])
        try:
            await work(connection)
        finally:
            await connection.exec_driver_sql("DO RELEASE_LOCK('sba_migrate')")
            await connection.exec_driver_sql(f"SET lock_wait_timeout = {LOCK_WAIT_SECONDS}")

    return locked
