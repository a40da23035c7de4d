"""The log: a closed list of keys, safe values, two formats."""

import io
import json
import logging
import sys
from pathlib import Path

import pytest

from common.log import ALLOWED_KEYS, MAX_TEXT, configure_logging, get_logger
from tests.support.captured_log import captured_log

SECRET = "password=hunter2"


def test_a_key_that_is_not_on_the_list_is_dropped() -> None:
    with captured_log() as log:
        get_logger("here").info("said", run_id="run-1", query=SECRET, password=SECRET, exc_info=SECRET)
        get_logger("here").bind(answer=SECRET).warning("said", seq=3)
    first, second = log.lines
    assert {key: first[key] for key in ("level", "logger", "event", "run_id")} == {
        "level": "info",
        "logger": "here",
        "event": "said",
        "run_id": "run-1",
    }
    assert set(first) == {"timestamp", "level", "logger", "event", "run_id"}
    assert set(second) == {"timestamp", "level", "logger", "event", "seq"}


def test_no_allowed_key_names_a_body_or_a_secret() -> None:
    assert ALLOWED_KEYS.isdisjoint(
        {"query", "answer", "published_result_json", "message", "exception", "stack", "sql", "params", "url"}
        | {"password", "token", "authorization", "metadata", "request", "response", "value", "error", "args"}
    )


def test_an_exception_that_is_logged_leaves_no_text() -> None:
    with captured_log() as log:
        try:
            int(SECRET)
        except ValueError:
            get_logger("here").exception("failed")
    assert SECRET not in log.text
    assert log.lines[0]["level"] == "error"


@pytest.mark.parametrize("form", ["json", "console"])
def test_values_cannot_steer_a_terminal_or_start_a_line(form: str) -> None:
    evil = "a\x1b[2J\r\nfake line\x00\u202e\u2028\ud800\x9b"
    with captured_log(form=form) as log:
        get_logger("here\n").info("event\n", run_id=evil, settings={"KEY\n": evil}, frames=[evil])
    assert log.text.count("\n") == 1
    assert log.text.rstrip("\n").isprintable()
    assert log.text.encode()


def test_long_values_are_cut_and_odd_ones_become_their_type() -> None:
    class Custom:
        def __repr__(self) -> str:
            return SECRET

    with captured_log() as log:
        get_logger("here").info(
            "said",
            run_id="x" * 5000,
            count=float("nan"),
            state=Custom(),
            status=Path("/secret"),
            frames=["x"] * 1000,
            settings={"a": b"bytes"},
        )
    (line,) = log.lines
    assert len(line["run_id"]) == MAX_TEXT
    assert line["count"] is None
    assert line["state"] == "<Custom>"
    assert line["status"] == "<PosixPath>"
    assert len(line["frames"]) == 50
    assert line["settings"] == {"a": "<bytes>"}


def test_json_is_one_object_a_line_with_time_in_utc() -> None:
    with captured_log() as log:
        get_logger("a").info("one", duration_ms=1.23456)
        get_logger("b").error("two", seq=2**63)
    assert [json.loads(line)["event"] for line in log.text.splitlines()] == ["one", "two"]
    assert log.lines[0]["timestamp"].endswith("Z")
    assert log.lines[0]["duration_ms"] == 1.235


def test_console_lines_can_be_taken_apart_by_people() -> None:
    with captured_log(form="console") as log:
        get_logger("server").info(
            "call", method="GetRun", rule="must be nice", code="OK", count=0, error_code=None
        )
    assert (
        log.text[12:]
        == ' info     server: call method=GetRun rule="must be nice" code=OK count=0 error_code=null\n'
    )


def test_lines_below_the_level_are_not_written_by_loggers_made_before() -> None:
    log_made_before = get_logger("here")
    with captured_log(level="WARNING") as log:
        log_made_before.info("quiet")
        log_made_before.warning("loud")
    assert [line["event"] for line in log.lines] == ["loud"]


def test_the_log_goes_to_stderr_and_a_closed_one_fails_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    get_logger("here").error("nobody listens")
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    get_logger("here").error("somebody listens", run_id="run-1", query=SECRET)
    assert "somebody listens run_id=run-1" in out.getvalue()
    assert SECRET not in out.getvalue()


def test_configuring_the_log_does_not_touch_the_loggers_of_the_process() -> None:
    before = list(logging.getLogger().handlers)
    configure_logging("WARNING", "console")
    assert logging.getLogger().handlers == before
