"""What a database has already: columns and indexes of our tables, as the engine itself reports them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database.engine import Database


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column. `type` is the bare type in lower case; `length` as the engine counts it."""

    name: str
    type: str
    length: int | None
    fraction: int | None  # digits of a second
    required: bool  # NOT NULL without a default: an INSERT must name it
    counts_up: bool


@dataclass(slots=True)
class FoundTable:
    """A table with its columns by name, and the columns of its indexes by index name."""

    columns: dict[str, FoundColumn] = field(default_factory=dict)
    indexes: dict[str, tuple[bool, tuple[str, ...]]] = field(default_factory=dict)


async def find_tables(
    database: Database, connection: AsyncConnection, names: Sequence[str]
) -> dict[str, FoundTable]:
    """Those of the tables that exist. On SQLite only their names count: nobody else writes such a file."""
    if database.is_sqlite:
        return await _find_in_sqlite(connection, names)
    found: dict[str, FoundTable] = {}
    marks = ", ".join(["%s"] * len(names))
    columns = await connection.exec_driver_sql(
        "SELECT table_name, column_name, data_type, character_maximum_length, datetime_precision, "  # noqa: S608
        "is_nullable, column_default, extra FROM information_schema.columns "
        f"WHERE table_schema = DATABASE() AND table_name IN ({marks}) ORDER BY ordinal_position",
        tuple(names),
    )
    for row in columns.all():
        table, name, kind, length, fraction, nullable, default, extra = list(row)
        counts_up = "auto_increment" in extra.lower()
        # A generated column is NULL-able or not, but nobody writes it.
        written = "generated" not in extra.lower() and not counts_up
        required = nullable == "NO" and default is None and written
        column = FoundColumn(name, kind.lower(), length, fraction, required, counts_up)
        found.setdefault(table, FoundTable()).columns[name] = column
    indexes = await connection.exec_driver_sql(
        "SELECT table_name, index_name, non_unique, column_name FROM information_schema.statistics "  # noqa: S608
        f"WHERE table_schema = DATABASE() AND table_name IN ({marks}) ORDER BY index_name, seq_in_index",
        tuple(names),
    )
    for row in indexes.all():
        table, name, non_unique, column_name = list(row)
        _, so_far = found[table].indexes.get(name, (False, ()))
        found[table].indexes[name] = (not int(non_unique), (*so_far, column_name))
    return found


async def _find_in_sqlite(connection: AsyncConnection, names: Sequence[str]) -> dict[str, FoundTable]:
    rows = await connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
    there = {name for (name,) in rows}
    return {name: FoundTable() for name in names if name in there}
