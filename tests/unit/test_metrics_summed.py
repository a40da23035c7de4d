"""The counts of several workers become one page."""

import json

from common.metrics import Metrics
from common.metrics.snapshot import Snapshot, Summed, snapshot
from tests.unit.test_metrics import samples


def counted(calls: int, level: float) -> Snapshot:
    """What a worker says, as it comes out of its line."""
    metrics = Metrics()
    metrics.counter("calls", "Calls.", "code").add("OK", by=calls)
    histogram = metrics.histogram("sizes", "Sizes.", bounds=(1, 10))
    for value in (1, 10 * calls):
        histogram.observe(value)
    metrics.gauge("open", "Open.", "service", read=lambda: {("run",): level})
    metrics.gauge("lag", "Lag.", read=lambda: level, over_workers="max")
    metrics.gauge("serving", "Serving.", read=lambda: level, over_workers="min")
    told: Snapshot = json.loads(json.dumps(snapshot(metrics)))
    return told


def test_counts_are_summed_and_gauges_are_combined_as_they_say() -> None:
    one, other = counted(1, 3), counted(2, 5)
    assert samples(Summed([one, other]).metrics()) == {
        ("calls_total", "code=OK"): 3,
        ("sizes_bucket", "le=1.0"): 2,
        ("sizes_bucket", "le=10.0"): 3,
        ("sizes_bucket", "le=+Inf"): 4,
        ("sizes_count", ""): 4,
        ("sizes_sum", ""): 32,
        ("open", "service=run"): 8,
        ("lag", ""): 5,
        ("serving", ""): 3,
    }


def test_of_a_worker_that_is_gone_what_was_counted_stays_and_gauges_go() -> None:
    gone = Summed()
    gone.add(counted(1, 3), lasting_only=True)
    gone.add(counted(2, 4), lasting_only=True)
    found = samples(Summed([gone.snapshot(), counted(4, 5)]).metrics())
    assert found["calls_total", "code=OK"] == 7
    assert found["sizes_count", ""] == 6
    assert found["open", "service=run"] == 5


def test_a_sum_changes_nothing_of_what_it_is_made_of() -> None:
    one = counted(1, 3)
    before = json.dumps(one)
    samples(Summed([one, counted(2, 5), one]).metrics())
    assert json.dumps(one) == before


def test_the_sum_of_one_is_what_it_was() -> None:
    one = counted(2, 5)
    assert json.loads(json.dumps(Summed([one]).snapshot())) == one
