"""Writers of one run take turns; those of other runs do not notice."""

import asyncio

import pytest

from common.errors import Refusal
from run_service.store.turns import Turns
from tests.support.waiting import until


async def test_writers_of_one_run_go_one_by_one_in_the_order_of_their_coming() -> None:
    turns, order, inside = Turns(), [], 0

    async def write(number: int) -> None:
        nonlocal inside
        async with turns.of("run"):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            order.append(number)
            inside -= 1

    await asyncio.gather(*(write(number) for number in range(20)))
    assert order == list(range(20))


async def test_a_turn_that_does_not_come_in_time_is_a_conflict_and_others_go_on() -> None:
    turns = Turns(wait_seconds=0.05)
    async with turns.of("held"):
        with pytest.raises(Refusal, match="STORE_CONFLICT"):
            async with turns.of("held"):
                pass
        async with turns.of("other"):
            pass
    async with turns.of("held"):
        pass


async def test_a_line_that_nobody_stands_in_leaves_nothing_behind() -> None:
    turns = Turns(wait_seconds=0.05)
    waiting = []
    async with turns.of("run"):
        waiting = [asyncio.create_task(_pass(turns)) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        with pytest.raises(ValueError, match="failed"):
            async with turns.of("other"):
                raise ValueError("failed")
        await until(lambda: all(task.done() for task in waiting))
    assert [task.cancelled() for task in waiting] == [False, True, False, False, False]
    assert all(isinstance(task.exception(), Refusal) for task in waiting if not task.cancelled())
    assert turns._lines == {}


async def _pass(turns: Turns) -> None:
    async with turns.of("run"):
        pass
