"""A browser: it reads server-sent events over a real connection, and can drop it at any time."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class Page:
    """An open response. `received` is what it brought so far."""

    response: httpx.Response
    _lines: AsyncIterator[str]
    received: list["Received"] = field(default_factory=list)

    async def read(self, event: str = "", *, seq: int = 0) -> "Received":
        """Read on until this event, or the run event with this seq, arrived."""
        async for one in self._events():
            if one.event == event or (seq and one.seq == seq):
                return one
        raise AssertionError(f"the response ended before {event or seq}: {self.received}")

    async def read_all(self) -> "Page":
        """Read on to the end of the response."""
        async for _ in self._events():
            pass
        return self

    @property
    def seqs(self) -> list[int]:
        """The run events, by their ids."""
        return [one.seq for one in self.received if one.event == "run"]

    @property
    def run_id(self) -> str:
        """The exact run, as the first event names it."""
        assert self.received[0].event == "metadata", self.received
        return str(self.received[0].data["runId"])

    async def _events(self) -> AsyncIterator["Received"]:
        fields: dict[str, str] = {}
        async for line in self._lines:
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
            elif fields.get("event"):
                self.received.append(_received(fields))
                fields = {}
                yield self.received[-1]


@dataclass(frozen=True)
class Received:
    """One server-sent event; `seq` is its id, 0 without one."""

    event: str
    data: dict[str, Any]
    seq: int


def _received(fields: dict[str, str]) -> Received:
    return Received(fields["event"], json.loads(fields["data"]), int(fields.get("id", "0")))


@dataclass(frozen=True)
class Browser:
    """Talks to one gateway."""

    http: httpx.AsyncClient
    session_id: str = "sess-web"

    @contextlib.asynccontextmanager
    async def ask(self, message: str = "Why is the payment refused?", **more: Any) -> AsyncIterator[Page]:
        """POST /api/chat; leaving the block closes the connection."""
        body = {"sessionId": self.session_id, "message": message} | more
        async with self.http.stream("POST", "/api/chat", json=body) as response:
            yield Page(response, response.aiter_lines())

    @contextlib.asynccontextmanager
    async def come_back(self, run_id: str, last_event_id: int) -> AsyncIterator[Page]:
        """What a browser does by itself when its connection was lost."""
        headers = {"Last-Event-ID": str(last_event_id)}
        address, query = f"/api/chat/{run_id}/events", {"sessionId": self.session_id}
        async with self.http.stream("GET", address, params=query, headers=headers) as response:
            yield Page(response, response.aiter_lines())

    async def trace(self, **query: str) -> httpx.Response:
        """The page of a run, or of the latest one."""
        return await self.http.get(f"/api/diagnosis/{self.session_id}/trace", params=query)

    async def feedback(self, **body: str) -> httpx.Response:
        """What the user thinks of a run."""
        return await self.http.post(f"/api/diagnosis/{self.session_id}/feedback", json=body)
