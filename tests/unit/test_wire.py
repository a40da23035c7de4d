"""Messages of millions of items are seen as such before they are decoded; all others are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.server.wire import MOST_FIELDS, crowded_field
from superbizagent.audit.v1.audit_service_pb2 import BatchRecordToolInvocationsRequest
from superbizagent.run.v1.run_service_pb2 import AppendRunEventsRequest


@pytest.mark.parametrize(
    "item", [b"\x12\x00", b"\x12\x01a", b"\x10\x05", b"\x13\x14", b"\x15abcd", b"\x92\x80\x00\x00"]
)
def test_more_fields_than_any_request_has_are_crowded(item: bytes) -> None:
    assert crowded_field(b"\x0a\x01r" + item * (2 * MOST_FIELDS)) == 2


def test_the_largest_requests_are_not() -> None:
    appended = AppendRunEventsRequest(run_id="r" * 64)
    for _ in range(500):
        appended.events.add(event_id="e" * 64, tool_call_id="c" * 64, type="RUN_EVENT_TYPE_TOOL_STARTED")
    batch = BatchRecordToolInvocationsRequest()
    for _ in range(1000):
        batch.invocations.add(session_id="s" * 64, request_bytes=1)
    assert crowded_field(appended.SerializeToString()) is None
    assert crowded_field(batch.SerializeToString()) is None


def test_a_long_text_is_one_field() -> None:
    assert crowded_field(b"\x12\x80\x80\x40" + b"\x12\x00" * 524_288) is None


@given(st.binary(min_size=0, max_size=64), st.integers(1, 200))
def test_any_bytes_are_looked_through_to_an_end(part: bytes, times: int) -> None:
    found = crowded_field(part * times * 40)
    assert found is None or found >= 0
