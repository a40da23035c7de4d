"""`superbizagent purge`: what is older than a limit goes, a batch at a time, beside the running services."""

import asyncio
import datetime as dt
import os
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from rich.console import Console
from sqlalchemy.engine import make_url

from audit_service.store import AUDIT_SCHEMA
from audit_service.store.purge import RowPurgeStore
from audit_service.usecases.purge_rows import purge_rows
from cli.errors import DONE, NOT_THERE, USAGE, CommandError
from cli.terminal import new_console, print_line
from cli.words import counted
from common.database import Database, DatabaseFault
from common.database.migration.schema import stored_version
from common.errors import Refusal
from common.purging import Purged, Step
from common.settings import PREFIX, Settings
from run_service.store import SCHEMA as RUN_SCHEMA
from run_service.store.purge import EventPurgeStore
from run_service.usecases.purge_events import purge_events

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGE = re.compile(r"([1-9][0-9]{0,4})([smhd])", re.ASCII)
_CONNECTIONS: Final = 2
_TELL_SECONDS: Final = 2.0
_LONGEST_REST_SECONDS: Final = 1.0

Part = Callable[[Database, dt.datetime, Step], Awaitable[Purged]]


def purge(older_than: str, *, dry_run: bool) -> int:
    """Delete old events and audit rows, or with `dry_run` count them; the exit code."""
    found = _AGE.fullmatch(older_than)
    if found is None:
        raise CommandError("--older-than must be a number of 1 to 99999 and s, m, h or d, such as 90d", USAGE)
    age = dt.timedelta(**{_UNITS[found[2]]: int(found[1])})
    settings = Settings.from_env(os.environ)
    failed = ""
    try:
        asyncio.run(_Purge(settings, dry_run=dry_run).carry_out(age))
    except Refusal:
        failed = f"the database of {PREFIX}DATABASE_URL does not answer; run it again to go on"
    except DatabaseFault as error:
        failed = f"the database of {PREFIX}DATABASE_URL refused ({error})"
    if failed:
        raise CommandError(failed, NOT_THERE)
    return DONE


class _Purge:
    """One run of the command."""

    def __init__(self, settings: Settings, *, dry_run: bool) -> None:
        self._settings = settings
        self._dry_run = dry_run
        self._console = new_console()

    async def carry_out(self, age: dt.timedelta) -> None:
        """Both parts, of those tables that the database has."""
        _require_file(self._settings.database_url)
        database = Database(self._settings.database_url, _CONNECTIONS)
        try:
            parts = {
                schema.service: part
                for schema, part in ((RUN_SCHEMA, self._events), (AUDIT_SCHEMA, self._rows))
                if await stored_version(database, schema) == schema.version
            }
            if not parts:
                raise CommandError(f"the database of {PREFIX}DATABASE_URL is not migrated", NOT_THERE)
            now = await EventPurgeStore(database).now()
            before = now - age
            print_line(self._console, f"before {before:%Y-%m-%d %H:%M:%S} UTC, by the database's clock")
            for part in parts.values():
                await part(database, before)
        finally:
            await database.close()

    async def _events(self, database: Database, before: dt.datetime) -> None:
        progress = _Progress(self._console, self._what(_events_in_words))
        store = EventPurgeStore(database)
        await progress.follow(purge_events(store, before, step=progress.step, dry_run=self._dry_run))

    async def _rows(self, database: Database, before: dt.datetime) -> None:
        progress = _Progress(self._console, self._what(_rows_in_words))
        store = RowPurgeStore(database, self._settings.database_time_zone)
        await progress.follow(purge_rows(store, before, step=progress.step, dry_run=self._dry_run))

    def _what(self, words: Callable[[Purged], str]) -> Callable[[Purged], str]:
        verb = "would be deleted" if self._dry_run else "deleted"
        return lambda gone: f"{words(gone)} {verb}"


class _Progress:
    """Tells how far it is, and rests as long as it worked: the services have work of their own to do."""

    def __init__(self, console: Console, words: Callable[[Purged], str]) -> None:
        self._console = console
        self._words = words
        self._gone = Purged()
        self._told = self._began = time.monotonic()

    async def follow(self, work: Awaitable[Purged]) -> None:
        """Await the work; its result is told, also when it is broken off."""
        try:
            self._gone = await work
        except BaseException:
            print_line(self._console, f"{self._words(self._gone)}, then it was broken off")
            raise
        print_line(self._console, self._words(self._gone))

    async def step(self, gone: Purged) -> None:
        """One more batch is done."""
        self._gone = gone
        now = time.monotonic()
        if now - self._told >= _TELL_SECONDS:
            self._told = now
            print_line(self._console, f"  {self._words(gone)} so far")
        await asyncio.sleep(min(now - self._began, _LONGEST_REST_SECONDS))
        self._began = time.monotonic()


def _events_in_words(gone: Purged) -> str:
    return f"{counted(gone.rows, 'event')} of {counted(gone.runs, 'finished run')}"


def _rows_in_words(gone: Purged) -> str:
    return counted(gone.rows, "audited tool call")


def _require_file(url: str) -> None:
    """Opened as a store, a SQLite file that is not there would be made."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise CommandError(f"there is no database file where {PREFIX}DATABASE_URL says", NOT_THERE)
