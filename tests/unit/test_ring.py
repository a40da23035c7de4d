"""The ring against a plain list: a reader either gets the very next frames, or knows that it must ask SQL."""

from hypothesis import given
from hypothesis import strategies as st

from run_service.stream.ring import Ring

BURSTS = st.lists(st.integers(0, 12), max_size=30)


@given(tail=st.integers(0, 50), capacity=st.integers(1, 16), bursts=BURSTS)
def test_a_ring_gives_the_very_next_frames_or_says_that_it_does_not_hold_them(
    tail: int, capacity: int, bursts: list[int]
) -> None:
    ring = Ring(tail, capacity)
    head = tail
    for size in bursts:
        ring.extend([str(seq).encode() for seq in range(head + 1, head + size + 1)])
        head += size
        assert ring.tail == head
        for seq in range(tail, head + 2):
            if ring.holds(seq + 1):
                frames = ring.after(seq, 5)
                assert frames == [str(one).encode() for one in range(seq + 1, min(seq + 5, head) + 1)]
            else:
                assert not tail <= seq < head or head - seq > capacity // 2


@given(capacity=st.integers(1, 16), bursts=BURSTS)
def test_a_ring_never_holds_more_than_its_capacity(capacity: int, bursts: list[int]) -> None:
    ring = Ring(0, capacity)
    for size in bursts:
        ring.extend([b""] * size)
        assert sum(ring.holds(seq) for seq in range(ring.tail + 2)) <= capacity


def test_a_new_ring_holds_nothing() -> None:
    ring = Ring(tail=7)
    assert not any(ring.holds(seq) for seq in range(10))
