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
from benchmarks.sides import Side, check_count
from benchmarks.stage import Stage, say
from benchmarks.table import Row

_TIMES = 3
_UNLOADED, _PEAK = 64, 192
_RUNS = 200


def measure(there: Stage) -> list[Row]:
    """Both writes that share commits."""
    with there.service("audit_service") as (server, sql):
        rows, acknowledged = _of(
            "RecordToolInvocation", there, server, ready_made.RECORD, ready_made.records()
        )
        check_count(sql, "tool_invocation", acknowledged)
    with there.service("run_service") as (server, sql):
        appends = [ready_made.append(run) for run in create_runs(server.address, _RUNS)]
        before = sql.count("sba_run_event")
        more, acknowledged = _of("AppendRunEvents", there, server, ready_made.APPEND, appends)
        check_count(sql, "sba_run_event", acknowledged, before)
    return rows + more


def _of(name: str, there: Stage, server: Server, path: str, templates: list[bytes]) -> tuple[list[Row], int]:
    """The rows of a method, and how many of its calls were acknowledged."""
    unloaded = Side(there.drivers, server, path, templates, _UNLOADED)
    peak = Side(there.drivers, server, path, templates, _PEAK)
    accepted: list[float] = []
    late: list[float] = []
    acknowledged = refused = 0

    def over(seconds: float) -> None:
        nonlocal acknowledged, refused
        found = there.drivers.heeding(
            server.address, path, templates, callers=_TIMES * _PEAK, seconds=max(seconds, 2.0)
        )
        answered = sum(one["acknowledged"] for one in found)
        acknowledged += answered
        accepted.append(answered / max(one["seconds"] for one in found))
        late.append(max(one["p99"] for one in found) * 1000)
        refused += sum(one["refused"] for one in found)

    there.in_turns(unloaded, peak, over)
    rounds = there.effort.rounds
    accepted, late = accepted[-rounds:], late[-rounds:]
    say(f"{name}: {refused} calls were refused")
    limit = [max(both) for both in zip(peak.rates, unloaded.rates, strict=True)]
    at = f"{name}, {_TIMES * _PEAK} callers"
    rows = [
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
    return rows, acknowledged + unloaded.acknowledged + peak.acknowledged


if __name__ == "__main__":
    sys.exit(main("overload", __doc__, measure))
