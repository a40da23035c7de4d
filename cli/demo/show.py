"""What the demo puts on the screen: headings, the agent and the events side by side, answer, checks."""

import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from cli.demo.check import Fact
from cli.event_line import event_words
from cli.terminal import print_line, style_of
from cli.words import safe
from superbizagent.run.v1.run_event_pb2 import RunEvent

_LEFT = 48  # the agent's column, where the terminal is wide enough
_RIGHT_NEEDS = 50
_MOST_OF_A_NOTE = 200


class Screen:
    """Prints line by line, so that a pipe gets the same as a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._left = max(min(_LEFT, console.width - _RIGHT_NEEDS), 24)

    def heading(self, text: str, note: str = "") -> None:
        """A new part."""
        print_line(
            self.console, Text(f"\n{text}", style="bold cyan").append(f"  {safe(shorten(note))}", style="dim")
        )

    def line(self, text: str) -> None:
        """Something that happened, wrapped under itself."""
        for part in textwrap.wrap(
            safe(text), self.console.width - 4, break_long_words=False, break_on_hyphens=False
        ):
            print_line(self.console, f"  {part}")

    def open_columns(self) -> None:
        """Above the two columns."""
        left = Text("  the scripted agent, no language model".ljust(self._left), style="bold")
        print_line(self.console, left.append("│ its events, over a second connection", style="bold"))

    def agent(self, text: str) -> None:
        """The agent's column."""
        indent = " " * (2 + len(text) - len(text.lstrip()))
        width = self._left - 1
        for part in textwrap.wrap(
            safe(text.lstrip()), width, initial_indent=indent, subsequent_indent=indent + "  "
        ):
            print_line(self.console, Text(part.ljust(self._left)).append("│", style="dim"))

    def event(self, event: RunEvent) -> None:
        """The events' column."""
        words = event_words(event)
        status = words.status.partition(" ")[0]
        line = Text(" " * self._left).append("│ ", style="dim")
        line.append(f"{words.seq:>2} {words.type:<16} ")
        subject = words.subject.removeprefix("step ")
        line.append(f"{subject} " if subject else "")
        line.append(f"{status} " if words.type != "TOOL_STARTED" else "", style=style_of(status))
        line.append(words.duration, style="dim")
        line.rstrip()
        line.truncate(self.console.width)
        print_line(self.console, line)

    def answer(self, text: str) -> None:
        """The answer, in a frame."""
        body = Text("\n".join(safe(line) for line in text.splitlines()))
        self.console.print(Panel(body, title="answer", title_align="left", border_style="green"))

    def facts(self, facts: Sequence[Fact]) -> None:
        """What was checked."""
        for fact in facts:
            mark = Text("  ok    " if fact.holds else "  FAIL  ", style="green" if fact.holds else "bold red")
            print_line(self.console, mark.append(fact.sentence, style=""))

    def commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Commands to try, each below what it does; they can be copied as they stand."""
        for what, command in commands:
            print_line(self.console, Text(f"  # {what}", style="dim"))
            print_line(self.console, f"  {command}")


def shorten(text: str) -> str:
    """The text, or so much of it that it says what it is about."""
    return text if len(text) <= _MOST_OF_A_NOTE else text[: _MOST_OF_A_NOTE - 1] + "…"


def own_command() -> str:
    """How the reader calls this program, from where they are."""
    script = Path(sys.executable).parent / "superbizagent"
    try:
        return shlex.quote(str(script.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(script))
