"""The store under an open stream: away for a while, away for good, purged, or the run itself deleted."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

import grpc
import pytest

from common.errors import store_unavailable
from run_service.records import EventRecord, RunHead
from run_service.store import RunStore
from run_service.stream import feed as feed_module
from tests.conftest import StartRunServer
from tests.support.run import append, event, finish_run, running_run
from tests.support.run_server import RunServer
from tests.support.stream import (
    Reader,
    grow,
    narrow,
    open_streams,
    pk_of,
    read_all,
    stalled_run,
    stream_tasks,
)
from tests.support.waiting import until

QUICK = {"HEARTBEAT_SECONDS": "0.1", "POLL_SECONDS": "0.05"}
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")


class Faults:
    """What goes wrong now: names of the store's reads, and the error."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.error: Exception | None = None
        self.met = 0

    @contextlib.contextmanager
    def breaking(self, *reads: str, error: Exception | None = None) -> Iterator[None]:
        """Break reads of the store for a while."""
        self.broken, self.error = set(reads), error
        yield
        self.broken = set()

    def meet(self, read: str) -> None:
        if read in self.broken:
            self.met += 1
            raise self.error or store_unavailable()


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Faults of the store of every RunService that is started in the test."""
    faults = Faults()

    class FaultyStore(RunStore):
        async def head(self, run_id: str) -> RunHead | None:
            faults.meet("head")
            return await super().head(run_id)

        async def heads(self, pks: Sequence[int]) -> list[RunHead]:
            faults.meet("heads")
            return await super().heads(pks)

        async def events(self, pk: int, after_seq: int, most: int) -> list[EventRecord]:
            faults.meet("events")
            return await super().events(pk, after_seq, most)

    monkeypatch.setattr("run_service.app.RunStore", FaultyStore)
    return faults


async def stream_at_rest(server: RunServer) -> tuple[str, Reader]:
    """A running run, and a reader that has all of it."""
    run_id = (await running_run(server.stub)).run_id
    return run_id, await Reader(server.stub, run_id).caught_up()


async def test_a_store_that_is_away_for_a_while_only_delays_the_events(
    start_run_server: StartRunServer, faults: Faults
) -> None:
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    with faults.breaking("events", "heads", "head"):
        await append(server.stub, run_id, event())
        await until(lambda: faults.met >= 3)
    await reader.to_seq(3)
    await finish_run(server.stub, run_id)
    assert ((await reader.to_end()).code, reader.position) == (grpc.StatusCode.OK, 4)


async def test_a_poll_that_fails_is_tried_again(start_run_server: StartRunServer, faults: Faults) -> None:
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    with faults.breaking("heads", error=ValueError("of the driver")):
        await until(lambda: faults.met >= 3)
        head = grow(server, run_id, 5)
    await reader.to_seq(head)
    reader.cut()


async def test_a_store_that_stays_away_ends_the_streams_with_their_position(
    start_run_server: StartRunServer, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_RETRY_SECONDS", (0.01, 0.02))
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    with faults.breaking("events"):
        await append(server.stub, run_id, event())
        await reader.to_end()
        assert reader.refusal is not None
        assert reader.refusal.summary == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
        assert reader.refusal.metadata["last_seq"] == "2"
        assert reader.refusal.retry_seconds is not None
        # A new stream gets a feed of its own, not the dead one.
        again = await Reader(server.stub, run_id, 2).to_end()
        assert again.refusal is not None
        assert again.refusal.metadata["last_seq"] == "2"
    rest = await Reader(server.stub, run_id, 2).to_seq(3)
    assert rest.seqs == [3]
    rest.cut()


async def test_an_unforeseen_fault_of_a_feed_ends_its_streams_and_says_nothing_of_it(
    start_run_server: StartRunServer, faults: Faults
) -> None:
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    with faults.breaking("events", error=ValueError("SELECT secret FROM driver")):
        await append(server.stub, run_id, event())
        await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.summary == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert reader.refusal.metadata["last_seq"] == "2"
    assert "secret" not in str(reader.refusal)


async def test_a_store_that_fails_while_a_stream_opens_is_an_error(
    start_run_server: StartRunServer, faults: Faults
) -> None:
    server = await start_run_server(**QUICK)
    run_id = (await running_run(server.stub)).run_id
    for read in ("head", "events"):
        with faults.breaking(read):
            reader = await read_all(server.stub, run_id)
        assert reader.refusal is not None
        assert reader.refusal.summary == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
        assert reader.refusal.metadata["last_seq"] == "0"
    assert len(open_streams(server)) == 0


async def test_a_run_that_is_deleted_ends_its_streams(start_run_server: StartRunServer) -> None:
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    server.sql("DELETE FROM diagnosis_run WHERE run_id = ?", run_id)
    await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.summary == NOT_FOUND
    assert (await read_all(server.stub, run_id)).code is grpc.StatusCode.NOT_FOUND


async def test_a_run_whose_control_row_is_deleted_ends_its_streams(start_run_server: StartRunServer) -> None:
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    server.sql("DELETE FROM sba_run_control WHERE run_pk = ?", pk_of(server, run_id))
    await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.summary == NOT_FOUND


async def test_events_purged_before_a_live_reader_saw_them_end_its_stream(
    start_run_server: StartRunServer, faults: Faults
) -> None:
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    with faults.breaking("events"):
        head = (await append(server.stub, run_id, *[event() for _ in range(5)]))[-1]
        server.sql("DELETE FROM sba_run_event WHERE run_pk = ? AND seq < ?", pk_of(server, run_id), head)
    await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.summary == (grpc.StatusCode.OUT_OF_RANGE, "SEQ_PURGED")
    assert reader.refusal.metadata["oldest_seq"] == str(head)
    assert reader.refusal.metadata["last_seq"] == "2"


async def test_all_events_purged_before_a_live_reader_saw_them_end_its_stream(
    start_run_server: StartRunServer, faults: Faults
) -> None:
    server = await start_run_server(**QUICK)
    run_id, reader = await stream_at_rest(server)
    with faults.breaking("events"):
        head = (await append(server.stub, run_id, *[event() for _ in range(5)]))[-1]
        server.sql("DELETE FROM sba_run_event WHERE run_pk = ?", pk_of(server, run_id))
    await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.reason == "SEQ_PURGED"
    assert reader.refusal.metadata["oldest_seq"] == str(head + 1)


async def test_events_purged_under_a_replay_end_it_where_it_stands(start_run_server: StartRunServer) -> None:
    server = await start_run_server(STALL_SECONDS="60", **QUICK)
    run_id = await stalled_run(server)
    async with narrow(server.address) as stub:
        reader = Reader(stub, run_id)
        await until(lambda: any(one.stalled(0.05) for one in open_streams(server)._streams))
        server.sql("DELETE FROM sba_run_event WHERE run_pk = ? AND seq < 290", pk_of(server, run_id))
        await reader.to_end()
    assert reader.refusal is not None
    assert reader.refusal.reason == "SEQ_PURGED"
    assert reader.refusal.metadata["oldest_seq"] == "290"
    assert reader.refusal.metadata["last_seq"] == str(reader.position)
    assert reader.seqs == list(range(1, reader.position + 1))


async def test_nothing_is_left_of_streams_that_ended_in_whatever_way(
    start_run_server: StartRunServer, faults: Faults
) -> None:
    server = await start_run_server(**QUICK)
    run_id = (await running_run(server.stub)).run_id

    readers = [Reader(server.stub, run_id) for _ in range(20)]
    await asyncio.gather(*(reader.caught_up() for reader in readers))
    for reader in readers[::2]:
        reader.cut()
    await until(lambda: len(open_streams(server)) == 10)
    server.sql("DELETE FROM diagnosis_run WHERE run_id = ?", run_id)
    await asyncio.gather(*(reader.to_end() for reader in readers[1::2]))
    await until(lambda: stream_tasks() == [])
