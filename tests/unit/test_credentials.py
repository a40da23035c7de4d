"""Credential shapes are refused; the ids that frameworks really make are not."""

import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from superbizagent_contract import has_credential_shape, kinds

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0"

CREDENTIALS = {
    "JWT without signature": JWT,
    "JWT": f"{JWT}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    "JWT with empty parts": "eyJ.eyJ.",
    "AWS access key": "AKIAIOSFODNN7EXAMPLE",
    "AWS temporary key": "ASIAIOSFODNN7EXAMPLE",
    "Google API key": "AIza" + "Sy_-" * 8 + "abc",
    "OpenAI key": "sk-" + "a1B2" * 5,
    "OpenAI long key": "sk-" + "a1B2" * 12,
    "OpenAI project key": "sk-proj-" + "a1_-" * 5,
    "Anthropic key": "sk-ant-api03-" + "a1B2" * 10,
    "GitHub token": "ghp_" + "a1B2" * 9,
    "GitHub server token": "ghs_" + "a" * 20,
    "GitHub OAuth token": "gho_" + "0" * 20,
    "GitHub user token": "ghu_" + "0" * 20,
    "GitHub refresh token": "ghr_" + "0" * 20,
    "Slack bot token": "xoxb-1-a",
    "Slack user token": "xoxp-" + "1" * 20,
    "Slack app token": "xoxa-2",
    "Slack refresh token": "xoxr-2",
    "Slack session token": "xoxs-2",
}

FRAMEWORK_IDS = {
    "OpenAI tool call": "call_abc123DEF456ghi789JKL012",
    "OpenAI responses function call": "fc_67ccfcdd16748190a91872c75d38539e0b2a4f1f",
    "OpenAI chat completion": "chatcmpl-9mXyZaBcDeFgHiJkLmNoPqRsTuVw",
    "OpenAI message": "msg_67ccd3acc8d48190a77525dc6de64b4104becb25c45c1d41",
    "Anthropic tool use": "toolu_01A09q90qw90lq917835lq9",
    "Anthropic on Vertex": "toolu_vrtx_01A09q90qw90lq917835lq9",
    "Anthropic on Bedrock": "toolu_bdrk_01A09q90qw90lq917835lq9",
    "Bedrock Converse": "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q",
    "Bedrock with dash": "tooluse_-kZJMlvQmRJ6eAyJE5GIl-Q",
    "Gemini": "call-7b2c1a90-5a61-4b8e-8d0e-2f6a4a1b9c7d",
    "Gemini function": "function-call-12748019283746501928",
    "Gemini short": "8f2b1a3c",
    "Gemini ADK": "adk-0f8fad5b-d9cb-469f-a165-70867728950e",
    "Mistral 9 characters": "D681PevKs",
    "Mistral 9 characters of digits": "123456789",
    "vLLM": "chatcmpl-tool-" + "0f8fad5bd9cb469fa16570867728950e",
    "vLLM random": "call_" + "0f8fad5bd9cb469fa16570867728950e",
    "SGLang Kimi": "functions.query_logs:0",
    "LangChain4j": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "LangChain run": "run-0f8fad5b-d9cb-469f-a165-70867728950e-0",
    "LangGraph": "lc_0f8fad5b-d9cb-469f-a165-70867728950e",
    "Llama stack": "call_8b1c",
    "Ollama": "call_x7q2m9aa",
    "Cohere": "query_logs_a1b2c3d4e5f6",
    "task": "task-" + "a1b2c3d4" * 4,
    "risk": "risk-" + "a1b2c3d4" * 4,
    "disk": "disk-0123456789abcdef0123",
    "desk in the middle": "my-sk-" + "a" * 30,
    "key-like but short": "sk-short",
    "tool call of ours": f"tc-{'0f' * 16}-12",
    "xoxo": "xoxo-hugs",
    "a GitHub look-alike": "ghx_" + "a" * 30,
    "a repository": "gh_actions_run_12345678901234567890",
    "MD5": hashlib.md5(b"x", usedforsecurity=False).hexdigest(),
    "SHA-1": hashlib.sha1(b"x", usedforsecurity=False).hexdigest(),
    "SHA-256": hashlib.sha256(b"x").hexdigest(),
    "trace id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "span id": "00f067aa0ba902b7",
    "ULID": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "KSUID": "0ujtsYcgvSTl8PAuAdqWYSMnLOv",
    "UUID": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "UUID without dashes": "0f8fad5bd9cb469fa16570867728950e",
    "Snowflake": "1541815603606036480",
    "Azure": "chatcmpl-7R1nGnsXO8n4oi9UPz2f3UHdgAYMn",
}


@pytest.mark.parametrize("value", CREDENTIALS.values(), ids=CREDENTIALS)
def test_the_shape_of_a_credential_is_refused(value: str) -> None:
    assert has_credential_shape(value)
    assert not kinds.IDENTIFIER.admits(value)


@pytest.mark.parametrize("value", FRAMEWORK_IDS.values(), ids=FRAMEWORK_IDS)
def test_the_id_of_a_framework_passes(value: str) -> None:
    assert kinds.IDENTIFIER.admits(value)


@pytest.mark.parametrize("value", CREDENTIALS.values(), ids=CREDENTIALS)
def test_only_the_whole_value_counts(value: str) -> None:
    assert not has_credential_shape(f"x {value}")
    assert not has_credential_shape(f"{value} x")
    assert not has_credential_shape(f"{value}\n")


def test_letters_of_other_alphabets_make_no_credential() -> None:
    assert not has_credential_shape("sk-" + "é" * 30)
    assert not has_credential_shape("AKIA" + "\u0661" * 16)
    assert not has_credential_shape("eyJé.eyJé")


@given(st.uuids())
def test_no_uuid_is_a_credential_in_any_dress(value: uuid.UUID) -> None:
    for text in (str(value), value.hex, f"run-{value}", f"task-{value}", f"call_{value.hex}", f"tc-{value}"):
        assert kinds.IDENTIFIER.admits(text)
