"""Leases: how long a run may stay without a word from its executor. Arithmetic on the database's time."""

import datetime as dt

from run_service.records import ManagedRun

_MICROSECOND = dt.timedelta(microseconds=1)


def microseconds(lease: dt.timedelta) -> int:
    """The form in which a run's own lease is stored."""
    return lease // _MICROSECOND


def extended(run: ManagedRun, lease: dt.timedelta | None) -> tuple[int, dt.datetime]:
    """lease_us and lease_expire_at after a word from the executor.

    A lease that is given becomes the run's own; without one the run keeps its own. The time moves to
    max(old, now + lease): it is never shortened, and a lease that ran out but was not reaped yet revives.
    """
    own = run.lease_us if lease is None else microseconds(lease)
    until = run.now + own * _MICROSECOND
    if run.lease_expire_at is not None and run.lease_expire_at > until:
        until = run.lease_expire_at
    return own, until
