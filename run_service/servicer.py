"""RunService over gRPC: each method decodes, calls one use-case and encodes."""

import datetime as dt
from dataclasses import dataclass

from common.gate import Gate
from common.server import Context
from run_service import inputs
from run_service.doorbell import Doorbell
from run_service.mapping import event_to_proto, run_to_proto, timestamp
from run_service.store import RunStore
from run_service.stream.follow import EventStreams
from run_service.usecases.append_batch import EventAppender
from run_service.usecases.create_run import create_run
from run_service.usecases.end_run import cancel_run, finish_run
from run_service.usecases.move_run import record_feedback, renew_run_lease, start_run
from run_service.usecases.read_events import list_run_events
from run_service.usecases.read_runs import get_latest_run, get_run, list_runs
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_pb2 import RunView
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceServicer


@dataclass(frozen=True)
class RunServicer(RunServiceServicer):
    """What the methods stand on."""

    gate: Gate
    store: RunStore
    doorbell: Doorbell
    streams: EventStreams
    default_lease: dt.timedelta
    appender: EventAppender

    async def CreateRun(self, request: pb.CreateRunRequest, context: Context) -> pb.CreateRunResponse:
        wanted = self.gate.write(inputs.CreateRun, request)
        run = await create_run(self.store, self.doorbell, wanted, self.default_lease)
        return pb.CreateRunResponse(run=run_to_proto(run))

    async def StartRun(self, request: pb.StartRunRequest, context: Context) -> pb.StartRunResponse:
        wanted = self.gate.write(inputs.StartRun, request)
        run = await start_run(self.store, self.doorbell, wanted)
        return pb.StartRunResponse(run=run_to_proto(run))

    async def AppendRunEvents(
        self, request: pb.AppendRunEventsRequest, context: Context
    ) -> pb.AppendRunEventsResponse:
        wanted = self.gate.write(inputs.AppendRunEvents, request)
        appended = await self.appender.append(wanted)
        return pb.AppendRunEventsResponse(seqs=appended.seqs, last_seq=appended.last_seq)

    async def RenewRunLease(
        self, request: pb.RenewRunLeaseRequest, context: Context
    ) -> pb.RenewRunLeaseResponse:
        wanted = self.gate.write(inputs.RenewRunLease, request)
        until = await renew_run_lease(self.store, wanted)
        return pb.RenewRunLeaseResponse(lease_expire_time=timestamp(until))

    async def FinishRun(self, request: pb.FinishRunRequest, context: Context) -> pb.FinishRunResponse:
        wanted = self.gate.write(inputs.FinishRun, request)
        run = await finish_run(self.store, self.doorbell, wanted)
        return pb.FinishRunResponse(run=run_to_proto(run))

    async def CancelRun(self, request: pb.CancelRunRequest, context: Context) -> pb.CancelRunResponse:
        wanted = self.gate.write(inputs.CancelRun, request)
        run = await cancel_run(self.store, self.doorbell, wanted)
        return pb.CancelRunResponse(run=run_to_proto(run))

    async def RecordFeedback(
        self, request: pb.RecordFeedbackRequest, context: Context
    ) -> pb.RecordFeedbackResponse:
        wanted = self.gate.write(inputs.RecordFeedback, request)
        run = await record_feedback(self.store, wanted)
        return pb.RecordFeedbackResponse(run=run_to_proto(run))

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.GetRunResponse:
        wanted = self.gate.read(inputs.GetRun, request)
        run = await get_run(self.store, wanted)
        return pb.GetRunResponse(run=run_to_proto(run, full=wanted.view == RunView.RUN_VIEW_FULL))

    async def GetLatestRun(
        self, request: pb.GetLatestRunRequest, context: Context
    ) -> pb.GetLatestRunResponse:
        wanted = self.gate.read(inputs.GetLatestRun, request)
        run = await get_latest_run(self.store, wanted)
        return pb.GetLatestRunResponse(run=run_to_proto(run, full=wanted.view == RunView.RUN_VIEW_FULL))

    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:
        wanted = self.gate.read(inputs.ListRuns, request)
        page = await list_runs(self.store, wanted)
        runs = [run_to_proto(run) for run in page.runs]
        return pb.ListRunsResponse(runs=runs, next_page_token=page.next_page_token)

    async def ListRunEvents(
        self, request: pb.ListRunEventsRequest, context: Context
    ) -> pb.ListRunEventsResponse:
        wanted = self.gate.read(inputs.ListRunEvents, request)
        page = await list_run_events(self.store, wanted)
        events = [event_to_proto(wanted.run_id, event) for event in page.events]
        return pb.ListRunEventsResponse(events=events, last_seq=page.last_seq, run_final=page.run_final)

    # A coroutine that writes, not a generator: how long one write waits must be seen from outside.
    async def StreamRunEvents(  # type: ignore[override]
        self, request: pb.StreamRunEventsRequest, context: Context
    ) -> None:
        wanted = self.gate.read(inputs.StreamRunEvents, request)
        await self.streams.follow(wanted, context)
