"""What a caller puts beside its messages: metadata, headers, names of methods and services."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from superbizagent.run.v1 import run_service_pb2 as pb
from tests.leak.caller import Caller, Metadata, all_of
from tests.leak.canaries import ADMITTED, REFUSED, Canary, percent_encoded
from tests.leak.conversation import Conversation
from tests.leak.ledger import Fate
from tests.support import http2
from tests.support.run import create_request

pytestmark = pytest.mark.parametrize("services", ["sqlite"], indirect=True)
"""No database has a part in it."""

SHAPES = [*REFUSED, *ADMITTED]
RUNS = "/superbizagent.run.v1.RunService/"
HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

_FOUND = RUNS + "ListRuns", pb.ListRunsRequest(session_id="s")
_REFUSED = RUNS + "GetRun", pb.GetRunRequest(run_id="bad id")
_UNKNOWN = RUNS + "GetRun", pb.GetRunRequest(run_id="unknown")
_WRITTEN = RUNS + "CreateRun", create_request(session_id="s")


def _new(talk: Conversation, shape: str, place: str) -> Canary:
    return talk.stack.ledger.new(shape, Fate.REFUSED, place)


def _printable(text: str) -> str:
    """As ASCII metadata may be; what cannot stand there is percent-encoded, as clients do."""
    good = text.isascii() and text.isprintable() and text == text.strip()
    return text if good else percent_encoded(text)


async def test_metadata_is_kept_nowhere(talk: Conversation) -> None:
    calls: list[Any] = []
    for shape in SHAPES:
        for path, request in (_FOUND, _REFUSED, _UNKNOWN, _WRITTEN):
            text = _new(talk, shape, "metadata").text
            binary = _new(talk, shape, "binary metadata").text
            key = talk.stack.ledger.bare(shape, Fate.REFUSED, "a metadata key").mark
            values: Metadata = (("x-text", _printable(text)), ("x-text-bin", binary.encode()))
            keys: Metadata = ((key, "1"), (f"{key}-bin", b"1"))
            for metadata in (values, keys):
                whole = (*talk.stack.metadata, *metadata)
                calls.append(talk.runs.unary(path, request.SerializeToString(), metadata=whole))
    await all_of(calls)
    assert await talk.leaks() == []


async def test_of_a_trace_no_more_than_its_id_is_kept(talk: Conversation) -> None:
    calls: list[Any] = []
    for shape in SHAPES:
        for key in ("traceparent", "tracestate", "baggage"):
            text = _printable(_new(talk, shape, f"the header {key}").text)[:4000]
            well_formed = f"cc-{'a1' * 16}-{'b2' * 8}-01-{text}"
            for value in (text, well_formed):
                whole = (*talk.stack.metadata, (key, value))
                calls.append(talk.runs.unary(_REFUSED[0], _REFUSED[1].SerializeToString(), metadata=whole))
    await all_of(calls)
    assert await talk.leaks() == []


async def test_what_a_scraper_asks_is_kept_nowhere(talk: Conversation) -> None:
    host, _, port = talk.stack.metrics.rpartition(":")
    for shape in SHAPES:
        text = percent_encoded(_new(talk, shape, "a request for metrics").text)[:3000]
        for head in (f"GET /metrics?{text} HTTP/1.1", f"GET /{text} HTTP/1.1\r\nx: {text}", f"{text}"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"{head}\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            planted = talk.stack.ledger.bare("word", Fate.PLANTED, "an answer to a scraper")
            shown = answer + planted.mark.encode()
            assert talk.stack.ledger.search("metrics", shown, planted) == []
    assert await talk.leaks() == []


async def test_of_too_much_metadata_no_value_is_told(talk: Conversation) -> None:
    """The core of gRPC then names the keys and how long they are, to the caller who sent them."""
    for count, length in ((1, 14_000), (1, 40_000), (20, 700), (200, 500)):
        texts = [_new(talk, "sql", "too much metadata").text for _ in range(count)]
        metadata = [(f"x-text{number}", text.ljust(length, ".")) for number, text in enumerate(texts)]
        whole = (*talk.stack.metadata, *metadata)
        await talk.runs.unary(_FOUND[0], _FOUND[1].SerializeToString(), metadata=whole)
    assert await talk.leaks() == []


async def test_a_wrong_token_is_kept_nowhere(talk: Conversation) -> None:
    for shape in SHAPES:
        text = _printable(_new(talk, shape, "a token").text)
        for value in (f"Bearer {text}", text, f"Basic {text}"):
            answer = await talk.runs.unary(
                _FOUND[0], _FOUND[1].SerializeToString(), metadata=(("authorization", value),)
            )
            assert answer.code is grpc.StatusCode.UNAUTHENTICATED
    assert await talk.leaks() == []


async def test_who_a_caller_says_that_it_is_is_kept_nowhere(talk: Conversation) -> None:
    for shape in SHAPES:
        text = _printable(_new(talk, shape, "the name of a client and of a server").text)
        options = (
            ("grpc.primary_user_agent", text),
            ("grpc.default_authority", percent_encoded(text)),
            ("grpc.use_local_subchannel_pool", 1),
        )
        async with grpc.aio.insecure_channel(talk.stack.run, options=options) as channel:
            caller = Caller(channel, talk.heard)
            for path, request in (_FOUND, _REFUSED):
                await caller.unary(path, request.SerializeToString(), metadata=talk.stack.metadata)
    assert await talk.leaks() == []


async def test_the_name_of_an_unknown_method_is_kept_nowhere(talk: Conversation) -> None:
    for shape in SHAPES:
        text = percent_encoded(_new(talk, shape, "the name of a method").text)
        for path in (
            f"{RUNS}{text}",
            f"/{text}/GetRun",
            f"/{text}",
            f"{RUNS}GetRun/{text}",
        ):
            answer = await talk.runs.unary(path, b"", metadata=talk.stack.metadata)
            assert answer.code is grpc.StatusCode.UNIMPLEMENTED
    assert await talk.leaks() == []


async def test_what_health_and_reflection_are_asked_is_kept_nowhere(talk: Conversation) -> None:
    for shape in SHAPES:
        text = _new(talk, shape, "the name of a service").text
        request = health_pb2.HealthCheckRequest(service=text).SerializeToString()
        assert (await talk.runs.unary(HEALTH + "Check", request, "health")).code is grpc.StatusCode.NOT_FOUND
        await talk.runs.stream(HEALTH + "Watch", request, "health", most=1)
        for asked in (
            reflection_pb2.ServerReflectionRequest(file_by_filename=text),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=text),
            reflection_pb2.ServerReflectionRequest(all_extension_numbers_of_type=text),
        ):
            answer = await talk.runs.stream(
                REFLECTION, asked.SerializeToString(), "echoed", metadata=talk.stack.metadata, most=1
            )
            for reply in answer.replies:
                # The protocol wants the request in the answer to whoever asked; all else is searched.
                said = reflection_pb2.ServerReflectionResponse.FromString(reply)
                said.ClearField("original_request")
                talk.heard.note("health", said.SerializeToString())
    del talk.heard.sinks["echoed"]
    assert await talk.leaks() == []


async def test_headers_that_no_client_sends_are_kept_nowhere(talk: Conversation) -> None:
    token = (b"authorization", f"Bearer {talk.stack.token}".encode())
    body = http2.message(_FOUND[1].SerializeToString())
    names = ["path", "authority", "scheme", "method", "content_type", "te", "user_agent"]
    names += ["grpc_encoding", "grpc_accept_encoding", "grpc_timeout", "grpc_message_type", "x_odd"]

    async def one(name: str, shape: str, *, raw: bool) -> None:
        text = _new(talk, shape, f"the header {name}").text
        value = text.encode() if raw else percent_encoded(text).encode()
        if name == "path":
            value = RUNS.encode() + value
        headers = http2.request_headers(_FOUND[0].encode(), token, **{name: value})
        talk.heard.note("trailer", await http2.answer(talk.stack.run, http2.call(headers, body)))

    calls = [one(name, shape, raw=raw) for name in names for shape in SHAPES for raw in (False, True)]
    await all_of(calls, at_once=8)
    assert await talk.leaks() == []
