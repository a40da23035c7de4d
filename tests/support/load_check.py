"""Compares what a load was told with what is stored, and with what its streams saw."""

from collections import Counter

from cli.conformance import requests as make
from superbizagent.run.v1 import run_service_pb2 as pb
from tests.support.steady_load import RunLedger, SteadyLoad


class LoadCheck:
    """Differences, counted: acknowledged writes that are lost, and what is there twice or wrongly."""

    def __init__(self, load: SteadyLoad) -> None:
        self._load = load
        self.differences: Counter[str] = Counter()
        self.found: Counter[str] = Counter()

    async def compare(self) -> Counter[str]:
        """The differences; none if everything is as it was told."""
        for ledger in self._load.ledgers:
            await self._run(ledger)
            await self._rows(ledger)
        return +self.differences

    async def _run(self, ledger: RunLedger) -> None:
        page = await self._load.runs.ListRuns(pb.ListRunsRequest(session_id=ledger.session_id))
        self._count(
            "run", lost=ledger.run_id not in {run.run_id for run in page.runs}, more=len(page.runs) - 1
        )
        run = await make.get(self._load.runs, ledger.run_id)
        told = (ledger.status, ledger.last_seq)
        self._count("finish", lost=(make.status_name(run), run.last_seq) != told)
        stored = await make.events_of(self._load.runs, ledger.run_id)
        by_seq = {event.seq: event.event_id for event in stored}
        lost = [seq for seq, event_id in ledger.events.items() if by_seq.get(seq) != event_id]
        # RUN_CREATED, RUN_STARTED and RUN_FINISHED are the service's.
        self._count("event", lost=len(lost), more=len(stored) - len(ledger.events) - 3)
        self._count("seq", lost=[event.seq for event in stored] != list(range(1, run.last_seq + 1)))
        for seen in ledger.streamed:
            seqs = [event.seq for event in seen]
            missing = set(by_seq) - set(seqs)
            self._count("streamed event", lost=len(missing), more=len(seqs) - len(set(seqs)))
            self._count("streamed order", lost=not missing and seen != stored)
            self.found["streamed events"] += len(seen)
        self.found["events"] += len(stored)

    async def _rows(self, ledger: RunLedger) -> None:
        rows = await make.rows_of(self._load.audits, ledger.run_id)
        by_id = {row.id: row.tool_call_id for row in rows}
        lost = [one for one, call_id in ledger.rows.items() if by_id.get(one) != call_id]
        self._count("audit row", lost=len(lost), more=len(rows) - len(ledger.rows))
        self.found["audit rows"] += len(rows)

    def _count(self, what: str, *, lost: int, more: int = 0) -> None:
        self.differences[f"{what}: lost"] += int(lost)
        self.differences[f"{what}: repeated"] += max(more, 0)
