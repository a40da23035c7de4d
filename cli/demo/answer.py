"""What the agent answers: sentences made of what the tools found, and the same for programs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.demo.database_query import Row
from cli.demo.knowledge import Passage
from cli.demo.log_search import LogFindings
from cli.words import counted
from common.error_table import ANSWERS
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

# Whose move it is, by the code of the refusals.
_MEANINGS = {
    "INVALID_ARGUMENT": "the requests break the rules of the contract; the service itself works",
    "ALREADY_EXISTS": "ids are used again with other content",
    "UNAUTHENTICATED": "the caller shows no valid token",
    "PERMISSION_DENIED": "the caller's token lacks the role",
    "UNAVAILABLE": "the service or its store is away; the callers may try again",
    "RESOURCE_EXHAUSTED": "the service is asked for more than it can do; the callers may try again",
    "FAILED_PRECONDITION": "the runs are not in a state that allows it",
    "NOT_FOUND": "the runs that are asked for do not exist",
    "INTERNAL": "the service has a fault; its log has a reference for each",
}
_MOST_PASSAGE = 420


@dataclass(slots=True)
class Evidence:
    """Everything that the tools brought. `topic` is the service that the question is about, "" for both."""

    topic: str
    about_refusals: bool
    log: LogFindings = field(default_factory=LogFindings)
    passages: list[Passage] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def found(self) -> bool:
        """Whether there is anything to base an answer on. Rows alone explain nothing."""
        return bool(self.passages or self.log.mentions or (self.about_refusals and self.log.refused))


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is for people, `published` for programs."""

    text: str
    published: dict[str, Any]
    grounded: bool


def compose(evidence: Evidence) -> Answer:
    """The answer that the evidence allows."""
    parts: list[str] = []
    if evidence.about_refusals:
        parts.append(_about_refusals(evidence))
    if evidence.passages and not (evidence.about_refusals and evidence.log.refused):
        parts.append(_from_docs(evidence.passages[:2]))
    for line, count in evidence.log.mentions.most_common(3):
        parts.append(f"The log says {count} x: {line}.")
    if not evidence.found:
        parts.append(
            "Nothing in the docs, the log or the database answers this. I am a script that looks for English "
            "words and cannot think of another way to ask."
        )
    return Answer("\n".join(parts), _for_programs(evidence), grounded=evidence.found)


def _about_refusals(evidence: Evidence) -> str:
    log = evidence.log
    where = evidence.topic or "either service"
    if not log.refused:
        return f"The log shows {counted(log.calls, 'call')} of {where} and none was refused."
    ((code, often),) = log.codes.most_common(1)
    share = "all" if often == log.refused else str(often)
    meaning = _MEANINGS.get(code, "see the reasons")
    calls = f"{log.refused} of {counted(log.calls, 'call')} to {where}"
    lines = [
        f"{calls} were refused, {share} with {code}: {meaning}.",
        "Causes, the most frequent first, as the log names them:",
    ]
    for cause, count in log.refusals.most_common():
        place = f" {cause.field}" if cause.field else ""
        lines.append(f"  {count} x {cause.reason}{place} {cause.rule or _sentence(cause.reason)}".rstrip())
    ((first, _),) = log.refusals.most_common(1)
    passage = _passage_on(first.reason, evidence.passages)
    if passage:
        lines.append(f"The docs on {first.reason} ({passage.place}): {_shortened(passage.text)}")
    if evidence.topic == "AuditService":
        lines.append(_about_rows(rows_in(evidence.rows), log.accepted["RecordToolInvocation"]))
    return "\n".join(lines)


def _about_rows(stored: int, accepted: int) -> str:
    held = f"The database holds {counted(stored, 'audit row')} of other sessions"
    if stored == accepted:
        return f"{held}, one for each call that was accepted: what was refused stored nothing."
    return f"{held}; {counted(accepted, 'call')} were accepted."


def rows_in(rows: Sequence[Row]) -> int:
    """The sum of the counts in the last column."""
    return sum(int(row[-1] or 0) for row in rows)


def _from_docs(passages: Sequence[Passage]) -> str:
    return "\n".join(f"{passage.place} says: {_shortened(passage.text)}" for passage in passages)


def _passage_on(reason: str, passages: Sequence[Passage]) -> Passage | None:
    return next((passage for passage in passages if reason in f"{passage.place} {passage.text}"), None)


def _sentence(reason: str) -> str:
    try:
        return ANSWERS[ErrorReason.Value(f"ERROR_REASON_{reason}")].sentence
    except (KeyError, ValueError):
        return ""


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_PASSAGE else text[:_MOST_PASSAGE].rsplit(" ", 1)[0] + " …"


def _for_programs(evidence: Evidence) -> dict[str, Any]:
    return {
        "calls": evidence.log.calls,
        "refused": evidence.log.refused,
        "causes": [
            cause._asdict() | {"count": count} for cause, count in evidence.log.refusals.most_common()
        ],
        "sources": [passage.place for passage in evidence.passages],
    }
