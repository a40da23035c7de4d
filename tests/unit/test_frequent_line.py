"""The line that is written for each call has the form and the safety of all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.log import ALLOWED_KEYS, FrequentLine, configure_logging, get_logger
from common.trace_context import current_trace_id
from tests.support.captured_log import CapturedLog, captured_log

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.text(min_size=300)
KEYS = sorted(ALLOWED_KEYS - {"timestamp", "level", "logger", "event", "trace_id", "worker"})


def without_time(log: CapturedLog, form: str) -> str:
    begin = len("00:00:00.000") if form == "console" else log.text.index("Z")
    return log.text[begin:]


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("worker", [None, 3])
@pytest.mark.parametrize("trace_id", [None, "4bf92f3577b34da6a3ce929d0e0e4736"])
@given(values=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
def test_it_reads_like_a_line_of_a_logger(
    form: str, worker: int | None, trace_id: str | None, values: dict[str, object]
) -> None:
    written = []
    token = current_trace_id.set(trace_id)
    try:
        same = {"service": 'a "service"'} if "service" not in values else {}
        for write in (
            lambda: FrequentLine("server", "call", **same).write(**values),
            lambda: get_logger("server").info("call", **same, **values),
        ):
            with captured_log(form=form) as log:
                configure_logging("INFO", form, log.stream, worker=worker)
                write()
            written.append(without_time(log, form))
    finally:
        current_trace_id.reset(token)
    assert written[0] == written[1]


def test_a_key_that_is_not_on_the_list_is_dropped() -> None:
    with captured_log() as log:
        FrequentLine("server", "call").write(code="OK", query="a secret")
    assert set(log.lines[0]) == {"timestamp", "level", "logger", "event", "code"}


def test_it_is_not_written_below_the_level() -> None:
    with captured_log(level="WARNING") as log:
        FrequentLine("server", "call").write(code="OK")
    assert log.text == ""
