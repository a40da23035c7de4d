"""Runs that this process executes. They belong to nobody's request: a closed browser does not end them."""

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from chat_gateway.agent import Agent
from chat_gateway.services import Services
from superbizagent.run.v1.run_pb2 import Run, RunStatus
from superbizagent_client import RunEndedElsewhere, RunOptions, ServiceError

_OPTIONS = RunOptions(notice=2.0)  # so long an agent may go on after its run was cancelled

_logger = logging.getLogger("chat_gateway")


class Executions:
    """One task for each run. Leaving cancels them: their runs end as CANCELLED, and streams see it."""

    def __init__(self, services: Services, agent: Agent) -> None:
        self._services = services
        self._agent = agent
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, run: Run, question: str, request_id: str) -> None:
        """Execute a run that nobody executes yet. A browser may ask twice; the second time only follows."""
        if run.status == RunStatus.RUN_STATUS_PENDING:
            self._spawn(run.run_id, self._execute(run.session_id, question, request_id))

    def cancel(self, run_id: str) -> None:
        """Ask for the end of a run, whoever executes it."""
        self._spawn(f"cancel {run_id}", self._cancel(run_id))

    async def _execute(self, session_id: str, question: str, request_id: str) -> None:
        try:
            # The same request_id: this is the run that was created before, not another one.
            async with self._services.runs.run(
                session_id, question, request_id=request_id, options=_OPTIONS
            ) as run:
                await self._agent(question, run, run.boundary(self._services.recorder))
        except RunEndedElsewhere:
            pass  # its user stopped it
        except Exception as error:  # noqa: BLE001  # the run has ended as FAILED; a text could hold anything
            _logger.warning("A run failed: %s", type(error).__name__)

    async def _cancel(self, run_id: str) -> None:
        try:
            await self._services.runs.cancel_run(run_id, reason_code="CLIENT_CLOSED")
        except ServiceError as error:
            _logger.info("A run was not cancelled: %s", error)

    def _spawn(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        if key in self._tasks:
            work.close()
            return
        task = self._tasks[key] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
