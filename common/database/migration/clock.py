"""The zone of an adopted database: rows from the future mean that it is set wrong.

A wrong zone would keep old rows the latest of their session for hours.
"""

import datetime as dt

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import NullType

from common.database.engine import Database
from common.database.migration.found import find_tables
from common.database.migration.plan import Plan
from common.database.migration.schema import Schema
from common.database.row_time import RowTime

_TOLERATED = dt.timedelta(minutes=5)


async def newest_row_ahead(
    database: Database, connection: AsyncConnection, schema: Schema, zone: dt.tzinfo, plan: Plan
) -> tuple[dt.datetime | None, dt.datetime]:
    """The newest creation time in the shared table, and the database's now.

    A newest row more than 5 minutes ahead becomes a problem of the plan.
    """
    now: dt.datetime = (await connection.execute(select(database.now()))).scalar_one()
    moment = await _newest_row(database, connection, schema, zone)
    if moment is None:
        return None, now
    if moment > now + _TOLERATED:
        plan.problems.append(
            f"the newest {schema.created_at} of {schema.shared} is {moment:%Y-%m-%d %H:%M:%S} UTC, but the "
            f"database's clock says {now:%Y-%m-%d %H:%M:%S} UTC: DATABASE_TIME_ZONE is wrong"
        )
    return moment, now


async def _newest_row(
    database: Database, connection: AsyncConnection, schema: Schema, zone: dt.tzinfo
) -> dt.datetime | None:
    table = schema.tables.tables[schema.shared]
    there = (await find_tables(database, connection, [table.name])).get(table.name)
    if there is None or schema.created_at not in there.columns:
        return None
    # No index leads with the time: this scans, which a migration may and a service must not.
    newest = select(func.max(table.c[schema.created_at], type_=NullType()))
    found = (await connection.execute(newest)).scalar_one()
    return RowTime(database, table.name, schema.created_at, zone).from_row(found)
