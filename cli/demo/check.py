"""What must have happened for the demo to be worth its name; each fact is looked up, none is assumed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.connection import ONE_TRY, Service
from cli.demo.database_query import read_rows
from cli.demo.misbehave import REFUSED_VALUES, Cause, Misbehaviour
from cli.words import counted
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_pb2 import RunStatus, RunView
from superbizagent_client import RunClient

TOOLS = ("lookup_knowledge", "query_logs", "query_mysql")


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence, and whether it holds."""

    sentence: str
    holds: bool


def refusals_are_in_the_log(done: Misbehaviour, logged: Counter[Cause]) -> Fact:
    """What the caller was told is what the log counts."""
    return Fact(
        f"the log of AuditService has the {counted(done.told.total(), 'refusal')} that the caller was told, "
        "cause by cause",
        done.told.total() > 0 and logged == done.told,
    )


def refusals_stored_nothing(done: Misbehaviour, database: Path) -> Fact:
    """Only what was accepted is in the table."""
    ((rows,),) = read_rows(
        database, "SELECT COUNT(*) FROM tool_invocation WHERE session_id = ?", [done.session_id]
    )
    return Fact(
        f"the refused writes stored nothing: the caller has {counted(done.stored, 'row')}, "
        "those that were accepted",
        done.stored > 0 and rows == done.stored,
    )


def every_tool_is_audited(run_id: str, database: Path) -> Fact:
    """One row for each of the three tools, by the database itself."""
    rows = read_rows(
        database, "SELECT tool_name, success FROM tool_invocation WHERE run_id = ? ORDER BY 1", [run_id]
    )
    return Fact(
        "the audit has the run's three tool calls, each a success", rows == [(tool, 1) for tool in TOOLS]
    )


def every_tool_found_something(run_id: str, database: Path) -> Fact:
    """The log, the docs and the database were all there."""
    rows = read_rows(
        database,
        "SELECT tool_name, relevance_level FROM tool_invocation WHERE run_id = ? ORDER BY 1",
        [run_id],
    )
    return Fact(
        "log, docs and database each gave evidence", rows == [(tool, "EVIDENCE_FOUND") for tool in TOOLS]
    )


def live_equals_stored(live: Sequence[RunEvent], stored: Sequence[RunEvent], *, ended: bool) -> Fact:
    """The stream brought what the store has, and ended by itself."""
    whole = [event.seq for event in stored] == list(range(1, len(stored) + 1))
    return Fact(
        f"the live stream brought all {len(stored)} stored events once and in order, and ended by itself",
        ended and len(stored) > 0 and whole and list(live) == list(stored),
    )


async def answer_is_published(runs: Service, run_id: str, answer: str, *, grounded: bool) -> Fact:
    """The run is final with the answer that was shown."""
    with runs.explained():
        client = RunClient(runs.channel, options=ONE_TRY)
        run = await client.get_run(run_id, view=RunView.RUN_VIEW_FULL)
    wanted = RunStatus.RUN_STATUS_SUCCESS if grounded else RunStatus.RUN_STATUS_FALLBACK
    return Fact(
        f"the run is {RunStatus.Name(wanted).removeprefix('RUN_STATUS_')} and holds the answer above",
        run.status == wanted and run.answer == answer and bool(run.published_result_json),
    )


def bodies_stay_out(database: Path, logs: Sequence[Path], bodies: Sequence[str]) -> Fact:
    """Neither what was refused nor the answer is in a log or in an audit row."""
    rows = read_rows(database, "SELECT * FROM tool_invocation")
    texts = [path.read_text("utf-8") for path in logs] + [str(row) for row in rows]
    secret = [*REFUSED_VALUES, *(line for body in bodies for line in body.splitlines() if len(line) > 60)]
    return Fact(
        "no refused value and no line of the answer is in a log or in the audit",
        bool(rows) and not any(value in text for text in texts for value in secret),
    )


def services_stopped(exit_codes: dict[str, int]) -> Fact:
    """Both processes drained when they were told to."""
    return Fact("both services drained and stopped when told to", sorted(exit_codes.values()) == [0, 0])
