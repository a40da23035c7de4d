"""Puts canaries into every field of every method, and judges what the services did with each."""

import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message

from superbizagent.audit.v1.audit_service_pb2 import BatchRecordToolInvocationsResponse
from superbizagent.run.v1.run_service_pb2 import FinishRunResponse
from tests.leak.caller import Answer, Caller, all_of
from tests.leak.canaries import ADMITTED, REFUSED, Canary
from tests.leak.ledger import Fate, Ledger
from tests.leak.requests import Requests
from tests.leak.stack import Stack
from tests.leak.walk import METHODS, Place, is_read, path_of, places, put, put_unknown

Put = Callable[[Message, str], None]

_UNKNOWN_IN = ("sql", "5 KB", "nul")


@dataclass
class Walk:
    """One walk through both services. `kept` are the runs whose texts hold canaries."""

    stack: Stack
    runs: Caller
    audits: Caller
    requests: Requests
    kept: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Canaries that were not refused although no grammar has them."""

    @property
    def ledger(self) -> Ledger:
        return self.stack.ledger

    async def all_fields(self) -> int:
        """Walk; how many calls it took."""
        await self.requests.begin()
        calls = [call for method in METHODS for place in places(method) for call in self._calls(place)]
        await all_of(calls)
        return len(calls)

    def _calls(self, place: Place) -> Iterator[Coroutine[Any, Any, None]]:
        for shape, put_in in _ways(place):
            yield self._try(place, shape, put_in)
        if place.is_message:
            for shape in _UNKNOWN_IN:
                yield self._try_unknown(place, shape)
        if not place.path:
            for shape in REFUSED:
                yield self._try_bytes(place, shape)

    async def _try(self, place: Place, shape: str, put_in: Put) -> None:
        given = (
            self.ledger.number(place.bits, Fate.REFUSED, place.name)
            if shape == "number"
            else self.ledger.new(shape, Fate.REFUSED, place.name)
        )
        request = await self.requests.for_method(place.method.name, ".".join(place.path))
        put_in(request, given.text)
        answer = await self._send(place, request.SerializeToString())
        self._judge(place, given, answer, request)

    async def _try_unknown(self, place: Place, shape: str) -> None:
        given = self.ledger.bare("unknown field", Fate.REFUSED, place.name)
        request = await self.requests.for_method(place.method.name)
        put_unknown(request, place.path, REFUSED[shape](given.mark).encode())
        answer = await self._send(place, request.SerializeToString())
        refused = _is_refused(place, answer)
        if refused is is_read(place.method):
            self.wrong.append(f"an unknown field of {place.name}: {answer.code}")

    async def _try_bytes(self, place: Place, shape: str) -> None:
        given = self.ledger.bare("raw bytes", Fate.REFUSED, place.name)
        answer = await self._send(place, REFUSED[shape](given.mark).encode())
        if answer.code is grpc.StatusCode.OK:
            self.wrong.append(f"{shape} as the bytes of {place.name}: taken")

    def _judge(self, place: Place, given: Canary, answer: Answer, request: Message) -> None:
        refused = _is_refused(place, answer)
        if refused and answer.code is not grpc.StatusCode.NOT_FOUND:
            return
        if place.is_text and not refused:
            self.ledger.judge(given, Fate.TEXT)
            self._keep(request, answer)
        elif given.shape in ADMITTED:
            self.ledger.judge(given, Fate.ADMITTED)
        else:
            self.wrong.append(f"{given.shape} in {place.name}: {answer.code}")

    def _keep(self, request: Any, answer: Answer) -> None:
        # CreateRunResponse has the run at the same number.
        self.kept.append(FinishRunResponse.FromString(answer.replies[0]).run.run_id)

    async def _send(self, place: Place, request: bytes) -> Answer:
        caller = self.runs if "run.v1" in place.method.full_name else self.audits
        send = caller.stream if place.method.name.startswith("Stream") else caller.unary
        return await send(path_of(place.method), request, metadata=self.stack.metadata)


def _ways(place: Place) -> Iterator[tuple[str, Put]]:
    """The shapes that can be put into a place, each with how."""
    if place.is_string:
        for shape in (*REFUSED, *ADMITTED):
            yield shape, lambda request, text: put(request, place.path, text)
    if place.is_text and place.path[-1].endswith("_json"):
        for shape in REFUSED:
            yield shape, lambda request, text: put(request, place.path, json.dumps({"result": [text]}))
    if place.bits:
        yield "number", lambda request, text: put(request, place.path, int(text))


def _is_refused(place: Place, answer: Answer) -> bool:
    """Items of a batch are refused one by one, inside of a reply."""
    if answer.code is grpc.StatusCode.OK and place.method.name.startswith("Batch"):
        results = BatchRecordToolInvocationsResponse.FromString(answer.replies[0]).results
        return bool(results[-1].error_reason)
    return answer.code is not grpc.StatusCode.OK
