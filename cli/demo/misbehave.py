"""A caller that sends what the audit must not take, for real: how often which fault comes is drawn anew.

It remembers what it was told, so that the agent's finding can be compared with it at the end.
"""

import secrets
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import grpc

from cli.connection import CALL_SECONDS
from superbizagent.audit.v1.audit_service_pb2 import RecordToolInvocationRequest
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent_client import service_error

# Texts that must be found nowhere afterwards.
_EXCEPTION_TEXT = "could not connect to 10.20.30.40: password authentication failed for user root"
_UNLISTED = "drop_all_tables"
_KEY_SHAPED = "AKIA" + "DEMO" * 4
_BODY = "SELECT card_number FROM payments WHERE customer_id = 4711"

REFUSED_VALUES: Final = (_EXCEPTION_TEXT, _UNLISTED, _KEY_SHAPED, _BODY)

_HOW_OFTEN = (5, 3, 2, 1)  # which fault comes how often is drawn; one of them is always the main cause
_GOOD_CALLS = 2
_UNKNOWN_FIELD_TAG = b"\xfa\x7f"  # field 2047, length-delimited: no version of the contract has it


class Cause(NamedTuple):
    """Why a call was refused."""

    reason: str
    field: str
    rule: str


@dataclass(slots=True)
class Misbehaviour:
    """What the caller did and what it was told."""

    session_id: str
    told: Counter[Cause] = field(default_factory=Counter)
    stored: int = 0


def _exception_as_code(invocation: ToolInvocationInput) -> None:
    invocation.error_code = _EXCEPTION_TEXT


def _unlisted_tool(invocation: ToolInvocationInput) -> None:
    invocation.tool_name = _UNLISTED


def _key_as_id(invocation: ToolInvocationInput) -> None:
    invocation.tool_call_id = _KEY_SHAPED


def _body_in_unknown_field(invocation: ToolInvocationInput) -> None:
    body = _BODY.encode()
    invocation.MergeFromString(_UNKNOWN_FIELD_TAG + bytes([len(body)]) + body)


def _nothing_wrong(_: ToolInvocationInput) -> None: ...


_Fault = Callable[[ToolInvocationInput], None]
_FAULTS: tuple[_Fault, ...] = (
    _exception_as_code,
    _unlisted_tool,
    _key_as_id,
    _body_in_unknown_field,
)


async def misbehave(channel: grpc.aio.Channel) -> Misbehaviour:
    """Send audit records, most of them wrong, and note the answers."""
    done = Misbehaviour(session_id=f"demo-misbehaving-{uuid.uuid4().hex[:8]}")
    stub = AuditServiceStub(channel)
    calls: list[_Fault] = [_nothing_wrong] * _GOOD_CALLS
    chance = secrets.SystemRandom()
    for fault, often in zip(chance.sample(_FAULTS, len(_FAULTS)), _HOW_OFTEN, strict=True):
        calls += [fault] * often
    chance.shuffle(calls)
    run_id = f"run-{uuid.uuid4()}"
    for number, fault in enumerate(calls):
        invocation = ToolInvocationInput(
            session_id=done.session_id,
            run_id=run_id,
            tool_name="query_logs",
            tool_call_id=f"call-{number}",
            request_bytes=120,
            status="READY",
        )
        fault(invocation)
        try:
            await stub.RecordToolInvocation(
                RecordToolInvocationRequest(invocation=invocation), timeout=CALL_SECONDS
            )
            done.stored += 1
        except grpc.RpcError as error:
            refused = service_error(error)
            rule = refused.violations[0].rule if refused.violations else ""
            done.told[Cause(refused.reason or refused.code.name, refused.field, rule)] += 1
    return done
