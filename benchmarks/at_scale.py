"""The time of a call at 1,000,000 audit rows and 1,000,000 events, against the same call at 10,000 of each.

Two processes of each service, one on the small and one on the large database, take turns. The rows are loaded
by SQL into databases that stay in the system's temporary folder. `--scale 0.1` loads a tenth, and says so.

  python -m benchmarks.at_scale --engine mariadb --seconds 3 --rounds 5
"""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import ready_made
from benchmarks.batch import SIZE
from benchmarks.command import main
from benchmarks.loaded import FIRST, loaded, runs_of
from benchmarks.runs import create_runs
from benchmarks.servers import Server
from benchmarks.sides import Side, check_count
from benchmarks.stage import Stage, say
from benchmarks.table import Row
from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as pb

_MANY = 1_000_000
_RUNS = 200


@dataclass(frozen=True)
class _Call:
    """What is called, on a server whose database has so many rows; `table` grows by `items` a call."""

    module: str
    what: str
    path: str
    templates: Callable[[Server, int], list[bytes]]
    in_flight: int
    table: str = ""
    items: int = 1


def _records(_: Server, __: int) -> list[bytes]:
    return ready_made.records()


def _batches(_: Server, __: int) -> list[bytes]:
    return ready_made.batches(SIZE)


def _lists(_: Server, rows: int) -> list[bytes]:
    asked = [audit.ListByRunRequest(run_id=run, page_size=50) for run in runs_of(rows, _RUNS)]
    return [one.SerializeToString() for one in asked]


def _gets(_: Server, rows: int) -> list[bytes]:
    return [pb.GetRunRequest(run_id=run).SerializeToString() for run in runs_of(rows, _RUNS)]


def _events(_: Server, rows: int) -> list[bytes]:
    asked = [pb.ListRunEventsRequest(run_id=run, page_size=50) for run in runs_of(rows, _RUNS)]
    return [one.SerializeToString() for one in asked]


def _appends(server: Server, _: int) -> list[bytes]:
    return [ready_made.append(run) for run in create_runs(server.address, _RUNS)]


_CALLS = (
    _Call("audit_service", "RecordToolInvocation", ready_made.RECORD, _records, 96, "tool_invocation"),
    _Call("audit_service", f"a batch of {SIZE}", ready_made.BATCH, _batches, 4, "tool_invocation", SIZE),
    _Call("audit_service", "ListByRun, 50 rows", ready_made.LIST_BY_RUN, _lists, 32),
    _Call("run_service", "AppendRunEvents", ready_made.APPEND, _appends, _RUNS, "sba_run_event"),
    _Call("run_service", "GetRun", ready_made.GET_RUN, _gets, 64),
    _Call("run_service", "ListRunEvents, 50 events", ready_made.LIST_EVENTS, _events, 32),
)


def measure(there: Stage) -> list[Row]:
    """Microseconds a call, and CPU of the service for it."""
    many = max(2 * FIRST, int(_MANY * there.effort.scale) // FIRST * FIRST)
    sizes = (many, FIRST)
    urls = [loaded(there.host, rows) for rows in sizes]
    rows: list[Row] = []
    for module in ("audit_service", "run_service"):
        with contextlib.ExitStack() as opened:
            pairs = [opened.enter_context(there.service(module, url=url)) for url in urls]
            for call in _CALLS:
                if call.module != module:
                    continue
                say(f"{call.what} at {many:,} and at {FIRST:,}")
                sides = []
                before = [sql.count(call.table) if call.table else 0 for _, sql in pairs]
                for (server, _), size in zip(pairs, sizes, strict=True):
                    templates = call.templates(server, size)
                    sides.append(
                        Side(there.drivers, server, call.path, templates, call.in_flight, items=call.items)
                    )
                if call.path == ready_made.APPEND:  # each run came with two events
                    before = [count + 2 * _RUNS for count in before]
                there.in_turns(*sides)
                if call.table:
                    for side, (_, sql), count in zip(sides, pairs, before, strict=True):
                        check_count(sql, call.table, side.acknowledged, count)
                rows.append(_row(call, many, *sides))
    return rows


def _row(call: _Call, many: int, large: Side, small: Side) -> Row:
    took = [[1e6 / rate for rate in side.rates] for side in (large, small)]
    cpu = sum(large.cpu) / sum(small.cpu)
    return Row(
        f"{call.what} at {many:,} rows",
        "µs",
        took[0],
        took[1],
        f"at {FIRST:,}",
        bar=1.25,
        at_least=False,
        notes=[f"CPU of the service {cpu:.2f} times that at {FIRST:,}"],
        acknowledged=large.acknowledged if call.table else None,
        counted=large.acknowledged if call.table else None,
    )


if __name__ == "__main__":
    sys.exit(main("at_scale", __doc__, measure))
