"""Single values as JSON: what the library writes."""

import json

from hypothesis import given
from hypothesis import strategies as st

from common.json_value import json_value, quoted

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(SCALARS)
def test_a_scalar_is_what_the_library_writes(value: object) -> None:
    assert json_value(value) == json.dumps(value)


@given(st.lists(SCALARS) | st.dictionaries(st.text(), SCALARS))
def test_items_have_no_spaces_and_sorted_keys(value: object) -> None:
    assert json_value(value) == json.dumps(value, separators=(",", ":"), sort_keys=True)


@given(st.text())
def test_quoted_text_is_what_the_library_writes(text: str) -> None:
    assert quoted(text) == json.dumps(text)
