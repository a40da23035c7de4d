"""The terminal, or whatever stands in its place: a pipe gets plain lines of the same text.

Nothing that is printed here can control the terminal, wherever its text came from.
"""

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from cli.words import safe

WIDTH = 100
"""The views are made to fit this width. A pipe has no width of its own and gets it too."""


class _SafeConsole(Console):
    """Colours are put around the text of a segment afterwards: no text needs control characters itself."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment("\n".join(map(safe, text.split("\n"))), style)


def new_console(file: IO[str] | None = None) -> Console:
    """A console on stdout, or on `file`: colours on a terminal only, no guessing of markup or numbers."""
    console = _SafeConsole(file=file, highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.width > WIDTH:
        console.width = WIDTH
    return console


def print_line(console: Console, line: Text | str) -> None:
    """Print one line as one line, however long it is: a pipe's reader counts on that."""
    console.print(line, soft_wrap=True)


def plain_table(*headings: str, right: frozenset[str] = frozenset()) -> Table:
    """A table without frames. Its columns named in `right` hold numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    return table


STYLES = {
    "SUCCESS": "green",
    "READY": "green",
    "FALLBACK": "yellow",
    "CANCELLED": "yellow",
    "PENDING": "cyan",
    "RUNNING": "cyan",
    "FAILED": "red",
}


def style_of(status: str) -> str:
    """The colour of a status; an unknown one has none."""
    return STYLES.get(status, "")
