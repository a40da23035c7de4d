"""Runs to measure with, made through the service itself."""

import itertools

from benchmarks import ready_made
from benchmarks.http2 import call_all
from superbizagent.run.v1 import run_service_pb2 as pb

_numbers = itertools.count(1)


def create_runs(address: str, count: int) -> list[str]:
    """The run_ids of so many RUNNING runs, with two events each."""
    numbers = list(itertools.islice(_numbers, count))
    asked = [
        pb.CreateRunRequest(session_id=f"sess-{number % 40}", query="why are writes refused?")
        for number in numbers
    ]
    replies = call_all(address, ready_made.CREATE, [one.SerializeToString() for one in asked])
    made = [pb.CreateRunResponse.FromString(reply).run.run_id for reply in replies]
    starts = [pb.StartRunRequest(run_id=run_id).SerializeToString() for run_id in made]
    call_all(address, ready_made.START, starts)
    return made
