"""How long an event takes to a subscriber on another replica: from the answer of its append to the frame.

Two processes of RunService share a database and a Redis. 20 events a second are appended at one of them, and
100 subscribers follow the run at the other. Beside it the parts that nobody could save: one publish through
Redis, one SQL read of the event, and the hop of a bare server that sends a ready-made frame to as many. A
time below zero means that the frame was there before the answer.

  python -m benchmarks.replica_latency --engine mariadb --seconds 5 --rounds 3
"""

import contextlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from redis import Redis
from redis.exceptions import ConnectionError as NotThereError

from benchmarks import servers
from benchmarks.command import main
from benchmarks.cores import CORES, on_cores
from benchmarks.echo import RING
from benchmarks.engines import Sql
from benchmarks.fan_out import SUBSCRIBERS, Appender, follow, job
from benchmarks.http2 import Connection, message
from benchmarks.pool import DriverError
from benchmarks.runs import create_runs
from benchmarks.stage import Effort, Stage, say
from benchmarks.table import Row
from tests.support.database_server import free_port

_PER_SECOND = 20


def measure(there: Stage) -> list[Row]:
    """p50 and p99 in milliseconds."""
    if shutil.which("redis-server") is None:
        say("not measured: Redis is not installed (apt-get install redis-server)")
        return []
    url = there.host.database()
    servers.migrate(url)
    ours: list[list[float]] = []
    parts: list[list[float]] = []
    with contextlib.ExitStack() as opened:
        redis = opened.enter_context(_redis())
        writer, sql = opened.enter_context(there.service("run_service", url=url, REDIS_URL=redis))
        reader, _ = opened.enter_context(there.service("run_service", url=url, REDIS_URL=redis))
        count = max(2, int(there.effort.seconds * _PER_SECOND))

        def across(_: float) -> None:
            ours.append(_across(there, writer, reader, count))

        def least(_: float) -> None:
            parts.append(_least(there, redis, sql, count))

        there.in_turns(across, least)
    rows = []
    for name, at in (("p50", 0.5), ("p99", 0.99)):
        what = f"append answered → frame at another replica, {name}"
        values = [[_at(samples, at) * 1000 for samples in side] for side in (ours, parts)]
        rows.append(Row(what, "ms", values[0], values[1], "publish + read + hop", digits=2))
    p99 = Row("the same, p99 alone", "ms", rows[1].product, bar=30.0, at_least=False, digits=2)
    return [*rows, p99]


def _across(there: Stage, writer: servers.Server, reader: servers.Server, count: int) -> list[float]:
    (run_id,) = create_runs(writer.address, 1)
    appender = Appender(writer)
    answered = []
    request = follow(run_id, after_seq=2)
    with there.drivers.streams(job(reader, request, count, timed=True), lanes=SUBSCRIBERS) as frames:
        for due in _every(1 / _PER_SECOND, count):
            time.sleep(max(0.0, due - time.monotonic()))
            answered.append(appender.append(run_id, 1))
        took = _took(answered, frames())
    appender.close()
    return took


def _least(there: Stage, redis: str, sql: Sql, count: int) -> list[float]:
    """For each event the sum of one publish, one read, and the hop to each subscriber."""
    with servers.bare() as echo, Redis.from_url(redis) as client:
        listening = client.pubsub()
        listening.subscribe("benchmarks")
        listening.get_message(timeout=5)
        ring = Connection(echo.address, RING)
        before, sent = [], []
        with there.drivers.streams(job(echo, b"", count, timed=True), lanes=SUBSCRIBERS) as frames:
            for due in _every(1 / _PER_SECOND, count):
                time.sleep(max(0.0, due - time.monotonic()))
                begin = time.monotonic()
                client.publish("benchmarks", "7")
                listening.get_message(timeout=5)
                sql.rows(
                    "SELECT * FROM sba_run_event WHERE run_pk = ? AND seq > ? ORDER BY seq LIMIT 500", (1, 1)
                )
                before.append(time.monotonic() - begin)
                sent.append(time.monotonic())
                ring.send(message(b"1"))
                ring.flush()
            hops = _took(sent, frames())
        ring.close()
        listening.close()
    each = len(hops) // count
    return [hop + before[at // each] for at, hop in enumerate(hops)]


def _took(since: list[float], found: list[dict[str, list[list[float]]]]) -> list[float]:
    """From each moment to the arrivals of its frame."""
    took = [
        arrival - moment
        for at, moment in enumerate(since)
        for one in found
        for arrival in one["arrivals"][at]
    ]
    if len(took) != len(since) * SUBSCRIBERS:
        raise DriverError(f"{len(took)} frames came instead of {len(since) * SUBSCRIBERS}")
    return took


def _every(seconds: float, count: int) -> Iterator[float]:
    begin = time.monotonic()
    return (begin + at * seconds for at in range(count))


def _at(samples: list[float], share: float) -> float:
    return statistics.median(samples) if share == 0.5 else sorted(samples)[int(len(samples) * share)]


@contextlib.contextmanager
def _redis() -> Iterator[str]:
    """The URL of a Redis that keeps nothing."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with on_cores(CORES.database):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        with Redis.from_url(url) as client:
            for _ in range(500):
                with contextlib.suppress(NotThereError):
                    if client.ping():
                        break
                time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    sys.exit(main("replica_latency", __doc__, measure, Effort(seconds=5, rounds=3)))
