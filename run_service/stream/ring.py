"""The newest frames of one run, ready to be sent, shared by everybody who watches it."""

from collections.abc import Sequence


class Ring:
    """Frames of consecutive seqs. It grows at `tail`; the oldest half goes when it is full.

    A reader that falls out of it loses nothing: it reads the database at its own pace.
    """

    def __init__(self, tail: int, capacity: int = 2048) -> None:
        self._frames: list[bytes] = []
        self._capacity = capacity
        self.tail = tail
        """seq of the newest frame; before the first one, where the ring begins."""

    def extend(self, frames: Sequence[bytes]) -> None:
        """Add the frames of the seqs right after `tail`."""
        self._frames.extend(frames)
        self.tail += len(frames)
        if len(self._frames) > self._capacity:
            del self._frames[: len(self._frames) - self._capacity // 2]

    def holds(self, seq: int) -> bool:
        """True if the frame of `seq` is here."""
        return self.tail - len(self._frames) < seq <= self.tail

    def after(self, seq: int, most: int) -> list[bytes]:
        """Up to `most` frames of the seqs right after `seq`. Only for a `seq` whose next one is held."""
        begin = len(self._frames) - (self.tail - seq)
        return self._frames[begin : begin + most]
