"""Runs to measure with, made through the service itself."""

import itertools

from benchmarks import ready_made
from benchmarks.http2 import call
from superbizagent.run.v1 import run_service_pb2 as pb

_numbers = itertools.count(1)


def create_runs(address: str, count: int) -> list[str]:
    """The run_ids of so many RUNNING runs, with two events each."""
    made = []
    for _ in range(count):
        number = next(_numbers)
        request = pb.CreateRunRequest(session_id=f"sess-{number % 40}", query="why are writes refused?")
        reply = call(address, ready_made.CREATE, request.SerializeToString())
        run_id = pb.CreateRunResponse.FromString(reply).run.run_id
        call(address, ready_made.START, pb.StartRunRequest(run_id=run_id).SerializeToString())
        made.append(run_id)
    return made
