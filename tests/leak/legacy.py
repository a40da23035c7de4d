"""Rows as an older application may have written them, with a canary in one column each."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.leak import rows
from tests.leak.canaries import PREFIX, REFUSED, Canary, canary
from tests.leak.ledger import Fate, Ledger

SESSION, RUN = "old-session", "old-run"
_TIME = "2024-05-06 07:08:09.000000"
_TEXT = 60_000

_CALL: dict[str, Any] = {
    "session_id": SESSION,
    "run_id": RUN,
    "tool_name": "query_logs",
    "input_params": "{}",
    "retrieval_layer": "L0",
    "created_at": _TIME,
}
_CALL_TEXTS = {
    "session_id": 64,
    "run_id": 64,
    "tool_name": 64,
    "output_preview": _TEXT,
    "retrieval_layer": 8,
    "relevance_level": 20,
    "dedup_reason": 32,
    "error_message": _TEXT,
}
_CALL_DOCUMENTS = ("input_params", "retrieval_details")
_CALL_KEYS = (
    "tool_call_id",
    "request_bytes",
    "status",
    "evidence_status",
    "error_code",
    "agent_result_bytes",
)
_CALL_NUMBERS = ("output_length", "l0_match_count", "l1_match_count", "duration_ms")

_RUN: dict[str, Any] = {
    "session_id": SESSION,
    "query": "why?",
    "status": "SUCCESS",
    "created_at": _TIME,
    "updated_at": _TIME,
}
_RUN_TEXTS = {
    "run_id": 64,
    "session_id": 64,
    "query": _TEXT,
    "status": 16,
    "agent_flow": 32,
    "answer": _TEXT,
    "intent": 32,
    "release_outcome": 16,
    "feedback": 16,
}
_RUN_DOCUMENTS = ("published_result", "self_evaluation")
_RUN_NUMBERS = ("total_duration_ms", "total_token_count", "step_count", "tool_call_count")
_SHOWN_IN_FULL = frozenset({"query", "answer", "published_result"})


@dataclass
class Legacy:
    """What was written: the runs, by ids that can be looked up."""

    run_ids: list[str]


async def put_legacy_rows(ledger: Ledger, url: str) -> Legacy:
    """Insert them, with a run and a call without anything odd in it."""
    odd_runs = _changed(ledger, "diagnosis_run", _RUN_TEXTS, _RUN_DOCUMENTS, _RUN_NUMBERS)
    odd_calls = _changed(ledger, "tool_invocation", _CALL_TEXTS, _CALL_DOCUMENTS, _CALL_NUMBERS)
    runs = [_run(changed) for changed in ({}, *odd_runs)]
    await rows.insert(url, "diagnosis_run", runs)
    await rows.insert(url, "tool_invocation", [_CALL | changed for changed in ({}, *odd_calls)])
    return Legacy([row["run_id"] for row in runs if row["run_id"].startswith("old-")])


def _run(changed: dict[str, Any]) -> dict[str, Any]:
    return {"run_id": f"old-{uuid.uuid4()}"} | _RUN | changed


def _changed(
    ledger: Ledger, table: str, texts: dict[str, int], documents: tuple[str, ...], numbers: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Each column with each shape that it is wide enough for."""
    for name, width in texts.items():
        yield from ({name: text} for text in _texts(ledger, table, name, width))
    for name in documents:
        yield from ({name: json.dumps(value)} for value in _documents(ledger, table, name))
    for name in numbers:
        yield {name: int(ledger.number(32, Fate.LEGACY, f"{table}.{name}").text)}


def _fate(name: str) -> Fate:
    return Fate.TEXT if name in _SHOWN_IN_FULL else Fate.LEGACY


def _texts(ledger: Ledger, table: str, name: str, width: int) -> Iterator[str]:
    for shape in REFUSED:
        given = canary(shape)
        if len(given.text) <= width:
            yield ledger.enter(given, _fate(name), f"{table}.{name}").text
    if width < 64:
        yield _short(ledger, f"{table}.{name}", width)


def _documents(ledger: Ledger, table: str, name: str) -> Iterator[Any]:
    place = f"{table}.{name}"
    for shape in REFUSED:
        yield _document(ledger.new(shape, _fate(name), place).text)
    for shape in ("sql", "ansi", "jwt"):
        # A document that is none: the whole is one text.
        yield ledger.new(shape, _fate(name), place).text


def _document(text: str) -> dict[str, Any]:
    """With the text under every key that is read, under others, and as a key."""
    return dict.fromkeys(_CALL_KEYS, text) | {"sql": text, "nested": [{"rows": [text]}], text: text}


def _short(ledger: Ledger, place: str, width: int) -> str:
    """As much of a mark as the column holds, in lower case, which no code is; a cut mark is found too."""
    if width == len(PREFIX):
        return ledger.enter(Canary("word", PREFIX, PREFIX), Fate.LEGACY, place).text
    given = ledger.bare("word", Fate.LEGACY, place)
    return f"'{given.mark}"[:width]
