"""A load of RecordToolInvocation or AppendRunEvents, from a process of its own; prints one line of JSON.

`python -m tests.support.open_loop ADDRESS METHOD --rate 1000 --seconds 5` sends so many calls a second
whatever comes back; `--in-flight 32` instead sends the next when one has come back. Each request is another.
"""

import argparse
import asyncio
import json
import time
import uuid
from collections import Counter
from typing import Any

import grpc

from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as pb
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from superbizagent_client import service_error
from tests.support.run import event, running_run

_RUNS = 64
_DEADLINE = 8.0


class Load:
    """What was sent, and what came back."""

    def __init__(self, method: Any, requests: list[bytes]) -> None:
        self._method = method
        self._requests = iter(requests)
        self.codes: Counter[str] = Counter()
        self.took: list[float] = []
        self.without_retry_info = 0

    async def one(self) -> None:
        """One call."""
        begin = time.perf_counter()
        try:
            await self._method(next(self._requests), timeout=_DEADLINE)
        except grpc.aio.AioRpcError as error:
            self.codes[error.code().name] += 1
            if error.code().name in ("RESOURCE_EXHAUSTED", "UNAVAILABLE"):
                self.without_retry_info += service_error(error).retry_after is None
            return
        self.codes["OK"] += 1
        self.took.append(time.perf_counter() - begin)

    async def closed(self, in_flight: int, seconds: float) -> None:
        """So many callers, each with one call after the other."""
        end = time.perf_counter() + seconds

        async def caller() -> None:
            while time.perf_counter() < end:
                await self.one()

        await asyncio.gather(*(caller() for _ in range(in_flight)))

    async def open(self, rate: float, seconds: float) -> None:
        """So many calls a second; those that are due are sent together, a hundred times a second."""
        begin, sent, calls = time.perf_counter(), 0, set()
        while (now := time.perf_counter() - begin) < seconds:
            while sent < now * rate:
                call = asyncio.create_task(self.one())
                calls.add(call)
                call.add_done_callback(calls.discard)
                sent += 1
            await asyncio.sleep(0.01)
        if calls:
            await asyncio.wait(calls)


async def appends(channel: grpc.aio.Channel, count: int) -> list[bytes]:
    """Requests that append one event each, to runs in turns."""
    stub = RunServiceStub(channel)
    runs = [(await running_run(stub)).run_id for _ in range(_RUNS)]
    requests = (pb.AppendRunEventsRequest(run_id=runs[at % _RUNS], events=[event()]) for at in range(count))
    return [request.SerializeToString() for request in requests]


def records(count: int) -> list[bytes]:
    """Requests that record one tool call each."""
    requests = []
    for at in range(count):
        request = audit.RecordToolInvocationRequest()
        request.invocation.session_id = f"sess-{at % 100}"
        request.invocation.run_id = f"run-{uuid.uuid4()}"
        request.invocation.tool_name = "query_logs"
        request.invocation.tool_call_id = f"call-{at}"
        request.invocation.request_bytes = 100
        request.invocation.status = "READY"
        requests.append(request.SerializeToString())
    return requests


async def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("method", choices=["AppendRunEvents", "RecordToolInvocation"])
    parser.add_argument("--rate", type=float)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3)
    given = parser.parse_args()
    count = int(given.seconds * (given.rate or 6000)) + 1000
    async with grpc.aio.insecure_channel(given.address, options=(("grpc.enable_retries", 0),)) as channel:
        service = "run.v1.RunService" if given.method == "AppendRunEvents" else "audit.v1.AuditService"
        method: Any = channel.unary_unary(f"/superbizagent.{service}/{given.method}")
        load = Load(method, await appends(channel, count) if "Append" in given.method else records(count))
        begin, cpu = time.perf_counter(), time.process_time()
        if given.rate:
            await load.open(given.rate, given.seconds)
        else:
            await load.closed(given.in_flight, given.seconds)
        elapsed = time.perf_counter() - begin
    took = sorted(load.took) or [0.0]
    found = {
        "codes": dict(load.codes),
        "accepted_a_second": load.codes["OK"] / elapsed,
        "p50": took[len(took) // 2],
        "p99": took[int(len(took) * 0.99)],
        "without_retry_info": load.without_retry_info,
        "driver_cpu": (time.process_time() - cpu) / elapsed,
    }
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
