"""MySQL and MariaDB as a store of short reads and explicit transactions.

Reads do not begin a transaction: one statement is the whole read, and whoever has not begun has nothing to
roll back afterwards. Writers say BEGIN.
"""

from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from common.database.round_trips import begin_for_writers, ping_after_rest, roll_back_if_begun

BEGIN_ON_SERVER = "BEGIN"


def prepare_mysql(engine: AsyncEngine) -> None:
    """Make every connection of `engine` follow the rules above."""
    event.listen(engine.sync_engine, "connect", _on_connect)
    begin_for_writers(engine, BEGIN_ON_SERVER)
    ping_after_rest(engine)
    roll_back_if_begun(engine)


def _on_connect(connection: Any, _record: Any) -> None:
    connection.autocommit(True)
