"""Driver processes, kept for a whole run, and what they found added up."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.cores import CORES, on_cores
from benchmarks.driver import MARK

_NUMBERS_OF_A_JOB = 10**6


class DriverError(Exception):
    """A call failed, or a driver did: a figure that counts failures as work would be worth nothing."""


@dataclass(frozen=True)
class Load:
    """What the drivers of one side did in one round."""

    seconds: float
    """Until the last answer."""
    acknowledged: int
    reply_bytes: int
    p50: float
    p99: float
    driver_share: float
    """Of one core, all drivers together."""

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.acknowledged / self.seconds


class Drivers:
    """`count` driver processes on the driver's cores; together they make so many requests beforehand."""

    def __init__(self, count: int, most_per_second: int = 14_000) -> None:
        self._most_per_second = most_per_second
        with on_cores(CORES.driver):
            self._processes = [
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.driver"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for _ in range(count)
            ]
        self._first_number = 1

    def unary(
        self,
        address: str,
        path: str,
        templates: Sequence[bytes],
        *,
        lanes: int,
        seconds: float,
        most_per_second: int | None = None,
        mark: bytes = MARK,
    ) -> Load:
        """Keep `lanes` calls in flight for `seconds`, each request with numbers of its own.

        Lane n sends the templates n, n + lanes, … in turns. Raises DriverError for any reply that is not OK.
        """
        used = self._processes[: max(1, min(lanes, len(self._processes)))]
        most = (most_per_second or self._most_per_second) // len(used)
        found = self._run(
            used,
            [
                self._numbered("unary", address, path, templates[at :: len(used)] or templates, mark)
                | {
                    "lanes": len(range(at, lanes, len(used))),
                    "seconds": seconds,
                    "most_per_second": most,
                }
                for at in range(len(used))
            ],
        )
        return Load(
            max(one["seconds"] for one in found),
            sum(one["acknowledged"] for one in found),
            sum(one["reply_bytes"] for one in found),
            statistics.fmean(one["p50"] for one in found),
            max(one["p99"] for one in found),
            sum(one["cpu_share"] for one in found),
        )

    def heeding(
        self, address: str, path: str, templates: Sequence[bytes], *, callers: int, seconds: float
    ) -> list[dict[str, Any]]:
        """So many callers that rest when they are refused; what each driver found, refusals among it."""
        count = len(self._processes)
        share = {
            "lanes": callers // count,
            "seconds": seconds,
            "most_per_second": self._most_per_second // count,
        }
        jobs = [self._numbered("heeding", address, path, templates, MARK) | share for _ in range(count)]
        return self._run(self._processes, jobs)

    def _numbered(
        self, kind: str, address: str, path: str, templates: Sequence[bytes], mark: bytes
    ) -> dict[str, Any]:
        """What every job says of its calls; the numbers of its requests are its own."""
        first, self._first_number = self._first_number, self._first_number + _NUMBERS_OF_A_JOB
        return {
            "kind": kind,
            "address": address,
            "path": path,
            "templates": [one.hex() for one in templates],
            "first_number": first,
            "mark": mark.hex(),
        }

    @contextmanager
    def streams(self, job: dict[str, Any], *, lanes: int) -> Iterator[Callable[[], list[dict[str, Any]]]]:
        """Open `lanes` subscribers, all there inside the context; what it gives waits for their frames."""
        used = self._processes[: max(1, min(lanes, len(self._processes)))]
        jobs = [
            {"kind": "streams", **job, "lanes": len(range(at, lanes, len(used)))} for at in range(len(used))
        ]
        self._prepare(used, jobs)
        for process in used:
            _tell(process, "go")
        yield lambda: _results(used)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.communicate()

    def _run(self, used: list["subprocess.Popen[str]"], jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._prepare(used, jobs)
        for process in used:
            _tell(process, "go")
        return _results(used)

    def _prepare(self, used: list["subprocess.Popen[str]"], jobs: list[dict[str, Any]]) -> None:
        for process, job in zip(used, jobs, strict=True):
            _tell(process, json.dumps(job))
        said = [_hear(process) for process in used]
        if any(one != "ready" for one in said):
            raise DriverError(str(said))


def _tell(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _hear(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise DriverError("a driver process ended")
    return json.loads(line)


def _results(used: list["subprocess.Popen[str]"]) -> list[dict[str, Any]]:
    # Heard from all before one is judged: what is left unheard would be taken for the next job's.
    return [_checked(found) for found in [_hear(process) for process in used]]


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    if "failed" in found:
        raise DriverError(found["failed"])
    if found.get("errors"):
        raise DriverError(f"replies that were not OK: {found['errors']}")
    return found
