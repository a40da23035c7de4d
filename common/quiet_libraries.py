"""Keeps libraries from writing to the stderr of a command, which says what went wrong in one line of its own.

Services do not need it: common.log_capture takes every library's records into their log.
"""

import logging


def quiet_libraries() -> None:
    """Drop the records of loggers that nobody set up; Python would print their texts."""
    logging.lastResort = logging.NullHandler()
