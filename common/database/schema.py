"""The schema of a service: what it needs, how it comes about, and whether it is there.

One version record per service, so that both may share a database or have one each. Creating is restartable
(DDL does not roll back on MySQL): each step looks at what exists, and the record is written last.
"""

from dataclasses import dataclass

from sqlalchemy import Column, Integer, MetaData, String, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.engine import Database
from common.database.types import UtcDateTime
from common.errors import store_unavailable

_records = MetaData()
_version = Table(
    "sba_schema_version",
    _records,
    Column("service", String(32), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("applied_at", UtcDateTime(), nullable=False),
)


@dataclass(frozen=True)
class Schema:
    """The tables of one service. `version` grows with every change of them."""

    service: str
    version: int
    tables: MetaData


async def migrate(database: Database, schema: Schema) -> bool:
    """Bring the schema of one service up; True if anything had to be done. Safe to run twice or at once."""
    if await _stored_version(database, schema) == schema.version:
        return False

    async def create(connection: AsyncConnection) -> None:
        await connection.run_sync(_records.create_all)
        await connection.run_sync(schema.tables.create_all)
        record = {"service": schema.service, "version": schema.version, "applied_at": database.now()}
        await connection.execute(_version.delete().where(_version.c.service == schema.service))
        await connection.execute(_version.insert().values(record))

    await database.write(create)
    return True


async def require(database: Database, schema: Schema) -> None:
    """Raise STORE_UNAVAILABLE unless the database answers and has this schema."""
    if await _stored_version(database, schema) != schema.version:
        raise store_unavailable()


async def _stored_version(database: Database, schema: Schema) -> int | None:
    async def fetch(connection: AsyncConnection) -> int | None:
        # An unknown table is an error of its own number on MySQL but of none on SQLite: ask first there.
        if database.is_sqlite and not await _has_version_table(connection):
            return None
        query = select(_version.c.version).where(_version.c.service == schema.service)
        return (await connection.execute(query)).scalar_one_or_none()

    return await database.read(fetch)


async def _has_version_table(connection: AsyncConnection) -> bool:
    found = await connection.exec_driver_sql(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'sba_schema_version'"
    )
    return found.first() is not None
