"""What is to be done so that a database has the tables of a service, decided before anything is touched."""

from dataclasses import dataclass, field

from sqlalchemy import Column, Dialect, Index, MetaData, Table, UniqueConstraint
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from common.database.engine import Database
from common.database.migration.fit import contradictions
from common.database.migration.found import FoundTable, find_tables
from common.database.migration.schema import RECORDS, Schema, has_table, packet_bytes

FLYWAY_TABLE = "flyway_schema_history"
_NEEDED_FLYWAY = frozenset({10, 11})


@dataclass(slots=True)
class Plan:
    """`steps` are DDL statements in order, each with a short description; `problems` forbid all of them."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def make_plan(
    database: Database, connection: AsyncConnection, schema: Schema, *, take_over: bool
) -> Plan:
    """Compare what is there with what is needed. Reads only."""
    plan = Plan()
    if not take_over and await _waits_for_java(database, connection):
        plan.problems.append(
            "the Java application's migrations V010 and V011 are not applied: run the Java migrations first "
            "(or take over its tables with --take-over)"
        )
        return plan
    if not database.is_sqlite and (packet := await packet_bytes(connection)) < schema.statement_bytes:
        plan.problems.append(
            f"the server's max_allowed_packet is {packet}; needed are {schema.statement_bytes} bytes"
        )
    for tables in (RECORDS, schema.tables):
        found = await find_tables(database, connection, list(tables.tables))
        _compare(plan, tables, found, database.dialect)
    return plan


def _compare(plan: Plan, tables: MetaData, found: dict[str, FoundTable], dialect: Dialect) -> None:
    for table in tables.sorted_tables:
        there = found.get(table.name)
        if there is None:
            plan.steps += _create(table, dialect)
        else:
            plan.problems += contradictions(table, there)
            plan.steps += _complete(table, there, dialect)


def _create(table: Table, dialect: Dialect) -> list[tuple[str, str]]:
    create = CreateTable(table, if_not_exists=True)
    text = str(create.compile(dialect=dialect)).strip()
    if dialect.name == "sqlite":
        indexes = [
            (f"add index {index.name}", str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect)))
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
        return [(f"create table {table.name}", text), *indexes]
    # One statement with its indexes: a table without them is never seen, also not after a broken-off run.
    inner = ", ".join(_index_clause(index, dialect) for index in table.indexes)
    text = text.rstrip().removesuffix(")").rstrip() + (f", {inner}" if inner else "") + ")"
    return [(f"create table {table.name}", f"{text} CHARACTER SET utf8mb4 ENGINE InnoDB")]


def _complete(table: Table, there: FoundTable, dialect: Dialect) -> list[tuple[str, str]]:
    """Add what is missing to a table that exists: columns, nullable, and indexes. No row changes."""
    alter = f"ALTER TABLE {table.name} ADD"
    columns = [
        (f"add column {table.name}.{column.name}", f"{alter} COLUMN {_nullable(column, dialect)}")
        for column in table.columns
        if column.name not in there.columns
    ]
    indexes = [
        (f"add index {index.name}", _add_index(index, alter, dialect))
        for index in sorted(table.indexes, key=lambda index: str(index.name))
        if str(index.name) not in there.indexes
    ]
    there_unique = {names for unique, names in there.indexes.values() if unique}
    unique = [
        (f"add unique index on {table.name} ({', '.join(names)})", _add_unique(table, names, alter, dialect))
        for constraint in table.constraints
        if isinstance(constraint, UniqueConstraint)
        and (names := tuple(column.name for column in constraint.columns)) not in there_unique
    ]
    return [*columns, *indexes, *unique]


def _nullable(column: Column[object], dialect: Dialect) -> str:
    """A missing column is added nullable whatever it should be: rows that exist have no value for it."""
    copy: Column[object] = Column(column.name, column.type, nullable=True)
    Table("any", MetaData(), copy)
    return str(CreateColumn(copy).compile(dialect=dialect))


def _add_index(index: Index, alter: str, dialect: Dialect) -> str:
    if dialect.name == "sqlite":
        return str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect))
    return f"{alter} {_index_clause(index, dialect)}"


def _add_unique(table: Table, columns: tuple[str, ...], alter: str, dialect: Dialect) -> str:
    if dialect.name == "sqlite":
        return (
            f"CREATE UNIQUE INDEX uk_{table.name}_{'_'.join(columns)} ON {table.name} ({', '.join(columns)})"
        )
    return f"{alter} UNIQUE ({', '.join(columns)})"


def _index_clause(index: Index, dialect: Dialect) -> str:
    columns = ", ".join(dialect.identifier_preparer.quote(column.name) for column in index.columns)
    return f"{'UNIQUE ' if index.unique else ''}INDEX {index.name} ({columns})"


async def _waits_for_java(database: Database, connection: AsyncConnection) -> bool:
    if not await has_table(database, connection, FLYWAY_TABLE):
        return False
    rows = await connection.exec_driver_sql(f"SELECT version FROM {FLYWAY_TABLE} WHERE success = 1")  # noqa: S608
    applied = {int(version) for (version,) in rows if version is not None and version.isdigit()}
    return not applied >= _NEEDED_FLYWAY
