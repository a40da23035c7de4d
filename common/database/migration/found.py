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
    """Those of the tables that exist."""
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
    found: dict[str, FoundTable] = {}
    for table in names:
        columns = await connection.exec_driver_sql(
            'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,)
        )
        for row in columns.all():
            column = _sqlite_column(*list(row))
            found.setdefault(table, FoundTable()).columns[column.name] = column
        indexes = await connection.exec_driver_sql(
            'SELECT list.name, list."unique", info.name FROM pragma_index_list(?) AS list, '
            "pragma_index_info(list.name) AS info ORDER BY list.name, info.seqno",
            (table,),
        )
        for row in indexes.all():
            index, unique, name = list(row)
            _, so_far = found[table].indexes.get(index, (False, ()))
            found[table].indexes[index] = (bool(unique), (*so_far, name))
    return found


def _sqlite_column(name: str, declared: str, not_null: int, default: str | None, key: int) -> FoundColumn:
    """A column by its declared type. SQLite's own types are unbounded: they stand for the largest ones."""
    kind, _, length = declared.lower().rstrip(")").partition("(")
    largest = {"integer": "bigint", "text": "longtext", "boolean": "tinyint", "timestamp": "datetime"}
    counts_up = bool(key) and kind == "integer"
    required = bool(not_null) and default is None and not key
    return FoundColumn(
        name,
        largest.get(kind.strip(), kind.strip()),
        int(length) if length.isdigit() else None,
        fraction=None,
        required=required,
        counts_up=counts_up,
    )
