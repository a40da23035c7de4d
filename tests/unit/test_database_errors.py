"""Work that goes on after its caller was cancelled ends quietly, also when it fails."""

import asyncio
import gc
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from common.database import Database


async def test_an_error_that_no_caller_waits_for_is_no_unhandled_one(tmp_path: Path) -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    database = Database(f"sqlite+aiosqlite:///{tmp_path}/any.db", 1)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def fail(_: AsyncConnection) -> None:
        begun.set()
        await go_on.wait()
        raise ValueError

    caller = asyncio.create_task(database.read(fail))
    await begun.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    go_on.set()
    await database.close()
    gc.collect()
    assert unhandled == []
