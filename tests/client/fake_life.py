"""The fake run service with a life of its run: created, started, kept, ended; any call may fail."""

import asyncio
from collections import defaultdict, deque
from typing import Any

import grpc

from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, Run, RunStatus
from tests.client.fakes import RUN_ID, Context, FakeRunService, Fault, refuse

_START_OF_TIME = 1_700_000_000


class FakeLife(FakeRunService):
    """One run. `faults` are taken one a call; `calls` are the RPCs in their order, `requests` by RPC."""

    def __init__(self, lease: float = 300.0) -> None:
        super().__init__()
        self.faults: dict[str, deque[Fault | None]] = defaultdict(deque)
        self.calls: list[str] = []
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self.gates: dict[str, asyncio.Event] = {}
        self.lose_answers: set[str] = set()
        self.run = Run()
        self.created = 0
        self._lease = lease
        self._by_request: set[str] = set()
        self._finish: pb.FinishRunRequest | None = None

    def end(self, status: str) -> None:
        """Somebody else ends the run."""
        self.final_status = status
        self.run.status = RunStatus.Value(f"RUN_STATUS_{status}")

    async def _enter(self, rpc: str, request: Any, context: Context) -> None:
        self.calls.append(rpc)
        self.requests[rpc].append(request)
        if rpc in self.gates:
            await self.gates[rpc].wait()
        fault = self.faults[rpc].popleft() if self.faults[rpc] else None
        if fault is not None:
            await fault(context)

    async def _leave(self, rpc: str, context: Context) -> None:
        if rpc in self.lose_answers:
            self.lose_answers.discard(rpc)
            # ABORTED is not repeated by the channel, so that the test sees the client's own repetition.
            await refuse(context, grpc.StatusCode.ABORTED, "STORE_CONFLICT")

    async def _refuse_if_final(self, context: Context) -> None:
        if self.final_status:
            code, reason = grpc.StatusCode.FAILED_PRECONDITION, "RUN_ALREADY_FINISHED"
            await refuse(context, code, reason, status=self.final_status, run_id=RUN_ID)

    async def CreateRun(self, request: pb.CreateRunRequest, context: Context) -> pb.CreateRunResponse:
        await self._enter("CreateRun", request, context)
        if request.request_id not in self._by_request:
            self._by_request.add(request.request_id)
            self.created += 1
            self.run = Run(run_id=RUN_ID, session_id=request.session_id, status=RunStatus.RUN_STATUS_PENDING)
            self.run.create_time.FromSeconds(_START_OF_TIME)
            lease = request.lease.ToMicroseconds() / 1e6 if request.HasField("lease") else self._lease
            self.run.lease_expire_time.FromMicroseconds(round((_START_OF_TIME + lease) * 1e6))
        await self._leave("CreateRun", context)
        return pb.CreateRunResponse(run=self.run)

    async def StartRun(self, request: pb.StartRunRequest, context: Context) -> pb.StartRunResponse:
        await self._enter("StartRun", request, context)
        await self._refuse_if_final(context)
        self.run.status = RunStatus.RUN_STATUS_RUNNING
        return pb.StartRunResponse(run=self.run)

    async def RenewRunLease(
        self, request: pb.RenewRunLeaseRequest, context: Context
    ) -> pb.RenewRunLeaseResponse:
        await self._enter("RenewRunLease", request, context)
        await self._refuse_if_final(context)
        return pb.RenewRunLeaseResponse()

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:
        await self._enter("GetRun", request, context)
        return pb.GetRunResponse(run=self.run)

    async def FinishRun(self, request: pb.FinishRunRequest, context: Context) -> pb.FinishRunResponse:
        await self._enter("FinishRun", request, context)
        if self._finish != request:
            await self._refuse_if_final(context)
            self._finish = request
            outcome = ReleaseOutcome.Name(request.release_outcome).removeprefix("RELEASE_OUTCOME_")
            self.end(outcome)
            self.finish()
        await self._leave("FinishRun", context)
        return pb.FinishRunResponse(run=self.run)

    @property
    def ended_as(self) -> tuple[str, str]:
        """How the client ended the run: outcome and error code."""
        assert self._finish is not None, "nobody finished the run"
        outcome = ReleaseOutcome.Name(self._finish.release_outcome).removeprefix("RELEASE_OUTCOME_")
        return outcome, self._finish.error_code
