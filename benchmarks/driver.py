"""A driver process: `python -m benchmarks.driver`; a job is a line of JSON on stdin, and so is its result.

It answers `ready` when all its requests are made, and waits for a line before it sends the first of them.
"""

import itertools
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from benchmarks.http2 import BrokenConnectionError, Connection, Reply, message, messages, status_text

MARK = b"000000000000"
"""Stands in a template of a request where each request has a number of its own."""

_DRAIN_SECONDS = 30.0

_SETTLE_SECONDS = 1.0
"""A burst is let in; how late calls are is measured when it is over and overload lasts."""

_REST_SECONDS = 1.0
"""What the services' grpc-retry-pushback-ms says where they are overloaded."""


def requests(templates: list[bytes], numbers: Iterator[int], count: int, mark: bytes = MARK) -> deque[bytes]:
    """`count` encoded messages, of the templates in turns; each mark becomes another number as long as it."""
    made: deque[bytes] = deque()
    cut = [template.split(mark) for template in templates]
    width = len(mark)
    for parts in itertools.islice(itertools.cycle(cut), count):
        text = parts[0] + b"".join(b"%0*d%b" % (width, next(numbers), part) for part in parts[1:])
        made.append(message(text))
    return made


class UnaryJob:
    """Lanes that each send the next request when the last one has come back."""

    def __init__(self, job: dict[str, Any]) -> None:
        templates = [bytes.fromhex(one) for one in job["templates"]]
        mark = bytes.fromhex(job["mark"])
        lanes, numbers = job["lanes"], itertools.count(job["first_number"])
        each = int(job["seconds"] * job["most_per_second"] / lanes) + 20
        self._lanes = [
            requests(templates[at::lanes] or templates, numbers, each, mark) for at in range(lanes)
        ]
        self._seconds = job["seconds"]
        self._connection = Connection(job["address"], job["path"])
        self._lane_of: dict[int, int] = {}
        self.errors: Counter[str] = Counter()
        self.took: list[float] = []
        self.reply_bytes = 0

    def run(self) -> dict[str, Any]:
        """Send for the time given, wait for what is on its way; the counts."""
        cpu, begin = time.process_time(), time.monotonic()
        end = begin + self._seconds
        for lane in range(len(self._lanes)):
            self._next(lane)
        while self._connection.open:
            self._take(end)
            if time.monotonic() > end + _DRAIN_SECONDS:
                raise BrokenConnectionError("calls without an answer")
        spent, cpu = time.monotonic() - begin, time.process_time() - cpu
        self._connection.close()
        took = sorted(self.took)
        return {
            "acknowledged": len(took),
            "seconds": spent,
            "errors": self.errors,
            "reply_bytes": self.reply_bytes,
            "p50": took[len(took) // 2] if took else 0.0,
            "p99": took[int(len(took) * 0.99)] if took else 0.0,
            "cpu_share": cpu / spent,
        }

    def _next(self, lane: int) -> None:
        if not self._lanes[lane]:
            raise BrokenConnectionError("too few requests were made beforehand: raise most_per_second")
        self._lane_of[self._connection.send(self._lanes[lane].popleft())] = lane

    def _take(self, end: float) -> None:
        changed = self._connection.receive()
        now = time.monotonic()
        for stream, reply, ended in changed:
            if ended:
                self._settle(reply, now)
                lane = self._lane_of.pop(stream)
                if now < end:
                    self._next(lane)

    def _settle(self, reply: Reply, now: float) -> None:
        if not reply.ok:
            self.errors[status_text(reply)] += 1
            return
        self.took.append(now - reply.sent)
        self.reply_bytes += len(reply.body)


class HeedingJob:
    """Callers that each make one call after the other, and rest as long as a refusal tells them to."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._callers, self._seconds = job["lanes"], job["seconds"]
        templates = [bytes.fromhex(one) for one in job["templates"]]
        count = int(job["most_per_second"] * self._seconds) + self._callers
        numbers = itertools.count(job["first_number"])
        self._requests = requests(templates, numbers, count, bytes.fromhex(job["mark"]))
        self._connection = Connection(job["address"], job["path"])
        self._resting: deque[float] = deque()  # until when, the earliest first
        self._settled = 0.0
        self.acknowledged = self.refused = 0
        self.errors: Counter[str] = Counter()
        self.took: list[float] = []

    def run(self) -> dict[str, Any]:
        """Call for the time given, then wait for what is on its way; the counts."""
        cpu, begin = time.process_time(), time.monotonic()
        end = begin + self._seconds
        self._settled = begin + _SETTLE_SECONDS
        self._call(self._callers)
        while (now := time.monotonic()) < end:
            while self._resting and self._resting[0] <= now:
                self._resting.popleft()
                self._call(1)
            self._connection.flush()
            if self._connection.has_news(0.001):
                self._call(self._take())
        while self._connection.open:
            self._take()
        spent, cpu = time.monotonic() - begin, time.process_time() - cpu
        self._connection.close()
        took = sorted(self.took)
        return {
            "acknowledged": self.acknowledged,
            "refused": self.refused,
            "errors": self.errors,
            "seconds": spent,
            "p99": took[int(len(took) * 0.99)] if took else 0.0,
            "cpu_share": cpu / spent,
        }

    def _call(self, count: int) -> None:
        for _ in range(count):
            self._connection.send(self._requests.popleft())

    def _take(self) -> int:
        """Settle what has come; how many callers can call again at once."""
        changed = self._connection.receive()
        now, free = time.monotonic(), 0
        for _, reply, ended in changed:
            if ended and reply.ok:
                self.acknowledged += 1
                if reply.sent >= self._settled:
                    self.took.append(now - reply.sent)
                free += 1
            elif ended and b"grpc-retry-pushback-ms" in reply.status:
                self.refused += 1
                self._resting.append(now + _REST_SECONDS)
            elif ended:
                self.errors[status_text(reply)] += 1
        return free


class StreamsJob:
    """Many subscribers of one run; ready when each has got its first message, which tells no event."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._connection = Connection(job["address"], job["path"])
        self._frames, self._timed = job["frames"], job["timed"]
        self._limit = job["seconds"]
        template = message(bytes.fromhex(job["templates"][0]))
        self._got = {self._connection.send(template): 0 for _ in range(job["lanes"])}
        self._arrivals: list[list[float]] = []
        caught_up: set[int] = set()
        while len(caught_up) < len(self._got):
            for stream, reply, ended in self._connection.receive():
                if ended:
                    raise BrokenConnectionError(status_text(reply))
                caught_up.update(stream for _ in messages(reply.body))

    def run(self) -> dict[str, Any]:
        """Read until each subscriber has got all frames."""
        cpu, begin = time.process_time(), time.monotonic()
        missing, last = len(self._got), begin
        while missing and last < begin + self._limit:
            changed = self._connection.receive()
            last = time.monotonic()
            for stream, reply, ended in changed:
                if ended:
                    raise BrokenConnectionError(status_text(reply))
                before = self._got[stream]
                self._got[stream] += self._count(reply, before, last)
                missing -= before < self._frames <= self._got[stream]
        cpu = time.process_time() - cpu
        if self._limit:  # with 0 the streams stay open: what they cost while idle is measured
            self._connection.close()
        return {
            "frames": sum(self._got.values()),
            "missing": missing,
            "last": last,
            "arrivals": self._arrivals,
            "cpu_share": cpu / (last - begin) if last > begin else 0.0,
        }

    def _count(self, reply: Reply, before: int, now: float) -> int:
        new = sum(1 for one in messages(reply.body) if one[:1] == b"\x0a")  # field 1, an event
        if self._timed:
            self._arrivals.extend([] for _ in range(before + new - len(self._arrivals)))
            for at in range(before, before + new):
                self._arrivals[at].append(now)
        return new


_JOBS: dict[str, type[UnaryJob | HeedingJob | StreamsJob]] = {
    "unary": UnaryJob,
    "heeding": HeedingJob,
    "streams": StreamsJob,
}


def _say(value: object) -> None:
    print(json.dumps(value), flush=True)


def main() -> None:
    """Do the jobs of stdin until it ends."""
    kept: list[UnaryJob | HeedingJob | StreamsJob] = []
    for line in sys.stdin:
        given = json.loads(line)
        try:
            job = _JOBS[given["kind"]](given)
            kept.append(job)
            _say("ready")
            sys.stdin.readline()
            _say(job.run())
        except (BrokenConnectionError, OSError) as error:
            _say({"failed": str(error) or type(error).__name__})
        if given["kind"] != "streams":
            kept.clear()


if __name__ == "__main__":
    main()
