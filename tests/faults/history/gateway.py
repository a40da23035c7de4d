"""Gateways: each works on one run after the other, from its creation to one of the ends that runs have."""

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final

from superbizagent.audit.v1.tool_invocation_pb2 import ToolInvocationInput
from superbizagent.run.v1.run_event_pb2 import RunEventInput
from tests.faults.history.caller import Caller
from tests.faults.history.history import Call, Outcome
from tests.faults.history.subscriber import Audience

SHORT_LEASE_SECONDS: Final = 2.0
_ENDS: Final = {"finish": 11, "cancel": 3, "race": 4, "abandon": 2}
_LATE: Final = 0.4  # of the runs hear of their gateway once more behind their end
_KINDS: Final = ("STEP_STARTED", "STEP_FINISHED", "TOOL_STARTED", "TOOL_FINISHED")

Ask = Callable[[], Coroutine[Any, Any, Call]]


class Gateway:
    """One gateway. `audience` follows its runs; `pause` is the longest rest between two turns, in seconds."""

    def __init__(self, caller: Caller, audience: Audience | None = None, *, pause: float = 0.05) -> None:
        self._caller = caller
        self._audience = audience
        self._dice = caller.dice
        self._pause = pause

    async def work(self, stopping: asyncio.Event) -> None:
        """Work until told to stop; the run at hand is brought to its end."""
        while not stopping.is_set():
            await self.one_run(stopping)

    async def one_run(self, stopping: asyncio.Event) -> None:
        """One run, from its creation to its end."""
        dice, caller = self._dice, self._caller
        session_id = f"sess-{_new(dice)}"
        plan = dice.choices(list(_ENDS), list(_ENDS.values()))[0]
        run_id = await self._create(session_id, SHORT_LEASE_SECONDS if plan == "abandon" else None)
        if run_id is None:
            return
        caller.history.live.add(run_id)
        watching = self._audience.watch(run_id, dice) if self._audience else None
        await self._insist(lambda: caller.start(run_id))
        sent: list[Ask] = []
        for _ in range(dice.randint(2, 8)):
            if stopping.is_set():
                break
            await asyncio.gather(*self._turn(session_id, run_id, sent))
            await asyncio.sleep(dice.uniform(0, self._pause))
        ended = await self._end(plan, run_id)
        caller.history.live.discard(run_id)
        if dice.random() < _LATE:
            await asyncio.gather(*(self._insist(ask) for ask in self._late(run_id, sent)))
        await self._insist(lambda: caller.summarize(run_id), sure=False)
        if watching is not None:
            watching.run_is_over(ended)

    async def _create(self, session_id: str, lease: float | None) -> str | None:
        dice, key = self._dice, f"req-{_new(self._dice)}"
        run_id = f"run-{_uuid(dice)}" if dice.random() < 0.5 else None
        many = 3 if dice.random() < 0.15 else 1
        calls = await asyncio.gather(
            *(
                self._insist(lambda: self._caller.create(session_id, key, run_id, lease), sure=many == 1)
                for _ in range(many)
            )
        )
        return next((str(call.answer["run_id"]) for call in calls if call.answered), None)

    def _turn(self, session_id: str, run_id: str, sent: list[Ask]) -> list[Coroutine[Any, Any, Call]]:
        """What happens at once in a run: events, audit, a reader of the page, the user's thumb."""
        dice, caller = self._dice, self._caller
        events = [_event(dice) for _ in range(50 if dice.random() < 0.03 else dice.randint(1, 5))]
        tools = [
            _invocation(dice, session_id, run_id)
            for _ in range(1 if dice.random() < 0.7 else dice.randint(2, 20))
        ]
        sent += [lambda: caller.append(run_id, events), lambda: caller.record(run_id, tools)]
        turn = [self._insist(ask) for ask in sent[-2:]]
        if dice.random() < 0.3:
            other = [_event(dice)]
            turn.append(self._insist(lambda: caller.append(run_id, other)))
        if dice.random() < 0.2:
            feedback = dice.choice(("UP", "DOWN", ""))
            turn.append(self._insist(lambda: caller.feedback(run_id, session_id, feedback), sure=False))
        if dice.random() < 0.3:
            turn.append(self._insist(lambda: caller.read(run_id), sure=False))
        return turn

    async def _end(self, plan: str, run_id: str) -> bool:
        """True if the run is known to have ended."""
        status = self._dice.choice(("SUCCESS", "SUCCESS", "FALLBACK", "FAILED"))
        answer = f"Answer {_new(self._dice)}"
        finish = lambda: self._caller.finish(run_id, status, answer)  # noqa: E731 - it is asked twice
        cancel = lambda: self._caller.cancel(run_id)  # noqa: E731
        ends = {"finish": [finish], "cancel": [cancel], "race": [finish, cancel, finish], "abandon": []}[plan]
        if plan == "race":
            ends.append(self._new_append(run_id))
        calls = await asyncio.gather(*(self._insist(end) for end in ends))
        return any(
            (call.answered and call.kind != "append") or call.reason == "RUN_ALREADY_FINISHED"
            for call in calls
        )

    def _new_append(self, run_id: str) -> Ask:
        events = [_event(self._dice) for _ in range(3)]
        return lambda: self._caller.append(run_id, events)

    def _late(self, run_id: str, sent: list[Ask]) -> list[Ask]:
        """What comes behind the end: repetitions, which are answered, and news, which are refused."""
        caller, dice = self._caller, self._dice
        answer = f"Late {_new(dice)}"
        news: list[Ask] = [
            self._new_append(run_id),
            lambda: caller.finish(run_id, "FALLBACK", answer),
            lambda: caller.cancel(run_id),
            lambda: caller.start(run_id),
        ]
        return dice.sample(news, 2) + dice.sample(sent, min(2, len(sent)))

    async def _insist(self, ask: Ask, *, sure: bool = True) -> Call:
        """Ask, and most times ask the same again until there is an answer: some callers give up."""
        while True:
            call = await ask()
            if call.outcome is not Outcome.UNKNOWN or not sure or self._dice.random() < 0.1:
                return call


def _event(dice: random.Random) -> RunEventInput:
    kind = dice.choice(_KINDS)
    message = RunEventInput(event_id=_new(dice), type=f"RUN_EVENT_TYPE_{kind}")  # type: ignore[arg-type]
    if kind.startswith("STEP"):
        message.step_id = dice.randint(1, 5)
        if kind == "STEP_FINISHED":
            message.status = "OK"
            message.input_token_count = dice.randrange(1000)
    else:
        message.tool_call_id, message.tool_name = f"call_{dice.randint(1, 5)}", "query_logs"
        if kind == "TOOL_FINISHED":
            message.status = "READY"
    return message


def _invocation(dice: random.Random, session_id: str, run_id: str) -> ToolInvocationInput:
    return ToolInvocationInput(
        session_id=session_id,
        run_id=run_id,
        tool_name=dice.choice(("query_logs", "query_mysql", "lookup_knowledge")),
        tool_call_id=f"call-{_new(dice)}",
        request_bytes=dice.randrange(5000),
        status="READY",
        duration_ms=dice.randrange(5000),
        success=dice.random() < 0.9,
    )


def _new(dice: random.Random) -> str:
    return f"{dice.getrandbits(96):024x}"


def _uuid(dice: random.Random) -> uuid.UUID:
    return uuid.UUID(int=dice.getrandbits(128), version=4)
