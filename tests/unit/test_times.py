"""Times and durations at their edges: years 2000 to 2100, leases of 1 s to 24 h, cut to microseconds."""

import datetime as dt

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from common.grammar import Lease, Moment

MOMENT = TypeAdapter(Moment)
LEASE = TypeAdapter(Lease)

FIRST = 946_684_800  # 2000-01-01
END = 4_133_980_800  # 2101-01-01
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("seconds", "nanos", "expected"),
    [
        (FIRST, 0, "2000-01-01T00:00:00+00:00"),
        (FIRST, 999, "2000-01-01T00:00:00+00:00"),
        (FIRST, 1_000, "2000-01-01T00:00:00.000001+00:00"),
        (END - 1, 999_999_999, "2100-12-31T23:59:59.999999+00:00"),
        (1_700_000_000, 999_999_999, "2023-11-14T22:13:20.999999+00:00"),
    ],
)
def test_a_time_is_cut_and_never_rounded(seconds: int, nanos: int, expected: str) -> None:
    assert MOMENT.validate_python(Timestamp(seconds=seconds, nanos=nanos)).isoformat() == expected


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [
        (0, 0),
        (FIRST - 1, 999_999_999),
        (END, 0),
        (-1, 0),
        (2**63 - 1, 0),
        (-(2**63), 0),
        (1_700_000_000, -1),
        (1_700_000_000, 1_000_000_000),
        (1_700_000_000, 2**31 - 1),
        (1_700_000_000, -(2**31)),
        (FIRST, -1),
    ],
)
def test_a_time_outside_of_the_years_or_with_odd_nanos_is_refused(seconds: int, nanos: int) -> None:
    with pytest.raises(ValidationError):
        MOMENT.validate_python(Timestamp(seconds=seconds, nanos=nanos))


@given(INT64 | st.integers(FIRST - 2, END + 2), INT32 | st.integers(0, 999_999_999))
def test_any_time_is_either_refused_or_its_own_microsecond(seconds: int, nanos: int) -> None:
    try:
        moment = MOMENT.validate_python(Timestamp(seconds=seconds, nanos=nanos))
    except ValidationError:
        assert not (FIRST <= seconds < END and 0 <= nanos < 10**9)
        return
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert since // dt.timedelta(microseconds=1) == seconds * 10**6 + nanos // 1000
    assert 2000 <= moment.year <= 2100


@pytest.mark.parametrize(
    ("seconds", "nanos", "microseconds"),
    [
        (1, 0, 1_000_000),
        (1, 999, 1_000_000),
        (1, 999_999_999, 1_999_999),
        (86_400, 0, 86_400_000_000),
        (86_399, 999_999_999, 86_399_999_999),
    ],
)
def test_a_lease_is_cut_to_microseconds(seconds: int, nanos: int, microseconds: int) -> None:
    lease = LEASE.validate_python(Duration(seconds=seconds, nanos=nanos))
    assert lease == dt.timedelta(microseconds=microseconds)


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [
        (0, 0),
        (0, 999_999_999),
        (86_400, 1),
        (86_401, 0),
        (-1, 0),
        (2**63 - 1, 999_999_999),
        (-(2**63), 0),
        (2, -1),
        (5, -(2**31)),
        (5, 1_000_000_000),
        (0, 2**31 - 1),
    ],
)
def test_a_lease_below_1_s_above_24_h_or_with_odd_nanos_is_refused(seconds: int, nanos: int) -> None:
    with pytest.raises(ValidationError):
        LEASE.validate_python(Duration(seconds=seconds, nanos=nanos))


@given(INT64 | st.integers(-1, 86_402), INT32)
def test_any_lease_is_either_refused_or_within_its_bounds(seconds: int, nanos: int) -> None:
    try:
        lease = LEASE.validate_python(Duration(seconds=seconds, nanos=nanos))
    except ValidationError:
        return
    assert dt.timedelta(seconds=1) <= lease <= dt.timedelta(hours=24)
