"""Three times as many callers as keep the service busy: what is accepted of the peak, and how late it comes.

Each makes one call after the other; who is refused rests for the second that the refusal tells, as clients of
gRPC do. How late they are is measured after the burst with which they begin, in turns of two seconds or more.
Beside it, the same server at its peak, and with a third of the calls in flight.

  python -m benchmarks.overload --engine mariadb --seconds 3 --rounds 5
"""

import sys

from benchmarks import ready_made
from benchmarks.command import main
from benchmarks.runs import create_runs
from benchmarks.servers import Server
from benchmarks.sides import Side
from benchmarks.stage import Stage, say
from benchmarks.table import Row

_TIMES = 3
_UNLOADED, _PEAK = 64, 192
_RUNS = 200


def measure(there: Stage) -> list[Row]:
    """Both writes that share commits."""
    with there.service("audit_service") as (server, _):
        rows = _of("RecordToolInvocation", there, server, ready_made.RECORD, ready_made.records())
    with there.service("run_service") as (server, _):
        appends = [ready_made.append(run) for run in create_runs(server.address, _RUNS)]
        rows += _of("AppendRunEvents", there, server, ready_made.APPEND, appends)
    return rows


def _of(name: str, there: Stage, server: Server, path: str, templates: list[bytes]) -> list[Row]:
    unloaded = Side(there.drivers, server, path, templates, _UNLOADED)
    peak = Side(there.drivers, server, path, templates, _PEAK)
    accepted: list[float] = []
    late: list[float] = []
    refused: list[int] = []

    def over(seconds: float) -> None:
        found = there.drivers.heeding(
            server.address, path, templates, callers=_TIMES * _PEAK, seconds=max(seconds, 2.0)
        )
        accepted.append(sum(one["acknowledged"] for one in found) / max(one["seconds"] for one in found))
        late.append(max(one["p99"] for one in found) * 1000)
        refused.append(sum(one["refused"] for one in found))

    there.in_turns(unloaded, peak, over)
    rounds = there.effort.rounds
    accepted, late = accepted[-rounds:], late[-rounds:]
    say(f"{name}: {sum(refused)} calls were refused")
    limit = [max(both) for both in zip(peak.rates, unloaded.rates, strict=True)]
    at = f"{name}, {_TIMES * _PEAK} callers"
    return [
        Row(f"{at}: accepted", "calls/s", accepted, limit, "peak", bar=0.80),
        Row(
            f"{at}: p99 of what is accepted",
            "ms",
            late,
            unloaded.p99,
            f"{_UNLOADED} in flight",
            bar=5,
            at_least=False,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main("overload", __doc__, measure))
