"""How an engine would carry a statement out."""

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database


@dataclass(frozen=True)
class Plan:
    """The steps of a plan, as the engine words them."""

    steps: list[dict[str, Any]]
    is_sqlite: bool

    @property
    def scans(self) -> list[str]:
        """Tables of which every row is looked at, by whatever index."""
        if self.is_sqlite:
            lines = [str(step["detail"]) for step in self.steps]
            return [line for line in lines if re.match(r"SCAN (?!anon_|\(subquery)", line)]
        return [
            str(step["table"])
            for step in self.steps
            if step["type"] in ("ALL", "index") and not str(step["table"]).startswith("<")
        ]


async def explain(database: Database, statement: str, values: Any) -> Plan:
    """The plan of a statement."""
    mariadb = getattr(database.dialect, "is_mariadb", False)
    word = "EXPLAIN" if mariadb else "EXPLAIN FORMAT=TRADITIONAL"
    word = "EXPLAIN QUERY PLAN" if database.is_sqlite else word

    async def work(connection: AsyncConnection) -> list[dict[str, Any]]:
        rows = (await connection.exec_driver_sql(f"{word} {statement}", values)).mappings()
        return [dict(row) for row in rows]

    return Plan(await database.read(work), database.is_sqlite)
