"""A short history with everything in it, and the rows that it rightly left: doctored ones are made of it."""

from dataclasses import dataclass, field
from typing import Any

from tests.faults.history.facts import CREATED, FINISHED, STARTED, Counts, Event, Invocation
from tests.faults.history.history import COMPLETE, Call, History, Outcome, Segment
from tests.faults.history.stored import Stored, StoredRow, StoredRun

Values = dict[str, Any]

RUN, CANCELLED_RUN, EXPIRED_RUN, OPEN_RUN = "run-finished", "run-cancelled", "run-expired", "run-open"

STEP = Event("e1", "STEP_FINISHED", step_id=1, input_tokens=10, status="OK")
TOOL = Event("e2", "TOOL_STARTED", tool_call_id="call_1")
LATER = Event("e3", "STEP_STARTED", step_id=2)
UNTOLD = Event("e4", "STEP_STARTED", step_id=2)
NEVER_STORED = Event("e5", "STEP_STARTED", step_id=9)
FIRST_TOOL = Invocation("tool-1", "query_logs", "READY", 10, 5, success=True)
SECOND_TOOL = Invocation("tool-2", "query_mysql", "READY")
UNTOLD_TOOL = Invocation("tool-3", "query_logs", "READY")


_FINISH = {"status": "SUCCESS", "answer": "Done."}
_NOTHING_COUNTED = [None, None, None]


def sample() -> tuple[History, Stored]:
    """A finished run, one whose cancel won, one that expired, one that goes on. Nothing is wrong with it."""
    writer = _Writer()
    _begin(writer)
    _work(writer)
    _end(writer)
    log = _finished_log()
    writer.history.segments = [
        Segment(RUN, 0, 1.0, log[:4]),
        Segment(RUN, 4, 2.0, log[4:], COMPLETE),
        Segment(OPEN_RUN, 0, 1.0, [(1, Event("", CREATED))]),
    ]
    return writer.history, _rows(log)


@dataclass
class _Writer:
    """Writes calls that follow one another."""

    history: History = field(default_factory=History)
    now: float = 0.0

    def _call(self, kind: str, run_id: str, key: str, given: Values) -> Call:
        self.now += 1
        self.history.calls.append(Call(kind, run_id, key, given, self.now))
        return self.history.calls[-1]

    def told(self, kind: str, run_id: str, key: str, given: Values | None = None, /, **answer: Any) -> None:
        call = self._call(kind, run_id, key, given or {})
        call.ended, call.outcome, call.answer = self.now + 0.5, Outcome.ANSWERED, answer

    def untold(self, kind: str, run_id: str, key: str, given: Values) -> None:
        self._call(kind, run_id, key, given)

    def too_late(self, kind: str, run_id: str, key: str, given: Values, winner: str) -> None:
        call = self._call(kind, run_id, key, given)
        call.ended, call.outcome, call.reason = self.now + 0.5, Outcome.REFUSED, "RUN_ALREADY_FINISHED"
        call.answer = {"status": winner}


def _begin(writer: _Writer) -> None:
    for number, run_id in enumerate((RUN, CANCELLED_RUN, EXPIRED_RUN, OPEN_RUN)):
        given = {"session_id": f"sess-{number}", "short_lease": run_id == EXPIRED_RUN}
        writer.told("create", "", f"req-{number}", given, run_id=run_id)
    writer.told("create", "", "req-0", {"session_id": "sess-0", "short_lease": False}, run_id=RUN)
    for run_id in (RUN, CANCELLED_RUN, OPEN_RUN):
        writer.told("start", run_id, run_id)


def _work(writer: _Writer) -> None:
    batch: Values = {"events": [STEP, TOOL]}
    writer.told("append", RUN, "e1", batch, seqs=[3, 4], last_seq=4)
    writer.told("append", RUN, "e1", batch, seqs=[3, 4], last_seq=4)  # its acknowledgement had been lost
    writer.told("append", RUN, "e3", {"events": [LATER]}, seqs=[5], last_seq=5)
    writer.untold("append", RUN, "e4", {"events": [UNTOLD]})
    writer.untold("append", RUN, "e5", {"events": [NEVER_STORED]})
    writer.told("read", RUN, RUN, status="RUNNING", last_seq=6)
    writer.told("feedback", RUN, RUN, {"feedback": "UP"})
    writer.told("feedback", RUN, RUN, {"feedback": "DOWN"})
    writer.told("record", RUN, "tool-1", {"invocations": [FIRST_TOOL]}, ids=[1], duplicates=[False])
    both: Values = {"invocations": [FIRST_TOOL, SECOND_TOOL]}
    writer.told("record", RUN, "tool-1", both, ids=[1, 2], duplicates=[True, False])
    writer.untold("record", RUN, "tool-3", {"invocations": [UNTOLD_TOOL]})


def _end(writer: _Writer) -> None:
    writer.told("finish", RUN, RUN, _FINISH, status="SUCCESS", last_seq=7, counts=[2, 1, 10])
    late = Event("e9", "STEP_STARTED", step_id=3)
    writer.too_late("append", RUN, "e9", {"events": [late]}, "SUCCESS")
    writer.told("summary", RUN, RUN, calls=3)
    writer.told("read", RUN, RUN, status="SUCCESS", last_seq=7)
    won = {"status": "CANCELLED", "last_seq": 3, "counts": _NOTHING_COUNTED}
    writer.told("cancel", CANCELLED_RUN, CANCELLED_RUN, {"status": "CANCELLED"}, **won)
    writer.too_late("finish", CANCELLED_RUN, CANCELLED_RUN, _FINISH, "CANCELLED")


def _finished_log() -> list[tuple[int, Event]]:
    end = Event("", FINISHED, status="SUCCESS")
    events = [Event("", CREATED), Event("", STARTED), STEP, TOOL, LATER, UNTOLD, end]
    return list(enumerate(events, 1))


def _rows(log: list[tuple[int, Event]]) -> Stored:
    stored = Stored()

    def add(run_id: str, status: str, events: list[tuple[int, Event]], **more: object) -> None:
        final = events[-1][1].kind == FINISHED
        run = StoredRun(run_id, f"sess-{len(stored.runs)}", status, head=len(events), events=list(events))
        run.release_outcome = status if final else None
        run.has_lease, run.has_finish_time = not final, final
        for name, value in more.items():
            setattr(run, name, value)
        stored.requests[run.session_id, f"req-{len(stored.runs)}"] = run_id
        stored.runs[run_id] = run

    created, started = (1, Event("", CREATED)), (2, Event("", STARTED))
    add(RUN, "SUCCESS", log, answer="Done.", feedback="DOWN", counts=Counts(2, 1, 10))
    cancelled = (3, Event("", FINISHED, status="CANCELLED"))
    add(CANCELLED_RUN, "CANCELLED", [created, started, cancelled])
    expired = (2, Event("", FINISHED, status="FAILED"))
    add(EXPIRED_RUN, "FAILED", [created, expired], error_code="RUN_LEASE_EXPIRED")
    add(OPEN_RUN, "RUNNING", [created, started])
    tools = (FIRST_TOOL, SECOND_TOOL, UNTOLD_TOOL)
    stored.rows = [StoredRow(number, RUN, "sess-0", tool) for number, tool in enumerate(tools, 1)]
    stored.keys = {(RUN, tool.tool_call_id): number for number, tool in enumerate(tools, 1)}
    return stored
