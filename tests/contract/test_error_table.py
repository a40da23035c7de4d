"""Every reason has one answer: a code of the contract and a short fixed sentence."""

import grpc
import pytest

from common.error_table import ANSWERS
from superbizagent.error.v1.error_reason_pb2 import ErrorReason

CODES = {
    "INVALID_ARGUMENT": ("INVALID_FIELD UNKNOWN_FIELD CREDENTIAL_SHAPED TOOL_NOT_ALLOWED PAGE_TOKEN_INVALID"),
    "NOT_FOUND": "RUN_NOT_FOUND",
    "ALREADY_EXISTS": "RUN_CONFLICT REQUEST_ID_CONFLICT EVENT_ID_CONFLICT TOOL_CALL_CONFLICT",
    "ABORTED": "STORE_CONFLICT",
    "FAILED_PRECONDITION": "RUN_NOT_STARTED RUN_ALREADY_FINISHED RUN_NOT_MANAGED",
    "OUT_OF_RANGE": "SEQ_BEYOND_HEAD SEQ_PURGED",
    "RESOURCE_EXHAUSTED": "SLOW_CONSUMER OVERLOADED",
    "UNAVAILABLE": "DRAINING STORE_UNAVAILABLE",
    "PERMISSION_DENIED": "ROLE_REQUIRED",
    "DEADLINE_EXCEEDED": "DEADLINE_EXCEEDED",
    "UNAUTHENTICATED": "UNAUTHENTICATED",
    "INTERNAL": "INTERNAL",
}
EXPECTED = {reason: code for code, reasons in CODES.items() for reason in reasons.split()}


def _name(reason: int) -> str:
    return ErrorReason.Name(reason).removeprefix("ERROR_REASON_")  # type: ignore[arg-type]


def test_every_reason_but_unspecified_has_the_code_of_the_contract() -> None:
    assert {_name(reason): answer.code for reason, answer in ANSWERS.items()} == EXPECTED
    assert {_name(number) for number in ErrorReason.values() if number} == set(EXPECTED)


@pytest.mark.parametrize("reason", list(ANSWERS), ids=_name)
def test_a_sentence_is_short_printable_ascii_on_one_line(reason: "ErrorReason.ValueType") -> None:
    sentence = ANSWERS[reason].sentence
    assert 0 < len(sentence) <= 200
    assert sentence.isascii()
    assert sentence.isprintable()
    assert "{" not in sentence
    assert "%" not in sentence


@pytest.mark.parametrize("reason", list(ANSWERS), ids=_name)
def test_a_code_is_one_of_grpc(reason: "ErrorReason.ValueType") -> None:
    assert ANSWERS[reason].code in grpc.StatusCode.__members__


def test_sentences_differ_so_that_a_log_of_them_tells_the_reasons_apart() -> None:
    assert len({answer.sentence for answer in ANSWERS.values()}) == len(ANSWERS)
