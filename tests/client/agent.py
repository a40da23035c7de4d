"""Runs for agents of tests, and what agents do in them."""

from collections.abc import Coroutine

from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent_client import ActiveRun, RunClient, RunOptions
from tests.client.fakes import SESSION_ID

QUICK = RunOptions(flush=0.5, closing=0.5)


def begun(client: RunClient, options: RunOptions = QUICK) -> ActiveRun:
    """A run to be entered."""
    return client.run(SESSION_ID, "why?", options=options)


def step(number: int) -> RunEventInput:
    """An event of a run."""
    return RunEventInput(
        event_id=f"e-{number}", type=RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=number
    )


async def in_its_own_way(work: Coroutine[object, object, None]) -> BaseException | None:
    """Run it to its end and return what it raised, of whatever kind."""
    try:
        await work
    except BaseException as error:  # noqa: BLE001  # SystemExit too
        return error
    return None
