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
    adopted as it is found. `statement_bytes` is the longest statement: the server must take it in one packet.
    """

    service: str
    version: int
    tables: MetaData
    shared: str
    created_at: str = "created_at"
    statement_bytes: int = 1024 * 1024


async def require(database: Database, schema: Schema) -> None:
    """Raise STORE_UNAVAILABLE unless the database answers, has this schema and takes writes."""

    async def look(connection: AsyncConnection) -> bool:
        if await _version(database, connection, schema) != schema.version:
            return False
        if database.is_sqlite:
            return True
        # A server that is read-only for this account refuses it, and it changes and locks nothing.
        await connection.exec_driver_sql("START TRANSACTION READ WRITE")
        return await packet_bytes(connection) >= schema.statement_bytes

    if not await database.read(look):
        raise store_unavailable()


async def stored_version(database: Database, schema: Schema) -> int | None:
    """The version that is recorded for the service; None if none is."""
    return await database.read(lambda connection: _version(database, connection, schema))


async def _version(database: Database, connection: AsyncConnection, schema: Schema) -> int | None:
    if not await has_table(database, connection, version_record.name):
        return None
    query = select(version_record.c.version).where(version_record.c.service == schema.service)
    return (await connection.execute(query)).scalar_one_or_none()


async def packet_bytes(connection: AsyncConnection) -> int:
    """The longest statement that a server takes: one above it does not fail alone, it ends the connection."""
    return int((await connection.exec_driver_sql("SELECT @@max_allowed_packet")).scalar_one())


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
