"""What is accepted comes back equal on every engine; what would not is refused before anything changes."""

import json
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from superbizagent.run.v1.run_pb2 import RunStatus
from superbizagent_contract import kinds, limits, parse_published_json
from tests.support.engines import run_sql
from tests.support.errors import refused
from tests.support.run import (
    create_request,
    create_run,
    finish_request,
    finish_run,
    get_run,
    running_run,
    start_run,
)
from tests.support.run_server import RunServer

TEXTS = {
    "emoji": "🔥" * 50,
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f469\U0001f3fd\u200d\U0001f680",
    "last character": "\U0010ffff\ufffe\uffff",
    "CJK": "数据库为什么拒绝写入\U00020bb7野家",
    "quotes": "'\"\\%s %(x)s :x `\n\r\t\x1a\x7f--;/*",
    "spaces": "  trailing  \n",
    "combining": "e\u0301 \u202eabc\u202c \ufeff",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_texts_come_back_as_they_were(server: RunServer, text: str) -> None:
    run = await create_run(server.stub, query=text)
    await start_run(server.stub, run.run_id)
    document = json.dumps({text: [text]}, ensure_ascii=False)
    await finish_run(server.stub, run.run_id, answer=text, published_result_json=document)
    full = await get_run(server.stub, run.run_id, full=True)
    assert (full.query, full.answer) == (text, text)
    assert json.loads(full.published_result_json) == {text: [text]}


@pytest.mark.parametrize("character", ["x", "'", "\\", "🔥"])
async def test_the_longest_texts_come_back_whole(server: RunServer, character: str) -> None:
    run = await create_run(server.stub, query=character * limits.MAX_QUERY_CHARACTERS)
    await start_run(server.stub, run.run_id)
    answer = character * (limits.MAX_ANSWER_BYTES // len(character.encode()))
    # Written as JSON a quote and a backslash are two characters each.
    per_character = len(json.dumps(character, ensure_ascii=False).encode()) - 2
    value = character * ((limits.MAX_PUBLISHED_RESULT_BYTES - 10) // per_character)
    document = json.dumps({"k": value}, ensure_ascii=False)
    await finish_run(server.stub, run.run_id, answer=answer, published_result_json=document)
    full = await get_run(server.stub, run.run_id, full=True)
    assert len(full.query) == limits.MAX_QUERY_CHARACTERS
    assert full.answer == answer
    assert json.loads(full.published_result_json) == {"k": value}


async def test_a_text_that_is_too_long_is_refused_before_it_is_sent(server: RunServer) -> None:
    run = await running_run(server.stub)
    for fields in (
        {"answer": "x" * (limits.MAX_ANSWER_BYTES + 1)},
        {"published_result_json": json.dumps({"k": "x" * limits.MAX_PUBLISHED_RESULT_BYTES})},
        {"published_result_json": json.dumps({"k" * (limits.MAX_JSON_KEY_BYTES + 1): 1})},
    ):
        refusal = await refused(server.stub.FinishRun(finish_request(run.run_id, **fields)))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (await get_run(server.stub, run.run_id)).status == RunStatus.RUN_STATUS_RUNNING
    too_long = create_request(query="x" * (limits.MAX_QUERY_CHARACTERS + 1))
    assert (await refused(server.stub.CreateRun(too_long))).code is grpc.StatusCode.INVALID_ARGUMENT


def _deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


DOCUMENTS = {
    "the largest integers": '{"a": 18446744073709551615, "b": -9223372036854775808, "c": 9007199254740993}',
    "whole floats": '{"a": 1.0, "b": -0.0, "c": 1e22, "d": 1E+2, "e": 100000000000000000000.0}',
    "extreme floats": '{"a": 5e-324, "b": 2.2250738585072014e-308, "c": 1.7976931348623157e308}',
    "floats": "[0.1, 1.10, 3.141592653589793, 123456789.12345678, 1e-7, 4.35, 0.30000000000000004]",
    "the deepest": _deep(limits.MAX_PUBLISHED_RESULT_LEVELS),
    "the longest key": json.dumps({"k" * limits.MAX_JSON_KEY_BYTES: 1}),
    "many keys": json.dumps({f"key {number}": number for number in range(30_000)}),
    "odd keys": json.dumps({"": 1, "$": 2, "a.b": 3, '"': 4, "\\u0041": 5, "A": 6, "a": 7}),
    "escapes": r'{"a": "\ud83d\ude00 A \/ \b\f\n \\u0000 \u007f \u2028"}',
    "empty": "{}",
    "spellings": '{ "a" : [ true , false , null , {} , [] , "" ] }',
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
async def test_documents_come_back_equal_in_value(server: RunServer, text: str) -> None:
    text = text if text.startswith("{") else f'{{"a": {text}}}'
    run = await running_run(server.stub)
    await finish_run(server.stub, run.run_id, published_result_json=text)
    found = (await get_run(server.stub, run.run_id, full=True)).published_result_json
    assert json.loads(found) == json.loads(text)
    # By value, and integers stay integers: 2^53 + 1 is not a neighbour of it.
    assert parse_published_json(found).canonical == parse_published_json(text).canonical


_NUMBERS = st.one_of(
    st.integers(limits.MIN_JSON_INTEGER, limits.MAX_JSON_INTEGER),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(
        allow_nan=False, allow_infinity=False, allow_subnormal=True, max_value=1e-300, min_value=-1e-300
    ),
    st.integers(0, 2**64).map(float),
)
_STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
_DOCUMENTS = st.dictionaries(
    _STRINGS,
    st.recursive(
        st.one_of(st.none(), st.booleans(), _NUMBERS, _STRINGS),
        lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(_STRINGS, inner, max_size=5)),
        max_leaves=20,
    ),
    max_size=40,
)


@given(documents=st.lists(_DOCUMENTS, min_size=5, max_size=5))
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
async def test_whatever_document_is_accepted_comes_back_equal(
    server: RunServer, documents: list[dict[str, Any]]
) -> None:
    for document in documents:
        text = json.dumps(document, ensure_ascii=False)
        run = await running_run(server.stub)
        await finish_run(server.stub, run.run_id, published_result_json=text)
        found = (await get_run(server.stub, run.run_id, full=True)).published_result_json
        assert parse_published_json(found).canonical == parse_published_json(text).canonical


LONGEST = {
    "diagnosis_run": {
        **dict.fromkeys(("run_id", "session_id"), kinds.IDENTIFIER),
        "agent_flow": kinds.AGENT_FLOW,
        "feedback": kinds.FEEDBACK,
    },
    "sba_run_control": {"trace_id": kinds.TRACE_ID, "error_code": kinds.CODE},
    "sba_run_request": dict.fromkeys(("session_id", "request_id", "run_id"), kinds.IDENTIFIER),
    "sba_run_event": {
        **dict.fromkeys(("event_id", "tool_call_id"), kinds.IDENTIFIER),
        **dict.fromkeys(("step_code", "error_code"), kinds.CODE),
        "tool_name": kinds.TOOL_NAME,
        "status": kinds.STATUS,
        "evidence_status": kinds.EVIDENCE_STATUS,
    },
    "tool_invocation": {
        **dict.fromkeys(("run_id", "session_id"), kinds.IDENTIFIER),
        "tool_name": kinds.TOOL_NAME,
        "retrieval_layer": kinds.RETRIEVAL_LAYER,
        "relevance_level": kinds.EVIDENCE_STATUS,
    },
    "sba_tool_invocation_key": dict.fromkeys(("run_id", "tool_call_id"), kinds.IDENTIFIER),
}


@pytest.mark.parametrize("table", list(LONGEST))
@pytest.mark.parametrize("run_url", ["mariadb", "mysql"], indirect=True)
async def test_no_limit_of_the_contract_exceeds_its_column(run_url: str, table: str) -> None:
    rows = await run_sql(
        run_url,
        "SELECT column_name, character_maximum_length FROM information_schema.columns "  # noqa: S608
        f"WHERE table_schema = DATABASE() AND table_name = '{table}'",
    )
    there = {str(name): int(str(length)) for name, length in rows if length is not None}
    for column, kind in LONGEST[table].items():
        too_long = [letter * (there[column] + 1) for letter in "Aa"]
        assert not any(kind.fits(one) for one in too_long), f"{column} takes less than the grammar admits"
    if table == "diagnosis_run":
        assert there["query"] >= limits.MAX_QUERY_BYTES
        assert there["answer"] >= limits.MAX_ANSWER_BYTES
