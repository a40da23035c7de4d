"""How a trace looks: head, timeline, tool calls with duration bars, totals."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.event_line import HEADING, event_line
from cli.run_head import head_facts
from cli.terminal import plain_table, print_line, style_of
from cli.words import bar, clock, counted, duration, safe, size
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocation, ToolInvocationGroup
from superbizagent.run.v1.run_event_pb2 import RunEvent
from superbizagent.run.v1.run_pb2 import Run

_BAR_WIDTH = 10
_FACTS_A_LINE = 3
_NAME_WIDTH = 22
_NUMBERS = frozenset({"took", "request", "result", "calls", "failed", "cut", "bytes", "p50", "p95", "max"})


def show_run(console: Console, run: Run, events: Sequence[RunEvent], *, oldest_seq: int = 1) -> None:
    """The head of the run and its timeline; events before `oldest_seq` were purged."""
    print_line(console, Text(f"run {safe(run.run_id)}", style="bold"))
    console.print(_facts(run))
    print_line(console, Text("\nevents", style="bold"))
    if oldest_seq > 1:
        print_line(console, Text(f"  those before seq {oldest_seq} were purged", style="yellow"))
    if not events:
        if not run.last_seq:
            print_line(console, "  none: this run was not created by RunService")
        return
    print_line(console, Text(f"  {HEADING}", style="dim"))
    for event in events:
        print_line(console, Text("  ").append_text(event_line(event)))


def show_tool_calls(
    console: Console,
    invocations: Sequence[ToolInvocation],
    groups: Sequence[ToolInvocationGroup],
    *,
    truncated: bool,
) -> None:
    """The audited tool calls, one a line, and their totals."""
    print_line(console, Text("\ntool calls", style="bold"))
    if not invocations:
        print_line(console, "  none are audited")
        return
    _print_indented(console, _calls(invocations))
    if groups:
        print_line(console, Text("\ntotals", style="bold"))
        _print_indented(console, _totals(groups))
    if truncated:
        print_line(console, "  (of the newest calls only)")


def _facts(run: Run) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    facts = list(head_facts(run))
    for start in range(0, len(facts), _FACTS_A_LINE):
        cells: list[Text] = []
        for name, value in facts[start : start + _FACTS_A_LINE]:
            cells += [Text(f"  {name}", style="dim"), Text(value, style=style_of(value))]
        table.add_row(*cells)
    return table


def _calls(invocations: Sequence[ToolInvocation]) -> Table:
    table = plain_table(
        "time (UTC)", "tool", "status", "evidence / error", "took", "", "request", "result", right=_NUMBERS
    )
    table.columns[3].no_wrap = False  # of two long codes one goes on the next line
    longest = max((row.duration_ms for row in invocations if row.HasField("duration_ms")), default=0)
    for row in invocations:
        table.add_row(
            clock(row.create_time) if row.HasField("create_time") else "",
            _short(row.tool_name),
            Text(_short(row.status), style=style_of(row.status)),
            _evidence_and_error(row),
            duration(row.duration_ms) if row.HasField("duration_ms") else "",
            Text(_share(row, longest), style="cyan"),
            size(row.request_bytes) if row.HasField("request_bytes") else "",
            size(row.agent_result_bytes) + (" cut" if row.is_truncated else "")
            if row.HasField("agent_result_bytes")
            else "",
        )
    return table


def _evidence_and_error(row: ToolInvocation) -> Text:
    evidence = Text(safe(row.evidence_status))
    if row.error_code:
        evidence.append(" " if row.evidence_status else "").append(safe(row.error_code), style="red")
    return evidence


def _share(row: ToolInvocation, longest: int) -> str:
    if not row.HasField("duration_ms"):
        return ""
    return bar(row.duration_ms / longest if longest else 0.0, _BAR_WIDTH)


def _totals(groups: Sequence[ToolInvocationGroup]) -> Table:
    table = plain_table(
        *("tool", "status", "evidence", "calls", "failed", "cut", "bytes", "p50", "p95", "max"),
        right=_NUMBERS,
    )
    for group in groups:
        table.add_row(
            _short(group.tool_name) or "-",
            Text(_short(group.status) or "-", style=style_of(group.status)),
            safe(group.evidence_status) or "-",
            str(group.calls),
            str(group.failures),
            str(group.cut_outputs),
            size(group.total_agent_result_bytes),
            duration(group.p50_duration_ms) if group.HasField("p50_duration_ms") else "-",
            duration(group.p95_duration_ms) if group.HasField("p95_duration_ms") else "-",
            duration(group.max_duration_ms) if group.HasField("max_duration_ms") else "-",
        )
    if len(groups) > 1:
        calls = sum(group.calls for group in groups)
        failures = sum(group.failures for group in groups)
        shown = sum(group.total_agent_result_bytes for group in groups)
        table.caption = f"{counted(calls, 'call')}, {failures} failed, {size(shown)} shown to the agent"
        table.caption_justify = "left"
    return table


def _short(text: str) -> str:
    """Long names are cut, so that the table keeps its width."""
    text = safe(text)
    return text if len(text) <= _NAME_WIDTH else text[: _NAME_WIDTH - 1] + "…"


def _print_indented(console: Console, table: Table) -> None:
    from rich.padding import Padding

    console.print(Padding(table, (0, 0, 0, 2)))
