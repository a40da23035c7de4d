"""`superbizagent migrate`: bring the tables of both services up, or say what that would take."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence

from rich.console import Console
from rich.text import Text

from audit_service.store import AUDIT_SCHEMA
from cli.errors import DONE, NOT_THERE, CommandError
from cli.sqlite_look import look_alike
from cli.terminal import new_console, plain_table, print_line
from cli.words import counted
from common.database import Database, DatabaseFault, MigrationProblemError, Report, check
from common.database import migrate as bring_up
from common.errors import Refusal
from common.settings import PREFIX, Settings
from run_service.store import SCHEMA as RUN_SCHEMA

_SCHEMAS = (RUN_SCHEMA, AUDIT_SCHEMA)
_CONNECTIONS = 2


def migrate(*, check_only: bool, take_over: bool) -> int:
    """Carry the migrations out, or with `check_only` say what they would do; the exit code."""
    settings = Settings.from_env(os.environ)
    failed = ""
    try:
        return asyncio.run(_migrate(new_console(), settings, check_only=check_only, take_over=take_over))
    except MigrationProblemError as error:
        failed = (
            f"nothing was changed: {counted(len(error.problems), 'problem is', 'problems are')} in the way"
        )
    except Refusal:
        failed = f"the database of {PREFIX}DATABASE_URL does not answer"
    except DatabaseFault as error:
        failed = f"the database of {PREFIX}DATABASE_URL refused ({error})"
    raise CommandError(failed, NOT_THERE)


async def _migrate(console: Console, settings: Settings, *, check_only: bool, take_over: bool) -> int:
    async with _database(settings, only_look=check_only) as database:
        reports = [
            await check(database, schema, zone=settings.database_time_zone, take_over=take_over)
            for schema in _SCHEMAS
        ]
        if check_only:
            _show(console, reports, to_do="would do")
            return DONE if all(report.clean for report in reports) else NOT_THERE
        problems = [problem for report in reports for problem in report.problems]
        if problems:
            _show(console, reports, to_do="would do")
            raise MigrationProblemError(problems)
        for schema in _SCHEMAS:
            await bring_up(database, schema, zone=settings.database_time_zone, take_over=take_over)
        _show(console, reports, to_do="done")
    return DONE


@contextlib.asynccontextmanager
async def _database(settings: Settings, *, only_look: bool) -> AsyncIterator[Database]:
    """The database of the settings; to look at a SQLite file, a copy of its tables without their rows."""
    with contextlib.ExitStack() as cleared:
        url = settings.database_url
        if only_look and url.startswith("sqlite"):
            url = cleared.enter_context(look_alike(url))
        database = Database(url, _CONNECTIONS)
        try:
            yield database
        finally:
            await database.close()


def _show(console: Console, reports: Sequence[Report], *, to_do: str) -> None:
    table = plain_table("service", "what", "")
    shown: set[str] = set()  # both services need the table of versions
    for report in reports:
        lines = [(to_do, step) for step in report.steps if step not in shown]
        shown.update(report.steps)
        lines += [("in the way", counted(len(report.problems), "problem"))] if report.problems else []
        for number, (what, text) in enumerate(lines or [("up to date", "")]):
            style = "red" if what == "in the way" else "green" if what in ("done", "up to date") else "yellow"
            table.add_row("" if number else report.service, Text(what, style=style), text)
    console.print(table)
    for report in reports:
        for problem in report.problems:
            print_line(console, f"in the way of {report.service}: {problem}")
        if report.newest_row is not None:
            print_line(
                console,
                f"newest row of {report.service}: {report.newest_row:%Y-%m-%d %H:%M:%S} UTC; "
                f"the database's clock: {report.now:%Y-%m-%d %H:%M:%S} UTC",
            )
