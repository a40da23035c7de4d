"""Talking with a stack: callers of both services, and a search of all that they answered."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc

from tests.leak.caller import Caller, Heard
from tests.leak.echo import echoing
from tests.leak.ledger import FULL, Fate, Ledger
from tests.leak.stack import Stack

_CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))


@dataclass
class Conversation:
    """Open channels to both services of a stack."""

    stack: Stack
    runs: Caller
    audits: Caller
    heard: Heard = field(default_factory=Heard)

    async def leaks(self) -> list[str]:
        """Search the answers and the log. Database, Redis and files are searched at the end of the stack."""
        return await heard_leaks(self.stack.ledger, self.heard) + self.stack.log_leaks()


async def heard_leaks(ledger: Ledger, heard: Heard) -> list[str]:
    """Search the answers alone. What is planted comes from a server that says back what it is sent."""
    planted = ledger.bare("word", Fate.PLANTED, "the answers")
    request = planted.mark.encode()
    async with echoing(heard) as echo:
        for sink in ("reply", FULL, "health"):
            await echo.unary("/echo/Say", request, sink)
        await echo.stream("/echo/Stream", request)
        await echo.unary("/echo/Fail", request)
    return [leak for sink, data in heard.sinks.items() for leak in ledger.search(sink, bytes(data), planted)]


@contextlib.asynccontextmanager
async def talking(stack: Stack) -> AsyncIterator[Conversation]:
    """A conversation, ended behind the test."""
    heard = Heard()
    async with (
        grpc.aio.insecure_channel(stack.run, options=_CHANNEL_OPTIONS) as runs,
        grpc.aio.insecure_channel(stack.audit, options=_CHANNEL_OPTIONS) as audits,
    ):
        yield Conversation(stack, Caller(runs, heard), Caller(audits, heard), heard)
