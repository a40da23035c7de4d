"""What the log says of exceptions and of libraries: types, places and numbers, never texts."""

import asyncio
import errno
import gc
import json
import logging
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pymysql
import pytest

from common.error_report import describe_error
from common.log_capture import LibraryLogHandler, capture_loop_errors
from common.settings import Settings, SettingsError
from tests.support.captured_log import captured_log
from tests.support.waiting import until

SECRET = "password=hunter2"
ROOT = Path(__file__).resolve().parents[2]


def caught_in_our_code() -> Exception:
    with pytest.raises(SettingsError) as caught:
        Settings.from_env({"SUPERBIZ_LOG_LEVEL": "nonsense"})
    return caught.value


def test_an_error_is_described_by_type_and_own_frames() -> None:
    report = describe_error(caught_in_our_code())
    assert report["error_type"] == "common.settings.SettingsError"
    # The frame of this test is not one of our rooms, and no frame holds a source line.
    assert len(report["frames"]) == 1
    name, line = report["frames"][0].split(":")
    assert name == "common/settings.py"
    assert int(line) > 0


def test_an_error_is_described_without_its_text_but_with_its_number() -> None:
    with pytest.raises(sqlite3.IntegrityError) as refused:
        sqlite3.connect(":memory:").executescript("CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1), (1)")
    errors: list[tuple[BaseException, object]] = [
        (OSError(111, SECRET), 111),
        (OSError(SECRET, SECRET), None),
        (pymysql.err.OperationalError(2003, SECRET), 2003),
        (pymysql.err.OperationalError(SECRET), None),
        (KeyError(4711), None),  # the key may be a value
        (refused.value, "SQLITE_CONSTRAINT_UNIQUE"),
    ]
    for error, number in errors:
        report = describe_error(error)
        assert report.get("errno") == number
        assert SECRET not in str(report)
    gc.collect()


def test_the_causes_of_an_error_are_named_by_type() -> None:
    def fail() -> None:
        raise RuntimeError(SECRET) from pymysql.err.OperationalError(1205, SECRET)

    with pytest.raises(RuntimeError) as caught:
        fail()
    report = describe_error(caught.value)
    assert report["cause_types"] == ["pymysql.err.OperationalError"]
    assert report["errno"] == 1205
    assert SECRET not in str(report)


def test_the_errors_of_a_group_are_named_by_type_and_place() -> None:
    group = ExceptionGroup(SECRET, [caught_in_our_code()])
    report = describe_error(group)
    assert report["error_type"] == "ExceptionGroup"
    assert report["cause_types"] == ["common.settings.SettingsError"]
    assert report["frames"][0].startswith("common/settings.py:")


def test_what_libraries_log_keeps_its_logger_and_loses_its_text() -> None:
    library = logging.getLogger("aiomysql.test")
    library.propagate = False
    library.addHandler(LibraryLogHandler())
    with captured_log() as log:
        library.warning("connected to %s", SECRET)
        try:
            int(SECRET)
        except ValueError:
            library.exception("query failed: %s", SECRET, extra={"sql": SECRET})
        library.error("bad arguments %d", SECRET)
    assert SECRET not in log.text
    assert [(line["event"], line["logger"], line["level"]) for line in log.lines] == [
        ("library log", "aiomysql.test", "warning"),
        ("library log", "aiomysql.test", "error"),
        ("library log", "aiomysql.test", "error"),
    ]
    assert log.lines[1]["error_type"] == "ValueError"


def test_a_logger_that_is_not_named_after_a_module_loses_its_name_too() -> None:
    with captured_log() as log:
        for name in (SECRET, "mysql://root:pw@db:3306/x", "grpc._cython.cygrpc"):
            record = logging.LogRecord(name, logging.ERROR, __file__, 1, "said", None, None)
            LibraryLogHandler().emit(record)
    assert [line["logger"] for line in log.lines] == ["unnamed", "unnamed", "grpc._cython.cygrpc"]


def test_what_a_stranger_can_cause_at_will_is_no_error_of_the_log() -> None:
    """grpc logs an exception for each header that is no UTF-8, with or without a token."""
    with captured_log() as log:
        for error in (UnicodeDecodeError("utf-8", b"\xff", 0, 1, SECRET), ValueError(SECRET)):
            info = (type(error), error, None)
            record = logging.LogRecord("grpc._cython.cygrpc", logging.ERROR, __file__, 1, "said", None, info)
            LibraryLogHandler().emit(record)
    assert [line["error_type"] for line in log.lines if line["level"] == "error"] == ["ValueError"]


async def test_a_lack_of_file_descriptors_is_told_once_a_minute() -> None:
    """asyncio reports every connection that it could not accept, a hundred times a second."""
    loop = asyncio.get_running_loop()
    capture_loop_errors(loop)
    try:
        with captured_log() as log:
            for _ in range(100):
                loop.call_exception_handler({"message": SECRET, "exception": OSError(errno.EMFILE, SECRET)})
            loop.call_exception_handler({"message": SECRET, "exception": OSError(errno.EPERM, SECRET)})
    finally:
        loop.set_exception_handler(None)
    told = [(line["event"], line["errno"]) for line in log.lines]
    assert told == [
        ("no file descriptor is left", errno.EMFILE),
        ("uncaught exception in a task", errno.EPERM),
    ]


async def test_an_error_in_a_forgotten_task_is_logged_without_its_text() -> None:
    async def fail() -> None:
        raise ValueError(SECRET)

    loop = asyncio.get_running_loop()
    capture_loop_errors(loop)
    try:
        with captured_log() as log:
            task = asyncio.create_task(fail())
            await until(task.done)
            del task
            gc.collect()
            await until(lambda: log.events("uncaught exception in a task"))
    finally:
        loop.set_exception_handler(None)
    assert log.events("uncaught exception in a task")[0]["error_type"] == "ValueError"
    assert SECRET not in log.text


def test_a_process_prints_nothing_but_its_log() -> None:
    """Warnings, threads, finalisers, library loggers and the last exception: all end as JSON lines."""
    script = textwrap.dedent(
        f"""
        import logging, sys, threading, warnings
        from common.log import configure_logging
        from common.log_capture import capture_process_output
        configure_logging("INFO", "json")
        capture_process_output()

        SECRET = {SECRET!r}

        class Finaliser:
            def __del__(self):
                raise ValueError(SECRET)

        def fail():
            raise ValueError(SECRET)

        warnings.warn(SECRET)
        logging.getLogger("grpc._cython").error("Unexpected %s", SECRET)
        logging.getLogger("sqlalchemy.pool").error("bad %d", SECRET)
        logging.getLogger("chatty").info(SECRET)
        Finaliser()
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        fail()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert SECRET not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["event"], line.get("error_type")) for line in lines] == [
        ("python warning", "UserWarning"),
        ("library log", None),
        ("library log", None),
        ("exception in a finaliser", "ValueError"),
        ("uncaught exception in a thread", "ValueError"),
        ("uncaught exception", "ValueError"),
    ]
