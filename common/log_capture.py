"""Everything that would print by itself goes through our log instead, without its text.

Loggers of libraries, warnings, and exceptions that nobody caught (in the main thread, in other threads, in
tasks and in finalisers) may all repeat values; what is kept is who spoke, and the type and place of an error.
"""

import asyncio
import errno
import logging
import re
import sys
import threading
import warnings
from types import TracebackType
from typing import Any, TextIO

from common.error_report import describe_error, own_frames
from common.log import get_logger

_log = get_logger("process")
_library = get_logger("library")

# Most loggers have the name of a module; nothing keeps a library from naming one after a host or a query.
_MODULE = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)

_PEERS_FAULTS = frozenset({("grpc._cython.cygrpc", UnicodeDecodeError)})
"""What anybody who reaches the address can cause at will, with metadata that is no UTF-8; the call goes on.
As an error it would let strangers fill our log and ring our alarms."""

_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_NO_FILES_SECONDS = 60.0

_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


class LibraryLogHandler(logging.Handler):
    """Takes every record of the standard library's loggers; its message and arguments are dropped."""

    def emit(self, record: logging.LogRecord) -> None:
        method = next((name for level, name in _LEVELS if record.levelno >= level), "debug")
        report: dict[str, Any] = {}
        if record.exc_info and record.exc_info[1] is not None:
            report = describe_error(record.exc_info[1])
            if (record.name, type(record.exc_info[1])) in _PEERS_FAULTS:
                method = "debug"
        name = record.name if _MODULE.fullmatch(record.name) else "unnamed"
        getattr(_library, method)("library log", **{"logger": name, **report})


def capture_process_output() -> None:
    """Install the handler and the hooks of this process; call it once, where the process starts."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLogHandler()]
    # Below a warning a library's line says nothing once its text is gone.
    root.setLevel(logging.WARNING)
    logging.raiseExceptions = False  # it would print the record with its arguments
    warnings.showwarning = _on_warning
    sys.excepthook = _on_exception
    sys.unraisablehook = _on_unraisable
    threading.excepthook = _on_thread_exception


def capture_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log what tasks of this loop raise unseen."""
    loop.set_exception_handler(_LoopErrors())


def _on_warning(
    message: Warning | str,  # noqa: ARG001 - the text is what must not be repeated
    category: type[Warning],
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    _library.warning("python warning", error_type=category.__name__)


def _on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    _log.critical("uncaught exception", **(describe_error(error) | {"frames": own_frames(trace)}))


def _on_unraisable(unraisable: Any) -> None:
    error = unraisable.exc_value
    _log.error("exception in a finaliser", **({} if error is None else describe_error(error)))


def _on_thread_exception(args: Any) -> None:
    error = args.exc_value
    if error is not None and not isinstance(error, SystemExit):
        _log.error("uncaught exception in a thread", **describe_error(error))


class _LoopErrors:
    """The exception handler of a loop."""

    def __init__(self) -> None:
        self._quiet_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _NO_FILES:
            # asyncio tells it a hundred times a second for each listening socket, as long as it lasts.
            if loop.time() >= self._quiet_until:
                self._quiet_until = loop.time() + _NO_FILES_SECONDS
                _log.error("no file descriptor is left", **describe_error(error))
            return
        _log.error("uncaught exception in a task", **({} if error is None else describe_error(error)))
