"""Any bytes to any method: each call gets a status, and the server is as it was.

What is sent follows from a seed, which a failure shows: SUPERBIZ_TEST_FUZZ_SEED sends the same again, and
SUPERBIZ_TEST_FUZZ_CALLS more of it.
"""

import asyncio
import contextlib
import os
import random
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.run.v1.run_service_pb2 import StreamRunEventsRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
from tests.leak.caller import Caller, Heard, all_of
from tests.leak.canaries import SEED
from tests.leak.hostile_bytes import bent, bent_frames
from tests.leak.ledger import Ledger
from tests.leak.processes import Process, process
from tests.leak.requests import Requests
from tests.leak.walk import METHODS, path_of
from tests.support import http2
from tests.support.audit import record_request
from tests.support.run import append, event, events_of, finish_run, running_run
from tests.support.run_server import serving
from tests.support.stream import Reader
from tests.support.waiting import until

DRAWN = int(os.environ.get("SUPERBIZ_TEST_FUZZ_SEED") or SEED)
CALLS = int(os.environ.get("SUPERBIZ_TEST_FUZZ_CALLS") or 3000)

MAX_STREAMS = 20
HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

OURS = frozenset(path_of(method) for method in METHODS)
_SHAPES = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class Target:
    """Both services in a process, on a SQLite file."""

    def __init__(self, printed: Process) -> None:
        self.printed = printed
        addresses = printed.addresses(2)
        self.run, self.audit = addresses["RunService"], addresses["AuditService"]

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.printed.popen.pid}/fd"))  # noqa: PTH208 - a number is wanted

    def events(self, event: str) -> list[str]:
        return re.findall(f'.*"event": "{event}".*', self.printed.err.decode())


@pytest.fixture(scope="module")
def target(ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("fuzz")
    with process(
        ledger,
        folder / "serve",
        *("cli.main", "serve"),
        DATABASE_URL=f"sqlite+aiosqlite:///{folder}/fuzz.db",
        RUN_LISTEN="127.0.0.1:0",
        AUDIT_LISTEN="127.0.0.1:0",
        LOG_LEVEL="DEBUG",
        LOG_FORMAT="json",
        MAX_STREAMS=str(MAX_STREAMS),
        DRAIN_SECONDS="2",
    ) as printed:
        yield Target(printed)
        printed.popen.terminate()
        assert printed.wait() == 0


@pytest_asyncio.fixture
async def channels(target: Target) -> AsyncIterator[dict[str, grpc.aio.Channel]]:
    """By the first part of a method's path that tells the services apart."""
    options = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
    async with (
        grpc.aio.insecure_channel(target.run, options=options) as runs,
        grpc.aio.insecure_channel(target.audit, options=options) as audits,
    ):
        await serving(runs)
        await serving(audits)
        yield {"run": runs, "audit": audits}


async def _valid(channels: dict[str, grpc.aio.Channel]) -> dict[str, bytes]:
    """A message that passes, for every method of every service that is served."""
    requests = Requests(Caller(channels["run"], Heard()), ())
    await requests.begin()
    found = {
        path_of(method): (await requests.for_method(method.name)).SerializeToString() for method in METHODS
    }
    asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol="superbizagent.run.v1.RunService")
    health = health_pb2.HealthCheckRequest(service="liveness").SerializeToString()
    names = [HEALTH + name for name in ("Check", "List", "Watch")]
    return found | {REFLECTION: asked.SerializeToString()} | dict.fromkeys(names, health)


async def _send(channel: grpc.aio.Channel, shape: str, path: str, messages: Sequence[bytes]) -> Any:
    """Call a method in one of the four ways in which a method can be called; the status."""
    stream_in, stream_out = shape.startswith("stream"), shape.endswith("stream")

    async def sent() -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    method: Any = getattr(channel, shape)(path)
    call = method(sent() if stream_in else messages[0], timeout=5)
    try:
        if stream_out:
            async for _ in call:
                if path == HEALTH + "Watch" or path.endswith("StreamRunEvents"):
                    call.cancel()  # it would go on
        else:
            await call
    except grpc.aio.AioRpcError as error:
        # Said by the client to itself: the call was answered while it still wrote.
        return None if error.details() == "Internal error from Core" else error
    except asyncio.CancelledError:
        return None
    return None


def _is_sound(path: str, shape: str, error: grpc.aio.AioRpcError | None) -> bool:
    """A status that tells whose fault it is; of our own methods with details, if it was not gRPC itself."""
    if error is None:
        return True
    natural = "unary_stream" if path.endswith("StreamRunEvents") else "unary_unary"
    if path in OURS and shape == natural:
        detailed = "grpc-status-details-bin" in dict(error.trailing_metadata() or ())
        return detailed or error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return error.code() not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS)


async def test_any_bytes_to_any_method_get_a_status(
    target: Target, channels: dict[str, grpc.aio.Channel]
) -> None:
    draw = random.Random(DRAWN)  # noqa: S311 - to be drawn again
    valid = await _valid(channels)
    paths = sorted(valid)
    unsound: list[str] = []

    async def one(number: int, path: str, shape: str, messages: list[bytes]) -> None:
        channel = channels["audit" if ".audit." in path or number % 4 == 0 else "run"]
        error = await _send(channel, shape, path, messages)
        if error is not None and ".audit." not in path and channel is channels["audit"] and path in OURS:
            assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        elif not _is_sound(path, shape, error):
            unsound.append(f"{number} {shape} {path} {messages[0][:80]!r}: {error.code()} {error.details()}")

    calls = []
    for number in range(CALLS):
        path = draw.choice(paths)
        natural = "unary_stream" if path.endswith(("StreamRunEvents", "Watch")) else "unary_unary"
        natural = "stream_stream" if path == REFLECTION else natural
        shape = natural if draw.random() < 0.9 else draw.choice(_SHAPES)
        origin = valid[path] if draw.random() < 0.9 else valid[draw.choice(paths)]
        messages = [bent(draw, origin) for _ in range(draw.choice((1, 1, 1, 3)))]
        calls.append(one(number, path, shape, messages))
    await all_of(calls, at_once=16)
    assert unsound == [], f"seed {DRAWN}"
    await _as_before(target, channels)


async def test_any_frames_on_a_connection_leave_the_server_as_it_was(
    target: Target, channels: dict[str, grpc.aio.Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "SECONDS", 0.2)  # where the server rightly waits for more
    draw = random.Random(DRAWN)  # noqa: S311
    valid = await _valid(channels)
    before = target.open_files()

    async def one(frames: bytes) -> None:
        try:
            await http2.answer(target.run, frames)
        except (TimeoutError, ConnectionError):
            return

    calls = []
    for _ in range(CALLS // 5):
        path = draw.choice(sorted(OURS))
        body = draw.choice((b"", valid[path], http2.message(valid[path]), http2.message(valid[path]) * 3))
        odd_head = bytes([draw.randrange(256)]) + draw.randbytes(4) + valid[path]
        headers = http2.request_headers(path.encode())
        whole = http2.call(headers, draw.choice((body, odd_head)))
        calls.append(one(bent_frames(draw, whole) if draw.random() < 0.8 else whole))
    await all_of(calls, at_once=16)
    await _as_before(target, channels)
    await until(lambda: target.open_files() <= before + 2, 20)


async def test_calls_that_are_given_up_at_once_leave_nothing_open(
    target: Target, channels: dict[str, grpc.aio.Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "SECONDS", 2.0)
    run = await running_run(RunServiceStub(channels["run"]))
    follow = StreamRunEventsRequest(run_id=run.run_id).SerializeToString()
    paths = {b"/superbizagent.run.v1.RunService/StreamRunEvents": follow, b"/no/Where": b""}
    frames = bytearray()
    for number in range(1000):
        path, request = list(paths.items())[number % 2]
        stream = 3 + 2 * number
        frames += http2.call(http2.request_headers(path), http2.message(request), stream)
        frames += http2.reset(stream)
    for _ in range(3):
        with contextlib.suppress(TimeoutError, ConnectionError):
            await http2.answer(target.run, bytes(frames))
    await _as_before(target, channels)


async def _as_before(target: Target, channels: dict[str, grpc.aio.Channel]) -> None:
    """It serves, a whole run goes through, every stream of before is closed, and nothing went wrong."""
    for channel in channels.values():
        await asyncio.wait_for(serving(channel), 10)
    stub = RunServiceStub(channels["run"])
    run = await running_run(stub)
    await append(stub, run.run_id, event(), event("STEP_FINISHED"))
    readers = [await Reader(stub, run.run_id).caught_up() for _ in range(MAX_STREAMS)]
    await finish_run(stub, run.run_id, answer="because")
    for reader in readers:
        assert (await reader.to_end()).final
    assert len(await events_of(stub, run.run_id)) == 5
    await AuditServiceStub(channels["audit"]).RecordToolInvocation(record_request())
    for event_name in ("internal error", "uncaught exception.*", "library log", "python warning"):
        # grpc logs each header that is no UTF-8, and reads it as Latin-1.
        said = [line for line in target.events(event_name) if "UnicodeDecodeError" not in line]
        assert said == [], f"seed {DRAWN}"
