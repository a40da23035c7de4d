"""Which headers name a trace; any other is passed over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.trace_context import trace_id_of
from superbizagent_client import traced
from superbizagent_client.tracing import current_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
GOOD = f"00-{TRACE}-b7ad6b7169203331-01"


def test_the_trace_id_of_a_well_formed_header_is_taken() -> None:
    assert trace_id_of([("user-agent", "x"), ("traceparent", GOOD)]) == TRACE
    assert trace_id_of([("traceparent", f"cc-{TRACE}-b7ad6b7169203331-01-what-comes-later")]) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        GOOD.upper(),
        f"ff-{TRACE}-b7ad6b7169203331-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{GOOD}-more",
        f"{GOOD}\n",
        f" {GOOD}",
        f"01-{TRACE}-b7ad6b7169203331-01-{'x' * 5000}",
        f"00-{TRACE[:-1]}é-b7ad6b7169203331-01",
        GOOD.encode(),
    ],
)
def test_another_header_is_passed_over(header: str | bytes) -> None:
    assert trace_id_of([("traceparent", header)]) is None


def test_two_headers_name_none() -> None:
    assert trace_id_of([("traceparent", GOOD), ("traceparent", GOOD)]) is None


@given(st.one_of(st.text(), st.binary(), st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")))
def test_whatever_comes_out_is_32_hex_digits(header: str | bytes) -> None:
    found = trace_id_of([("traceparent", header)])
    assert found is None or (len(found) == 32 and set(found) <= set("0123456789abcdef"))


@pytest.mark.parametrize(("given_header", "carried"), [(GOOD, GOOD), (None, None), ("password=x", None)])
def test_calls_of_a_block_carry_what_is_well_formed(given_header: str | None, carried: str | None) -> None:
    with traced(given_header):
        assert current_traceparent() == carried
    assert current_traceparent() is None
