"""Where the time of a call goes, by layer: samples of the service's CPU time while it is under load.

The service runs with a timer of its CPU time, a sample a millisecond, which belongs to the innermost frame
that a layer owns. While its one Python thread waits, samples belong to other threads: those of the gRPC core,
and on SQLite that of the driver. What the database process does is not in it.

  python -m benchmarks.profile_layers --engine mariadb --only record --seconds 5
"""

import json
import sys
from collections.abc import Callable
from functools import partial

from benchmarks import ready_made
from benchmarks.command import measure, parser
from benchmarks.runs import create_runs
from benchmarks.servers import Server
from benchmarks.sides import Side
from benchmarks.stage import Effort, Stage
from benchmarks.table import Row
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as pb

_RUNS = 200


def _appends(server: Server) -> list[bytes]:
    return [ready_made.append(run) for run in create_runs(server.address, _RUNS)]


def _gets(server: Server) -> list[bytes]:
    return [pb.GetRunRequest(run_id=run).SerializeToString() for run in create_runs(server.address, _RUNS)]


def _lists(server: Server) -> list[bytes]:
    """A run that gets its 50 rows first."""
    from benchmarks.http2 import call

    request = audit.BatchRecordToolInvocationsRequest(
        invocations=[ready_made.tool_call(1, str(at)) for at in range(50)]
    )
    call(server.address, ready_made.BATCH, request.SerializeToString())
    return [audit.ListByRunRequest(run_id=ready_made.run_id(1), page_size=50).SerializeToString()]


_CALLS: dict[str, tuple[str, str, Callable[[Server], list[bytes]], int]] = {
    "record": ("audit_service", ready_made.RECORD, lambda _: ready_made.records(), 96),
    "batch": ("audit_service", ready_made.BATCH, lambda _: ready_made.batches(500), 4),
    "list_by_run": ("audit_service", ready_made.LIST_BY_RUN, _lists, 32),
    "append": ("run_service", ready_made.APPEND, _appends, _RUNS),
    "get_run": ("run_service", ready_made.GET_RUN, _gets, 64),
}


def profile(there: Stage, name: str) -> list[Row]:
    """A row for each layer: its share of the CPU, and microseconds of a call."""
    module, path, templates, in_flight = _CALLS[name]
    out = there.folder / f"{name}.json"
    with there.service("benchmarks.sampled", str(out), module) as (server, _):
        side = Side(there.drivers, server, path, templates(server), in_flight)
        side.turn(there.effort.seconds)
    found: dict[str, int] = json.loads(out.read_text("ascii"))
    total = sum(found.values())
    return [
        Row(f"{name}: {layer}", "µs", [side.cpu[0] * count / total], notes=[])
        for layer, count in sorted(found.items(), key=lambda one: -one[1])
        if count / total >= 0.005
    ]


def main() -> int:
    """Print a table for each call."""
    options = parser(__doc__, Effort(seconds=5, rounds=1))
    options.add_argument("--only", choices=_CALLS, action="append", help="only these calls")
    given = options.parse_args()
    for name in given.only or _CALLS:
        rows = measure(given, [(name, partial(profile, name=name))])
        total = sum(row.product[0] for row in rows)
        print("\n| layer | engine | µs a call | share |\n|---|---|---|---|")
        for row in rows:
            share = row.product[0] / total
            print(f"| {row.what} | {row.engine} | {row.product[0]:.0f} | {share:.0%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
