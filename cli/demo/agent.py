"""The scripted agent: no language model, three real tools, and everything it does goes through the client.

It asks the log, the docs and the database, each through the tool boundary, and answers from what they say.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from cli.demo.answer import Answer, Evidence, compose, rows_in
from cli.demo.database_query import query_mysql
from cli.demo.knowledge import lookup_knowledge
from cli.demo.log_search import query_logs
from cli.demo.words_of_text import telling_words
from cli.words import counted
from superbizagent.run.v1.run_event_pb2 import RunEventInput, RunEventType
from superbizagent.run.v1.run_pb2 import ReleaseOutcome, RunIntent
from superbizagent_client import ActiveRun, ToolBoundary, ToolOutcome

ResultT = TypeVar("ResultT")

_REFUSAL_WORDS = frozenset(
    telling_words("refused rejected denied invalid failing errors forbidden disallowed")
)
_TOPICS = {"audit": "AuditService", "record": "AuditService", "tool": "AuditService", "run": "RunService"}

_AUDIT_ROWS = "SELECT tool_name, COUNT(*) FROM tool_invocation WHERE session_id <> ? GROUP BY tool_name"
_RUN_ROWS = "SELECT status, COUNT(*) FROM diagnosis_run WHERE session_id <> ? GROUP BY status"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the tools look."""

    logs: Sequence[Path]
    database: Path


class Companion(Protocol):
    """Whoever looks on. No agent needs it; here two columns of a screen shall keep step."""

    def say(self, text: str) -> None:
        """What the agent does and finds."""

    async def in_step(self) -> None:
        """Return when what was reported so far can be seen."""


class ScriptedAgent:
    """Answers one question in one run."""

    def __init__(self, run: ActiveRun, boundary: ToolBoundary, companion: Companion) -> None:
        self._run = run
        self._boundary = boundary
        self._say = companion.say
        self._in_step = companion.in_step
        self._steps = 0

    async def answer(self, question: str, sources: Sources) -> Answer:
        """Work on the question, publish the answer and finish the run."""
        asked = telling_words(question)
        evidence = Evidence(
            topic=next((_TOPICS[word] for word in asked if word in _TOPICS), ""),
            about_refusals=not _REFUSAL_WORDS.isdisjoint(asked),
        )
        intent = (
            RunIntent.RUN_INTENT_DIAGNOSIS
            if evidence.about_refusals
            else RunIntent.RUN_INTENT_KNOWLEDGE_QUERY
        )
        self._send(RunEventType.RUN_EVENT_TYPE_INTENT_RESOLVED, intent=intent)
        self._say(
            "Something is refused: a diagnosis." if evidence.about_refusals else "A question to the docs."
        )
        await self._ask_log(evidence, asked, sources.logs)
        await self._ask_docs(evidence, question)
        await self._ask_database(evidence, sources.database)
        answer = compose(evidence)
        await self._publish(answer)
        return answer

    async def _ask_log(self, evidence: Evidence, asked: list[str], logs: Sequence[Path]) -> None:
        wanted = (
            f"refused calls of {evidence.topic or 'both services'}"
            if evidence.about_refusals
            else "lines with these words"
        )
        self._say(f"query_logs: {wanted}")
        evidence.log = await self._use_tool(
            "READ_LOG",
            "query_logs",
            " ".join(asked),
            lambda: query_logs(logs, evidence.topic, asked, refusals=evidence.about_refusals),
        )
        log = evidence.log
        if evidence.about_refusals:
            causes = counted(len(log.refusals), "cause")
            self._say(f"  {log.refused} of {counted(log.calls, 'call')} refused, for {causes}")
        else:
            self._say(f"  {log.mentions.total()} of {counted(log.lines, 'line')}")

    async def _ask_docs(self, evidence: Evidence, question: str) -> None:
        top = evidence.log.refusals.most_common(1) if evidence.about_refusals else []
        wanted = top[0][0].reason if top else question
        self._say(f"lookup_knowledge: {'what is ' + wanted if top else 'the words of the question'}")
        evidence.passages = await self._use_tool(
            "READ_DOCS", "lookup_knowledge", wanted, lambda: lookup_knowledge(wanted)
        )
        best = f", best is {evidence.passages[0].place}" if evidence.passages else ""
        self._say(f"  {counted(len(evidence.passages), 'passage')}{best}")

    async def _ask_database(self, evidence: Evidence, database: Path) -> None:
        statement = _RUN_ROWS if evidence.topic == "RunService" else _AUDIT_ROWS
        self._say("query_mysql: what do other sessions have in the database?")
        evidence.rows = await self._use_tool(
            "READ_DATABASE",
            "query_mysql",
            statement,
            lambda: query_mysql(database, statement, [self._run.session_id]),
        )
        self._say(f"  {counted(rows_in(evidence.rows), 'row')}")

    async def _use_tool(
        self, step: str, name: str, request: str, tool: Callable[[], Awaitable[ToolOutcome[ResultT]]]
    ) -> ResultT:
        self._steps += 1
        self._send(RunEventType.RUN_EVENT_TYPE_STEP_STARTED, step_id=self._steps, step_code=step)
        outcome = await self._boundary.call(name, request, tool, step_id=self._steps)
        self._send(
            RunEventType.RUN_EVENT_TYPE_STEP_FINISHED, step_id=self._steps, step_code=step, status="DONE"
        )
        await self._run.events.flush()
        await self._in_step()
        return outcome.result

    async def _publish(self, answer: Answer) -> None:
        found = "EVIDENCE_FOUND" if answer.grounded else "NO_EVIDENCE"
        outcome = (
            ReleaseOutcome.RELEASE_OUTCOME_SUCCESS
            if answer.grounded
            else ReleaseOutcome.RELEASE_OUTCOME_FALLBACK
        )
        self._send(RunEventType.RUN_EVENT_TYPE_EVIDENCE_CHECKED, evidence_status=found)
        self._send(RunEventType.RUN_EVENT_TYPE_RELEASE_DECIDED, release_outcome=outcome)
        self._say("The evidence is enough: published." if answer.grounded else "No evidence: a fallback.")
        await self._run.events.flush()
        await self._in_step()
        await self._run.finish(outcome, answer=answer.text, published_result=answer.published)

    def _send(self, kind: RunEventType.ValueType, **fields: object) -> None:
        self._run.send(RunEventInput(type=kind, **fields))  # type: ignore[arg-type]  # names of the contract
