"""A signal ends the demo where it waits, and whoever comes after finds the handlers as they were."""

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest

from cli.demo.signals import ENDING, held, stoppable


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _send(number: signal.Signals) -> None:
    # To this thread: the command has no other so early, and one that another test has left blocks no signal.
    signal.pthread_kill(threading.get_ident(), number)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_before_the_loop_is_there_cancels_the_work_at_its_first_wait(number: signal.Signals) -> None:
    seen: list[str] = []

    async def work() -> None:
        seen.append("began")
        await asyncio.Event().wait()

    def interrupted() -> None:
        with held():
            _send(number)
            seen.append("held")
            asyncio.run(stoppable(work()))

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen[0] == "held"
    assert set(ENDING).isdisjoint(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert all(signal.getsignal(one) is signal.default_int_handler for one in ENDING)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_while_the_work_waits_cancels_it_and_it_cleans_up(number: signal.Signals) -> None:
    cleaned = []

    async def work() -> None:
        asyncio.get_running_loop().call_later(0.01, _send, number)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt), held():
        asyncio.run(stoppable(work()))
    assert cleaned == [True]


def test_a_signal_after_the_work_comes_when_the_block_ends() -> None:
    reached = []

    def interrupted() -> None:
        with held():
            _send(signal.SIGTERM)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == [True]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> str:
        _send(signal.SIGHUP)
        await asyncio.sleep(0.01)
        return "done"

    with held():
        assert asyncio.run(stoppable(work())) == "done"
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
