"""What a service needs of a database, and the record that says it is there."""

from dataclasses import dataclass

from sqlalchemy import Column, Integer, MetaData, String, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.engine import Database
from common.database.types import UtcDateTime
from common.errors import store_unavailable

RECORDS = MetaData()

version_record = Table(
    "sba_schema_version",
    RECORDS,
    Column("service", String(32), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("applied_at", UtcDateTime(), nullable=False),
)
"""One row per service, so that both may share a database or have one each."""


@dataclass(frozen=True)
class Schema:
    """The tables of one service. `version` grows with every change of them.

    `shared` names the table that an older application may own, with its column of creation times: it is
    adopted as it is found.
    """

    service: str
    version: int
    tables: MetaData
    shared: str
    created_at: str = "created_at"


async def require(database: Database, schema: Schema) -> None:
    """Raise STORE_UNAVAILABLE unless the database answers and has this schema."""
    if await stored_version(database, schema) != schema.version:
        raise store_unavailable()


async def stored_version(database: Database, schema: Schema) -> int | None:
    """The version that is recorded for the service; None if none is."""

    async def fetch(connection: AsyncConnection) -> int | None:
        if not await has_table(database, connection, version_record.name):
            return None
        query = select(version_record.c.version).where(version_record.c.service == schema.service)
        return (await connection.execute(query)).scalar_one_or_none()

    return await database.read(fetch)


async def has_table(database: Database, connection: AsyncConnection, name: str) -> bool:
    """True if the database has the table. Asked first: an unknown table is an error like many others."""
    if database.is_sqlite:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    else:
        query = (
            "SELECT 1 FROM information_schema.tables "
            "WHERE table_schema = DATABASE() AND table_name = %s AND table_type = 'BASE TABLE'"
        )
    return (await connection.exec_driver_sql(query, (name,))).first() is not None
