"""Each kind of string at its edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from superbizagent_contract import Kind, kinds

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

PASS = {
    kinds.RUN_ID: [f"run-{UUID}"],
    kinds.IDENTIFIER: ["a", "0", "_", "-", "-x", "A.b:c-d_e", "a" * 64, f"run-{UUID}", "task-1", "1.2:3"],
    kinds.TOOL_NAME: ["a", "Query_logs.v2-x", "q" * 64],
    kinds.STATUS: ["A", "READY", "A_1", "A" * 32],
    kinds.CODE: ["A", "E1_", "A" * 64],
    kinds.EVIDENCE_STATUS: ["A", "EVIDENCE_FOUND", "A" * 20],
    kinds.RETRIEVAL_LAYER: ["A", "HARNESS", "A" * 8],
    kinds.AGENT_FLOW: ["CHAT_HARNESS", "A" * 32],
    kinds.FEEDBACK: ["", "+1", "-1", "up", "+", "-", "9", "a_b", "a" * 16],
    kinds.TRACE_ID: ["0" * 32, "0123456789abcdef" * 2],
    kinds.PAGE_TOKEN: ["", "a", "_-", "a" * 256],
    kinds.FIELD_PATH: ["request", "events[3].status", "events[1234].a.b", "invocation.tool_name", "a" * 128],
}

FAIL = {
    kinds.RUN_ID: [
        UUID,
        f"run-{UUID.upper()}",
        f"run_{UUID}",
        f"run-{UUID}0",
        f"RUN-{UUID}",
        "run-",
        "run-x",
    ],
    kinds.IDENTIFIER: ["", ".a", ":a", "a" * 65, "a b", "a/b", "a\\b", "a=b", "a+b", "a;--", "sess/1", "a,b"],
    kinds.TOOL_NAME: ["", "_a", "-a", "1a", ".a", "a:b", "a" * 65, "a b"],
    kinds.STATUS: ["", "a", "Ready", "1A", "_A", "A-B", "A" * 33, "A B"],
    kinds.CODE: ["", "a", "_A", "9A", "A" * 65, "A.B"],
    kinds.EVIDENCE_STATUS: ["", "a", "A" * 21],
    kinds.RETRIEVAL_LAYER: ["", "harness", "A" * 9],
    kinds.AGENT_FLOW: ["", "chat", "A" * 33],
    kinds.FEEDBACK: ["_a", "a" * 17, "a b", "a.b", "👍", " "],
    kinds.TRACE_ID: ["", "0" * 31, "0" * 33, "A" * 32, "g" * 32],
    kinds.PAGE_TOKEN: ["=", "a=", "a+b", "a/b", "a" * 257, "a.b"],
    kinds.FIELD_PATH: [
        "",
        "A",
        "1a",
        "a[",
        "a[]",
        "a[12345]",
        "a[-1]",
        "a..b",
        "a.",
        ".a",
        "a" * 129,
        "a[1][2]",
    ],
}

EVERY_KIND = pytest.mark.parametrize("kind", list(PASS), ids=lambda kind: kind.name)

LOOK_ALIKES = [
    "\n",
    "\r",
    "\0",
    " ",
    "\t",
    "\u00a0",
    "\u0660",
    "\uff11",
    "\u0430",
    "é",
    "\u200d",
    "\U0010ffff",
]
"""What `$`, `\\d`, `\\w` or str.isdigit would let through, and more that is no ASCII."""


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in PASS.items() for value in values]
)
def test_a_value_of_the_kind_passes(kind: Kind, value: str) -> None:
    assert kind.fits(value)
    assert kind.admits(value)


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in FAIL.items() for value in values]
)
def test_a_value_of_another_form_does_not_pass(kind: Kind, value: str) -> None:
    assert not kind.fits(value)
    assert not kind.admits(value)


@EVERY_KIND
@pytest.mark.parametrize("intruder", LOOK_ALIKES, ids=ascii)
def test_a_trailing_newline_or_a_look_alike_never_passes(kind: Kind, intruder: str) -> None:
    for value in PASS[kind]:
        assert not kind.fits(value + intruder)
        assert not kind.fits(intruder + value)
        assert not kind.fits(value[:1] + intruder + value[1:])


@EVERY_KIND
@given(text=st.text(max_size=300))
def test_whatever_passes_is_printable_ascii_of_bounded_length(kind: Kind, text: str) -> None:
    if kind.admits(text):
        assert text.isascii()
        assert text.isprintable()
        assert " " not in text
        assert len(text) <= 256


@pytest.mark.parametrize(
    "kind", [kind for kind in PASS if kind is not kinds.FIELD_PATH], ids=lambda kind: kind.name
)
@given(data=st.data())
def test_the_pattern_stands_for_the_whole_value(kind: Kind, data: st.DataObject) -> None:
    value = data.draw(st.from_regex(kind.pattern, fullmatch=True, alphabet=st.characters(codec="ascii")))
    assert kind.fits(value)


@EVERY_KIND
def test_a_rule_is_a_short_sentence_in_ascii(kind: Kind) -> None:
    assert kind.rule.isascii()
    assert len(kind.rule) <= 200
    assert "{" not in kind.rule
