"""MySQL and MariaDB as a store of short reads and explicit transactions.

Reads do not begin a transaction: one statement is the whole read, and whoever has not begun has nothing to
roll back afterwards. Writers say BEGIN.
"""

from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine

from common.database.round_trips import ping_after_rest, roll_back_if_begun


def prepare_mysql(engine: AsyncEngine) -> None:
    """Make every connection of `engine` follow the rules above."""
    event.listen(engine.sync_engine, "connect", _on_connect)
    event.listen(engine.sync_engine, "begin", _on_begin)
    ping_after_rest(engine)
    roll_back_if_begun(engine)


def _on_connect(connection: Any, _record: Any) -> None:
    connection.autocommit(True)


def _on_begin(connection: Connection) -> None:
    if connection.get_execution_options().get("sba_writing"):
        connection.exec_driver_sql("BEGIN")
