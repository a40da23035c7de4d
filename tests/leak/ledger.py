"""The ledger: which canaries were given to whom, what became of them, and in which sinks they turned up."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum

from tests.leak.canaries import Canary, canary, new_mark, new_number
from tests.leak.search import marks_in, numbers_in


class Fate(Enum):
    """What became of a canary, and so where it may be found."""

    REFUSED = "refused or ignored: nowhere"
    SECRET = "a secret of the services themselves: nowhere"
    LEGACY = "in a row of an older application: in the database only"
    TEXT = "a question, answer or result: in the database and in full views only"
    ADMITTED = "has the form of an id or code: where ids and codes are"
    PLANTED = "planted by the test, to see that the search finds it"


_SURE = 13
"""So many letters of a mark are those of one canary."""

DATABASE = "db"
FULL = "full"
_WHERE_BODIES_ARE = {
    Fate.LEGACY: {DATABASE},
    Fate.TEXT: {DATABASE, "sql", FULL},
}
_ANYWHERE = {Fate.ADMITTED, Fate.PLANTED}


@dataclass
class Ledger:
    """One for the whole run of the tests."""

    canaries: dict[str, tuple[Canary, Fate, str]] = field(default_factory=dict)
    """Mark -> canary, fate, and where it was put."""
    tried: Counter[tuple[str, Fate]] = field(default_factory=Counter)
    hits: dict[str, dict[tuple[str, Fate], set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """Sink -> shape and fate -> marks found."""
    searched: Counter[str] = field(default_factory=Counter)
    """Sink -> bytes."""

    def new(self, shape: str, fate: Fate, place: str) -> Canary:
        """A canary in a shape, entered before it is used."""
        return self.enter(canary(shape), fate, place)

    def number(self, bits: int, fate: Fate, place: str) -> Canary:
        """A number below all that a field may hold; its mark are its digits."""
        value = new_number(bits)
        return self.enter(Canary("number", str(value), str(-value)), fate, place)

    def bare(self, shape: str, fate: Fate, place: str, template: str = "{}") -> Canary:
        """A canary of a shape that is no text: the mark in a template."""
        mark = new_mark()
        return self.enter(Canary(shape, template.format(mark), mark), fate, place)

    def enter(self, given: Canary, fate: Fate, place: str) -> Canary:
        """Enter a canary."""
        self.canaries[given.mark] = given, fate, place
        self.tried[given.shape, fate] += 1
        return given

    def judge(self, given: Canary, fate: Fate) -> None:
        """Change the fate of a canary, once the services have answered."""
        _, before, place = self.canaries[given.mark]
        self.tried[given.shape, before] -= 1
        self.canaries[given.mark] = given, fate, place
        self.tried[given.shape, fate] += 1

    def search(self, sink: str, data: bytes, planted: Canary) -> list[str]:
        """Search a sink; what was found where it must not be.

        `planted` must be found, or the search is blind.
        """
        marks = marks_in(data)
        marks |= numbers_in(data) & self.canaries.keys()
        self.searched[sink] += len(data)
        leaks = []
        for mark in marks:
            for given, fate, place in self._entries(mark):
                self.hits[sink][given.shape, fate].add(given.mark)
                if not _may_be(fate, sink):
                    leaks.append(f"{sink}: {given.shape} of {place} ({fate.name})")
            if mark not in self.canaries and not self._is_cut_text(mark, sink):
                leaks.append(f"{sink}: the cut mark {mark}")
        assert planted.mark in marks, f"the search of {sink} does not find what was planted there"
        return sorted(set(leaks))

    def _entries(self, mark: str) -> list[tuple[Canary, Fate, str]]:
        return [self.canaries[mark]] if mark in self.canaries else []

    def _is_cut_text(self, mark: str, sink: str) -> bool:
        """True if it may be one that was cut where it may be.

        In the file of a database a page ends within a mark, and other letters follow: what is left of such a
        one is too short to say whose it is.
        """
        if sink == DATABASE and len(mark) < _SURE:
            return True
        fates = {entry[1] for whole, entry in self.canaries.items() if whole.startswith(mark)}
        allowed = {_may_be(fate, sink) for fate in fates}
        return allowed == {True} or (sink == DATABASE and allowed != {False})


def _may_be(fate: Fate, sink: str) -> bool:
    return fate in _ANYWHERE or sink in _WHERE_BODIES_ARE.get(fate, ())
