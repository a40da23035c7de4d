"""A scripted agent in the place of one with a model: two tools that really look something up."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, RunIntent
from superbizagent_client import ActiveRun, ToolBoundary, ToolOutcome

Agent: TypeAlias = Callable[[str, ActiveRun, ToolBoundary], Awaitable[None]]
"""Answers a question: tells the run what it does, calls its tools through the boundary, finishes the run."""

_DATA = Path(__file__).parent / "data"
_WORD = re.compile(r"[a-z]{4,}")
_FALLBACK = "Nothing in the logs and notes at hand answers this."


async def diagnose(question: str, run: ActiveRun, boundary: ToolBoundary) -> None:
    """First the log, then what the notes say about the error codes found there."""
    run.send(
        RunEventInput(type=RunEventType.RUN_EVENT_TYPE_INTENT_RESOLVED, intent=RunIntent.RUN_INTENT_DIAGNOSIS)
    )
    words = set(_WORD.findall(question.lower()))
    run.send(_step(RunEventType.RUN_EVENT_TYPE_STEP_STARTED, 1, step_code="LOOK_UP"))
    log = await boundary.call("query_logs", question, lambda: _lines_with(words), step_id=1)
    codes = sorted({code for line in log.result for code in re.findall(r"[A-Z]{4,}_[A-Z]+", line)})
    notes = await boundary.call("lookup_knowledge", " ".join(codes), lambda: _notes_on(codes), step_id=1)
    run.send(_step(RunEventType.RUN_EVENT_TYPE_STEP_FINISHED, 1, status="READY"))

    enough = bool(log.result and notes.result)
    outcome = ReleaseOutcome.RELEASE_OUTCOME_SUCCESS if enough else ReleaseOutcome.RELEASE_OUTCOME_FALLBACK
    run.send(
        RunEventInput(
            type=RunEventType.RUN_EVENT_TYPE_EVIDENCE_CHECKED,
            evidence_status="EVIDENCE_FOUND" if enough else "NO_EVIDENCE",
        )
    )
    run.send(RunEventInput(type=RunEventType.RUN_EVENT_TYPE_RELEASE_DECIDED, release_outcome=outcome))
    answer = "\n".join([f"{len(log.result)} lines of the log match.", *notes.result])
    await run.finish(
        outcome,
        answer=answer if enough else _FALLBACK,
        published_result={"codes": codes, "logLines": len(log.result)} if enough else None,
    )


async def _lines_with(words: set[str]) -> ToolOutcome[list[str]]:
    lines = await _read("service-log.txt")
    return _found([line for line in lines if words & set(_WORD.findall(line.lower()))])


async def _notes_on(codes: list[str]) -> ToolOutcome[list[str]]:
    notes = await _read("notes.txt")
    return _found([note for note in notes if note.partition(":")[0] in codes])


async def _read(name: str) -> list[str]:
    text = await asyncio.to_thread((_DATA / name).read_text, "utf-8")
    return text.splitlines()


def _found(lines: list[str]) -> ToolOutcome[list[str]]:
    return ToolOutcome(
        result=lines,
        projection="\n".join(lines),  # what a model would be shown; only its size leaves this process
        evidence_status="EVIDENCE_FOUND" if lines else "NO_EVIDENCE",
        l0_match_count=len(lines),
    )


def _step(
    kind: RunEventType.ValueType, step_id: int, *, step_code: str | None = None, status: str | None = None
) -> RunEventInput:
    return RunEventInput(type=kind, step_id=step_id, step_code=step_code, status=status)
