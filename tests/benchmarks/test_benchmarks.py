"""Every benchmark for a moment: it measures something, counts its rows, and lets no failure pass for work."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import ready_made
from benchmarks.__main__ import NAMES, bench
from benchmarks.driver import MARK, requests
from benchmarks.engines import Sql
from benchmarks.http2 import messages
from benchmarks.pool import DriverError
from benchmarks.servers import Server
from benchmarks.sides import Side, check_count
from benchmarks.stage import Effort, Stage, stage
from benchmarks.table import Row, markdown, plain

pytestmark = pytest.mark.timeout(180)
"""They start dozens of processes, which take long where others start theirs."""

_MOMENT = Effort(seconds=0.2, rounds=1, drivers=2, scale=0.01)
_COUNTED = {"record", "append", "batch", "fan_out", "at_scale", "workers"}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patched, contextlib.ExitStack() as opened:
        patched.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("benchmarks")))
        yield opened.enter_context(stage("sqlite", _MOMENT))


@pytest.fixture(scope="module")
def audits(there: Stage) -> Iterator[tuple[Server, Sql]]:
    with there.service("audit_service") as started:
        yield started


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_measures_and_finds_as_many_rows_as_were_acknowledged(there: Stage, name: str) -> None:
    rows = bench(name)(there)
    if not rows:
        pytest.skip("it needs something that is not here, and said so")
    for row in rows:
        assert len(row.product) == 1
        assert row.product[0] > 0 or "replica" in row.what
        assert row.counted == row.acknowledged
        assert row.acknowledged is None or row.acknowledged > 0
    assert any(row.counted for row in rows) == (name in _COUNTED)


def test_a_reply_that_is_not_ok_is_no_work(there: Stage, audits: tuple[Server, Sql]) -> None:
    empty = Side(there.drivers, audits[0], ready_made.RECORD, [b""], 4)
    with pytest.raises(DriverError, match=r"not OK: .*grpc-status 3"):
        empty.turn(0.1)


def test_a_method_that_is_not_there_is_no_work(there: Stage, audits: tuple[Server, Sql]) -> None:
    unknown = Side(there.drivers, audits[0], ready_made.APPEND, [b""], 1)
    with pytest.raises(DriverError, match="grpc-status 12"):
        unknown.turn(0.1)


def test_rows_that_are_missing_or_too_many_end_the_measurement(
    there: Stage, audits: tuple[Server, Sql]
) -> None:
    server, sql = audits
    side = Side(there.drivers, server, ready_made.RECORD, ready_made.records(), 4)
    side.turn(0.1)
    assert check_count(sql, "tool_invocation", side.acknowledged) == side.acknowledged
    for wrong in (-1, 1):
        with pytest.raises(DriverError, match="were acknowledged"):
            check_count(sql, "tool_invocation", side.acknowledged + wrong)


def test_no_two_requests_are_equal() -> None:
    made = requests([b"a" + MARK, b"b" + MARK + b"-" + MARK], iter(range(10**6)), 1000)
    assert len(set(made)) == len(made) == 1000
    (second,) = messages(bytearray(made[1]))
    assert second == b"b000000000001-000000000002"


def test_the_bar_is_about_the_ratio_of_the_medians() -> None:
    met = Row("this", "calls/s", [1, 60, 1000], [100, 100, 100], "echo", bar=0.55)
    missed = Row("this", "ms", [1, 60, 1000], [100, 100, 100], "echo", bar=0.55, at_least=False)
    assert (met.ratio, met.met, missed.met) == (0.6, "yes", "no")
    assert met.spread == "0.01-10.00"
    for shown in (plain, markdown):
        assert "60 calls/s" in shown([met])
        assert "≥ 0.55" in shown([met])


def test_each_benchmark_is_a_file_that_says_how_it_is_run() -> None:
    for name in NAMES:
        text = (Path(ready_made.__file__).parent / f"{name}.py").read_text("utf-8")
        assert f"python -m benchmarks.{name} " in text
