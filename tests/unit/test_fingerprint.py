"""Fingerprints: equal for equal content, different for other content, absent is not empty."""

import hashlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.fingerprint import fingerprint

VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers() | st.text())
CONTENTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=6)


def _present(content: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((key, repr(value)) for key, value in content.items() if value is not None)


@given(CONTENTS, st.randoms())
def test_the_order_of_keys_does_not_matter(content: dict[str, Any], random: Any) -> None:
    items = list(content.items())
    random.shuffle(items)
    assert fingerprint(dict(items)) == fingerprint(content)


@given(CONTENTS, CONTENTS)
def test_it_is_equal_exactly_when_the_content_is(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (_present(one) == _present(other))


def test_absent_is_not_zero_empty_or_false() -> None:
    kinds: list[Any] = [None, 0, "", False, [], "0", "false"]
    assert len({fingerprint({"a": value}) for value in kinds}) == len(kinds)
    assert fingerprint({"a": None}) == fingerprint({})


def test_values_do_not_flow_into_each_other() -> None:
    assert fingerprint({"a": "x", "b": "y"}) != fingerprint({"a": 'x","b":"y'})
    assert fingerprint({"ab": "c"}) != fingerprint({"a": "bc"})


def test_it_is_64_hex_digits() -> None:
    digest = fingerprint({"a": "\U0010ffff"})
    assert len(digest) == 64
    assert set(digest) <= set("0123456789abcdef")


@given(CONTENTS)
def test_what_is_stored_stays_valid_it_is_the_digest_of_the_content_as_sorted_json(
    content: dict[str, Any],
) -> None:
    present = {key: value for key, value in content.items() if value is not None}
    canonical = json.dumps(present, sort_keys=True, separators=(",", ":"))
    assert fingerprint(content) == hashlib.sha256(canonical.encode()).hexdigest()


def test_the_digest_of_a_content_is_the_same_in_every_version() -> None:
    content = {
        "tool": "query_logs",
        "step": 3,
        "truncated": False,
        "ratio": 0.5,
        "error": None,
        "note": "é\n",
    }
    assert fingerprint(content) == "491678c76c979afda35d867c44b6c48d8778989ee97220f9c3c974efe9dda40d"
