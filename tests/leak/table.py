"""The table at the end: sinks x shapes, how many canaries were tried, and in which sinks they turned up."""

from collections.abc import Iterable

from tests.leak.canaries import ADMITTED, BODIES, CREDENTIALS, NUL, OTHER_SHAPES, SEED
from tests.leak.ledger import Fate, Ledger

SINKS = {
    "db": "every row of every table, on each engine; a SQLite file byte for byte",
    "sql": "every statement that MariaDB and MySQL were sent",
    "redis": "every command that Redis was sent, every key",
    "out": "stdout of the services",
    "log": "stderr of the services at DEBUG, console and json",
    "files": "files written beside the database",
    "crash": "stdout and stderr of services that are killed or fail",
    "message": "texts of statuses",
    "details": "details of statuses",
    "trailer": "all other metadata of answers",
    "reply": "replies in all views but the full one",
    "stream": "messages of streams",
    "full": "replies in the full view",
    "health": "health and reflection",
    "metrics": "what METRICS_LISTEN answers",
    "start": "what services and commands say of their settings",
    "cli": "output of trace, watch, migrate and others",
    "demo": "output of the demo",
}
"""In the order of the columns, with what each is."""

_SHAPES = (*CREDENTIALS, *BODIES, *NUL, *ADMITTED, "secret", *OTHER_SHAPES)
_WIDTH = max(len(shape) for shape in _SHAPES)


def table_of(ledger: Ledger) -> str:
    """The whole table, as text of at most 160 columns."""
    searched = [sink for sink in SINKS if ledger.searched[sink]]
    lines = _part(ledger, searched, "refused, ignored, or secret: nowhere", (Fate.REFUSED, Fate.SECRET))
    lines += _part(ledger, searched, "in rows of an older application: only in db", (Fate.LEGACY,))
    lines += _part(ledger, searched, "questions, answers and results: only in db, sql and full", (Fate.TEXT,))
    lines += _part(
        ledger,
        searched,
        "what ids, codes, paths and the demo's question admit: wherever they are",
        (Fate.ADMITTED,),
    )
    lines += _part(ledger, searched, "planted to see that each search finds it", (Fate.PLANTED,))
    lines.append(_row("kB searched", "", (str(ledger.searched[sink] // 1000) for sink in searched)))
    lines += ["", *(f"{sink:<8} {SINKS[sink]}" for sink in searched)]
    missing = [sink for sink in SINKS if sink not in searched]
    if missing:
        lines.append("not searched this time: " + ", ".join(missing))
    lines.append(f"drawn by chance from seed {SEED}")
    return "\n".join(lines)


def _part(ledger: Ledger, sinks: list[str], title: str, fates: tuple[Fate, ...]) -> list[str]:
    lines = [title, _row("shape", "tried", sinks)]
    total = 0
    for shape in _SHAPES:
        tried = sum(ledger.tried[shape, fate] for fate in fates)
        total += tried
        if tried:
            lines.append(_row(shape, str(tried), _cells(ledger, sinks, shape, fates)))
    lines.append(_row("all", str(total), _sums(ledger, sinks, fates)))
    return [*lines, ""]


def _cells(ledger: Ledger, sinks: Iterable[str], shape: str, fates: tuple[Fate, ...]) -> Iterable[str]:
    for sink in sinks:
        yield str(sum(len(ledger.hits[sink][shape, fate]) for fate in fates))


def _sums(ledger: Ledger, sinks: Iterable[str], fates: tuple[Fate, ...]) -> Iterable[str]:
    for sink in sinks:
        yield str(sum(len(marks) for (_, fate), marks in ledger.hits[sink].items() if fate in fates))


def _row(name: str, tried: str, cells: Iterable[str]) -> str:
    return f"{name:<{_WIDTH}} {tried:>6} " + " ".join(f"{cell:>7}" for cell in cells)
