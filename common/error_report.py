"""What a log may say about an exception: types, places in our own code and numbers, never its text.

The text of an error from below (a driver, a parser) can hold SQL, parameters, hosts and passwords; the source
lines of a traceback can hold literals. Type and place are enough to find the cause.
"""

import sqlite3
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

_ROOMS = (
    "audit_service",
    "cli",
    "common",
    "run_service",
    "superbizagent_client",
    "superbizagent_contract",
)
_ROOT = Path(__file__).resolve().parent.parent
_MAX_FRAMES = 20
_MAX_CAUSES = 5


def describe_error(error: BaseException) -> dict[str, Any]:
    """Keys for a log line about an error: error_type, frames, and where known cause_types and errno."""
    causes = _causes(error)
    numbers = [number for one in (error, *causes) if (number := _number(one)) is not None]
    frames = own_frames(error.__traceback__)
    if causes:
        # Where it began says more than where it was wrapped.
        frames += own_frames(causes[-1].__traceback__)
    report: dict[str, Any] = {"error_type": _type_name(error), "frames": frames}
    if causes:
        report["cause_types"] = [_type_name(cause) for cause in causes]
    if numbers:
        report["errno"] = numbers[0]
    return report


def own_frames(trace: TracebackType | None) -> list[str]:
    """`file:line` of the frames in our own code, outermost first, paths from the project's root."""
    frames = []
    for frame, line in traceback.walk_tb(trace):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_ROOT) and (inside := path.relative_to(_ROOT)).parts[0] in _ROOMS:
            frames.append(f"{inside.as_posix()}:{line}")
    return frames[-_MAX_FRAMES:]


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    if isinstance(error, BaseExceptionGroup):
        causes.extend(error.exceptions[:_MAX_CAUSES])
    cause = error.__cause__ or error.__context__
    while cause is not None and len(causes) < _MAX_CAUSES:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _number(error: BaseException) -> int | str | None:
    """The number by which the system or the database names the error; those say nothing about values.

    An OSError that somebody makes of two texts has the first one for a number.
    """
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", None)
    number: object = None
    if isinstance(error, OSError):
        number = error.errno
    elif type(error).__module__.startswith("pymysql."):
        number = error.args[0] if error.args else None
    return number if isinstance(number, int) else None
