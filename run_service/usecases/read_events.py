"""ListRunEvents, and what StreamRunEvents shares with it: where a reader may stand in a run's log."""

from dataclasses import dataclass
from typing import Protocol

from run_service.inputs import ListRunEvents
from run_service.lifecycle import is_final
from run_service.records import EventRecord, RunHead
from run_service.usecases.refusals import run_not_found, seq_beyond_head, seq_purged


class EventReader(Protocol):
    """What these use-cases need of the store."""

    async def head(self, run_id: str) -> RunHead | None: ...

    async def events(self, pk: int, after_seq: int, most: int) -> list[EventRecord]: ...

    async def oldest_seq(self, pk: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events. `last_seq` and `run_final` were read together, before the page."""

    events: list[EventRecord]
    last_seq: int
    run_final: bool


async def accept_position(store: EventReader, run_id: str, session_id: str | None, after_seq: int) -> RunHead:
    """Status and head of the run that a reader asks for; refused if it is not there or not that far yet."""
    head = await store.head(run_id)
    if head is None or (session_id is not None and head.session_id != session_id):
        raise run_not_found(run_id)
    if after_seq > (head.head_seq or 0):
        raise seq_beyond_head(run_id, head.head_seq or 0)
    return head


async def next_events(
    store: EventReader, run_id: str, pk: int, after_seq: int, *, head_seq: int, most: int
) -> list[EventRecord]:
    """The events after a position that is below `head_seq`.

    Seqs have no holes, so a page that does not begin right after the position means that events were purged.
    """
    events = unbroken(await store.events(pk, after_seq, most), after_seq)
    if not events:
        raise seq_purged(run_id, (await store.oldest_seq(pk)) or head_seq + 1)
    return events


def unbroken(events: list[EventRecord], after_seq: int) -> list[EventRecord]:
    """Those of a page that follow a position without a hole; what lies behind a hole is not jumped to."""
    return [event for seq, event in enumerate(events, after_seq + 1) if event.seq == seq]


async def list_run_events(store: EventReader, request: ListRunEvents) -> EventPage:
    """A page of a run's events as a snapshot."""
    run = await accept_position(store, request.run_id, request.session_id, request.after_seq)
    last_seq = run.head_seq or 0
    events: list[EventRecord] = []
    if request.after_seq < last_seq:
        events = await next_events(
            store, request.run_id, run.pk, request.after_seq, head_seq=last_seq, most=request.page_size
        )
        # Events that came after the head was read belong to the next look: run_final speaks of this head.
        events = [event for event in events if event.seq <= last_seq]
    return EventPage(events, last_seq, is_final(run.status))
