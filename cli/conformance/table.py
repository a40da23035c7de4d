"""The table that a run of the scenarios prints."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from cli.conformance.runner import Outcome, Result

_STYLES = {Outcome.PASSED: "green", Outcome.BROKEN: "red", Outcome.UNREACHABLE: "yellow"}


def print_result(console: Console, result: Result) -> None:
    """One scenario on one line, and below it what was found, if anything."""
    line = Text(f"{result.outcome:<12}", style=_STYLES[result.outcome])
    line.append(f"{result.seconds:6.2f} s  ", style="dim")
    line.append(f"{result.scenario.area:<12}", style="dim")
    line.append(result.scenario.rule)
    console.print(line, soft_wrap=True)
    if result.finding:
        console.print(Text(f"{'':12}{result.finding}", style=_STYLES[result.outcome]), soft_wrap=True)


def print_sum(console: Console, results: Sequence[Result]) -> None:
    """How many went how."""
    counts = [(one, sum(result.outcome is one for result in results)) for one in Outcome]
    words = [f"{count} {outcome}" for outcome, count in counts if count or outcome is Outcome.PASSED]
    console.print(Text(f"{len(results)} scenarios: {', '.join(words)}"), soft_wrap=True)
