"""How a service is connected to its database: the pool, and what each session is told first."""

from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from common.database.mysql import prepare_mysql
from common.database.sqlite import prepare_sqlite

LOCK_WAIT_SECONDS = 3
"""How long a statement waits for a lock of somebody else. InnoDB looks once a second: it may be 4."""

_ACQUIRE_SECONDS = 3.0  # for a connection of the pool; longer waiting helps nobody
_RECYCLE_SECONDS = 1800.0
_IDLE_SECONDS = 60
"""After so long without a word the server ends a session. A replica that was cut off in the middle of a
transaction would otherwise keep the lock on its run for the server's default of eight hours."""


def connect_to(url: str, pool_size: int) -> AsyncEngine:
    """A pool of at most `pool_size` connections to the database of a SQLAlchemy URL."""
    parsed = make_url(url)
    common: dict[str, Any] = {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": _ACQUIRE_SECONDS,
        # Parameters are values: they must not stand in an exception or a log line.
        "hide_parameters": True,
    }
    if parsed.get_backend_name() == "sqlite":
        engine = create_async_engine(parsed, **common)
        prepare_sqlite(engine)
        return engine
    init = (
        f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}, "
        # The same for locks of whole tables, such as an ALTER TABLE of others waits for: a year by default.
        f"lock_wait_timeout = {LOCK_WAIT_SECONDS}, "
        f"wait_timeout = CAST(LEAST(@@GLOBAL.wait_timeout, {_IDLE_SECONDS}) AS UNSIGNED), "
        "sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"
    )
    engine = create_async_engine(
        parsed,
        **common,
        pool_recycle=_RECYCLE_SECONDS,
        isolation_level="READ COMMITTED",
        connect_args={"charset": "utf8mb4", "init_command": init, "connect_timeout": _ACQUIRE_SECONDS},
    )
    prepare_mysql(engine)
    return engine
