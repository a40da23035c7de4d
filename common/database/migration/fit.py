"""Whether a column that was found can serve where one of ours is needed."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Boolean, Column, DateTime, Integer, SmallInteger, String, Table, Text
from sqlalchemy.types import BigInteger

from common.database.migration.found import FoundColumn, FoundTable
from common.database.types import JsonText, UtcDateTime

_TEXTS = {"tinytext": 255, "text": 65_535, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
_LONG_TEXT_BYTES = 2**32 - 1
_TEXT_BYTES = 65_535


def contradictions(table: Table, found: FoundTable) -> list[str]:
    """What of a table that exists cannot serve; one sentence each, naming table and column."""
    problems = [
        f"{table.name}.{column.name} is {_shown(there)}; needed is {needed}"
        for column in table.columns
        if (there := found.columns.get(column.name)) is not None
        and (needed := _missing_for(column, there)) is not None
    ]
    ours = {column.name for column in table.columns}
    problems += [
        f"{table.name}.{column.name} is NOT NULL without a default; rows of this service would not give it"
        for column in found.columns.values()
        if column.required and (column.name not in ours or table.columns[column.name].nullable)
    ]
    return problems


def _missing_for(column: Column[Any], there: FoundColumn) -> str | None:
    """What `column` needs that `there` does not offer; None if it fits."""
    if column.primary_key and column.autoincrement is True and not there.counts_up:
        return "an auto-increment key"
    for kind, fits, needed in _RULES:
        if isinstance(column.type, kind):
            return None if fits(column, there) else needed
    return None


def _string_fits(column: Column[Any], there: FoundColumn) -> bool:
    if there.type in ("varchar", "char"):
        return (there.length or 0) >= (getattr(column.type, "length", None) or 0)
    return there.type in _TEXTS


def _text_fits(column: Column[Any], there: FoundColumn) -> bool:
    # LONG_TEXT is a Text with a variant for MySQL; TEXT has none.
    needed = _LONG_TEXT_BYTES if "mysql" in column.type._variant_mapping else _TEXT_BYTES  # noqa: SLF001
    return _TEXTS.get(there.type, 0) >= needed


def _type_in(*names: str) -> Callable[[Column[Any], FoundColumn], bool]:
    return lambda _, there: there.type in names


_RULES = (
    (UtcDateTime, _type_in("datetime"), "DATETIME"),
    (DateTime, _type_in("datetime"), "DATETIME"),
    (JsonText, _type_in("json", "longtext"), "JSON"),
    (Boolean, _type_in("tinyint", "bit", "smallint", "int", "bigint"), "BOOLEAN"),
    (BigInteger, _type_in("bigint"), "BIGINT"),
    (SmallInteger, _type_in("smallint", "mediumint", "int", "bigint"), "SMALLINT"),
    (Integer, _type_in("int", "bigint"), "INT"),
    (Text, _text_fits, "TEXT of at least its size"),
    (String, _string_fits, "VARCHAR of at least its length"),
)
"""In order: the first rule whose type matches decides. BigInteger is an Integer, Text a String."""


def _shown(there: FoundColumn) -> str:
    return there.type if there.length is None else f"{there.type}({there.length})"
