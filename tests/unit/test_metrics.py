"""What is counted, and the page that Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from common.metrics import Metrics
from common.metrics.exposition import Exposition


def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    """The values of our own metrics by name and labels, as a scraper reads them."""
    page = Exposition(metrics).text().decode()
    found = {}
    for family in text_string_to_metric_families(page):
        for one in family.samples:
            if one.name.startswith("superbizagent_"):
                labels = ",".join(f"{name}={value}" for name, value in one.labels.items())
                found[one.name.removeprefix("superbizagent_"), labels] = one.value
    return found


def test_a_counter_that_was_given_no_label_yet_begins_at_nothing_and_grows() -> None:
    metrics = Metrics()
    counter = metrics.counter("things", "Things.", "kind")
    assert samples(metrics) == {}
    counter.add("a")
    counter.add("a", by=2)
    counter.add("b", by=0)
    assert samples(metrics) == {("things_total", "kind=a"): 3, ("things_total", "kind=b"): 0}


def test_a_value_on_a_bound_belongs_below_it_and_buckets_add_up() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("sizes", "Sizes.", bounds=(1, 10))
    for value in (1, 2, 10, 11):
        histogram.observe(value)
    assert samples(metrics) == {
        ("sizes_bucket", "le=1.0"): 1,
        ("sizes_bucket", "le=10.0"): 3,
        ("sizes_bucket", "le=+Inf"): 4,
        ("sizes_count", ""): 4,
        ("sizes_sum", ""): 24,
    }


def test_a_gauge_is_read_when_it_is_asked_for() -> None:
    metrics = Metrics()
    now = [1.0]
    metrics.gauge("level", "Level.", read=lambda: now[0])
    metrics.gauge("by_name", "By name.", "name", read=lambda: {("x",): now[0]})
    now[0] = 7.0
    assert samples(metrics) == {("level", ""): 7, ("by_name", "name=x"): 7}


def test_two_services_of_a_process_stand_side_by_side_under_one_name() -> None:
    metrics = Metrics()
    for service in ("run", "audit"):
        metrics.counter("calls", "Calls.", "service").add(service)
    assert samples(metrics) == {("calls_total", "service=run"): 1, ("calls_total", "service=audit"): 1}
    page = Exposition(metrics).text().decode()
    assert page.count("# TYPE superbizagent_calls_total counter") == 1
