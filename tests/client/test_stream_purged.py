"""RunEventStream where events behind the position were purged."""

import grpc
import pytest

from superbizagent_client import RunEventStream, SeqPurgedError, ServiceError
from tests.client.fakes import RUN_ID, FakeRunService, caught_up, cut_after, refusing, saying
from tests.client.test_stream import CUTS, QUICK, finished_run, seqs_of

PURGED = grpc.StatusCode.OUT_OF_RANGE, "SEQ_PURGED"


async def test_a_purged_position_is_an_error_unless_the_caller_asks_to_go_on(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs)
    runs.scripts.append(saying(then=refusing(*PURGED, oldest_seq="4")))
    stream = RunEventStream(channel, RUN_ID, options=QUICK)
    with pytest.raises(SeqPurgedError) as raised:
        await anext(stream)
    assert (raised.value.oldest_seq, stream.skipped) == (4, ())


async def test_the_stream_goes_on_with_the_oldest_event_and_says_what_was_skipped(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs, 6)
    runs.scripts.append(cut_after(1, refusing(*PURGED, oldest_seq="3")))  # while it reads
    runs.scripts.append(cut_after(3, CUTS["a drain"]))
    runs.scripts.append(cut_after(3, refusing(*PURGED, oldest_seq="6")))  # and again
    told: list[tuple[ServiceError, float]] = []
    stream = RunEventStream(
        channel, RUN_ID, options=QUICK, purged="snapshot", on_retry=lambda *what: told.append(what)
    )
    assert await seqs_of(stream) == [1, 3, 6]
    assert stream.skipped == (range(2, 3), range(4, 6))
    assert [delay for error, delay in told if isinstance(error, SeqPurgedError)] == [0.0, 0.0]
    assert runs.after_seqs == [0, 2, 3, 5]


async def test_a_final_run_without_any_event_left_ends_at_once(
    runs: FakeRunService, channel: grpc.aio.Channel
) -> None:
    finished_run(runs, 3)
    runs.scripts.append(cut_after(1, refusing(*PURGED, oldest_seq="4")))
    runs.scripts.append(saying(caught_up(3)))
    stream = RunEventStream(channel, RUN_ID, options=QUICK, purged="snapshot")
    assert await seqs_of(stream) == [1]
    assert (stream.last_seq, stream.skipped) == (3, (range(2, 4),))


@pytest.mark.parametrize("oldest", [{}, {"oldest_seq": "1"}, {"oldest_seq": "0"}], ids=str)
async def test_a_purge_that_leads_nowhere_is_an_error(
    runs: FakeRunService, channel: grpc.aio.Channel, oldest: dict[str, str]
) -> None:
    finished_run(runs)
    code, reason = PURGED
    runs.scripts.extend([saying(then=refusing(code, reason, retry_after=None, **oldest))] * 2)
    with pytest.raises(SeqPurgedError):
        await anext(RunEventStream(channel, RUN_ID, options=QUICK, purged="snapshot"))
    assert runs.after_seqs == [0]
