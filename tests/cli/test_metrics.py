"""METRICS_LISTEN of running services: what is served is what is documented, and it moves as they work."""

import asyncio
import contextlib
import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from superbizagent_client import AuditClient, RunClient, RunEventStream, open_channel, traced
from tests.cli.commands import await_text, run
from tests.cli.conftest import Pair, serving_pair
from tests.docs.markdown import ROOT, rows
from tests.support.redis_server import private_redis
from tests.support.waiting import until

OPERATIONS = ROOT / "docs" / "operations.md"
RUN_SERVICE = "superbizagent.run.v1.RunService"
TRACE = "0af7651916cd43dd8448eb211c80319c"

Page = dict[str, dict[tuple[tuple[str, str], ...], float]]
"""Values by the name of the metric and its labels."""


class Watched:
    """A pair whose metrics can be read."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        (self.address,) = await_text(pair.folder / "err", r'"serving metrics", "address": "([^"]+)"', times=1)

    def text(self) -> str:
        """The page."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as reply:
            assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return str(reply.read().decode())

    def value(self, name: str, **labels: str) -> float:
        """One value; 0 while there is none."""
        return self.page().get(f"superbizagent_{name}", {}).get(tuple(sorted(labels.items())), 0)

    def page(self) -> Page:
        """All values."""
        found: Page = {}
        for family in text_string_to_metric_families(self.text()):
            for one in family.samples:
                found.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
        return found


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with serving_pair(tmp_path / "pair", METRICS_LISTEN="127.0.0.1:0") as pair:
        yield Watched(pair)


async def test_what_is_served_is_what_is_documented(tmp_path: Path) -> None:
    async with private_redis(tmp_path) as redis:
        with serving_pair(tmp_path / "pair", METRICS_LISTEN="127.0.0.1:0", REDIS_URL=redis.url) as pair:
            watched = Watched(pair)
            done = await asyncio.to_thread(run, "conformance", *pair.options, cwd=tmp_path)
            assert done.returncode == 0, done.stdout
            page = await asyncio.to_thread(watched.text)
    served = {
        family.name: (
            family.type,
            {label for one in family.samples for label in one.labels if label != "le"},
        )
        for family in text_string_to_metric_families(page)
        if family.name.startswith("superbizagent_")
    }
    # A label that had no value yet is in no sample: this one has old rows only.
    served["superbizagent_dropped_values"] = ("counter", {"place"})
    documented = {}
    for name, kind, labels, _ in rows(OPERATIONS, "## Metrics"):
        documented[name.strip("`").removesuffix("_total")] = (kind, set(re.findall(r"\w+", labels)))
    assert served == documented


def test_the_alerts_are_rules_over_metrics_that_exist() -> None:
    section = OPERATIONS.read_text().partition("## Metrics")[2].partition("\n## ")[0]
    names = {row[0].strip("`") for row in rows(OPERATIONS, "## Metrics")}
    # Each rule in the few lines that it has: `alert`, `expr` (folded where it is long), `for`, `annotations`.
    rules = re.findall(
        r"- alert: (\w+)\n +expr: (?:>\n)?(.+?)\n(?: +for: \d+m\n)? +annotations: \{summary: \"[^\n]+\"\}",
        section,
        re.DOTALL,
    )
    assert len(rules) == section.count("- alert:") > 5
    for alert, expression in rules:
        used = set(re.findall(r"superbizagent_\w+", expression))
        assert used, alert
        assert {name.removesuffix("_bucket") for name in used} <= names, alert
        assert expression.count("(") == expression.count(")"), alert
        assert expression.count("{") == expression.count("}"), alert


async def test_they_move_as_the_services_work(watched: Watched) -> None:
    async with open_channel(watched.pair.run) as channel:
        runs = RunClient(channel)
        created = await runs.create_run("sess-1", "question")
        await runs.start_run(created.run_id)
        labels = {"service": RUN_SERVICE, "method": "CreateRun"}
        assert await asyncio.to_thread(watched.value, "rpcs_total", code="OK", **labels) == 1
        assert await asyncio.to_thread(watched.value, "rpc_duration_seconds_count", **labels) == 1
        stream = RunEventStream(channel, created.run_id)
        await anext(stream)

        def open_streams() -> float:
            return watched.value("open_streams", service=RUN_SERVICE)

        assert await asyncio.to_thread(open_streams) == 1
        assert await asyncio.to_thread(watched.value, "watched_runs") == 1
        await stream.aclose()
        await until(lambda: open_streams() == 0, 10)
        await runs.cancel_run(created.run_id)
    refused = {"service": RUN_SERVICE, "method": "GetRun", "reason": "RUN_NOT_FOUND"}
    await asyncio.to_thread(run, "watch", "run-1", *watched.pair.options[:2], cwd=watched.pair.folder)
    assert await asyncio.to_thread(watched.value, "rpc_refusals_total", **refused) >= 1


async def test_the_log_lines_of_a_call_name_its_trace(watched: Watched) -> None:
    async with open_channel(watched.pair.run) as runs, open_channel(watched.pair.audit) as audits:
        with traced(f"00-{TRACE}-b7ad6b7169203331-01"):
            await RunClient(runs).create_run("sess-1", "question")
            assert [row async for row in AuditClient(audits).list_by_run("run-1")] == []
        await RunClient(runs).create_run("sess-1", "question")
    log = watched.pair.folder / "err"
    await until(lambda: log.read_text().count('"event": "call"') == 3, 10)
    calls = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "call"]
    assert [line.get("trace_id") for line in calls] == [TRACE, TRACE, None]


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/../etc HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", b"400"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", b"200"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200"),
    ],
)
def test_any_request_gets_one_answer_and_the_end_of_the_connection(
    watched: Watched, request_text: bytes, status: bytes
) -> None:
    host, _, port = watched.address.rpartition(":")
    said = b""
    with socket.create_connection((host, int(port)), 10) as connection:
        # The server may answer and close before it has read all of it.
        with contextlib.suppress(ConnectionError):
            connection.sendall(request_text)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                said += part
    assert said.startswith(b"HTTP/1.1 " + status) or (not said and len(request_text) > 8192)


def test_silent_connections_keep_no_scraper_out_for_long(watched: Watched) -> None:
    host, _, port = watched.address.rpartition(":")
    with contextlib.ExitStack() as held:
        for _ in range(40):
            held.enter_context(socket.create_connection((host, int(port)), 10))

        def scraped() -> bool:
            try:
                return "superbizagent_serving" in watched.text()
            except (urllib.error.URLError, OSError):
                return False

        asyncio.run(until(scraped, 20))


def test_an_address_that_is_taken_is_said_in_one_line(watched: Watched, tmp_path: Path) -> None:
    done = run("serve", cwd=tmp_path, RUN_LISTEN="127.0.0.1:0", AUDIT_LISTEN="127.0.0.1:0",
               METRICS_LISTEN=watched.address)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "superbizagent serve: SUPERBIZ_METRICS_LISTEN must be a free"
    )
