"""Texts come back whole, whatever script they are in; documents come back equal in value."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.support.run import finish_run, get_run, running_run
from tests.support.run_server import RunServer

TEXTS = [
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪",
    "\U0010ffff\U00010000\ufffd\uffff",
    "审计写入被拒绝 なぜ 왜",
    "e\u0301 é \u200f\u202eabc \u00a0",
    "line\nline\r\nline\ttab \x01\x7f",
    "\\u0000 \\ud800 \\ ' \" ` ; -- %s {0}",
    " leading and trailing ",
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_a_text_comes_back_whole(run_server: RunServer, text: str) -> None:
    run = await running_run(run_server.stub, query=text)
    document = json.dumps({text: [text]}, ensure_ascii=False)
    await finish_run(run_server.stub, run.run_id, answer=text, published_result_json=document)
    full = await get_run(run_server.stub, run.run_id, full=True)
    assert (full.query, full.answer) == (text, text)
    assert json.loads(full.published_result_json) == {text: [text]}
    assert run_server.sql("SELECT length(CAST(query AS BLOB)) FROM diagnosis_run") == [(len(text.encode()),)]


NUMBERS = [
    *("0", "-0", "1.0", "1.10", "1e3", "9007199254740993", "18446744073709551615", "-9223372036854775808"),
    *("1.7976931348623157e308", "5e-324", "0.1", "-1.5E-7"),
]


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_number_comes_back_equal_in_value(runs: RunServiceStub, number: str) -> None:
    from decimal import Decimal

    run = await running_run(runs)
    await finish_run(runs, run.run_id, published_result_json=f'{{"a":{number}}}')
    stored = (await get_run(runs, run.run_id, full=True)).published_result_json
    value = json.loads(stored, parse_float=Decimal, parse_int=Decimal)["a"]
    assert value == Decimal(number)


PLAIN = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.text(PLAIN, min_size=1, max_size=200),
    answer=st.none() | st.text(PLAIN, max_size=200),
    document=st.none() | st.dictionaries(st.text(PLAIN), st.text(PLAIN) | st.integers(-(2**63), 2**64 - 1)),
)
async def test_any_text_comes_back(
    runs: RunServiceStub, query: str, answer: str | None, document: dict[str, Any] | None
) -> None:
    run = await running_run(runs, query=query)
    published = None if document is None else json.dumps(document)
    await finish_run(runs, run.run_id, answer=answer, published_result_json=published)
    full = await get_run(runs, run.run_id, full=True)
    assert full.query == query
    assert (full.answer if full.HasField("answer") else None) == answer
    assert full.HasField("published_result_json") == (document is not None)
    assert document is None or json.loads(full.published_result_json) == document
