"""The audit of tool calls, fail-open: it can be slow, broken or gone, and no tool notices."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc

from superbizagent.audit.v1.audit_service_pb2 import (
    BatchRecordToolInvocationsRequest,
    BatchRecordToolInvocationsResult,
)
from superbizagent.audit.v1.audit_service_pb2_grpc import AuditServiceStub
from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.error.v1.error_reason_pb2 import ErrorReason
from superbizagent_client._calls import attempt
from superbizagent_client._offer import Offer, traceparent_of
from superbizagent_client._outbox import Outbox, Verdict
from superbizagent_client.delivery import (
    CLIENT_FAULT,
    MAX_ITEM_BYTES,
    DeliveryCounts,
    DeliveryOptions,
    Losses,
    LostItem,
)
from superbizagent_client.errors import ServiceError
from superbizagent_client.tracing import traced

OnInvocationRefused = Callable[[ToolInvocationInput, str], ToolInvocationInput | None]
"""Told an item that was refused and why; answers what to record in its place, or None.

It is asked once for each reason: TOOL_CALL_CONFLICT, TOOL_NOT_ALLOWED, INVALID_FIELD and so on.
"""

_TRANSIENT_REASONS = frozenset(
    {"OVERLOADED", "DRAINING", "STORE_UNAVAILABLE", "STORE_CONFLICT", "DEADLINE_EXCEEDED"}
)
_logger = logging.getLogger("superbizagent_client.audit")


_Offer = Offer[ToolInvocationInput]


@dataclass(frozen=True, slots=True)
class _Connection:
    channel: grpc.aio.Channel
    stub: AuditServiceStub
    loop: asyncio.AbstractEventLoop


class AuditRecorder:
    """Records tool invocations in the background. One recorder serves any number of runs.

    `record` never raises, never waits, and may be called from any thread. What could not be recorded is
    counted by reason (`counts`) and warned of at most once a minute, without any value. Give a factory in
    place of a channel to construct a recorder where no event loop runs yet; that channel is then the
    recorder's own.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel | Callable[[], grpc.aio.Channel],
        *,
        options: DeliveryOptions | None = None,
    ) -> None:
        self._options = options or DeliveryOptions()
        self._channel = channel
        self._connection: _Connection | None = None
        self._losses: Losses[_Offer] = Losses(
            _logger,
            "Audit records",
            self._options.warning,
            identify=lambda offer: (offer.message.run_id, offer.message.tool_call_id),
        )
        self._outbox: Outbox[_Offer] = Outbox(self._deliver, self._losses, self._options)
        self._delivered = 0

    def record(self, invocation: ToolInvocationInput, on_refused: OnInvocationRefused | None = None) -> None:
        """Queue a copy of the invocation, or count it as lost. It goes at once if nothing is under way."""
        try:
            if invocation.ByteSize() > MAX_ITEM_BYTES:
                self._losses.add_items("INVALID_FIELD", [Offer(invocation, None)])
                return
            copy = ToolInvocationInput()
            copy.CopyFrom(invocation)
            self._outbox.put(Offer(copy, on_refused))
        except Exception:  # noqa: BLE001  # fail-open: an audit that cannot be taken is a loss, not an error
            self._losses.add(CLIENT_FAULT)

    def lose(self, reason: str) -> None:
        """Count a record that its caller could not even build; `reason` is a code."""
        self._losses.add(reason)

    def counts(self) -> DeliveryCounts:
        """How many were recorded, wait, and were lost, by reason."""
        return DeliveryCounts(self._delivered, self._outbox.pending, self._losses.by_reason())

    def lost_items(self) -> tuple[LostItem, ...]:
        """Which records were lost: the newest thousand, oldest first."""
        return self._losses.items()

    async def flush(self, timeout: float = 5.0) -> bool:  # noqa: ASYNC109  # a bound on the wait, not a cancel
        """Wait until everything handed in was recorded or counted as lost; False if `timeout` came first."""
        return await self._outbox.flush(timeout)

    async def aclose(self, timeout: float = 2.0) -> None:  # noqa: ASYNC109
        """Send for `timeout` seconds more and stop. Records handed in later are counted as lost."""
        await self._outbox.aclose(timeout)
        connection, self._connection = self._connection, None
        ours = not isinstance(self._channel, grpc.aio.Channel)
        if ours and connection is not None and connection.loop is asyncio.get_running_loop():
            await connection.channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _service(self) -> AuditServiceStub:
        loop = asyncio.get_running_loop()
        if self._connection is None or self._connection.loop is not loop:
            # A channel lives and dies with its loop: the factory makes one for each.
            channel = self._channel if isinstance(self._channel, grpc.aio.Channel) else self._channel()
            self._connection = _Connection(channel, AuditServiceStub(channel), loop)
        return self._connection.stub

    async def _deliver(self, offers: Sequence[_Offer]) -> Verdict[_Offer]:
        request = BatchRecordToolInvocationsRequest(invocations=[offer.message for offer in offers])
        with traced(traceparent_of(offers)):
            method = self._service().BatchRecordToolInvocations
            answer = await attempt(method, request, self._options.attempt)
        if isinstance(answer, ServiceError):
            return self._failed(offers, answer)
        if len(answer.results) != len(offers):
            self._losses.add_items(CLIENT_FAULT, offers)
            return Verdict()
        return self._read_results(offers, answer.results)

    def _failed(self, offers: Sequence[_Offer], error: ServiceError) -> Verdict[_Offer]:
        reason = error.reason or error.code.name
        if error.transient:
            return Verdict(offers, reason, error.retry_after)
        if error.code is grpc.StatusCode.INVALID_ARGUMENT and len(offers) > 1:
            return Verdict(split=True)  # one of them spoils the rest
        if len(offers) == 1 and (replacement := offers[0].replacement(reason)):
            return Verdict([replacement])
        self._losses.add_items(reason, offers)
        return Verdict()

    def _read_results(
        self,
        offers: Sequence[_Offer],
        results: Sequence[BatchRecordToolInvocationsResult],
    ) -> Verdict[_Offer]:
        again: list[_Offer] = []
        waits_for = ""
        for offer, result in zip(offers, results, strict=True):
            reason = _reason_name(result.error_reason)
            if not reason:
                self._delivered += 1
            elif reason in _TRANSIENT_REASONS:
                waits_for = reason
                again.append(offer)
            elif replacement := offer.replacement(reason):
                again.append(replacement)
            else:
                self._losses.add_items(reason, [offer])
        return Verdict(again, waits_for)


def _reason_name(reason: ErrorReason.ValueType) -> str:
    if reason == ErrorReason.ERROR_REASON_UNSPECIFIED:
        return ""
    try:
        return ErrorReason.Name(reason).removeprefix("ERROR_REASON_")
    except ValueError:  # of a newer service
        return f"ERROR_REASON_{int(reason)}"
