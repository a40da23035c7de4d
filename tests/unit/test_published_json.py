"""The rules of published_result_json: what is accepted comes back equal in value, all else is refused."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from superbizagent_contract import JsonRuleError, limits, parse_published_json

MIB = 1024 * 1024


def nested(levels: int, *, opening: str = '{"a":', closing: str = "}") -> str:
    """A document of so many levels; the outer object is the first."""
    return '{"a":' + opening * (levels - 2) + "{}" + closing * (levels - 2) + "}"


REFUSED = {
    "null": "null",
    "array": "[]",
    "string": '"x"',
    "number": "1",
    "true": "true",
    "nothing": "",
    "spaces": "  ",
    "half an object": "{",
    "two objects": "{}{}",
    "trailing comma": '{"a":1,}',
    "comment": "{}/**/",
    "single quotes": "{'a':1}",
    "byte order mark": "\ufeff{}",
    "no-break space": "\u00a0{}",
    "NaN": '{"a":NaN}',
    "Infinity": '{"a":Infinity}',
    "-Infinity": '{"a":-Infinity}',
    "deep NaN": '{"a":[{"b":NaN}]}',
    "1E400": '{"a":1E400}',
    "-1E400": '{"a":-1E400}',
    "1e-400": '{"a":1e-400}',
    "huge exponent": '{"a":1e999999999999999999999}',
    "tiny exponent": '{"a":1e-999999999999999999999}',
    "more digits than a double": '{"a":0.12345678901234567890}',
    "a third": '{"a":0.333333333333333333333333333}',
    "an integer as a float beyond 2^53": '{"a":9007199254740993.0}',
    "2^64": '{"a":18446744073709551616}',
    "below -2^63": '{"a":-9223372036854775809}',
    "5,000 digits": '{"a":' + "9" * 5000 + "}",
    "U+0000": '{"a":"\\u0000"}',
    "U+0000 in a key": '{"a\\u0000":1}',
    "U+0000 after a backslash": '{"a":"\\\\\\u0000"}',
    "raw U+0000": '{"a":"\0"}',
    "raw control character": '{"a":"\x01"}',
    "high surrogate": '{"a":"\\ud800"}',
    "low surrogate": '{"a":"\\udc00"}',
    "surrogates in the wrong order": '{"a":"\\udc00\\ud800"}',
    "surrogate in a key": '{"\\ud800":1}',
    "raw surrogate": '{"a":"\ud800"}',
    "duplicate key": '{"a":1,"a":1}',
    "duplicate key below": '{"x":[{"a":1,"a":2}]}',
    "duplicate key by an escape": '{"a":1,"\\u0061":2}',
    "31 levels": nested(31),
    "31 levels of arrays": nested(31, opening="[", closing="]"),
    "10,000 levels": nested(10_000),
    "100,000 arrays": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "100,000 arrays, never closed": '{"a":' + "[" * 100_000,
    "plus sign": '{"a":+1}',
    "leading zero": '{"a":01}',
    "hex": '{"a":0x10}',
    "bare point": '{"a":.5}',
    "Arabic digits": '{"a":\u0661}',
    "above 1 MiB as sent": '{"a":"' + "x" * (MIB - 7) + '"}',
    "above 1 MiB of spaces": "{" + " " * MIB + "}",
    "above 1 MiB rewritten": "{" + ",".join(f'"{n}":{n}' for n in range(70_000)) + "}",
}

ACCEPTED = {
    "empty": "{}",
    "spaces around": " \n\t{} ",
    "text": '{"a":"x"}',
    "emoji by escapes": '{"a":"\\ud83d\\ude00"}',
    "last code point": '{"a":"\U0010ffff"}',
    "family": '{"a":"👩‍👩‍👧‍👦"}',
    "CJK": '{"诊断":"审计写入被拒绝"}',
    "escapes": '{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t"}',
    "a backslash and u0000": '{"a":"\\\\u0000"}',
    "a backslash and ud800": '{"a":"\\\\ud800"}',
    "null inside": '{"a":null,"b":[],"c":{},"d":""}',
    "2^64-1": '{"a":18446744073709551615}',
    "-2^63": '{"a":-9223372036854775808}',
    "above 2^53": '{"a":9007199254740993}',
    "1.10": '{"a":1.10}',
    "0.1": '{"a":0.1}',
    "1e3": '{"a":1e3}',
    "1E+22": '{"a":1E+22}',
    "the largest double": '{"a":1.7976931348623157e308}',
    "the smallest double": '{"a":5e-324}',
    "minus zero": '{"a":-0}',
    "minus zero point": '{"a":-0.0}',
    "30 levels": nested(30),
    "30 levels of arrays": nested(30, opening="[", closing="]"),
    "the same key on two levels": '{"a":{"a":1},"b":{"a":1}}',
    "keys that differ in case": '{"a":1,"A":2}',
    "empty key": '{"":1}',
    "exactly 1 MiB": '{"a": "' + "x" * (MIB - 9) + '"}',
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(JsonRuleError) as caught:
        parse_published_json(text)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert caught.value.rule.isascii()


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted_and_equal_in_value(text: str) -> None:
    assert exact(parse_published_json(text).text) == exact(text)


def exact(text: str) -> Any:
    """The value of a document with every number in full; -0 is 0."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


@pytest.mark.parametrize("digits", [10, 1000, 100_000, 1_000_000])
def test_a_number_of_many_digits_costs_no_time(digits: int) -> None:
    for literal in ("9" * digits, "1." + "3" * digits, "0." + "0" * digits + "1", "1" + "0" * digits + ".0"):
        text = f'{{"a":{literal}}}'
        if len(text) <= limits.MAX_PUBLISHED_RESULT_BYTES and digits > 1000:
            with pytest.raises(JsonRuleError):
                parse_published_json(text)


EQUAL = [
    ('{"a":1}', '{"a":1.0}'),
    ('{"a":1}', '{"a":1e0}'),
    ('{"a":0}', '{"a":-0.0}'),
    ('{"a":1000}', '{"a":1e3}'),
    ('{"a":1.1}', '{"a":1.10}'),
    ('{"a":1,"b":2}', '{ "b" : 2 , "a" : 1 }'),
    ('{"a":{"x":1,"y":[1,2]}}', '{"a":{"y":[1.0,2],"x":1}}'),
    ('{"a":"é"}', '{"a":"\\u00e9"}'),
    ('{"a":"/"}', '{"a":"\\/"}'),
    ('{"a":18446744073709550000}', '{"a":1.844674407370955e19}'),
]

DIFFERENT = [
    ('{"a":1}', '{"a":"1"}'),
    ('{"a":1}', '{"a":true}'),
    ('{"a":0}', '{"a":false}'),
    ('{"a":0}', '{"a":null}'),
    ("{}", '{"a":null}'),
    ('{"a":[1,2]}', '{"a":[2,1]}'),
    ('{"a":""}', '{"a":null}'),
    ('{"a":9007199254740992}', '{"a":9007199254740993}'),
    ('{"a":18446744073709549568}', '{"a":1.844674407370955e19}'),
    ('{"a":"é"}', '{"a":"e\u0301"}'),
    ('{"a":1}', '{"A":1}'),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_documents_of_equal_value_have_one_canonical_form(one: str, other: str) -> None:
    assert parse_published_json(one).canonical == parse_published_json(other).canonical


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_documents_of_other_value_have_another_canonical_form(one: str, other: str) -> None:
    assert parse_published_json(one).canonical != parse_published_json(other).canonical


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4
        )
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), VALUES)


@given(OBJECTS, st.booleans())
def test_every_document_of_plain_values_is_accepted_and_comes_back(
    document: dict[str, Any], ascii_only: bool
) -> None:
    sent = json.dumps(document, ensure_ascii=ascii_only)
    accepted = parse_published_json(sent)
    assert json.loads(accepted.text) == document
    assert exact(accepted.text) == exact(accepted.canonical) == exact(sent)
    assert parse_published_json(accepted.text).canonical == accepted.canonical


@given(st.text('{}[]",:0123456789.eE+-\\u Dd8ntrfalsNI\0\ud800'))
@example('{"a":1e5}')
@example('{"a":123456789.5e-3}')
def test_whatever_is_accepted_comes_back_equal_in_value(text: str) -> None:
    _accepted_only_if_equal(text)


@given(
    OBJECTS, st.text('{}[]",:\\u0dE+-1eN \0\ud800\ufeff', max_size=6), st.integers(0, 200), st.integers(0, 3)
)
def test_a_document_after_an_accident_is_refused_or_comes_back_equal(
    document: dict[str, Any], piece: str, place: int, lost: int
) -> None:
    text = json.dumps(document)
    _accepted_only_if_equal(text[:place] + piece + text[place + lost :])


@settings(max_examples=200)
@given(st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,4})?", fullmatch=True))
def test_a_number_is_accepted_if_and_only_if_it_comes_back(literal: str) -> None:
    if not _accepted_only_if_equal(f'{{"a":{literal}}}'):
        integer = literal.lstrip("-").isdigit()
        value = Decimal(literal)
        fits = -(2**63) <= value < 2**64 if integer else value == Decimal(repr(float(literal)))
        assert not fits or math.isinf(float(literal))


def _accepted_only_if_equal(text: str) -> bool:
    try:
        accepted = parse_published_json(text)
    except JsonRuleError:
        return False
    assert exact(accepted.text) == exact(text)
    assert isinstance(exact(accepted.text), dict)
    return True
