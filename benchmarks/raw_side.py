"""The other side of a comparison with raw statements: what the process of `benchmarks.raw` reached."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.cores import CORES, on_cores
from benchmarks.servers import ROOT


class RawSide:
    """Rates, a sample a turn."""

    def __init__(self, process: "subprocess.Popen[str]", order: dict[str, Any]) -> None:
        self._process = process
        self._order = order
        self.rates: list[float] = []
        self.cpu: list[float] = []
        self.done = 0

    def turn(self, seconds: float) -> None:
        """One turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(self._order | {"seconds": seconds}) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        rows = self._order.get("rows", 1)
        self.rates.append(found["rate"] * rows)
        self.cpu.append(found["cpu"] / rows * 1e6)
        self.done += found["done"] * rows


@contextlib.contextmanager
def raw_side(url: str, **order: Any) -> Iterator[RawSide]:
    """On the core where the service runs."""
    with on_cores(CORES.server):
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.raw", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    try:
        yield RawSide(process, order)
    finally:
        process.communicate()
