"""A server that sends what no service of ours would: no command hands it on to the terminal."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from superbizagent.audit.v1 import audit_service_pb2 as audit
from superbizagent.run.v1 import run_service_pb2 as run_pb
from superbizagent.run.v1.run_event_pb2 import RunEventType
from superbizagent.run.v1.run_pb2 import RunStatus
from tests.leak.caller import DETAILS
from tests.leak.ledger import Fate, Ledger
from tests.leak.processes import run
from tests.leak.stack import output_leaks
from tests.support.engines import Engine, fresh_database, run_sql

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\r\n\0\u2028#"
"""Titles, clears, colours, turns round, and begins lines."""


def evil(message: Message) -> Message:
    """A message with that in every string, however deep, and one item in each list."""
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, EVIL)
        elif field.message_type is not None and field.message_type.full_name.startswith("superbizagent."):
            inner: Any = getattr(message, field.name)
            evil(inner.add() if field.is_repeated else inner)
        elif field.enum_type is not None:
            setattr(message, field.name, 4711)
    return message


def _responses() -> dict[str, list[Message]]:
    run_of = evil(run_pb.GetRunResponse())
    assert isinstance(run_of, run_pb.GetRunResponse)
    run_of.run.status = RunStatus.RUN_STATUS_RUNNING
    events = [run_pb.StreamRunEventsResponse(last_seq=seq) for seq in (1, 2)]
    for response, kind in zip(events, (4711, RunEventType.RUN_EVENT_TYPE_RUN_FINISHED), strict=True):
        evil(response.event)
        response.event.seq = response.last_seq
        response.event.type = kind  # type: ignore[assignment]
    found: dict[str, list[Message]] = {
        "GetRun": [run_of],
        "StreamRunEvents": [*events],
        "ListRunEvents": [evil(run_pb.ListRunEventsResponse())],
        "ListByRun": [evil(audit.ListByRunResponse())],
        "SummarizeToolInvocations": [evil(audit.SummarizeToolInvocationsResponse())],
    }
    # The last page, or the command would ask for ever.
    found["ListByRun"][0].ClearField("next_page_token")
    return found


class _Hostile(grpc.GenericRpcHandler):
    def __init__(self, failing: str) -> None:
        self._failing = failing
        self._responses = _responses()

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]

        async def answer(_: Any, context: Any) -> None:
            if name == self._failing or name not in self._responses:
                await _fail(context)
            for response in self._responses[name]:
                await context.write(response.SerializeToString())

        async def reply(_: Any, context: Any) -> Any:
            if name == self._failing or name not in self._responses:
                await _fail(context)
            return self._responses[name][0].SerializeToString()

        if name == "StreamRunEvents":
            return grpc.unary_stream_rpc_method_handler(answer)
        if name == "ServerReflectionInfo":
            return grpc.stream_stream_rpc_method_handler(answer)
        return grpc.unary_unary_rpc_method_handler(reply)


async def _fail(context: Any) -> None:
    details = Status(code=3, message=EVIL)
    for detail in (
        ErrorInfo(reason=EVIL, domain="superbizagent", metadata={"field": EVIL, "reference": EVIL}),
        ErrorInfo(reason="INVALID_FIELD", domain="superbizagent", metadata={"field": EVIL, "status": EVIL}),
        BadRequest(field_violations=[BadRequest.FieldViolation(field="run_id", description=EVIL)]),
        BadRequest(field_violations=[BadRequest.FieldViolation(field=EVIL, description="must")]),
    ):
        packed = AnyMessage()
        packed.Pack(detail)
        details.details.append(packed)
    trailers = ((DETAILS, details.SerializeToString()),)
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, EVIL.replace("\0", ""), trailers)


@contextlib.asynccontextmanager
async def _hostile(failing: str) -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Hostile(failing),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def _unsafe(said: bytes) -> set[str]:
    return {letter for letter in said.decode() if not letter.isprintable() and letter != "\n"}


@pytest.mark.parametrize("failing", ["", "GetRun", "StreamRunEvents", "ListRunEvents", "ListByRun"])
async def test_a_hostile_server_cannot_steer_the_terminal(
    ledger: Ledger, tmp_path: Path, failing: str
) -> None:
    commands = [("trace", "r"), ("watch", "r"), ("contract-check", "--target", "{}")]
    async with _hostile(failing) as address:
        for number, command in enumerate(commands if not failing else commands[:2]):
            words = [word.replace("{}", address) for word in command]
            settings = {"RUN_LISTEN": address, "AUDIT_LISTEN": address}
            shown = await asyncio.to_thread(
                run, ledger, tmp_path / str(number), "cli.main", *words, **settings
            )
            assert not _unsafe(shown.out + shown.err), (shown.out, shown.err)
            assert b"#" in shown.out or failing or command[0] == "contract-check", shown.err
            assert shown.err.count(b"\n") <= 2, shown.err
            assert output_leaks(ledger, shown, "cli", "cli") == []


@pytest.mark.parametrize("name", ["mariadb", "mysql"])
async def test_names_in_a_database_cannot_steer_the_terminal(
    ledger: Ledger, get_engine: Callable[[str], Engine], tmp_path: Path, name: str
) -> None:
    mark = ledger.bare("word", Fate.ADMITTED, "the name of a column").mark
    async with fresh_database(get_engine(name), tmp_path) as url:
        odd = f"`\x1b[2J{mark}\x07\u202e` INT NOT NULL"
        await run_sql(url, f"CREATE TABLE diagnosis_run (id BIGINT PRIMARY KEY AUTO_INCREMENT, {odd})")
        for number, option in enumerate(("--check", "--take-over")):
            shown = await asyncio.to_thread(
                run, ledger, tmp_path / str(number), "cli.main", "migrate", option, DATABASE_URL=url
            )
            assert shown.popen.returncode == 1
            assert mark.encode() in shown.out
            assert not _unsafe(shown.out + shown.err), shown.out
