"""One run that many follow: frames a second, against a bare server that streams a message to as many.

Events are appended a few at a time, the next call when the last is answered, until each subscriber has got
all of them. What appending costs is the product's; the bare server only sends.

  python -m benchmarks.fan_out --engine mariadb --seconds 3 --rounds 5
"""

import sys
import time
from typing import Any

from benchmarks import ready_made, servers
from benchmarks.command import main
from benchmarks.driver import MARK
from benchmarks.echo import RING
from benchmarks.http2 import Connection, call, message
from benchmarks.pool import DriverError
from benchmarks.runs import create_runs
from benchmarks.servers import Server
from benchmarks.sides import check_count
from benchmarks.stage import Stage
from benchmarks.table import Row
from superbizagent.run.v1 import run_service_pb2 as pb

SUBSCRIBERS = 100
_EVENTS_PER_SECOND = 300  # of --seconds: 30,000 frames
_EVENTS_PER_CALL = 20
_LONGEST_SECONDS = 60.0


def follow(run_id: str, after_seq: int = 0) -> bytes:
    """A request of StreamRunEvents."""
    return pb.StreamRunEventsRequest(run_id=run_id, after_seq=after_seq).SerializeToString()


class Appender:
    """Appends events with numbers of their own, one call after the other."""

    def __init__(self, server: Server) -> None:
        self._connection = Connection(server.address, ready_made.APPEND)
        self._number = 0

    def append(self, run_id: str, count: int) -> float:
        """Append; when the answer had come. Raises DriverError if it is not OK."""
        parts = ready_made.append(run_id, count).split(MARK)
        body = parts[0]
        for part in parts[1:]:
            self._number += 1
            body += b"%012d%b" % (self._number, part)
        self._connection.send(message(body))
        while True:
            for _, reply, ended in self._connection.receive():
                if ended and not reply.ok:
                    raise DriverError("an append was refused")
                if ended:
                    return time.monotonic()

    def close(self) -> None:
        """Close its connection."""
        self._connection.close()


def measure(there: Stage) -> list[Row]:
    """Frames a second."""
    events = max(_EVENTS_PER_CALL, int(there.effort.seconds * _EVENTS_PER_SECOND * there.effort.scale))
    events -= events % _EVENTS_PER_CALL
    ours: list[float] = []
    bare: list[float] = []
    shares: list[float] = []
    with there.service("run_service") as (server, sql):
        before = sql.count("sba_run_event")

        def appended(_: float) -> None:
            (run_id,) = create_runs(server.address, 1)
            appender = Appender(server)
            request = follow(run_id, after_seq=2)
            with there.drivers.streams(job(server, request, events), lanes=SUBSCRIBERS) as frames:
                begin = time.monotonic()
                for _ in range(events // _EVENTS_PER_CALL):
                    appender.append(run_id, _EVENTS_PER_CALL)
                ours.append(_rate(frames(), begin, events, shares))
            appender.close()

        def streamed(_: float) -> None:
            # All that Ring ever asked for goes to each new subscriber, so each round has a server of its own.
            with (
                servers.bare() as fresh,
                there.drivers.streams(job(fresh, b"", events), lanes=SUBSCRIBERS) as frames,
            ):
                begin = time.monotonic()
                call(fresh.address, RING, str(events).encode())
                bare.append(_rate(frames(), begin, events, []))

        there.in_turns(appended, streamed)
        rounds = there.effort.rounds
        counted = check_count(sql, "sba_run_event", rounds * (events + 2), before)
    return [
        Row(
            f"fan-out, {SUBSCRIBERS} subscribers of a run",
            "frames/s",
            ours,
            bare,
            "bare stream",
            bar=0.80,
            counted=counted - 2 * rounds,
            acknowledged=rounds * events,
            notes=[f"drivers used {max(shares):.0%} of a core at most"],
        )
    ]


def job(server: Server, request: bytes, events: int, *, timed: bool = False) -> dict[str, Any]:
    """Subscribers until each has got so many events; `timed` keeps the moment of each arrival."""
    return {
        "address": server.address,
        "path": ready_made.STREAM,
        "templates": [request.hex()],
        "frames": events,
        "timed": timed,
        "seconds": _LONGEST_SECONDS,
    }


def _rate(found: list[dict[str, Any]], begin: float, events: int, shares: list[float]) -> float:
    frames = sum(int(one["frames"]) for one in found)
    if frames != events * SUBSCRIBERS:
        raise DriverError(f"{frames} frames came instead of {events * SUBSCRIBERS}")
    shares.append(sum(one["cpu_share"] for one in found))
    last: float = max(float(one["last"]) for one in found)
    return frames / (last - begin)


if __name__ == "__main__":
    sys.exit(main("fan_out", __doc__, measure))
