"""Structured logging with a closed list of keys: what is not on the list is dropped, whoever logs it.

A log line says what happened (a constant event) and where; it never repeats what a caller sent, nor the text
of an error from below. Values of the allowed keys are numbers, codes of our grammars and names from our own
code; they are still cut in length and freed of control characters, because a terminal obeys those.
"""

import datetime as dt
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from common.json_value import json_value, quoted
from common.trace_context import current_trace_id

_FIRST_KEYS = ("timestamp", "level", "logger", "event")

ALLOWED_KEYS = frozenset(
    {
        *_FIRST_KEYS,
        # calls
        *("service", "method", "code", "reason", "field", "rule", "duration_ms", "reference", "caller"),
        "trace_id",
        # runs and events: identifiers and numbers of the contract's grammar
        *("run_id", "status", "seq", "last_seq", "oldest_seq", "error_code"),
        # amounts
        *("count", "rows", "size", "subscribers", "attempt", "seconds", "lost"),
        # errors: types, places in our code and numbers, never texts
        *("error_type", "cause_types", "frames", "errno"),
        # processes and settings
        *("address", "port", "pid", "version", "signal", "setting", "settings", "state", "engine", "step"),
        "worker",
    }
)

MAX_TEXT = 200
_MAX_ITEMS = 50


@dataclass(slots=True)
class _Output:
    """Where and how lines are written. Warnings are readable on stderr even before the set-up."""

    level: int
    as_json: bool
    stream: TextIO | None  # None: whatever sys.stderr is at that moment
    worker: int | None = None  # the number of this process, if it is one of several


_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50, "exception": 40, "warn": 30}
_output = _Output(_LEVELS["warning"], as_json=False, stream=None)


def configure_logging(
    level: str, form: str, stream: TextIO | None = None, *, worker: int | None = None
) -> None:
    """Set level (LOG_LEVEL) and form (LOG_FORMAT) of every logger, those made before too.

    A `worker` puts its number into each line.
    """
    _output.level = _LEVELS[level.lower()]
    _output.as_json = form == "json"
    _output.stream = stream
    _output.worker = worker


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines carry `logger=name`. Call it as `log.info("run reaped", run_id=…)`."""
    logger = structlog.wrap_logger(
        _sink,
        processors=[
            _drop_below_level,
            structlog.processors.add_log_level,
            _add_time,
            _add_place,
            _keep_allowed,
            _render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
    )
    # bind() makes the logger once; unbound it would be made anew for each line.
    return cast(FilteringBoundLogger, logger.bind(logger=name))


class FrequentLine:
    """A line of level info that is written often, such as one for each call.

    It has the form of all others. What is the same in each is rendered once, and nothing is built that is
    thrown away at once: beside the rest of a call, the way through structlog costs as much as a tenth of it.
    """

    def __init__(self, logger: str, event: str, **same: str) -> None:
        """Text in `same` stands in every line."""
        place = f', "level": "info", "logger": {quoted(logger)}, "event": {quoted(event)}'
        self._json = place + _json_items(same)
        self._text = f" {'info':<8} {logger}: {event}{_text_items(same)}"

    def write(self, **values: Any) -> None:
        """Write it with these values of allowed keys."""
        if _output.level > _LEVELS["info"]:
            return
        time = dt.datetime.now(dt.UTC).isoformat()[: -len("+00:00")]
        _add_place(None, "info", values)
        if _output.as_json:
            _sink.write(f'{{"timestamp": "{time}Z"{self._json}{_json_items(values)}}}\n')
        else:
            _sink.write(f"{time[11:23]}{self._text}{_text_items(values)}\n")


def _json_items(values: Mapping[str, Any]) -> str:
    return "".join(
        [
            f', "{key}": {json_value(safe_value(value))}'
            for key, value in values.items()
            if key in ALLOWED_KEYS
        ]
    )


def _text_items(values: Mapping[str, Any]) -> str:
    return "".join(
        [
            f" {key}={_plain(safe_value(value))}"
            for key, value in values.items()
            if key in ALLOWED_KEYS and value != ""
        ]
    )


class _Sink:
    """The end of the pipeline: writes one line."""

    def write(self, line: str) -> None:
        stream = _output.stream or sys.stderr
        try:
            stream.write(line)
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads the log any more (a closed pipe). A call must not fail for that.
            return

    debug = info = warning = warn = error = critical = exception = msg = write


_sink = _Sink()


def _drop_below_level(_: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
    if _LEVELS[method] < _output.level:
        raise structlog.DropEvent
    return event_dict


_add_time = structlog.processors.TimeStamper(fmt="iso", utc=True)


def _add_place(_: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
    """Every line of a call names the trace that its caller named, and every line of a worker its number."""
    trace_id = current_trace_id.get()
    if trace_id is not None:
        event_dict["trace_id"] = trace_id
    if _output.worker is not None:
        event_dict["worker"] = _output.worker
    return event_dict


def _keep_allowed(_: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
    kept = {key: event_dict.pop(key) for key in _FIRST_KEYS if key in event_dict}
    kept |= {key: value for key, value in event_dict.items() if key in ALLOWED_KEYS}
    return {key: safe_value(value) for key, value in kept.items()}


def safe_value(value: Any) -> Any:
    """Numbers and short printable text as they are; of anything else at most the name of its type."""
    if isinstance(value, str):
        return _safe_text(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [safe_value(item) for item in value[:_MAX_ITEMS]]
    if isinstance(value, Mapping):
        return {_safe_text(str(key)): safe_value(item) for key, item in list(value.items())[:_MAX_ITEMS]}
    return f"<{type(value).__name__}>"


def _safe_text(text: str) -> str:
    if len(text) > MAX_TEXT:
        text = text[: MAX_TEXT - 3] + "..."
    # str() also turns a subclass, whose methods may be anything, into plain text.
    return str(text) if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _render(_: WrappedLogger, __: str, event_dict: EventDict) -> str:
    if _output.as_json:
        return json.dumps(event_dict) + "\n"
    rest = " ".join(
        f"{key}={_plain(value)}"
        for key, value in event_dict.items()
        if key not in _FIRST_KEYS and value != ""
    )
    time = str(event_dict["timestamp"])[11:23]
    who = event_dict.get("logger", "")
    return f"{time} {event_dict['level']:<8} {who}: {event_dict['event']} {rest}".rstrip() + "\n"


def _plain(value: Any) -> str:
    """Text with a space is quoted, so that a line can be taken apart again."""
    if isinstance(value, str) and value and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False)
