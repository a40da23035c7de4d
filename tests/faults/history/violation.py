"""A promise that was broken."""

from typing import NamedTuple


class Violation(NamedTuple):
    """`rule` is the promise; `where` the run, session or call; `what` the difference."""

    rule: str
    where: str
    what: str
