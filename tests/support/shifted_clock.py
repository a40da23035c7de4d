"""A service whose clock jumps: `python -m tests.support.shifted_clock MODULE`.

On SIGUSR1 it reads from the file that SUPERBIZ_TEST_CLOCK names by how many seconds the clock shall be wrong.
Everything in Python sees the wrong time, as after a step of the machine's clock: `time.time` and `datetime`;
the monotonic clock goes on, as it does there.
"""

import datetime
import os
import runpy
import signal
import sys
import time
from datetime import datetime as RealDatetime  # noqa: N812 - a class, which is replaced in its module
from pathlib import Path
from types import FrameType
from typing import Any

FILE_VARIABLE = "SUPERBIZ_TEST_CLOCK"

_real_time, _real_time_ns = time.time, time.time_ns
_wrong_by = 0.0


def _time() -> float:
    return _real_time() + _wrong_by


def _time_ns() -> int:
    return _real_time_ns() + int(_wrong_by * 1e9)


class _LikeReal(type):
    """Times that libraries in C have made are times, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, RealDatetime)


class _Datetime(RealDatetime, metaclass=_LikeReal):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "_Datetime":
        return RealDatetime.now(tz) + datetime.timedelta(seconds=_wrong_by)  # type: ignore[return-value]  # as good

    @classmethod
    def utcnow(cls) -> "_Datetime":
        return cls.now(datetime.UTC).replace(tzinfo=None)


def _jump(_number: int, _frame: FrameType | None) -> None:
    global _wrong_by  # noqa: PLW0603 - there is one clock
    _wrong_by = float(Path(os.environ[FILE_VARIABLE]).read_text("ascii"))


if __name__ == "__main__":
    time.time, time.time_ns = _time, _time_ns
    datetime.datetime = _Datetime  # type: ignore[misc]
    signal.signal(signal.SIGUSR1, _jump)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
