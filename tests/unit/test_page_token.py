"""Page tokens: opaque, in the grammar, bound to their query; every other string is refused."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import Refusal
from common.page_token import make_token, read_token
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent_contract import kinds

INT64 = st.integers(-(2**63), 2**63 - 1)
QUERY = ("runs", "sess-1", None)
ALPHABET = string.ascii_letters + string.digits + "-_"


def _refused(token: str, query: tuple[object, ...] = QUERY, numbers: int = 2) -> bool:
    with pytest.raises(Refusal) as caught:
        read_token(query, token, numbers)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert caught.value.field == "page_token"
    return caught.value.reason == ErrorReason.ERROR_REASON_PAGE_TOKEN_INVALID


@given(st.lists(INT64, min_size=1, max_size=3))
def test_a_token_gives_its_position_back_and_fits_the_grammar(position: list[int]) -> None:
    token = make_token(QUERY, tuple(position))
    assert kinds.PAGE_TOKEN.admits(token)
    assert read_token(QUERY, token, len(position)) == tuple(position)


def test_the_empty_token_is_the_first_page() -> None:
    assert read_token(QUERY, "", 2) is None


@pytest.mark.parametrize(
    "other",
    [("runs", "sess-2", None), ("runs", "sess-1", "RUNNING"), ("runs", None, "sess-1"), ("audit", 1), ()],
)
def test_a_token_of_another_query_is_refused(other: tuple[object, ...]) -> None:
    assert _refused(make_token(other, (1, 2)))


def test_a_token_with_another_count_of_numbers_is_refused() -> None:
    assert _refused(make_token(QUERY, (1,)))
    assert _refused(make_token(QUERY, (1, 2, 3)))


@given(st.text() | st.text(ALPHABET, max_size=300))
def test_any_other_string_is_refused(text: str) -> None:
    assert text == "" or _refused(text)


@given(st.tuples(INT64, INT64), st.data())
def test_a_token_with_one_character_changed_added_or_dropped_is_refused(
    position: tuple[int, int], data: st.DataObject
) -> None:
    token = make_token(QUERY, position)
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from(ALPHABET))
    for changed in (
        token[:place] + letter + token[place + 1 :],
        token[:place] + letter + token[place:],
        token[:place] + token[place + 1 :],
        token + letter,
    ):
        assert changed == token or _refused(changed)


def test_spare_bits_of_the_last_character_make_no_second_token() -> None:
    token = make_token(QUERY, (1, 2))
    assert [letter for letter in ALPHABET if letter != token[-1] and not _refused(token[:-1] + letter)] == []


@given(st.tuples(INT64, INT64))
def test_padding_and_the_other_alphabet_are_refused(position: tuple[int, int]) -> None:
    token = make_token(QUERY, position)
    assert _refused(token + "=")
    assert _refused(token + "\n")
    if "-" in token or "_" in token:
        assert _refused(token.replace("-", "+").replace("_", "/"))
