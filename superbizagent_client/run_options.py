"""How a run is kept, and what is said of it in the end when its agent says nothing."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunStatus
from superbizagent.run.v1.run_service_pb2 import FinishRunRequest
from superbizagent_client.delivery import DeliveryOptions
from superbizagent_client.outcome import ErrorClassifier, classified

RUN_ERROR: Final = "RUN_ERROR"
"""Error code of a run whose agent raised something that no classifier knows."""
RUN_CANCELLED: Final = "RUN_CANCELLED"
"""Error code of a run whose agent's task was cancelled."""
RUN_UNFINISHED: Final = "RUN_UNFINISHED"
"""Error code of a run whose agent left without a word about the outcome."""

DEFAULT_LEASE: Final = 300.0

_STOPPED = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is kept; times in seconds.

    `lease` is how long the run outlives a word from this process; None: as long as the service says. It is
    renewed every third of it. That somebody else ended the run is noticed with the next event, and after
    `notice` at the latest; `cancel_task` says whether the agent's task is then cancelled, or only
    `ActiveRun.cancelled` set. `classify` gives an agent's exception its stable error code; None: RUN_ERROR.
    `flush` is how long `finish` waits for events to arrive first, and `closing` is the most that leaving the
    block takes when the services do not answer. `delivery` are the limits of the events' queue.
    """

    lease: float | None = None
    notice: float = 15.0
    cancel_task: bool = True
    classify: ErrorClassifier | None = None
    flush: float = 5.0
    closing: float = 5.0
    delivery: DeliveryOptions = field(default_factory=DeliveryOptions)


@dataclass(frozen=True, slots=True)
class Lease:
    """How long a run's lease is, and what StartRun must be told for that to be true."""

    seconds: float
    to_tell: float | None


def lease_of(run: Run, wanted: float | None) -> Lease:
    """The lease of a run as CreateRun answered it."""
    if wanted is not None:
        return Lease(wanted, wanted)
    if run.status != RunStatus.RUN_STATUS_PENDING or not run.HasField("lease_expire_time"):
        # A run that goes on here had its lease extended before, so its length cannot be read from it.
        return Lease(DEFAULT_LEASE, DEFAULT_LEASE)
    # Both times are of the database's clock, so this is the length that the service chose.
    seconds = (run.lease_expire_time.ToNanoseconds() - run.create_time.ToNanoseconds()) / 1e9
    return Lease(max(seconds, 1.0), None)


def last_word(run_id: str, error: BaseException | None, classify: ErrorClassifier | None) -> FinishRunRequest:
    """How a run ends whose agent left with `error`, or without one and without `finish`."""
    outcome, code = ReleaseOutcome.RELEASE_OUTCOME_FAILED, RUN_UNFINISHED
    if isinstance(error, _STOPPED):
        outcome, code = ReleaseOutcome.RELEASE_OUTCOME_CANCELLED, RUN_CANCELLED
    elif error is not None:
        code = classified(classify, error) or RUN_ERROR
    return FinishRunRequest(run_id=run_id, release_outcome=outcome, error_code=code)
