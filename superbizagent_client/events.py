"""A run's events on their way to the service: in order, in batches, fail-open."""

import logging
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import grpc

from superbizagent.run.v1.run_event_pb2 import RunEventInput
from superbizagent.run.v1.run_service_pb2 import AppendRunEventsRequest
from superbizagent.run.v1.run_service_pb2_grpc import RunServiceStub
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
from superbizagent_contract import kinds

OnEventRefused = Callable[[RunEventInput, str], RunEventInput | None]
"""Told an event that was refused and why; answers what to append in its place, or None."""

_logger = logging.getLogger("superbizagent_client.events")


_Offer = Offer[RunEventInput]


class EventSender:
    """Appends the events of one run in the background, in the order of `send`.

    `send` never raises, never waits, and may be called from any thread. An event keeps its event_id through
    all repetitions, so a lost acknowledgement never doubles it. An event that is lost leaves the later ones
    in order. `on_final` is told the status of a run that takes no more events because it is final.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        run_id: str,
        *,
        options: DeliveryOptions | None = None,
        on_final: Callable[[str], None] | None = None,
    ) -> None:
        if not kinds.RUN_ID.admits(run_id):
            raise ValueError(f"run_id: {kinds.RUN_ID.rule}")
        self._run_id = run_id
        self._options = options or DeliveryOptions()
        self._stub = RunServiceStub(channel)
        self._losses: Losses[_Offer] = Losses(
            _logger,
            "Run events",
            self._options.warning,
            identify=lambda offer: (run_id, offer.message.event_id),
        )
        self._outbox: Outbox[_Offer] = Outbox(self._deliver, self._losses, self._options)
        self._delivered = 0
        self._final_status = ""
        self._on_final = on_final

    @property
    def final_status(self) -> str:
        """The status of the run once an append was refused because the run is final; "" before."""
        return self._final_status

    def send(self, event: RunEventInput, on_refused: OnEventRefused | None = None) -> None:
        """Queue a copy of the event, with an event_id if it has none, or count it as lost."""
        try:
            if event.ByteSize() > MAX_ITEM_BYTES:
                self._losses.add_items("INVALID_FIELD", [Offer(event, None)])
                return
            copy = RunEventInput()
            copy.CopyFrom(event)
            copy.event_id = copy.event_id or f"ev-{uuid.uuid4().hex}"
            self._outbox.put(Offer(copy, on_refused))
        except Exception:  # noqa: BLE001  # fail-open: an event that cannot be taken is a loss, not an error
            self._losses.add(CLIENT_FAULT)

    def counts(self) -> DeliveryCounts:
        """How many were appended, wait, and were lost, by reason."""
        return DeliveryCounts(self._delivered, self._outbox.pending, self._losses.by_reason())

    def lost_items(self) -> tuple[LostItem, ...]:
        """Which events were lost: the newest thousand, oldest first."""
        return self._losses.items()

    async def flush(self, timeout: float = 5.0) -> bool:  # noqa: ASYNC109  # a bound on the wait, not a cancel
        """Wait until everything handed in was appended or counted as lost; False if `timeout` came first."""
        return await self._outbox.flush(timeout)

    async def aclose(self, timeout: float = 2.0) -> None:  # noqa: ASYNC109
        """Send for `timeout` seconds more and stop. Events handed in later are counted as lost."""
        await self._outbox.aclose(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _deliver(self, offers: Sequence[_Offer]) -> Verdict[_Offer]:
        request = AppendRunEventsRequest(run_id=self._run_id, events=[offer.message for offer in offers])
        with traced(traceparent_of(offers)):
            answer = await attempt(self._stub.AppendRunEvents, request, self._options.attempt)
        if not isinstance(answer, ServiceError):
            self._delivered += len(offers)
            return Verdict()
        reason = answer.reason or answer.code.name
        if answer.transient:
            return Verdict(offers, reason, answer.retry_after)
        if reason == "RUN_ALREADY_FINISHED":
            self._note_final(answer.status or "UNKNOWN")
        # An append is all or nothing, so a batch that was stored and not acknowledged answers OK when it is
        # repeated; only where a single event is to blame is it worth looking for it.
        if answer.code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS}:
            if len(offers) > 1:
                return Verdict(split=True)
            replacement = offers[0].replacement(reason)
            if replacement is not None:
                return Verdict([replacement])
        self._losses.add_items(reason, offers)
        return Verdict()

    def _note_final(self, status: str) -> None:
        self._final_status = status
        if self._on_final is not None:
            self._on_final(status)
