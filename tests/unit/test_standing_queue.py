"""A burst is let in, a queue that stands is not."""

from collections import deque

from common.server.standing_queue import ALWAYS, LOOK_SECONDS, WAIT_SECONDS, StandingQueue

MOST = 2000


class Played:
    """A method that works off `rate` calls a second, in the order in which they came."""

    def __init__(self, rate: float) -> None:
        self.queue = StandingQueue(MOST)
        self.now = 100.0
        self.rate = rate
        self.waiting: deque[float] = deque()
        self.slowest = 0.0
        self.admitted = self.refused = 0

    def arrive(self, calls: int) -> None:
        """So many calls come at once."""
        for _ in range(calls):
            if self.queue.has_room(len(self.waiting), self.now):
                self.admitted += 1
                self.waiting.append(self.now)
            else:
                self.refused += 1

    def work(self, seconds: float) -> None:
        """Let time go by."""
        for _ in range(round(seconds * self.rate)):
            self.now += 1 / self.rate
            if self.waiting:
                took = self.now - self.waiting.popleft()
                self.slowest = max(self.slowest, took)
                self.queue.ended(took, self.now)

    def offer(self, rate: float, seconds: float) -> None:
        """Calls come in at `rate` a second for a while."""
        for _ in range(round(seconds * 100)):
            self.arrive(round(rate / 100))
            self.work(0.01)


def test_a_burst_is_let_in_up_to_the_limit() -> None:
    played = Played(rate=1000)
    played.arrive(MOST + 10)
    assert (played.admitted, played.refused) == (MOST, 10)


def test_a_burst_after_quiet_hours_is_let_in_too() -> None:
    played = Played(rate=1000)
    played.offer(100, 2)
    for quiet in (1.0, 4.0, 3600.0):
        played.now += quiet
        played.arrive(600)
        assert played.refused == 0
        played.work(1)


def test_a_load_that_is_worked_off_is_never_refused() -> None:
    played = Played(rate=1000)
    played.offer(900, 20)
    assert played.refused == 0


def test_a_queue_that_stands_is_cut_to_what_may_wait_and_as_much_gets_done() -> None:
    played = Played(rate=2000)
    played.offer(6000, 3)
    played.slowest, played.admitted = 0.0, 0
    played.offer(6000, 10)
    assert played.slowest < 3 * WAIT_SECONDS
    assert played.admitted > 0.97 * 10 * played.rate


def test_it_is_over_when_the_load_is() -> None:
    played = Played(rate=2000)
    played.offer(6000, 5)
    played.offer(1000, 3 * LOOK_SECONDS)
    assert played.queue.limit == MOST
    played.refused = 0
    played.arrive(1000)
    assert played.refused == 0


def test_slow_calls_that_are_few_are_no_queue() -> None:
    played = Played(rate=20)  # each in a second and more, as large batches are
    played.arrive(ALWAYS - 1)
    for _ in range(50):
        played.work(1)
        played.arrive(20)
    assert played.refused == 0


def test_calls_of_which_none_comes_back_pile_up_no_further() -> None:
    played = Played(rate=1000)
    played.arrive(300)
    played.now += 2 * LOOK_SECONDS
    played.arrive(100)
    assert (played.admitted, played.refused) == (300, 100)
    played.work(1)
    played.arrive(200)
    assert played.refused == 100
