"""How a command ends when it cannot do its work."""

from typing import Final

DONE: Final = 0
NOT_THERE: Final = 1
"""Not found, not reachable, or a check found something."""
USAGE: Final = 2
"""Wrong arguments or settings."""
INTERRUPTED: Final = 130
"""Ctrl-C, as shells count it."""
READER_GONE: Final = 141
"""Whoever read the output went away, as shells count it."""


class CommandError(Exception):
    """Ends the command. `line` is all that is said, on stderr; it never repeats a refused value."""

    def __init__(self, line: str, exit_code: int = NOT_THERE) -> None:
        super().__init__(line)
        self.line = line
        self.exit_code = exit_code
