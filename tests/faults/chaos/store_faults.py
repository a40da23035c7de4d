"""Faults of the database and of Redis themselves, and of other applications on the same tables."""

import asyncio
import contextlib

import pymysql
from redis.asyncio import Redis

from tests.faults.chaos.fault import DATABASE, REDIS, Fault, Scene
from tests.faults.chaos.world import Server
from tests.support.databases import session

_PATIENCE = 10.0


def _server(scene: Scene) -> Server:
    assert scene.world.server is not None
    return scene.world.server


async def _database_killed(scene: Scene, seconds: float) -> None:
    process = _server(scene).process
    await asyncio.to_thread(process.kill)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(process.start)


async def _database_restarted(scene: Scene, seconds: float) -> None:
    process = _server(scene).process
    await asyncio.to_thread(process.stop)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(process.start)


async def _database_paused(scene: Scene, seconds: float) -> None:
    process = _server(scene).process
    process.pause()
    await asyncio.sleep(seconds)
    process.resume()


async def _read_only(scene: Scene, seconds: float) -> None:
    server = _server(scene)
    ((version,),) = await server.sql("SELECT VERSION()")
    # Of the two servers one binds its administrators too; the services are none.
    name = "read_only" if "MariaDB" in str(version) else "super_read_only"
    await server.sql(f"SET GLOBAL {name} = 1")
    await asyncio.sleep(seconds)
    await server.sql(f"SET GLOBAL {name} = 0", "SET GLOBAL read_only = 0")


async def _sessions_killed(scene: Scene, seconds: float) -> None:
    server = _server(scene)
    name = server.url.rpartition("/")[2]
    for _ in range(5):
        for row in await server.sql("SHOW PROCESSLIST"):
            if row[1] == name:
                with contextlib.suppress(pymysql.err.OperationalError):  # it has ended by itself
                    await server.sql(f"KILL {row[0]}")
        await asyncio.sleep(seconds / 5)


async def _deadlocks(scene: Scene, seconds: float) -> None:
    """Take the two rows of a live run in the other order than the services do, until they met."""
    server = _server(scene)
    before = now = await _deadlocks_so_far(server)
    begun = asyncio.get_running_loop().time()
    while (past := asyncio.get_running_loop().time() - begun) < seconds or (
        now == before and past < _PATIENCE
    ):
        run_ids = scene.live_runs()
        if run_ids:
            await _deadlock(server, scene.dice.choice(run_ids))
        now = await _deadlocks_so_far(server)
    scene.caller.history.counts["deadlocks"] += now - before


async def _deadlocks_so_far(server: Server) -> int:
    ((count,),) = await server.sql(
        "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
    )
    return int(str(count))


async def _deadlock(server: Server, run_id: str) -> None:
    found = await server.sql(f"SELECT id FROM diagnosis_run WHERE run_id = '{run_id}'")  # noqa: S608
    if not found:
        return
    pk = found[0][0]
    with contextlib.suppress(pymysql.err.OperationalError):  # this time the other is the victim
        async with session(server.url) as do:
            # The one that has changed less is the server's victim: mostly ours.
            await do(f"UPDATE sba_run_event SET result_bytes = NULL WHERE run_pk = {pk}")  # noqa: S608
            await do(f"UPDATE sba_run_control SET lease_us = lease_us + 0 WHERE run_pk = {pk}")  # noqa: S608
            await asyncio.sleep(0.03)
            await do(f"UPDATE diagnosis_run SET query = query WHERE id = {pk}")  # noqa: S608
            await do("COMMIT")


async def _locked(scene: Scene, seconds: float) -> None:
    """Another application holds the rows of live runs, and the newest keys of the audit."""
    async with session(_server(scene).url) as do:
        for run_id in scene.live_runs()[:3]:
            await do(f"SELECT id FROM diagnosis_run WHERE run_id = '{run_id}' FOR UPDATE")  # noqa: S608
        await do("SELECT run_id FROM sba_tool_invocation_key ORDER BY created_at DESC LIMIT 20 FOR UPDATE")
        await asyncio.sleep(seconds)
        await do("ROLLBACK")


async def _redis_killed(scene: Scene, seconds: float) -> None:
    assert scene.world.redis is not None
    scene.world.redis.process.kill()
    await asyncio.sleep(seconds)
    await scene.world.redis.process.start()


async def _redis_paused(scene: Scene, seconds: float) -> None:
    assert scene.world.redis is not None
    scene.world.redis.process.pause()
    await asyncio.sleep(seconds)
    scene.world.redis.process.resume()


async def _redis_rolled_back(scene: Scene, seconds: float) -> None:
    """It comes back with what it held a while ago: what was written since is lost."""
    assert scene.world.redis is not None
    redis = scene.world.redis.process
    async with Redis.from_url(redis.url) as own:
        await own.set("probe", "older")
        await redis.save()
        await own.set("probe", "newer")
    await asyncio.sleep(seconds)
    redis.kill()
    await redis.roll_back()
    async with Redis.from_url(redis.url) as own:
        assert await own.get("probe") == b"older"


STORE_FAULTS = (
    Fault("database: kill -9", DATABASE, _database_killed, needs_server=True),
    Fault("database: restart", DATABASE, _database_restarted, needs_server=True),
    Fault("database: stopped in its tracks", DATABASE, _database_paused, needs_server=True),
    Fault("database: read-only", DATABASE, _read_only, needs_server=True),
    Fault("database: sessions killed", DATABASE, _sessions_killed, needs_server=True),
    Fault("database: deadlocks with others", DATABASE, _deadlocks, needs_server=True),
    Fault("database: rows locked by others", DATABASE, _locked, needs_server=True),
    Fault("Redis: kill -9", REDIS, _redis_killed, needs_server=True),
    Fault("Redis: stopped in its tracks", REDIS, _redis_paused, needs_server=True),
    Fault("Redis: rolled back", REDIS, _redis_rolled_back, needs_server=True),
)
