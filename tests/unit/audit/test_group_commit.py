"""Group commit: what calls share, and what they do not."""

import asyncio
from collections.abc import Sequence

import pytest

from common.errors import Refusal, store_unavailable
from common.group_commit import GroupCommitter
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from tests.support.waiting import until


class Store:
    """Doubles numbers in batches; each batch waits until the test lets it through."""

    def __init__(self, *, bad: int | None = None, error: Exception | None = None) -> None:
        self.begun: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.alone = asyncio.Event()  # lets items 1 and 2 through when they are tried alone
        self.alone.set()
        self._bad = bad
        self._error = error or ValueError("bad")

    async def commit(self, batch: Sequence[int]) -> list[int]:
        self.begun.append(list(batch))
        await self.open.wait()
        if batch in ([1], [2]):
            await self.alone.wait()
        if self._bad in batch:
            raise self._error
        return [item * 2 for item in batch]


def committer(store: Store, *, max_batch: int = 100, max_waiting: int = 1000) -> GroupCommitter[int, int]:
    return GroupCommitter(store.commit, max_batch=max_batch, max_waiting=max_waiting)


async def test_a_lone_call_is_committed_at_once() -> None:
    store = Store()
    assert await committer(store).submit(1) == 2
    assert store.begun == [[1]]


async def test_calls_that_arrive_a_few_turns_apart_share_a_commit() -> None:
    store = Store()
    commits = committer(store)

    async def arrive(item: int) -> int:
        for _ in range(item * 3):  # turns of the event loop, as a call takes them on its way
            await asyncio.sleep(0)
        return await commits.submit(item)

    await asyncio.gather(*(arrive(item) for item in (0, 0, 1, 2, 3, 4)))
    assert store.begun == [[0, 0, 1, 2, 3, 4]]


async def test_a_batch_does_not_wait_for_ever_for_those_who_keep_coming() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.005
        return now

    store = Store()
    commits = GroupCommitter(store.commit, max_batch=1000, max_waiting=1000, clock=clock)
    calls = [asyncio.create_task(commits.submit(0))]
    while not store.begun:
        calls.append(asyncio.create_task(commits.submit(len(calls))))
        await asyncio.sleep(0)
        assert len(calls) < 100
    await asyncio.gather(*calls)


async def test_calls_that_come_while_a_batch_commits_share_the_next_one() -> None:
    store = Store()
    store.open.clear()
    commits = committer(store)
    first = asyncio.create_task(commits.submit(1))
    await until(lambda: store.begun)
    others = [asyncio.create_task(commits.submit(item)) for item in range(2, 50)]
    await until(lambda: commits.waiting == 48)
    assert not first.done()
    store.open.set()
    assert await asyncio.gather(first, *others) == [item * 2 for item in range(1, 50)]
    assert [len(batch) for batch in store.begun] == [1, 48]


async def test_nobody_is_answered_before_the_commit() -> None:
    store = Store()
    store.open.clear()
    commits = committer(store)
    calls = [asyncio.create_task(commits.submit(item)) for item in range(3)]
    await until(lambda: store.begun)
    assert not any(call.done() for call in calls)
    store.open.set()
    await asyncio.gather(*calls)


async def test_a_batch_is_never_larger_than_its_limit_and_keeps_the_order_of_arrival() -> None:
    store = Store()
    commits = committer(store, max_batch=4)
    await asyncio.gather(*(commits.submit(item) for item in range(10)))
    assert store.begun == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_limits_count_sizes_and_an_item_larger_than_a_batch_has_its_own() -> None:
    store = Store()
    commits = GroupCommitter(store.commit, max_batch=10, max_waiting=25, size=lambda item: item)
    await asyncio.gather(*(commits.submit(item) for item in (4, 5, 3, 12, 1)))
    assert store.begun == [[4, 5], [3], [12], [1]]
    assert commits.waiting == 0
    store.open.clear()
    first = asyncio.create_task(commits.submit(9))
    await until(lambda: [9] in store.begun)
    others = [asyncio.create_task(commits.submit(item)) for item in (20, 5)]
    await until(lambda: commits.waiting == 25)
    with pytest.raises(Refusal):
        await commits.submit(1)
    store.open.set()
    assert await asyncio.gather(first, *others) == [18, 40, 10]


async def test_beyond_the_waiting_limit_calls_are_refused_with_a_time_to_retry() -> None:
    store = Store()
    store.open.clear()
    commits = committer(store, max_waiting=2)
    first = asyncio.create_task(commits.submit(1))
    await until(lambda: store.begun)
    waiting = [asyncio.create_task(commits.submit(item)) for item in (2, 3)]
    await until(lambda: commits.waiting == 2)
    with pytest.raises(Refusal) as caught:
        await commits.submit(4)
    assert caught.value.reason == ErrorReason.ERROR_REASON_OVERLOADED
    assert caught.value.retry_after is not None
    store.open.set()
    assert await asyncio.gather(first, *waiting) == [2, 4, 6]


async def test_a_cancelled_caller_cancels_neither_the_batch_nor_its_own_item() -> None:
    store = Store()
    store.open.clear()
    commits = committer(store)
    first = asyncio.create_task(commits.submit(1))
    await until(lambda: store.begun)
    cancelled, other = (asyncio.create_task(commits.submit(item)) for item in (2, 3))
    await until(lambda: commits.waiting == 2)
    first.cancel()
    cancelled.cancel()
    store.open.set()
    assert await other == 6
    assert store.begun == [[1], [2, 3]]


async def test_one_bad_item_fails_alone() -> None:
    store = Store(bad=3)
    commits = committer(store)
    results = await asyncio.gather(*(commits.submit(item) for item in range(5)), return_exceptions=True)
    assert isinstance(results.pop(3), ValueError)
    assert results == [0, 2, 4, 8]
    assert sorted(store.begun[1:]) == [[0], [1], [2], [3], [4]]


async def test_items_that_are_tried_alone_do_not_hold_up_the_next_batch() -> None:
    store = Store(bad=1, error=Refusal(ErrorReason.ERROR_REASON_STORE_CONFLICT))
    commits = committer(store)
    first = [asyncio.create_task(commits.submit(item)) for item in (1, 2)]
    store.alone.clear()
    await until(lambda: [2] in store.begun)
    assert await commits.submit(5) == 10
    assert not any(call.done() for call in first)
    store.alone.set()
    assert (await asyncio.gather(*first, return_exceptions=True))[1:] == [4]


async def test_when_the_store_is_away_the_whole_batch_fails_at_once() -> None:
    store = Store(bad=3, error=store_unavailable())
    commits = committer(store)
    results = await asyncio.gather(*(commits.submit(item) for item in range(5)), return_exceptions=True)
    reasons = {result.reason for result in results if isinstance(result, Refusal)}
    assert reasons == {ErrorReason.ERROR_REASON_STORE_UNAVAILABLE}
    assert len(store.begun) == 1


async def test_after_a_failed_batch_the_next_one_is_committed() -> None:
    store = Store(bad=1)
    commits = committer(store)
    with pytest.raises(ValueError, match="bad"):
        await commits.submit(1)
    assert await commits.submit(2) == 4


async def test_a_commit_that_answers_too_few_results_fails_its_items() -> None:
    async def commit(batch: Sequence[int]) -> list[int]:
        return []

    with pytest.raises(ValueError, match="zip"):
        await GroupCommitter(commit, max_batch=9, max_waiting=9).submit(1)


async def test_closing_finishes_what_is_queued_and_refuses_what_comes_later() -> None:
    store = Store()
    store.open.clear()
    commits = committer(store, max_batch=1)
    calls = [asyncio.create_task(commits.submit(item)) for item in (1, 2, 3)]
    await until(lambda: store.begun)
    closing = asyncio.create_task(commits.aclose())
    store.open.set()
    assert await asyncio.gather(*calls) == [2, 4, 6]
    await closing
    with pytest.raises(Refusal) as caught:
        await commits.submit(4)
    assert caught.value.reason == ErrorReason.ERROR_REASON_DRAINING


async def test_closing_waits_for_items_that_are_tried_alone() -> None:
    store = Store(bad=1)
    commits = committer(store)
    store.alone.clear()
    calls = [asyncio.create_task(commits.submit(item)) for item in (1, 2)]
    await until(lambda: [2] in store.begun)
    closing = asyncio.create_task(commits.aclose())
    store.alone.set()
    await closing
    assert all(call.done() for call in calls)
    assert await asyncio.gather(*calls, return_exceptions=True) == [calls[0].exception(), 4]


async def test_who_has_waited_for_a_store_that_answers_nobody_waits_no_second_time() -> None:
    store = Store(bad=1, error=store_unavailable())
    store.open.clear()
    now = [100.0]
    commits = GroupCommitter(store.commit, max_batch=100, max_waiting=1000, clock=lambda: now[0])
    first = asyncio.create_task(commits.submit(1))
    await until(lambda: store.begun)
    waited = asyncio.create_task(commits.submit(2))
    await until(lambda: commits.waiting == 1)
    now[0] += 5
    fresh = asyncio.create_task(commits.submit(3))
    await until(lambda: commits.waiting == 2)
    store.open.set()
    for task in (first, waited):
        with pytest.raises(Refusal):
            await task
    assert await fresh == 6
    assert store.begun == [[1], [3]]
    assert commits.waiting == 0
