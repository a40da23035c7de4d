"""Random walks of commands over real gRPC against a little model of one run."""

from dataclasses import dataclass, field
from typing import Any

import grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.errors import Refused, outcome
from tests.support.run import (
    append,
    cancel_run,
    create_run,
    event,
    event_kinds,
    events_of,
    finish_run,
    get_run,
    start_run,
)

OPEN = ("PENDING", "RUNNING")
OUTCOMES = st.sampled_from(["SUCCESS", "FALLBACK", "FAILED", "CANCELLED"])
STEPS = st.one_of(
    st.tuples(st.just("start")),
    st.tuples(st.just("renew")),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("append"), st.sampled_from("abc"), st.integers(1, 2)),
    st.tuples(st.just("finish"), OUTCOMES, st.integers(0, 1)),
)


@dataclass
class Model:
    """One run as the contract describes it."""

    status: str = "PENDING"
    log: list[str] = field(default_factory=lambda: ["RUN_CREATED"])
    stored: dict[str, tuple[int, int]] = field(default_factory=dict)
    finish: tuple[str, int] | None = None

    def apply(self, step: tuple[Any, ...]) -> str:
        """Carry a step out; "" if it is done, else the reason of the refusal."""
        return str(getattr(self, step[0])(*step[1:]))

    def start(self) -> str:
        if self.status == "PENDING":
            self.status = "RUNNING"
            self.log.append("RUN_STARTED")
        return self._open()

    def renew(self) -> str:
        return self._open()

    def cancel(self) -> str:
        if self.status in OPEN:
            self._end("CANCELLED")
        return "" if self.status == "CANCELLED" else "RUN_ALREADY_FINISHED"

    def append(self, event_id: str, step_id: int) -> str:
        if event_id in self.stored:
            return "" if self.stored[event_id][1] == step_id else "EVENT_ID_CONFLICT"
        if self.status == "RUNNING":
            self.log.append("STEP_STARTED")
            self.stored[event_id] = (len(self.log), step_id)
        return "RUN_NOT_STARTED" if self.status == "PENDING" else self._open()

    def finish_(self, outcome_: str, steps: int) -> str:
        if self.status not in OPEN:
            return "" if self.finish == (outcome_, steps) else "RUN_ALREADY_FINISHED"
        if self.status == "PENDING" and outcome_ in ("SUCCESS", "FALLBACK"):
            return "RUN_NOT_STARTED"
        self._end(outcome_)
        self.finish = (outcome_, steps)
        return ""

    def _open(self) -> str:
        return "" if self.status in OPEN else "RUN_ALREADY_FINISHED"

    def _end(self, status: str) -> None:
        self.status = status
        self.log.append("RUN_FINISHED")


def _call(stub: RunServiceStub, run_id: str, step: tuple[Any, ...]) -> Any:
    match step:
        case ("start",):
            return start_run(stub, run_id)
        case ("renew",):
            return stub.RenewRunLease(pb.RenewRunLeaseRequest(run_id=run_id))
        case ("cancel",):
            return cancel_run(stub, run_id)
        case ("append", event_id, step_id):
            return append(stub, run_id, event(event_id=event_id, step_id=step_id))
        case (_, outcome_, steps):
            return finish_run(stub, run_id, outcome_, step_count=steps)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=12))
async def test_on_any_walk_answers_status_and_log_are_those_of_the_model(
    runs: RunServiceStub, steps: list[tuple[Any, ...]]
) -> None:
    model, run = Model(), await create_run(runs)
    for step in steps:
        answer = await outcome(_call(runs, run.run_id, step))
        name, *rest = step
        reason = model.apply(("finish_" if name == "finish" else name, *rest))
        assert (answer.reason if isinstance(answer, Refused) else "") == reason
        if isinstance(answer, Refused) and answer.code is grpc.StatusCode.FAILED_PRECONDITION:
            assert answer.metadata["status"] == model.status
        if name == "append" and not reason:
            assert answer == [model.stored[rest[0]][0]]
    run = await get_run(runs, run.run_id)
    assert RunStatus.Name(run.status) == f"RUN_STATUS_{model.status}"
    assert run.HasField("release_outcome") == run.HasField("finish_time") == (model.status not in OPEN)
    assert run.HasField("lease_expire_time") == (model.status in OPEN)
    assert await event_kinds(runs, run.run_id) == model.log
    assert [one.seq for one in await events_of(runs, run.run_id)] == list(range(1, run.last_seq + 1))
