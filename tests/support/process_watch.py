"""What a process holds, as the system and its own metrics say: memory, threads, open files, tasks, pools."""

import asyncio
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

_PAGE = 4096


@dataclass(frozen=True)
class ProcessWatch:
    """`metrics` is the address of its METRICS_LISTEN; empty where it serves none."""

    pid: int
    metrics: str = ""

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    @property
    def files(self) -> int:
        """Open files, sockets among them."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    async def gauges(self, *names: str) -> dict[str, float]:
        """Its gauges of these names, each summed up over its labels; the prefix is left out."""
        page = await asyncio.to_thread(self._page)
        found = dict.fromkeys(names, 0.0)
        for family in text_string_to_metric_families(page):
            name = family.name.removeprefix("superbizagent_")
            if name in found:
                found[name] = sum(sample.value for sample in family.samples)
        return found

    def _page(self) -> str:
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as reply:
            return str(reply.read().decode())


def slope(values: Sequence[float], step: float) -> float:
    """How much a value grows with each one of what there are `step` of between two values: least squares."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    above = sum((at - middle) * (value - mean) for at, value in enumerate(values))
    return above / sum((at - middle) ** 2 for at in range(count)) / step


def metrics_address(lines: Sequence[dict[str, str]]) -> str:
    """Where a process serves its metrics, by its log."""
    return next(line["address"] for line in lines if line["event"] == "serving metrics")


def redis_clients(listed: str) -> int:
    """How many connections CLIENT LIST names, the one that asked left out."""
    return len(re.findall(r"^id=", listed, re.MULTILINE)) - 1
