"""Reads the log of this process as its JSON lines."""

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

from common.log import configure_logging


class CapturedLog:
    """What was logged so far."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


@contextlib.contextmanager
def captured_log(level: str = "DEBUG", form: str = "json") -> Iterator[CapturedLog]:
    """Capture every logger of the process."""
    log = CapturedLog()
    configure_logging(level, form, log.stream)
    try:
        yield log
    finally:
        configure_logging("WARNING", "console")
