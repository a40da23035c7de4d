"""Values as people read them: names without prefixes, times, durations, sizes, bars.

What came from a service passes `safe` before it reaches a terminal, which obeys control characters.
"""

from collections.abc import Callable
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

_BAR_PARTS = " ▏▎▍▌▋▊▉█"
_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def safe(text: str) -> str:
    """The text without anything that a terminal would obey instead of show."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def enum_name(name: Callable[[Any], str], number: int, prefix: str) -> str:
    """The value's name without its prefix; a value of a newer contract is shown by its number."""
    try:
        return name(number).removeprefix(prefix)
    except ValueError:
        return f"#{number}"


def clock(moment: Timestamp) -> str:
    """Time of day in UTC, to the millisecond."""
    return f"{moment.ToDatetime():%H:%M:%S.%f}"[:-3]


def day_and_time(moment: Timestamp) -> str:
    """Day and time in UTC, to the second."""
    return f"{moment.ToDatetime():%Y-%m-%d %H:%M:%S} UTC"


def duration(milliseconds: int) -> str:
    """A duration of any length in at most eight characters."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m" if hours < 100 else f"{hours // 24} d"


def size(count: int) -> str:
    """A number of bytes, in decimal units."""
    for unit, factor in _UNITS:
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def bar(share: float, width: int) -> str:
    """A bar of `width` characters, filled to `share` in eighths; what is not nothing can be seen."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    eighths = max(eighths, 1) if share > 0 else eighths
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_BAR_PARTS[rest] if rest else "")).ljust(width)


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
