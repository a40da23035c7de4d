"""The agent's answer comes from what the tools found, and from nothing else."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cli.demo.answer import Evidence, compose
from cli.demo.knowledge import Passage
from cli.demo.log_search import LogFindings, query_logs
from cli.demo.misbehave import Cause


def _call(**keys: Any) -> str:
    line = {
        "event": "call",
        "service": "superbizagent.audit.v1.AuditService",
        "method": "RecordToolInvocation",
    }
    return json.dumps(line | keys)


def _log(tmp_path: Path, *lines: str) -> list[Path]:
    path = tmp_path / "service.log"
    path.write_text("\n".join(lines), "utf-8")
    return [path]


async def test_the_log_is_counted_by_cause_for_one_service(tmp_path: Path) -> None:
    refused = {
        "code": "INVALID_ARGUMENT",
        "reason": "INVALID_FIELD",
        "field": "invocation.status",
        "rule": "is required",
    }
    logs = _log(
        tmp_path,
        _call(code="OK"),
        _call(**refused),
        _call(**refused),
        _call(code="INTERNAL", reason="INTERNAL", reference="r-1"),
        _call(**refused, service="superbizagent.run.v1.RunService"),
        json.dumps({"event": "serving", "service": "superbizagent.audit.v1.AuditService"}),
        "not json",
        '"a string"',
        '{"cut off',
    )
    found = (await query_logs(logs, "AuditService", [])).result
    assert found.refusals == {
        Cause("INVALID_FIELD", "invocation.status", "is required"): 2,
        Cause("INTERNAL", "", ""): 1,
    }
    assert (found.calls, found.refused, found.accepted) == (4, 3, {"RecordToolInvocation": 1})
    assert found.mentions == {}


async def test_the_log_is_searched_for_all_words_of_a_question(tmp_path: Path) -> None:
    logs = _log(tmp_path, _call(code="OK"), json.dumps({"event": "drain is late", "step": "streams"}))
    outcome = await query_logs(logs, "", ["drain", "stream"], refusals=False)
    assert outcome.result.mentions == {"drain is late": 1}
    assert outcome.evidence_status == "EVIDENCE_FOUND"
    nothing = await query_logs(logs, "", ["drain", "moon"], refusals=False)
    assert nothing.evidence_status == "NO_EVIDENCE"


async def test_refusals_are_evidence_only_where_the_question_is_about_them(tmp_path: Path) -> None:
    logs = _log(tmp_path, _call(code="INVALID_ARGUMENT", reason="INVALID_FIELD", field="status", rule="is"))
    aside = await query_logs(logs, "", ["moon"], refusals=False)
    assert (aside.projection, aside.evidence_status, aside.l1_match_count) == ("", "NO_EVIDENCE", 0)
    wanted = await query_logs(logs, "", ["moon"], refusals=True)
    assert (wanted.evidence_status, wanted.l1_match_count) == ("EVIDENCE_FOUND", 1)


def _evidence(causes: dict[Cause, int], code: str = "INVALID_ARGUMENT", **more: Any) -> Evidence:
    refused = sum(causes.values())
    log = LogFindings(
        lines=99,
        calls=refused + 2,
        refusals=Counter(causes),
        codes=Counter({code: refused}),
        accepted=Counter({"RecordToolInvocation": 2}),
    )
    return Evidence(topic="AuditService", about_refusals=True, log=log, **more)


_RULE = "must be on the list of allowed tools"


def test_the_answer_names_the_causes_that_were_found_the_most_frequent_first() -> None:
    tool, field = Cause("TOOL_NOT_ALLOWED", "invocation.tool_name", _RULE), Cause("INVALID_FIELD", "a", "b")
    answer = compose(_evidence({field: 1, tool: 5}))
    assert answer.grounded
    assert answer.text.index("5 x TOOL_NOT_ALLOWED") < answer.text.index("1 x INVALID_FIELD a b")
    assert answer.published["causes"][0] == tool._asdict() | {"count": 5}


@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [
        ("STORE_UNAVAILABLE", "UNAVAILABLE", "the service or its store is away"),
        ("UNAUTHENTICATED", "UNAUTHENTICATED", "no valid token"),
        ("TOOL_CALL_CONFLICT", "ALREADY_EXISTS", "ids are used again"),
        ("INTERNAL", "INTERNAL", "the service has a fault"),
        ("SOMETHING_NEW", "SOMETHING_NEW", "see the reasons"),
    ],
)
def test_other_refusals_get_another_answer(reason: str, code: str, said: str) -> None:
    text = compose(_evidence({Cause(reason, "", ""): 3}, code)).text
    assert said in text
    assert f"3 x {reason}" in text
    assert "break the rules" not in text


def test_no_refusals_are_no_evidence() -> None:
    answer = compose(_evidence({}))
    assert not answer.grounded
    assert "none was refused" in answer.text


def test_rows_that_do_not_match_the_accepted_calls_are_not_explained_away() -> None:
    cause = {Cause("INVALID_FIELD", "a", "b"): 1}
    assert "stored nothing" in compose(_evidence(cause, rows=[("query_logs", 2)])).text
    text = compose(_evidence(cause, rows=[("query_logs", 3)])).text
    assert "stored nothing" not in text
    assert "3 audit rows" in text
    assert "2 calls were accepted" in text


def test_the_docs_are_quoted_on_the_most_frequent_cause() -> None:
    passages = [Passage("docs/x.md", "about nothing"), Passage("errors.proto TOOL_NOT_ALLOWED", "the list")]
    text = compose(_evidence({Cause("TOOL_NOT_ALLOWED", "a", "b"): 1}, passages=passages)).text
    assert "The docs on TOOL_NOT_ALLOWED (errors.proto TOOL_NOT_ALLOWED): the list" in text
    assert "about nothing" not in text


def test_a_question_to_the_docs_is_answered_from_the_docs_alone() -> None:
    evidence = _evidence(
        {Cause("INVALID_FIELD", "a", "b"): 1}, passages=[Passage("docs/x.md", "300 seconds")]
    )
    evidence.about_refusals = False
    answer = compose(evidence)
    assert answer.text == "docs/x.md says: 300 seconds"
    evidence.passages = []
    assert not compose(evidence).grounded
